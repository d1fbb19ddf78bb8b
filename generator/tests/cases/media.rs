//! Seeds and media of NoCloud and ConfigDrive.

use super::{BASE, CONFIGDRIVE, CONTAINER, Case, ISO_CIDATA, LIST, NOCLOUD, NOTHING, VFAT_CONFIG};

pub const CASES: &[Case] = cases! {
    // NoCloud
    "nocloud seed" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud/meta-data", ""), ("/var/lib/cloud/seed/nocloud/user-data", "")],
        config: NOCLOUD,
    }
    "nocloud-net seed in a container" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud-net/meta-data", ""), ("/var/lib/cloud/seed/nocloud-net/user-data", "")],
        env: CONTAINER,
        config: NOCLOUD,
    }
    "nocloud seed without user-data" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud/meta-data", "")],
        code: 1,
        config: NOTHING,
    }
    "nocloud seed of Ubuntu Core" {
        files: &[
            LIST,
            ("/writable/system-data/var/lib/cloud/seed/nocloud/meta-data", ""),
            ("/writable/system-data/var/lib/cloud/seed/nocloud/user-data", ""),
        ],
        config: NOCLOUD,
    }
    "nocloud credential" {
        files: &[LIST, ("/run/credentials/@system/cloud-init.user-data", "#!/bin/sh\n")],
        config: NOCLOUD,
        differs: Some("upstream does not know systemd's credentials"),
    }
    "nocloud credential in an encrypted store, in a container" {
        files: &[LIST, ("/etc/credstore.encrypted/cloud-init.meta-data", "")],
        env: CONTAINER,
        config: NOCLOUD,
        differs: Some("upstream does not know systemd's credentials"),
    }
    "nocloud credential that is not a seed alone" {
        files: &[LIST, ("/run/credentials/@system/cloud-init.vendor-data", "")],
        code: 1,
        config: NOTHING,
    }
    "nocloud iso" { devices: ISO_CIDATA, config: NOCLOUD }
    "nocloud iso in a container" { devices: ISO_CIDATA, env: CONTAINER, code: 1, config: NOTHING }
    "nocloud fat with the label in its boot sector only" {
        devices: "DEVNAME=/dev/vdb\nLABEL_FATBOOT=CIDATA\nTYPE=vfat\n",
        config: NOCLOUD,
    }
    "a label that only resembles" { devices: "DEVNAME=/dev/vdb\nLABEL=Cidata\nTYPE=vfat\n", code: 1, config: NOTHING }
    "nocloud seedfrom in the configuration" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    seedfrom: http://x/\n")],
        config: NOCLOUD,
    }
    "nocloud data in the configuration" {
        files: &[
            LIST,
            ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    user-data: |\n      #cloud-config\n    meta-data: {a: b}\n"),
        ],
        config: NOCLOUD,
    }
    "nocloud without data in the configuration" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    fs_label: x\n")],
        code: 1,
        config: NOTHING,
    }
    "nocloud serial" {
        files: &[LIST, ("/sys/class/dmi/id/product_serial", "x ds=nocloud-net;s=http://x/")],
        config: NOCLOUD,
    }
    "nocloud serial in a container" {
        files: &[LIST, ("/sys/class/dmi/id/product_serial", "ds=nocloud")],
        env: CONTAINER,
        config: NOCLOUD,
    }
    // ConfigDrive
    "config drive" { devices: VFAT_CONFIG, config: CONFIGDRIVE }
    "config drive in a container" { devices: VFAT_CONFIG, env: CONTAINER, code: 1, config: NOTHING }
    "config drive on a linux file system" {
        devices: "DEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=ext4\n",
        config: CONFIGDRIVE,
    }
    "config drive seed" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/2015-10-15/meta_data.json", "{}")],
        config: CONFIGDRIVE,
    }
    "config drive seed, latest only" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json", "{}")],
        config: CONFIGDRIVE,
    }
    "config drive seed without metadata" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/2015-10-15/user_data", "{}")],
        code: 1,
        config: NOTHING,
    }
    "both, in the order of the list" {
        devices: "DEVNAME=/dev/sr0\nLABEL=cidata\nTYPE=iso9660\n\nDEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=vfat\n",
        config: "datasource_list: [ NoCloud, ConfigDrive, None ]\n",
    }
    "both, first only" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: found=first\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=cidata\nTYPE=iso9660\n\nDEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=vfat\n",
        config: NOCLOUD,
    }
};
