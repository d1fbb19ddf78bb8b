//! NICs that were replaced since a configuration was written (a restored or cloned machine, a new port): none of those that it
//! identifies exists, so that the machine would stay without a network. Pure.

use std::collections::HashSet;

use config::Node;

use crate::nics::{self, Nic};
use crate::parse;
use crate::rename;

/// The NICs of a configuration that are missing, and those of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The MAC addresses, or names, by which the configuration identifies NICs. Empty if some are back after they were missing.
    pub missing: Vec<String>,
    /// The MAC addresses and names of the machine's NICs.
    pub present: Vec<String>,
}

impl Replaced {
    /// Returns the missing NICs and those of the machine.
    pub fn all(&self) -> Vec<String> {
        [&self.missing[..], &self.present].concat()
    }
}

/// Returns the NICs if the configuration identifies some by MAC address or name, the machine has none of them, and has others.
/// `by_name`: the files have names only, so that a NIC with the name of another one is configured too. A configuration that
/// matches in another way is assumed to match.
pub fn replaced(config: &Node, machine: &[Nic], by_name: bool) -> Option<Replaced> {
    let others = nics::candidates(machine);
    let wanted = identities(config)?;
    let macs: HashSet<&String> = machine.iter().map(|nic| &nic.mac).collect();
    let names: HashSet<&String> = machine.iter().map(|nic| &nic.name).collect();
    let is_there = |wanted: &Identity| match &wanted.mac {
        Some(mac) if macs.contains(mac) => true,
        Some(_) if !by_name => false,
        _ => wanted.name.as_ref().is_some_and(|name| names.contains(name)),
    };
    if others.is_empty() || wanted.is_empty() || wanted.iter().any(is_there) {
        return None;
    }
    let missing = wanted.into_iter().filter_map(|one| one.mac.or(one.name)).collect();
    let present = others.iter().map(|nic| format!("{} ({})", nic.mac, nic.name)).collect();
    Some(Replaced { missing, present })
}

/// How a configuration identifies a NIC.
struct Identity {
    mac: Option<String>,
    name: Option<String>,
}

/// Returns how a configuration identifies the NICs that exist without it; `None` if that is not known.
fn identities(config: &Node) -> Option<Vec<Identity>> {
    let config = parse::network_section(config);
    let text = |node: &Node, path: &[&str]| node.at_path(path).and_then(Node::as_str).map(str::to_string);
    match config.as_map().and_then(parse::version)? {
        1 => {
            let entries = config.get("config").into_iter().flat_map(Node::items);
            let is_nic = |e: &&Node| matches!(text(e, &["type"]).as_deref(), Some("physical" | "infiniband"));
            let identity =
                |e: &Node| Identity { mac: rename::mac(e, &["mac_address"]), name: text(e, &["name"]) };
            Some(entries.filter(is_nic).map(identity).collect())
        }
        2 => {
            let kinds = ["ethernets", "wifis", "modems"];
            let devices =
                kinds.into_iter().flat_map(|kind| config.get(kind).into_iter().flat_map(Node::entries));
            let devices = devices.filter(|(id, _)| id.as_str() != Some("lo"));
            let identity = |(id, device): (&Node, &Node)| {
                let mac = rename::mac(device, &["match", "macaddress"]);
                let matched = device.get("match").and_then(Node::as_map).is_some_and(|m| !m.is_empty());
                let name = text(device, &["set-name"]);
                match (mac, matched) {
                    (None, true) => None,
                    // The NIC has either name.
                    (None, false) if name.is_some() => None,
                    (mac, _) => Some(Identity { mac, name: name.or(id.scalar_text()) }),
                }
            };
            devices.map(identity).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, mac: &str) -> Nic {
        Nic { name: name.into(), mac: format!("52:54:00:00:00:{mac}"), carrier: true, ..Nic::default() }
    }

    #[test]
    fn nics_are_replaced_if_none_of_them_exists() {
        let v1 = "{version: 1, config: [{type: physical, name: eth0, mac_address: '52:54:00:00:00:0A'}, {type: bond, name: b0}]}";
        let by_mac =
            "{version: 2, ethernets: {a: {match: {macaddress: '52-54-00-00-00-0a'}, set-name: eth0}}}";
        let two =
            "{network: {version: 2, ethernets: {eth0: {}, b: {match: {macaddress: '52:54:00:00:00:0a'}}}}}";
        let (old, new, other) = (nic("eth0", "0a"), nic("eth0", "0b"), nic("ens4", "0b"));
        let (first, both) = ("52:54:00:00:00:0a", "eth0 52:54:00:00:00:0a");
        for (config, nics, by_name, missing) in [
            (v1, vec![&old], false, ""),
            (v1, vec![&other, &old], false, ""),
            (v1, vec![&new], false, first),
            (v1, vec![&new], true, ""),
            (v1, vec![&other], true, first),
            (v1, vec![], false, ""),
            (by_mac, vec![&old], false, ""),
            (by_mac, vec![&new], false, first),
            (by_mac, vec![&new], true, ""),
            (two, vec![&other], false, both),
            (two, vec![&new], false, ""),
            ("{version: 2, ethernets: {lo: {}, eth0: {}}}", vec![&other], false, "eth0"),
            ("{version: 2, ethernets: {eth0: {}, c: {match: {name: 'ens*'}}}}", vec![&other], false, ""),
            ("{version: 2, ethernets: {eth0: {}, c: {match: {driver: virtio}}}}", vec![&other], false, ""),
            ("{version: 2, ethernets: {eth0: {set-name: lan}}}", vec![&new], false, ""),
            ("{version: 2, bridges: {br0: {}}}", vec![&other], false, ""),
            ("{version: 3}", vec![&other], false, ""),
            ("[]", vec![&other], false, ""),
        ] {
            let loopback = Nic { name: "lo".into(), mac: "00:00:00:00:00:00".into(), ..Nic::default() };
            let nics: Vec<Nic> = nics.into_iter().cloned().chain([loopback]).collect();
            let node = config::yaml::parse("t", config).unwrap().root;
            let found = replaced(&node, &nics, by_name).unwrap_or_default();
            assert_eq!(found.missing.join(" "), missing, "{config} {nics:?}");
            assert_eq!(found.present.len(), usize::from(!missing.is_empty()), "{config} {nics:?}");
        }
    }
}
