//! Clouds that are identified by firmware, kernel command line, labels or files.

use super::{BASE, CONFIGDRIVE, CONTAINER, Case, LIST, NOTHING, VFAT_CONFIG, XEN};

const HETZNERS_LIST: (&str, &str) = ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Hetzner ]\n");
const DMIDECODE: (&str, &str) = (
    "/bin/dmidecode",
    "#!/bin/sh\n[ \"$1\" = --quiet ] || exit 2\ncase $2 in\n--string=system-manufacturer) echo Hetzner ;;\n\
     --string=system-uuid) echo EC2F58AF-2DAD-C57E-88C0-A81CB6084290 ;;\n*) echo Not Specified ;;\nesac\n",
);

/// A machine that matches one rule only, of one DMI field.
macro_rules! dmi {
    ($field:literal, $value:literal, $config:literal) => {
        Case {
            name: concat!($field, " ", $value),
            files: &[(concat!("/sys/class/dmi/id/", $field), $value)],
            config: concat!("datasource_list: [ ", $config, ", None ]\n"),
            newer: $config,
            ..BASE
        }
    };
}

/// Ec2 and its brands. The firmware of the other clouds is in `table::machines`.
pub const FIRMWARE: &[Case] = &[
    dmi!("product_uuid", "EC2F58AF-2DAD-C57E-88C0-A81CB6084290", "Ec2"),
    dmi!("product_uuid", "45E12AEC-DCD1-B213-94ED-012345ABCDEF", "Ec2"),
    dmi!("product_serial", "srv-otuxg.gb1.brightbox.com", "Ec2"),
    dmi!("chassis_asset_tag", "123456.zstack.io", "Ec2"),
    dmi!("sys_vendor", "e24cloud", "Ec2"),
    Case { newer: "Tilaa", ..dmi!("sys_vendor", "Tilaa", "Ec2") },
];

pub const CASES: &[Case] = cases! {
    // The other clouds
    "firmware in a container is the host's" { files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")], env: CONTAINER, code: 1, config: NOTHING }
    "scaleway's vendor in a container" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Scaleway")],
        env: CONTAINER,
        config: "datasource_list: [ Scaleway, None ]\n",
    }
    "scaleway by a word" { files: &[("/proc/cmdline", "scaleway\n")], config: "datasource_list: [ Scaleway, None ]\n" }
    "scaleway by a file" { files: &[("/var/run/scaleway", "")], config: "datasource_list: [ Scaleway, None ]\n" }
    "vultr by a word" { files: &[("/proc/cmdline", "quiet vultr")], config: "datasource_list: [ Vultr, None ]\n" }
    "vultr by a longer word" { files: &[("/proc/cmdline", "xvultr vultr=1")], code: 1, config: NOTHING }
    "vultr by a file" { files: &[("/etc/vultr", "")], config: "datasource_list: [ Vultr, None ]\n" }
    "aliyun seed" {
        files: &[("/var/lib/cloud/seed/AliYun/meta-data", ""), ("/var/lib/cloud/seed/AliYun/user-data", "")],
        env: CONTAINER,
        config: "datasource_list: [ AliYun, None ]\n",
    }
    "azure seed" { files: &[("/var/lib/cloud/seed/azure/ovf-env.xml", "")], config: "datasource_list: [ Azure, None ]\n" }
    "bigstep" { files: &[("/var/lib/cloud/data/seed/bigstep/url", "")], config: "datasource_list: [ Bigstep, None ]\n" }
    "outscale" {
        files: &[("/sys/class/dmi/id/product_name", "3DS Outscale VM"), ("/sys/class/dmi/id/sys_vendor", "3DS Outscale")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "outscale's product of another vendor" {
        files: &[("/sys/class/dmi/id/product_name", "3DS Outscale VM"), ("/sys/class/dmi/id/sys_vendor", "4DS")],
        code: 1,
        config: NOTHING,
    }
    "opennebula by its label" { devices: "DEVNAME=/dev/sr0\nLABEL=CONTEXT\nTYPE=iso9660\n", config: "datasource_list: [ OpenNebula, None ]\n", files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenNebula ]")] }
    "opennebula seed" { files: &[("/var/lib/cloud/seed/opennebula/meta-data", "")], config: "datasource_list: [ OpenNebula, None ]\n" }
    "rbxcloud" { devices: "DEVNAME=/dev/vdb\nLABEL=CLOUDMD\nTYPE=vfat\n", files: &[], config: "datasource_list: [ RbxCloud, None ]\n" }
    "openstack with a config drive" {
        files: &[("/sys/class/dmi/id/product_name", "OpenStack Nova")],
        devices: VFAT_CONFIG,
        config: CONFIGDRIVE,
    }
    "openstack container" {
        files: &[("/proc/1/environ", "a=b\0product_name=OpenStack Nova\0")],
        env: CONTAINER,
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "lxd by its port" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        config: "datasource_list: [ LXD, None ]\n",
        newer: "com.canonical.lxd",
    }
    "lxd's port elsewhere" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        env: XEN,
        code: 1,
        config: NOTHING,
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
        code: 1,
        config: NOTHING,
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
        code: 1,
        config: NOTHING,
    }
    "podman is a container" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")],
        env: &[("SYSTEMD_VIRTUALIZATION", "container:podman")],
        code: 1,
        config: NOTHING,
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
        code: 1,
        config: NOTHING,
    }
    "altcloud without its drive" {
        files: &[("/etc/sysconfig/cloud-info", "RHEV\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        code: 1,
        config: NOTHING,
    }
    // The kernel has no DMI, but dmidecode does
    "dmidecode" { files: &[HETZNERS_LIST, DMIDECODE], config: "datasource_list: [ Hetzner, None ]\n" }
    "dmidecode by its uuid" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"), DMIDECODE],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "dmidecode in a container" { files: &[HETZNERS_LIST, DMIDECODE], env: CONTAINER, code: 1, config: NOTHING }
    "dmidecode that finds no tables" {
        files: &[HETZNERS_LIST, ("/bin/dmidecode", "#!/bin/sh\necho Hetzner\nexit 1\n")],
        code: 1,
        config: NOTHING,
    }
    // MAAS
    "maas by name" { files: &[LIST, ("/proc/cmdline", "ci.ds=MAAS\n")], config: "datasource_list: [ MAAS, None ]\n" }
    "maas alone" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS ]\n")], config: "datasource_list: [ MAAS ]\n" }
    "maas among others" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS, NoCloud, None ]\n")], code: 1, config: NOTHING }
    // Machines that may lack DMI
    "openstack elsewhere, and maybe counts" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "openstack elsewhere, by default" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        code: 1,
        config: NOTHING,
    }
    "openstack on an old PC is no maybe" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "i586")],
        code: 1,
        config: NOTHING,
    }
};
