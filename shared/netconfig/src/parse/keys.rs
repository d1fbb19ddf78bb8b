//! The known keys of version 2, which is netplan's format: those that are read here, and those that only netplan reads.
//! Any other key is probably misspelled. As netplan gets new keys, it is a finding, not an error, and nothing is ignored
//! because of it.

use config::{Findings, Node, entry_name, join_key, unknown_key};

use super::options::{BOND_OPTIONS, BRIDGE_OPTIONS, OVERRIDES, SETTINGS};
use super::section::{network_section, version};

/// The keys of every device that are read here.
const COMMON_KEYS: &[&str] = &[
    "addresses",
    "routes",
    "mtu",
    "nameservers",
    "dhcp4",
    "dhcp6",
    "gateway4",
    "gateway6",
    "dhcp4-overrides",
    "dhcp6-overrides",
    "routing-policy",
    "renderer",
    "dhcp4domain",
    "dhcp6domain",
    "accept-ra",
    "critical",
    "macaddress",
    "optional",
];

/// The keys of every device that only netplan reads, and those of [`SETTINGS`], which every renderer writes or reports.
const COMMON_NETPLAN_KEYS: &[&str] = &["networkmanager", "openvswitch", "ra-overrides"];

/// A section of version 2: its name, the keys of its devices that are read here, and those that netplan reads. Without
/// the former, only netplan reads the section.
struct Section {
    name: &'static str,
    read: &'static [&'static str],
    netplan: &'static [&'static str],
}

const AGGREGATE_KEYS: &[&str] = &["interfaces", "parameters"];

const SECTIONS: &[Section] = &[
    Section {
        name: "ethernets",
        read: &["match", "set-name", "wakeonlan"],
        netplan: &[
            "auth",
            "delay-virtual-functions-rebind",
            "embedded-switch-mode",
            "infiniband-mode",
            "link",
            "virtual-function-count",
        ],
    },
    Section { name: "bonds", read: AGGREGATE_KEYS, netplan: &[] },
    Section { name: "bridges", read: AGGREGATE_KEYS, netplan: &[] },
    Section { name: "vlans", read: &["id", "link"], netplan: &[] },
];

/// Sections that only netplan supports: the keys of their devices are not checked.
const NETPLAN_SECTIONS: &[&str] = &[
    "wifis",
    "modems",
    "tunnels",
    "vrfs",
    "dummy-devices",
    "virtual-ethernets",
    "nm-devices",
    "openvswitch",
];

/// The keys of the maps, or lists of maps, of a device.
const NESTED_KEYS: &[(&str, &[&str])] = &[
    (
        "routes",
        &[
            "to",
            "via",
            "metric",
            "table",
            "mtu",
            "on-link",
            "scope",
            "type",
            "from",
            "advertised-mss",
            "advertised-receive-window",
            "congestion-window",
        ],
    ),
    ("nameservers", &["addresses", "search"]),
    ("match", &["macaddress", "driver", "name"]),
    ("routing-policy", &["from", "to", "table", "priority", "mark", "type-of-service"]),
];

impl Section {
    fn has(&self, name: &str) -> bool {
        [COMMON_KEYS, self.read, COMMON_NETPLAN_KEYS, self.netplan].iter().any(|keys| keys.contains(&name))
            || SETTINGS.iter().any(|setting| setting.netplan == name)
    }

    /// Returns the keys of the section's devices.
    fn keys(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let settings = SETTINGS.iter().map(|setting| setting.netplan);
        [COMMON_KEYS, self.read, COMMON_NETPLAN_KEYS, self.netplan]
            .into_iter()
            .flatten()
            .copied()
            .chain(settings)
    }
}

/// Returns every section of version 2 that is read here, with all keys of its devices, and those that are read here.
pub fn known_keys() -> impl Iterator<Item = (&'static str, Vec<&'static str>, Vec<&'static str>)> {
    SECTIONS
        .iter()
        .map(|section| (section.name, section.keys().collect(), [COMMON_KEYS, section.read].concat()))
}

/// Returns the keys of the maps below a device's key; none for a key without a map.
pub fn known_inner_keys(section: &str, key: &str) -> Vec<&'static str> {
    match (section, key) {
        ("bonds", "parameters") => {
            let names = BOND_OPTIONS.iter().flat_map(|option| [Some(option.netplan), option.alias]);
            names.flatten().collect()
        }
        (_, "parameters") => {
            let names = BRIDGE_OPTIONS.iter().map(|option| option.netplan);
            // The second spelling of `ageing-time`.
            names.chain(["aging-time"]).collect()
        }
        (_, "dhcp4-overrides" | "dhcp6-overrides") => OVERRIDES.iter().map(|key| key.netplan).collect(),
        _ => NESTED_KEYS.iter().find(|(of, _)| *of == key).map(|(_, keys)| keys.to_vec()).unwrap_or_default(),
    }
}

/// Returns the unknown keys of a version 2 configuration, each with its position and the most similar known key. Any
/// other configuration has no findings.
pub fn unknown_keys(config: &Node) -> Findings {
    let mut found = Findings::default();
    let config = network_section(config);
    let Some(map) = config.as_map().filter(|map| version(map) == Some(2)) else { return found };
    for (key, devices) in map.iter() {
        let name = key.as_str().unwrap_or_default();
        let Some(section) = SECTIONS.iter().find(|s| s.name == name) else {
            let others = ["version", "renderer"];
            if !NETPLAN_SECTIONS.contains(&name) && !others.contains(&name) {
                let known = SECTIONS.iter().map(|s| s.name).chain(NETPLAN_SECTIONS.iter().copied());
                report_unknown(&mut found, (key, devices), "network", known);
            }
            continue;
        };
        for (id, device) in devices.entries() {
            let path = || join_key(&join_key("network", name), &id.scalar_text().unwrap_or_default());
            check_device(&mut found, section, device, &path);
        }
    }
    found
}

fn check_device(found: &mut Findings, section: &Section, device: &Node, path: &dyn Fn() -> String) {
    for (key, value) in device.entries() {
        let name = key.as_str().unwrap_or_default();
        if !section.has(name) {
            report_unknown(found, (key, value), &path(), section.keys());
            continue;
        }
        let known = known_inner_keys(section.name, name);
        if known.is_empty() {
            continue;
        }
        for (i, item) in value.items().iter().enumerate() {
            check_map(found, item, &|| format!("{}[{i}]", join_key(&path(), name)), &known);
        }
        check_map(found, value, &|| join_key(&path(), name), &known);
    }
}

/// Reports the keys of a map that are not known.
pub(super) fn check_map(found: &mut Findings, map: &Node, path: &dyn Fn() -> String, known: &[&str]) {
    for (key, value) in map.entries() {
        if !key.as_str().is_some_and(|name| known.contains(&name)) {
            report_unknown(found, (key, value), &path(), known.iter().copied());
        }
    }
}

fn report_unknown<'k>(
    found: &mut Findings,
    (key, value): (&Node, &Node),
    path: &str,
    known: impl Iterator<Item = &'k str>,
) {
    let name = entry_name(key, value);
    found.unknown(&key.at, join_key(path, &name), unknown_key(&name, known));
}

/// Returns whether only netplan reads this section.
pub(super) fn is_netplan_only_section(name: &str) -> bool {
    NETPLAN_SECTIONS.contains(&name)
}

/// Returns whether only netplan reads this key of a section's devices.
pub(super) fn is_netplan_only(section: &str, key: &str) -> bool {
    SECTIONS.iter().find(|s| s.name == section).is_some_and(|s| {
        !COMMON_KEYS.contains(&key)
            && !s.read.contains(&key)
            && (COMMON_NETPLAN_KEYS.contains(&key) || s.netplan.contains(&key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_reported() {
        for (text, expected) in [
            ("{version: 2, ethernets: {e0: {dhcp4: true, critical: true, link-local: []}}}", &[][..]),
            ("{version: 1, ethernet: 3}", &[]),
            ("{network: {version: 2, wifis: {w0: {access-point: {}}}, openvswitch: {}}}", &[]),
            (
                "{version: 2, ethernets: {e0: {adresses: [10.0.0.2/24], zzz: 1}}}",
                &[
                    "1:31: network.ethernets.e0.adresses: unknown key; did you mean 'addresses'?",
                    "1:56: network.ethernets.e0.zzz: unknown key",
                ],
            ),
            (
                "{version: 2, ethernet: {}, bonds: {b: {paramaters: {}, parameters: {mod: 4, resend-igmp: 1}}}}",
                &[
                    "1:14: network.ethernet: unknown key; did you mean 'ethernets'?",
                    "1:40: network.bonds.b.paramaters: unknown key; did you mean 'parameters'?",
                    "1:69: network.bonds.b.parameters.mod: unknown key; did you mean 'mode'?",
                ],
            ),
            (
                "{version: 2, vlans: {v: {id: 1, link: e, routes: [{to: default, vai: x}], match: 7,\n\
                 routing-policy: [{form: x}, 3], dhcp4-overrides: {use-mtus: no}, 7: x}}}",
                &[
                    "1:65: network.vlans.v.routes[0].vai: unknown key; did you mean 'via'?",
                    "1:75: network.vlans.v.match: unknown key",
                    "2:19: network.vlans.v.routing-policy[0].form: unknown key; did you mean 'from'?",
                    "2:51: network.vlans.v.dhcp4-overrides.use-mtus: unknown key; did you mean 'use-mtu'?",
                    "2:66: network.vlans.v.7: unknown key",
                ],
            ),
            (
                "{version: 2, bridges: {b: {parameters: {stb: on}}, c: nothing}}",
                &["1:41: network.bridges.b.parameters.stb: unknown key; did you mean 'stp'?"],
            ),
        ] {
            let root = config::yaml::parse("t", text).unwrap().root;
            let found: Vec<String> =
                unknown_keys(&root).iter().map(|f| f.to_string().replacen("t:", "", 1)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
