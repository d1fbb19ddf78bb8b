//! The system's NICs as sysfs shows them: which of them can be configured, and which one the fallback configuration
//! uses. Only [`read`] touches the system; everything else is pure.

use std::collections::HashSet;

use config::{Map, Node};
use system::{Command, System, debug};

use crate::natural_order::natural_sort_key;
use crate::parse::facts::{Facts, NicFacts};
use crate::parse::version_2;

pub(crate) const SYS_CLASS_NET: &str = "/sys/class/net";
/// virtio's feature bit for a NIC that fails over to another (VIRTIO_NET_F_STANDBY).
const VIRTIO_NET_F_STANDBY: usize = 62;
/// `type` of an InfiniBand NIC (ARPHRD_INFINIBAND).
const ARPHRD_INFINIBAND: u32 = 32;
/// Drivers of which several NICs may share an address.
const SHARED_MAC_DRIVERS: &[&str] = &["fsl_enetc", "mscc_felix", "qmi_wwan"];

/// The kind of device that a NIC is a port of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Master {
    /// A bridge, a bond or an Open vSwitch: the NIC can be configured.
    Aggregate,
    /// Something else (a failover device, a VRF): only the master can be configured.
    Other,
}

/// The role of a NIC in a failover pair (virtio's `net_failover`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Failover {
    /// The NIC is not part of a pair.
    #[default]
    None,
    /// The device that is configured.
    Master,
    /// The paravirtual NIC, which takes over if the primary is removed.
    Standby,
    /// The passed-through NIC.
    Primary,
}

/// An entry of /sys/class/net.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// The interface's name.
    pub name: String,
    /// The MAC address in lower case; empty if there is none. For a bond's member its permanent address.
    pub mac: String,
    /// The name of the kernel driver.
    pub driver: Option<String>,
    /// The PCI or USB device ID.
    pub device_id: Option<String>,
    /// Whether it is a bridge.
    pub bridge: bool,
    /// Whether it is a bond.
    pub bond: bool,
    /// Whether it is a VLAN.
    pub vlan: bool,
    /// Whether it is an InfiniBand NIC.
    pub infiniband: bool,
    /// Whether it is an internal port of an Open vSwitch.
    pub ovs_internal: bool,
    /// Whether the MAC address is not the permanent one of the device.
    pub temporary_mac: bool,
    /// Whether the MAC address was copied from another device.
    pub stolen_mac: bool,
    /// The kind of device that it is a port of, if any.
    pub master: Option<Master>,
    /// Its role in a failover pair.
    pub failover: Failover,
    /// Whether user space (udev) has named it.
    pub named_by_user_space: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Whether it waits for an external event before it carries traffic.
    pub dormant: bool,
    /// The content of `operstate`, for example `up`.
    pub operstate: String,
}

impl Nic {
    fn is_loopback(&self) -> bool {
        self.name == "lo"
    }

    fn has_zero_mac(&self) -> bool {
        !self.mac.is_empty() && self.mac.chars().all(|c| matches!(c, '0' | ':'))
    }

    /// Returns whether it is made of other NICs, is a part of a failover pair or has no MAC address.
    fn is_excluded(&self) -> bool {
        self.bridge
            || self.bond
            || self.mac.is_empty()
            || matches!(self.failover, Failover::Primary | Failover::Standby)
    }
}

/// Returns the facts that parsers need.
pub fn facts(nics: &[Nic]) -> Facts {
    let nic = |n: &&Nic| NicFacts {
        name: n.name.clone(),
        mac: n.mac.clone(),
        infiniband: n.infiniband,
        driver: n.driver.clone(),
        is_failover_master: n.failover == Failover::Master,
        temporary_mac: n.temporary_mac,
    };
    let counted = configurable(nics);
    let fallback = candidates(nics).first().map(|nic| nic.name.clone());
    Facts { nics: counted.iter().map(nic).collect(), fallback, ..Facts::default() }
}

/// Returns the NICs that a configuration can describe.
pub fn configurable(nics: &[Nic]) -> Vec<&Nic> {
    let shadowed = shadowed_by_netvsc(nics);
    let mut macs: HashSet<&str> = HashSet::new();
    let mut counted = Vec::new();
    for nic in nics {
        let excluded = nic.is_excluded()
            || nic.vlan
            || nic.stolen_mac
            || nic.ovs_internal
            || nic.master == Some(Master::Other)
            || (nic.has_zero_mac() && !nic.is_loopback())
            || shadowed.contains(&*nic.name);
        if excluded {
            continue;
        }
        let is_shared = nic.driver.as_deref().is_some_and(|d| SHARED_MAC_DRIVERS.contains(&d));
        if macs.insert(&nic.mac) || nic.has_zero_mac() || !is_shared {
            counted.push(nic);
        }
    }
    counted
}

/// Returns the names of NICs that are the accelerated path of a Hyper-V NIC: both have the same MAC address, and only
/// the Hyper-V NIC is configured.
fn shadowed_by_netvsc(nics: &[Nic]) -> HashSet<&str> {
    let is_netvsc = |n: &&Nic| n.driver.as_deref() == Some("hv_netvsc");
    let macs: HashSet<&str> = nics.iter().filter(is_netvsc).map(|n| n.mac.as_str()).collect();
    nics.iter().filter(|n| !is_netvsc(n) && macs.contains(&*n.mac)).map(|n| n.name.as_str()).collect()
}

/// Returns the candidates for the fallback configuration, the preferred first: NICs with a carrier, then those that may
/// get one; in each group eth0, then the others in natural order.
pub fn candidates(nics: &[Nic]) -> Vec<&Nic> {
    let shadowed = shadowed_by_netvsc(nics);
    let mut groups: [Vec<&Nic>; 2] = [Vec::new(), Vec::new()];
    for nic in nics {
        let excluded = nic.is_excluded()
            || nic.is_loopback()
            || nic.name.starts_with("veth")
            || shadowed.contains(&*nic.name);
        if excluded {
            continue;
        }
        if nic.carrier {
            groups[0].push(nic);
        } else if nic.dormant || ["dormant", "down", "lowerlayerdown", "unknown"].contains(&&*nic.operstate) {
            groups[1].push(nic);
        }
    }
    for group in &mut groups {
        sort::sort_by_key(group, |nic| (nic.name != "eth0", natural_sort_key(&nic.name)));
    }
    groups.concat()
}

/// Returns the fallback configuration, version 2 with DHCP on the preferred NIC; `None` without a NIC.
pub fn fallback_config(nics: &[Nic]) -> Option<Node> {
    dhcp_config(candidates(nics).get(..1)?)
}

/// Returns a configuration of version 2 with DHCP on these NICs; only the first one is waited for.
pub fn dhcp_config(nics: &[&Nic]) -> Option<Node> {
    let mut devices = Map::new();
    for nic in nics {
        let mut device = dhcp_device(nic);
        if !devices.is_empty() {
            device.insert("optional", true);
        }
        devices.insert(nic.name.as_str(), device);
    }
    (!devices.is_empty()).then(|| version_2(devices))
}

fn dhcp_device(nic: &Nic) -> Map {
    // All parts of a failover pair have the same address; only the name identifies the master.
    let match_by = match nic.failover {
        Failover::Master => ("name", Node::from(nic.name.as_str())),
        _ => ("macaddress", Node::from(nic.mac.as_str())),
    };
    Map::from([
        ("dhcp4", true.into()),
        ("dhcp6", true.into()),
        ("set-name", nic.name.as_str().into()),
        ("match", Node::from([match_by])),
    ])
}

/// Returns whether udev has named all NICs, or does not name them (`net.ifnames=0`).
pub fn names_settled(nics: &[Nic], command_line: &str) -> bool {
    command_line.split_whitespace().any(|w| w == "net.ifnames=0")
        || nics.iter().all(|nic| nic.is_loopback() || nic.named_by_user_space)
}

/// Reads all NICs from sysfs. Unreadable attributes count as absent, because NICs may be removed at any time.
pub fn read(sys: &System) -> Vec<Nic> {
    let names = sys.list(SYS_CLASS_NET).unwrap_or_else(|e| {
        system::warning!(sys, "{e}");
        Vec::new()
    });
    let is_dir = |path: &str| sys.is_dir(format!("{SYS_CLASS_NET}/{path}"));
    let mut nics: Vec<(Nic, Option<String>, bool)> = Vec::new();
    for name in names.iter().filter(|n| is_dir(n)) {
        let at = |file: &str| format!("{SYS_CLASS_NET}/{name}/{file}");
        let text = |file: &str| sys.read_text(at(file)).ok().map(|t| t.trim().to_string());
        let link_target = |link: &str| {
            let target = sys.read_link(at(link)).ok()?;
            target.rsplit('/').next().map(str::to_string)
        };
        let number = |file: &str| text(file).and_then(|t| t.parse::<u32>().ok());
        let master = link_target("master");
        let driver = link_target("device/driver");
        let standby = driver.as_deref() == Some("virtio_net")
            && text("device/features")
                .is_some_and(|bits| bits.as_bytes().get(VIRTIO_NET_F_STANDBY) == Some(&b'1'));
        let nic = Nic {
            name: name.clone(),
            mac: text("bonding_slave/perm_hwaddr")
                .or_else(|| text("address"))
                .unwrap_or_default()
                .to_lowercase(),
            driver,
            device_id: text("device/device"),
            bridge: sys.exists(at("bridge")),
            bond: sys.exists(at("bonding")),
            vlan: text("uevent").is_some_and(|t| t.lines().any(|l| l == "DEVTYPE=vlan")),
            infiniband: number("type") == Some(ARPHRD_INFINIBAND),
            ovs_internal: false,
            temporary_mac: text("bonding_slave/perm_hwaddr").is_none()
                && number("addr_assign_type").is_some_and(|n| n != 0),
            stolen_mac: number("addr_assign_type").is_some_and(|n| !matches!(n, 0 | 1 | 3)),
            master: master.as_ref().map(|m| match m.as_str() {
                "ovs-system" => Master::Aggregate,
                m if is_dir(&format!("{m}/bridge")) || is_dir(&format!("{m}/bonding")) => Master::Aggregate,
                _ => Master::Other,
            }),
            failover: Failover::None,
            named_by_user_space: matches!(number("name_assign_type"), Some(3 | 4)),
            carrier: number("carrier").is_some_and(|n| n > 0),
            dormant: number("dormant").is_some_and(|n| n > 0),
            operstate: text("operstate").unwrap_or_default(),
        };
        nics.push((nic, master, standby));
    }
    let pairs: HashSet<String> = nics
        .iter()
        .filter(|(_, master, standby)| *standby && master.is_none())
        .map(|(nic, ..)| nic.name.clone())
        .collect();
    let ports = if nics.is_empty() { HashSet::new() } else { ovs_internal_ports(sys) };
    nics.into_iter()
        .map(|(mut nic, master, standby)| {
            nic.failover = match (&master, standby) {
                (None, true) => Failover::Master,
                (Some(_), true) => Failover::Standby,
                (Some(master), false) if pairs.contains(master) => Failover::Primary,
                _ => Failover::None,
            };
            nic.ovs_internal = ports.contains(&nic.name);
            nic
        })
        .collect()
}

/// Returns the names of Open vSwitch's internal ports, which look like NICs; only `ovs-vsctl` tells them apart.
fn ovs_internal_ports(sys: &System) -> HashSet<String> {
    if sys.which("ovs-vsctl").is_none() {
        return HashSet::new();
    }
    let query = "--format csv --no-headings --timeout 10 --columns name find interface type=internal";
    let command = Command::new(["ovs-vsctl"].into_iter().chain(query.split(' '))).read_only();
    let output = sys.run(&command).inspect_err(|e| debug!(sys, "{e}")).map(|finished| finished.text());
    output.unwrap_or_default().lines().map(|l| l.trim().trim_matches('"').to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, mac: &str) -> Nic {
        Nic { name: name.into(), mac: mac.into(), operstate: "up".into(), carrier: true, ..Nic::default() }
    }

    fn names(nics: &[&Nic]) -> Vec<String> {
        nics.iter().map(|n| n.name.clone()).collect()
    }

    #[test]
    fn virtual_and_enslaved_nics_are_not_configurable() {
        let all = [
            nic("lo", "00:00:00:00:00:00"),
            nic("eth0", "52:54:00:00:00:01"),
            Nic { vlan: true, ..nic("eth0.5", "52:54:00:00:00:01") },
            Nic { bridge: true, ..nic("br0", "52:54:00:00:00:01") },
            Nic { master: Some(Master::Aggregate), ..nic("eth1", "52:54:00:00:00:02") },
            Nic { master: Some(Master::Other), ..nic("eth2", "52:54:00:00:00:03") },
            Nic { stolen_mac: true, ..nic("mv0", "52:54:00:00:00:04") },
            nic("tun0", ""),
            nic("zero0", "00:00:00:00:00:00"),
            Nic { driver: Some("hv_netvsc".into()), ..nic("eth3", "52:54:00:00:00:05") },
            Nic { driver: Some("mlx4_core".into()), ..nic("enP1", "52:54:00:00:00:05") },
            Nic { failover: Failover::Primary, ..nic("eth4", "52:54:00:00:00:06") },
            Nic { ovs_internal: true, ..nic("ovs-br", "52:54:00:00:00:07") },
            Nic { driver: Some("qmi_wwan".into()), ..nic("wwan1", "52:54:00:00:00:02") },
        ];
        assert_eq!(names(&configurable(&all)), ["lo", "eth0", "eth1", "eth3"]);
        let twice = [nic("a", "52:54:00:00:00:01"), nic("b", "52:54:00:00:00:01")];
        assert_eq!(names(&configurable(&twice)), ["a", "b"]);
    }

    #[test]
    fn fallback_prefers_a_carrier_and_the_lowest_name() {
        let down = |name: &str, state: &str| Nic {
            carrier: false,
            operstate: state.into(),
            ..nic(name, "52:54:00:00:00:01")
        };
        let all = [
            nic("lo", "00:00:00:00:00:00"),
            down("eth0", "down"),
            nic("ens10", "52:54:00:00:00:10"),
            nic("Ens9", "52:54:00:00:00:09"),
            nic("veth1", "52:54:00:00:00:08"),
            down("ens2", "notpresent"),
            down("ens1", "unknown"),
            Nic { dormant: true, ..down("wwan0", "testing") },
            Nic { bond: true, ..nic("bond0", "52:54:00:00:00:07") },
        ];
        assert_eq!(names(&candidates(&all)), ["Ens9", "ens10", "eth0", "ens1", "wwan0"]);
        let config = fallback_config(&all).unwrap();
        assert_eq!(
            config.to_json().to_string(),
            r#"{"ethernets":{"Ens9":{"dhcp4":true,"dhcp6":true,"match":{"macaddress":"52:54:00:00:00:09"},"set-name":"Ens9"}},"version":2}"#
        );
        assert_eq!(fallback_config(&all[..1]), None);
    }

    #[test]
    fn nics_are_read_from_sysfs() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let put = |path: &str, text: &str| {
            sys.write(format!("{SYS_CLASS_NET}/{path}"), text, system::WriteOptions::default()).unwrap();
        };
        for (name, mac) in
            [("eth0", "52:54:00:00:00:0A"), ("eth1", "52:54:00:00:00:0b"), ("fo", "52:54:00:00:00:0c")]
        {
            put(&format!("{name}/address"), &format!("{mac}\n"));
        }
        put("eth0/carrier", "1\n");
        put("eth0/name_assign_type", "4\n");
        put("eth0/device/device", "0x1000\n");
        sys.link("../../../bus/virtio/drivers/virtio_net", format!("{SYS_CLASS_NET}/eth0/device/driver"))
            .unwrap();
        put("fo/device/features", &format!("{}1\n", "0".repeat(62)));
        sys.link("/sys/bus/virtio/drivers/virtio_net", format!("{SYS_CLASS_NET}/fo/device/driver")).unwrap();
        sys.link("../fo", format!("{SYS_CLASS_NET}/eth1/master")).unwrap();
        put("bonding_masters", "");
        let nics = read(&sys);
        assert_eq!(nics.len(), 3);
        assert_eq!(
            (&*nics[0].mac, nics[0].carrier, nics[0].named_by_user_space),
            ("52:54:00:00:00:0a", true, true)
        );
        assert_eq!(nics[0].driver.as_deref(), Some("virtio_net"));
        assert_eq!(nics[0].device_id.as_deref(), Some("0x1000"));
        assert_eq!((nics[1].failover, nics[1].master), (Failover::Primary, Some(Master::Other)));
        assert_eq!(nics[2].failover, Failover::Master);
        assert!(!names_settled(&nics, "quiet"));
        assert!(names_settled(&nics, "quiet net.ifnames=0"));
    }
}
