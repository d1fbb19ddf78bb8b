//! Builds network configurations of version 1 from metadata.

use config::{Map, Node};
use system::{System, warning};

use crate::{Nic, Nics, document};

/// The space for what each address of a configuration gets a copy of, as metadata of a few MiB could need GiB.
pub struct Copies {
    /// Bytes of JSON.
    left: usize,
}

impl Copies {
    pub fn new() -> Copies {
        Copies { left: 1 << 20 }
    }

    /// Takes the space of this many copies; returns what is wrong if they do not fit.
    pub fn take(&mut self, of: &Node, count: usize) -> std::result::Result<(), &'static str> {
        let size = of.to_json().to_string().len().saturating_mul(count);
        self.left = self.left.checked_sub(size).ok_or("too large for the number of addresses")?;
        Ok(())
    }
}

/// Returns a map of text values.
pub fn map(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| (Node::from(*key), Node::from(*value))).collect()
}

/// Returns the entry of a NIC.
pub fn physical(name: &str, mac: &str, subnets: Vec<Map>) -> Map {
    let mut entry = map(&[("type", "physical"), ("mac_address", mac), ("name", name)]);
    entry.insert("subnets", subnets.into_iter().map(Node::from).collect::<Vec<_>>());
    entry
}

/// Returns the machine's NIC with the MAC that an entry of the metadata has; a missing one is reported with its `place`.
pub fn nic<'n>(sys: &System, nics: &'n Nics, entry: &Node, key: &str, place: &str) -> Option<&'n Nic> {
    let nic = nics.require_mac(&document::text(entry, key).unwrap_or_default());
    nic.map_err(|e| warning!(sys, "{place}.{key}: {e}; ignored")).ok()
}

/// Returns the entry of DNS servers: an address or a list of addresses.
pub fn nameserver(addresses: impl Into<Node>) -> Map {
    Map::from([("type", "nameserver".into()), ("address", addresses.into())])
}

/// Returns the configuration of these entries.
pub fn config(entries: Vec<Map>) -> Node {
    let entries: Vec<Node> = entries.into_iter().map(Node::from).collect();
    Node::from([("version", 1.into()), ("config", entries.into())])
}

/// Returns a configuration with the names that the machine's NICs have, by MAC; entries of other types (a bond may have the MAC
/// of its first member) are unchanged. Entries whose type or MAC was invalid, and is null, are left out.
pub fn with_local_names(nics: &Nics, given: &Node) -> Node {
    let rename = |entry: &Node| {
        let mut entry = entry.clone();
        if document::text(&entry, "type").is_some_and(|kind| kind != "physical") {
            return entry;
        }
        let nic = nics.by_mac(&document::text(&entry, "mac_address").unwrap_or_default());
        if let (Some(nic), Some(map)) = (nic, entry.as_map_mut()) {
            map.insert("name", nic.name.as_str());
        }
        entry
    };
    let is_rejected = |entry: &Node, key: &str| entry.get(key).is_some_and(Node::is_null);
    let is_usable = |entry: &&Node| {
        !entry.is_null() && !["type", "mac_address"].iter().any(|key| is_rejected(entry, key))
    };
    let entries = document::items(given, "config").iter();
    let entries: Vec<Node> = entries.filter(is_usable).map(rename).collect();
    let mut config = given.clone();
    if let Some(map) = config.as_map_mut() {
        map.insert("config", entries);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nics_get_the_machines_names() {
        let nic = |name: &str, mac: &str| Nic { name: name.into(), mac: mac.into(), ..Nic::default() };
        let nics = Nics { configurable: vec![nic("ens3", "02:00:00:00:00:01")], ..Nics::default() };
        let given = "config: [{type: physical, name: eth0, mac_address: '02:00:00:00:00:01'}, \
             {type: bond, name: bond0, mac_address: '02:00:00:00:00:01', bond_interfaces: [eth0]}, \
             {type: vlan, name: v7, mac_address: '02:00:00:00:00:01'}, {type: physical, name: eth9}, \
             {type: null, name: no}]";
        let given = config::yaml::parse("t", given).unwrap().root;
        let config = with_local_names(&nics, &given);
        let names: Vec<_> =
            document::items(&config, "config").iter().filter_map(|e| document::text(e, "name")).collect();
        assert_eq!(names, ["ens3", "bond0", "v7", "eth9"]);
    }
}
