//! The datasources that can be identified, one row each. Adding a cloud is a file in `checks/` (or a few lines
//! in one that is there) and a row here.

use crate::checks::{altcloud, configdrive, ec2, firmware, marker, nocloud, openstack, ovf, vmware, wsl};
use crate::facts::Facts;
use crate::verdict::Verdict;

/// One datasource.
pub struct Row {
    pub name: &'static str,
    pub check: fn(&Facts<'_>) -> Verdict,
    /// Whether a device that turns up later could change the verdict.
    pub devices: bool,
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
    Row { name: "Akamai", check: firmware::akamai, devices: false },
    Row { name: "AliYun", check: firmware::aliyun, devices: false },
    Row { name: "AltCloud", check: altcloud::altcloud, devices: true },
    Row { name: "Azure", check: firmware::azure, devices: false },
    Row { name: "Bigstep", check: marker::bigstep, devices: false },
    Row { name: "CloudCIX", check: firmware::cloudcix, devices: false },
    Row { name: "CloudSigma", check: firmware::cloudsigma, devices: false },
    Row { name: "CloudStack", check: firmware::cloudstack, devices: false },
    Row { name: "ConfigDrive", check: configdrive::config_drive, devices: true },
    Row { name: "DigitalOcean", check: firmware::digitalocean, devices: false },
    Row { name: "Ec2", check: ec2::ec2, devices: false },
    Row { name: "Exoscale", check: firmware::exoscale, devices: false },
    Row { name: "GCE", check: firmware::gce, devices: false },
    Row { name: "Hetzner", check: firmware::hetzner, devices: false },
    Row { name: "IBMCloud", check: configdrive::ibmcloud, devices: true },
    Row { name: "LXD", check: marker::lxd, devices: false },
    Row { name: "NWCS", check: firmware::nwcs, devices: false },
    Row { name: "NoCloud", check: nocloud::nocloud, devices: true },
    Row { name: "None", check: marker::none, devices: false },
    Row { name: "OpenNebula", check: marker::opennebula, devices: true },
    Row { name: "OpenStack", check: openstack::openstack, devices: false },
    Row { name: "OVF", check: ovf::ovf, devices: true },
    Row { name: "Oracle", check: firmware::oracle, devices: false },
    Row { name: "RbxCloud", check: marker::rbxcloud, devices: true },
    Row { name: "Scaleway", check: firmware::scaleway, devices: false },
    Row { name: "SmartOS", check: marker::smartos, devices: false },
    Row { name: "UpCloud", check: firmware::upcloud, devices: false },
    Row { name: "VMware", check: vmware::vmware, devices: false },
    Row { name: "Vultr", check: firmware::vultr, devices: false },
    Row { name: "WSL", check: wsl::wsl, devices: false },
];

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
