//! The datasources that can be identified, one row each. Adding a cloud is a file in `checks/` (or a few lines
//! in one that is there) and a row here.

use crate::checks::{altcloud, configdrive, ec2, firmware, marker, nocloud, openstack, ovf, vmware, wsl};
use crate::facts::Facts;
use crate::verdict::Verdict;

/// One datasource.
pub struct Row {
    pub name: &'static str,
    /// Without one it is used only when named by hand, or alone in the list.
    pub check: Option<fn(&Facts<'_>) -> Verdict>,
    /// Whether a device that turns up later could change the verdict.
    pub needs_devices: bool,
    /// What it is found by, in a few words: for the manual page and for `--explain`.
    pub found_by: &'static str,
}

/// Candidates when the configuration names none, in upstream's order.
#[rustfmt::skip]
pub const BUILT_IN: [&str; 30] = [
    "MAAS", "ConfigDrive", "NoCloud", "AltCloud", "Azure", "Bigstep", "CloudSigma", "CloudStack", "DigitalOcean",
    "Vultr", "AliYun", "Ec2", "GCE", "OpenNebula", "OpenStack", "VMware", "OVF", "SmartOS", "Scaleway", "Hetzner",
    "IBMCloud", "Oracle", "Exoscale", "RbxCloud", "UpCloud", "LXD", "NWCS", "Akamai", "WSL", "CloudCIX",
];

/// All rows, by name.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { name: "Akamai", check: Some(firmware::akamai), needs_devices: false,
        found_by: "DMI sys_vendor Linode or Akamai" },
    Row { name: "AliYun", check: Some(firmware::aliyun), needs_devices: false,
        found_by: "seed AliYun, or DMI product_name Alibaba Cloud ECS" },
    Row { name: "AltCloud", check: Some(altcloud::altcloud), needs_devices: true,
        found_by: "cloud-info or DMI product_name RHEV with a floppy drive, vSphere with a disc CDROM (maybe)" },
    Row { name: "Azure", check: Some(firmware::azure), needs_devices: false,
        found_by: "seed azure, or Azure's DMI chassis_asset_tag" },
    Row { name: "Bigstep", check: Some(marker::bigstep), needs_devices: false,
        found_by: "the file data/seed/bigstep/url" },
    Row { name: "CloudCIX", check: Some(firmware::cloudcix), needs_devices: false,
        found_by: "DMI product_name CloudCIX" },
    Row { name: "CloudSigma", check: Some(firmware::cloudsigma), needs_devices: false,
        found_by: "DMI product_name CloudSigma" },
    Row { name: "CloudStack", check: Some(firmware::cloudstack), needs_devices: false,
        found_by: "DMI product_name that starts with CloudStack" },
    Row { name: "ConfigDrive", check: Some(configdrive::config_drive), needs_devices: true,
        found_by: "seed config_drive, /config-drive, or a file system labelled config-2" },
    Row { name: "DigitalOcean", check: Some(firmware::digitalocean), needs_devices: false,
        found_by: "DMI sys_vendor DigitalOcean" },
    Row { name: "Ec2", check: Some(ec2::ec2), needs_devices: false,
        found_by: "seed ec2, Xen's or DMI's uuid, or DMI fields of its relatives; else maybe, by strict_id" },
    Row { name: "Exoscale", check: Some(firmware::exoscale), needs_devices: false,
        found_by: "DMI product_name that starts with Exoscale" },
    Row { name: "GCE", check: Some(firmware::gce), needs_devices: false,
        found_by: "DMI product_name Google Compute Engine, or product_serial that starts with GoogleCloud-" },
    Row { name: "Hetzner", check: Some(firmware::hetzner), needs_devices: false,
        found_by: "DMI sys_vendor Hetzner" },
    Row { name: "IBMCloud", check: Some(configdrive::ibmcloud), needs_devices: true,
        found_by: "Xen with provisioning files, or with file systems labelled METADATA or config-2" },
    Row { name: "LXD", check: Some(marker::lxd), needs_devices: false,
        found_by: "the socket /dev/lxd/sock, or a virtio port of LXD or Incus" },
    Row { name: "MAAS", check: None, needs_devices: false,
        found_by: "nothing: only by name, or alone in the list" },
    Row { name: "NWCS", check: Some(firmware::nwcs), needs_devices: false,
        found_by: "DMI sys_vendor NWCS" },
    Row { name: "NoCloud", check: Some(nocloud::nocloud), needs_devices: true,
        found_by: "seed nocloud, a file system labelled cidata, DMI product_serial with ds=nocloud, or configuration" },
    Row { name: "None", check: Some(marker::none), needs_devices: false,
        found_by: "nothing: it is what is left" },
    Row { name: "OpenNebula", check: Some(marker::opennebula), needs_devices: true,
        found_by: "seed opennebula, or a file system labelled CONTEXT or CDROM" },
    Row { name: "OpenStack", check: Some(openstack::openstack), needs_devices: false,
        found_by: "DMI product_name or chassis_asset_tag of an OpenStack, and no config drive; else maybe where DMI is rare" },
    Row { name: "OVF", check: Some(ovf::ovf), needs_devices: true,
        found_by: "seed ovf, VMware's guestinfo ovfEnv, or a disc with an OVF environment" },
    Row { name: "Oracle", check: Some(firmware::oracle), needs_devices: false,
        found_by: "DMI chassis_asset_tag OracleCloud.com" },
    Row { name: "RbxCloud", check: Some(marker::rbxcloud), needs_devices: true,
        found_by: "a file system labelled CLOUDMD" },
    Row { name: "Scaleway", check: Some(firmware::scaleway), needs_devices: false,
        found_by: "DMI sys_vendor Scaleway, the kernel word scaleway, or /var/run/scaleway" },
    Row { name: "SmartOS", check: Some(marker::smartos), needs_devices: false,
        found_by: "DMI product_name that starts with SmartDC, or a zone's metadata socket" },
    Row { name: "UpCloud", check: Some(firmware::upcloud), needs_devices: false,
        found_by: "DMI sys_vendor UpCloud" },
    Row { name: "VMware", check: Some(vmware::vmware), needs_devices: false,
        found_by: "guestinfo of VMware's tools or of the environment, or allowed customization" },
    Row { name: "Vultr", check: Some(firmware::vultr), needs_devices: false,
        found_by: "DMI sys_vendor Vultr, the kernel word vultr, or /etc/vultr" },
    Row { name: "WSL", check: Some(wsl::wsl), needs_devices: false,
        found_by: "a file with user-data in the Windows user's profile" },
];

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_datasources_have_rows() {
        for name in BUILT_IN {
            assert!(row(name).is_some(), "{name}");
        }
        assert_eq!(ROWS.len(), BUILT_IN.len() + 1, "None is not in the list");
    }

    /// The manual page's table is this one.
    #[test]
    fn manual_page_lists_all_rows() {
        let page = include_str!("../../packaging/man/ds-identify.8").replace("\\-", "-");
        let begin = page.find(".SH DATA SOURCES").unwrap();
        let section = &page[begin..begin + 1 + page[begin + 1..].find("\n.SH ").unwrap()];
        let mut lines = section.lines().skip_while(|line| *line != ".TP");
        let mut listed = Vec::new();
        while let (Some(".TP"), Some(name), Some(words)) = (lines.next(), lines.next(), lines.next()) {
            listed.push((name.strip_prefix(".B ").unwrap(), words));
        }
        let mut rows: Vec<_> = ROWS.iter().map(|row| (row.name, row.found_by)).collect();
        rows.sort_by_key(|(name, _)| name.to_lowercase());
        assert_eq!(listed, rows);
    }
}
