//! Clouds that are identified by firmware, kernel command line, labels or files.

use super::{BASE, CONFIGDRIVE, CONTAINER, Case, LIST, VFAT_CONFIG, XEN};

const HETZNERS_LIST: (&str, &str) = ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Hetzner ]\n");
const DMIDECODE: (&str, &str) = (
    "/bin/dmidecode",
    "#!/bin/sh\n[ \"$1\" = --quiet ] || exit 2\ncase $2 in\n--string=system-manufacturer) echo Hetzner ;;\n\
     --string=system-uuid) echo EC2F58AF-2DAD-C57E-88C0-A81CB6084290 ;;\n*) echo Not Specified ;;\nesac\n",
);

pub const CASES: &[Case] = cases! {
    "ec2 by its youngest brand" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Tilaa")],
        config: "datasource_list: [ Ec2, None ]\n",
        newer: "Tilaa",
    }
    // The other clouds
    "firmware in a container is the host's" { files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")], env: CONTAINER }
    "scaleway by a word" { files: &[("/proc/cmdline", "scaleway\n")], config: "datasource_list: [ Scaleway, None ]\n" }
    "vultr by a word" { files: &[("/proc/cmdline", "quiet vultr")], config: "datasource_list: [ Vultr, None ]\n" }
    "vultr by a longer word" { files: &[("/proc/cmdline", "xvultr vultr=1")] }
    "openstack with a config drive" {
        files: &[("/sys/class/dmi/id/product_name", "OpenStack Nova")],
        devices: VFAT_CONFIG,
        config: CONFIGDRIVE,
    }
    "lxd by its port" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        config: "datasource_list: [ LXD, None ]\n",
        newer: "com.canonical.lxd",
    }
    "lxd's port elsewhere" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        env: XEN,
    }
    "ibm's metadata" {
        files: &[],
        devices: "DEVNAME=/dev/xvdh1\nLABEL=METADATA\nTYPE=vfat\n",
        env: XEN,
        config: "datasource_list: [ IBMCloud, None ]\n",
    }
    "ibm's config drive" { files: &[], devices: VFAT_CONFIG, env: XEN, config: "datasource_list: [ IBMCloud, None ]\n" }
    "ibm's config drive, not on xen" { files: &[], devices: VFAT_CONFIG, config: CONFIGDRIVE }
    "ibm's config drive, and IBMCloud is no candidate" { devices: VFAT_CONFIG, env: XEN, config: CONFIGDRIVE }
    "ibm while it provisions" {
        files: &[("/root/provisioningConfiguration.cfg", "")],
        devices: VFAT_CONFIG,
        env: XEN,
    }
    "two clouds" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner"), ("/sys/class/dmi/id/product_name", "OpenStack Nova")],
        config: "datasource_list: [ OpenStack, Hetzner, None ]\n",
    }
    "two clouds, first only" {
        files: &[
            ("/sys/class/dmi/id/sys_vendor", "Hetzner"),
            ("/sys/class/dmi/id/product_name", "OpenStack Nova"),
            ("/etc/cloud/ds-identify.cfg", "policy: found=first\n"),
        ],
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "a label with a blank" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenNebula ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CON\\ TEXT\nTYPE=iso9660\n",
    }
    "podman is a container" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")],
        env: &[("SYSTEMD_VIRTUALIZATION", "container:podman")],
        differs: Some("upstream does not count podman as a container, and takes the host's firmware for its own"),
    }
    "firmware without a newline" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner\0no newline")],
        config: "datasource_list: [ Hetzner, None ]\n",
        differs: Some("upstream cannot read a field without its newline"),
    }
    // AltCloud
    "altcloud with its disc" {
        files: &[("/etc/sysconfig/cloud-info", "vSphere\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CDROM\nTYPE=iso9660\n",
        config: "datasource_list: [ AltCloud, None ]\n",
        differs: Some("upstream never finds AltCloud"),
    }
    "altcloud with its disc, and maybe counts for nothing" {
        files: &[("/etc/sysconfig/cloud-info", "VSPHERE\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CDROM\nTYPE=iso9660\n",
    }
    "altcloud without its drive" {
        files: &[("/etc/sysconfig/cloud-info", "RHEV\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
    }
    // The kernel has no DMI, but dmidecode does
    "dmidecode" { files: &[HETZNERS_LIST, DMIDECODE], config: "datasource_list: [ Hetzner, None ]\n" }
    "dmidecode elsewhere" {
        files: &[HETZNERS_LIST, DMIDECODE],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        config: "datasource_list: [ Hetzner, None ]\n",
    }
    "dmidecode by its uuid" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"), DMIDECODE],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "dmidecode in a container" { files: &[HETZNERS_LIST, DMIDECODE], env: CONTAINER }
    "dmidecode that finds no tables" {
        files: &[HETZNERS_LIST, ("/bin/dmidecode", "#!/bin/sh\necho Hetzner\nexit 1\n")],
    }
    // MAAS
    "maas by name" { files: &[LIST, ("/proc/cmdline", "ci.ds=MAAS\n")], config: "datasource_list: [ MAAS, None ]\n" }
    "maas alone" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS ]\n")], config: "datasource_list: [ MAAS ]\n" }
    "maas among others" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS, NoCloud, None ]\n")] }
    // Machines that may lack DMI
    "openstack elsewhere, and maybe counts" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "openstack elsewhere, by default" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
    }
    "openstack on an old PC is no maybe" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "i586")],
    }
};
