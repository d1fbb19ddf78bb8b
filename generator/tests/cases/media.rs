//! Seeds and media of NoCloud and ConfigDrive.

use super::{BASE, CONFIGDRIVE, CONTAINER, Case, ISO_CIDATA, LIST, NOCLOUD, VFAT_CONFIG};

pub const CASES: &[Case] = cases! {
    // NoCloud
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
    }
    "nocloud iso" { devices: ISO_CIDATA, config: NOCLOUD }
    "nocloud iso in a container" { devices: ISO_CIDATA, env: CONTAINER }
    "nocloud fat with the label in its boot sector only" {
        devices: "DEVNAME=/dev/vdb\nLABEL_FATBOOT=CIDATA\nTYPE=vfat\n",
        config: NOCLOUD,
    }
    "a label that only resembles" { devices: "DEVNAME=/dev/vdb\nLABEL=Cidata\nTYPE=vfat\n" }
    "nocloud data in the configuration" {
        files: &[
            LIST,
            ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    user-data: |\n      #cloud-config\n    meta-data: {a: b}\n"),
        ],
        config: NOCLOUD,
    }
    "nocloud without data in the configuration" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    fs_label: x\n")],
    }
    // ConfigDrive
    "config drive" { devices: VFAT_CONFIG, config: CONFIGDRIVE }
    "config drive in a container" { devices: VFAT_CONFIG, env: CONTAINER }
    "config drive on a linux file system" {
        devices: "DEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=ext4\n",
        config: CONFIGDRIVE,
    }
    "config drive seed without metadata" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/2015-10-15/user_data", "{}")],
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
