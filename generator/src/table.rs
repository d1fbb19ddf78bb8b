//! The datasources that can be identified, one row each. Adding a cloud is a file in `checks/` (or a few lines
//! in one that is there) and a row here.

use crate::checks::{altcloud, configdrive, ec2, firmware, marker, nocloud, openstack, ovf, vmware, wsl};
use crate::facts::Facts;
use crate::verdict::Verdict;

/// One datasource.
pub struct Row {
    pub name: &'static str,
    pub check: fn(&Facts<'_>) -> Verdict,
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
    Row { name: "Akamai", check: firmware::akamai },
    Row { name: "AliYun", check: firmware::aliyun },
    Row { name: "AltCloud", check: altcloud::altcloud },
    Row { name: "Azure", check: firmware::azure },
    Row { name: "Bigstep", check: marker::bigstep },
    Row { name: "CloudCIX", check: firmware::cloudcix },
    Row { name: "CloudSigma", check: firmware::cloudsigma },
    Row { name: "CloudStack", check: firmware::cloudstack },
    Row { name: "ConfigDrive", check: configdrive::config_drive },
    Row { name: "DigitalOcean", check: firmware::digitalocean },
    Row { name: "Ec2", check: ec2::ec2 },
    Row { name: "Exoscale", check: firmware::exoscale },
    Row { name: "GCE", check: firmware::gce },
    Row { name: "Hetzner", check: firmware::hetzner },
    Row { name: "IBMCloud", check: configdrive::ibmcloud },
    Row { name: "LXD", check: marker::lxd },
    Row { name: "NWCS", check: firmware::nwcs },
    Row { name: "NoCloud", check: nocloud::nocloud },
    Row { name: "None", check: marker::none },
    Row { name: "OpenNebula", check: marker::opennebula },
    Row { name: "OpenStack", check: openstack::openstack },
    Row { name: "OVF", check: ovf::ovf },
    Row { name: "Oracle", check: firmware::oracle },
    Row { name: "RbxCloud", check: marker::rbxcloud },
    Row { name: "Scaleway", check: firmware::scaleway },
    Row { name: "SmartOS", check: marker::smartos },
    Row { name: "UpCloud", check: firmware::upcloud },
    Row { name: "VMware", check: vmware::vmware },
    Row { name: "Vultr", check: firmware::vultr },
    Row { name: "WSL", check: wsl::wsl },
];

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
