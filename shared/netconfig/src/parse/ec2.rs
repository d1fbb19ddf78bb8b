//! The metadata of EC2 and of clouds with a compatible service (AliYun), converted to version 2: the NICs that both the
//! metadata and the machine have. The value is the metadata's tree (with `network` in it), with optional siblings: the
//! datasource's setting `apply_full_imds_network_config`; `primary`, the name of the NIC that led to the metadata; and
//! `routers`, the router from DHCP by a NIC's MAC, for the policy routing of secondary NICs.

use config::{Findings, Map, Node};

use crate::natural_order::natural_sort_key;

use super::facts::{Facts, NicFacts};
use super::section::version_2;

/// The differences between the clouds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cloud {
    Ec2,
    /// No secondary addresses, no policy routing; NICs in the order of their names.
    AliYun,
}

pub fn to_v2(document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    convert(Cloud::Ec2, document, facts, findings)
}

pub fn aliyun_to_v2(document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    convert(Cloud::AliYun, document, facts, findings)
}

/// A NIC that the machine has, with its metadata.
struct DescribedNic<'a> {
    nic: &'a NicFacts,
    metadata: &'a Node,
}

fn convert(cloud: Cloud, document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let macs = document.at_path(&["network", "interfaces", "macs"]);
    let Some(macs) = macs.and_then(Node::as_map) else {
        return Err(format!("{}: network.interfaces.macs: expected a map of NICs by MAC", document.at));
    };
    let mut described: Vec<DescribedNic> = Vec::new();
    for (mac, metadata) in macs.iter() {
        let mac = mac.as_str().unwrap_or_default();
        if let Some(nic) = facts.with_mac(mac).next().filter(|_| !metadata.is_falsy()) {
            described.push(DescribedNic { nic, metadata });
        }
    }
    let mut ethernets = Map::new();
    if document.get("apply_full_imds_network_config").is_some_and(Node::is_falsy) {
        let primary = document.get("primary").and_then(Node::as_str).or(facts.fallback.as_deref());
        let first = described.iter().find(|d| primary == Some(d.nic.name.as_str()));
        let Some(first) = first else {
            return Err("metadata does not contain the primary NIC".into());
        };
        ethernets.insert(first.nic.name.as_str(), device(first));
    } else {
        match cloud {
            Cloud::Ec2 => sort::sort_by_key(&mut described, |d| {
                (number(d.metadata, "network-card"), number(d.metadata, "device-number"), d.nic.mac.clone())
            }),
            Cloud::AliYun => sort::sort_by_key(&mut described, |d| natural_sort_key(&d.nic.name)),
        }
        let several = described.len() > 1;
        for (i, one) in described.iter().enumerate() {
            let mut device = device(one);
            let router = document.get("routers").and_then(|r| r.get(&one.nic.mac)).and_then(Node::as_str);
            let has_policy = cloud == Cloud::Ec2
                && facts.netplan
                && i > 0
                && one.metadata.get("device-number").is_some_and(|n| !n.is_falsy());
            if several {
                let mut overrides = Map::from([("route-metric", ((i as i64 + 1) * 100).into())]);
                if has_policy {
                    overrides.insert("use-routes", true);
                    policy_routing(&mut device, one, 100 + i as i64, router, findings);
                }
                device.insert("dhcp4-overrides", overrides.clone());
                if device.get("dhcp6").is_some_and(|n| !n.is_falsy()) {
                    device.insert("dhcp6-overrides", overrides);
                }
            }
            if cloud == Cloud::Ec2 {
                secondary_addresses(&mut device, one, findings);
            }
            ethernets.insert(one.nic.name.as_str(), device);
        }
    }
    Ok(version_2(ethernets))
}

/// Returns a device with the settings that every NIC has.
fn device(one: &DescribedNic<'_>) -> Map {
    Map::from([
        ("dhcp4", true.into()),
        ("dhcp6", one.metadata.get("ipv6s").is_some_and(|n| !n.is_falsy()).into()),
        ("match", Node::from([("macaddress", one.nic.mac.as_str().into())])),
        ("set-name", one.nic.name.as_str().into()),
    ])
}

/// Returns a key for sorting: missing and invalid numbers are last.
fn number(metadata: &Node, key: &str) -> u64 {
    let text = metadata.get(key).filter(|n| !n.is_null()).and_then(Node::scalar_text);
    text.and_then(|t| t.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// Returns a list of strings, which may be written as one text.
fn texts(metadata: &Node, key: &str) -> Vec<String> {
    match metadata.get(key).filter(|n| !n.is_falsy()) {
        Some(node) => match node.as_seq() {
            Some(items) => items.iter().filter_map(|n| n.as_str().map(Into::into)).collect(),
            None => node.as_str().map(Into::into).into_iter().collect(),
        },
        None => Vec::new(),
    }
}

/// Adds the secondary addresses; DHCP assigns the first of each family.
fn secondary_addresses(device: &mut Map, one: &DescribedNic<'_>, findings: &mut Findings) {
    let mut addresses = Vec::new();
    for (key, subnet, default_prefix) in
        [("local-ipv4s", "subnet-ipv4-cidr-block", "24"), ("ipv6s", "subnet-ipv6-cidr-block", "128")]
    {
        let all = texts(one.metadata, key);
        if all.len() < 2 {
            continue;
        }
        let block = one.metadata.get(subnet).and_then(Node::as_str);
        let prefix = match block.map(|b| b.split('/').collect::<Vec<_>>()).as_deref() {
            Some([_, prefix]) => prefix.to_string(),
            _ => {
                let path = format!("network.interfaces.macs.{}.{subnet}", one.nic.mac);
                let message = format!("expected a subnet with a prefix; using /{default_prefix}");
                findings.invalid(&one.metadata.at, path, message);
                default_prefix.to_string()
            }
        };
        addresses.extend(all[1..].iter().map(|ip| format!("{ip}/{prefix}")));
    }
    sort::sort(&mut addresses);
    device.insert_unless_empty("addresses", addresses.into_iter().map(Node::from).collect::<Vec<_>>());
}

/// Adds policy routing: packets from the addresses of a secondary NIC leave through that NIC, by a table of its own.
fn policy_routing(
    device: &mut Map,
    one: &DescribedNic<'_>,
    table: i64,
    router: Option<&str>,
    findings: &mut Findings,
) {
    let entry = |key: &str, value: &str| Node::from([(key, value.into()), ("table", table.into())]);
    let (mut routes, mut rules) = (Vec::new(), Vec::new());
    for (key, blocks) in [("local-ipv4s", "subnet-ipv4-cidr-block"), ("ipv6s", "subnet-ipv6-cidr-blocks")] {
        let (addresses, blocks) = (texts(one.metadata, key), texts(one.metadata, blocks));
        if addresses.is_empty() || blocks.is_empty() {
            continue;
        }
        if key == "local-ipv4s" {
            match router {
                Some(router) => routes.push(Node::from([
                    ("to", "0.0.0.0/0".into()),
                    ("via", router.into()),
                    ("table", table.into()),
                ])),
                None => {
                    let message = "no router from a DHCP server; no default route in its table";
                    findings.invalid(&one.metadata.at, format!("routers.{}", one.nic.mac), message);
                }
            }
        }
        routes.extend(blocks.iter().map(|block| entry("to", block)));
        rules.extend(addresses.iter().map(|address| entry("from", address)));
    }
    if !routes.is_empty() {
        device.insert("routes", routes);
        device.insert("routing-policy", rules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conversions are compared with upstream's in tests/formats.
    #[test]
    fn missing_subnets_and_routers_are_reported() {
        let macs = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
        let facts = Facts { netplan: true, ..Facts::from_pairs([("ens1", macs[0]), ("ens2", macs[1])]) };
        for (second, expected) in [
            (r#"{"ipv6s":["fd00::1","fd00::2"],"subnet-ipv6-cidr-block":null}"#, "subnet-ipv6-cidr-block"),
            (
                r#"{"device-number":"1","local-ipv4s":"10.0.1.5","subnet-ipv4-cidr-block":"10.0.1.0/24"}"#,
                "routers.02:00:00:00:00:02",
            ),
        ] {
            let nics = format!(r#"{{"{}":{{"device-number":"0"}},"{}":{second}}}"#, macs[0], macs[1]);
            let json = format!(r#"{{"network":{{"interfaces":{{"macs":{nics}}}}}}}"#);
            let mut findings = Findings::default();
            let document = Node::from_json(&serde_json::from_str(&json).unwrap());
            to_v2(&document, &facts, &mut findings).unwrap();
            let keys: Vec<_> = findings.iter().map(|finding| finding.key.as_str()).collect();
            assert!(keys.len() == 1 && keys[0].ends_with(expected), "{keys:?}");
        }
    }
}
