//! The keys of version 2 are listed twice: for parsing here, and with documentation in the schema. The second list is upstream's,
//! which accepts keys that it does not name.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use netconfig::parse::{known_inner_keys, known_keys};
use serde_json::Value;

/// Keys that are read here and that the schema does not have.
const UNDOCUMENTED: &[&str] = &[
    "routing-policy",
    "dhcp4domain",
    "dhcp6domain",
    "macaddress",
    "accept-ra",
    "dhcp-identifier",
    "critical",
    "optional",
];

fn keys(map: &Value) -> BTreeSet<&str> {
    map["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn schema_and_parser_have_the_same_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/schema/network-config.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let definitions = &schema["definitions"];
    let sections =
        [("ethernets", "ethernet"), ("bonds", "bond_2"), ("bridges", "bridge_2"), ("vlans", "vlan_2")];
    for (section, all, read) in known_keys() {
        let device = &definitions[sections.iter().find(|(name, _)| *name == section).unwrap().1];
        let documented = keys(device);
        let missing: Vec<_> = documented.iter().filter(|key| !all.contains(key)).collect();
        assert!(missing.is_empty(), "{section}: unknown to the parser: {missing:?}");
        let missing: Vec<_> =
            read.iter().filter(|key| !documented.contains(*key) && !UNDOCUMENTED.contains(key)).collect();
        assert!(missing.is_empty(), "{section}: not in the schema: {missing:?}");
        for (key, inner) in [
            ("routes", &definitions["route_2"]),
            ("nameservers", &definitions["nameservers"]),
            ("dhcp4-overrides", &definitions["overrides"]),
            ("match", &device["properties"]["match"]),
            ("parameters", &device["properties"]["parameters"]),
        ] {
            let known = known_inner_keys(section, key);
            let inner = if inner.is_object() { keys(inner) } else { BTreeSet::new() };
            let missing: Vec<_> = inner.iter().filter(|key| !known.contains(key)).collect();
            assert!(missing.is_empty(), "{section}.{key}: unknown to the parser: {missing:?}");
        }
    }
}
