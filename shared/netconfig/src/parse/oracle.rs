//! Oracle's VNICs, converted to version 1. The configuration of an initramfs for a root file system over iSCSI has
//! precedence and stays up; the metadata adds missing interfaces. The value is `{vnics: […]}`, optionally with the
//! datasource's setting `configure_secondary_nics`.

use config::{Findings, Map, Node};

use crate::address;

use super::facts::Facts;
use super::section::version_1;

/// The MTU inside this cloud.
const MTU: i64 = 9000;

pub fn to_v1(document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let initramfs = facts.initramfs.as_ref().and_then(|c| c.get("config")).and_then(Node::as_seq);
    let mut entries = initramfs.unwrap_or_default().to_vec();
    let wants_primary = entries.is_empty();
    let wants_others = document.get("configure_secondary_nics").is_some_and(|n| !n.is_falsy());
    let vnics = document.get("vnics").and_then(Node::as_seq).unwrap_or_default();
    if vnics.is_empty() && (wants_primary || wants_others) {
        findings.invalid(&document.at, "vnics", "expected a list of network interfaces");
    }
    let is_metal = vnics.first().is_some_and(|v| v.get("nicIndex").is_some());
    if wants_others && !wants_primary && is_metal {
        findings.invalid(&document.at, "vnics", "bare metal instance; ignoring secondary NICs");
    } else if wants_primary || wants_others {
        for (i, vnic) in vnics.iter().enumerate().skip(usize::from(!wants_primary)) {
            match vnic_entry(vnic, wants_primary && i == 0, facts) {
                Ok(entry) => entries.push(entry),
                Err((key, message)) => {
                    let message = format!("{message}; ignoring the interface");
                    findings.invalid(&vnic.at, format!("vnics[{i}].{key}"), message);
                }
            }
        }
    }
    if facts.iscsi_root
        && let Some(first) = entries.first_mut().and_then(Node::as_map_mut)
    {
        first.insert("keep_configuration", true);
    }
    for entry in &mut entries {
        remove_shared_mac(entry, facts);
    }
    if entries.is_empty() {
        return Err("metadata describes no NIC of this instance".into());
    }
    Ok(version_1(entries))
}

fn vnic_entry(vnic: &Node, is_primary: bool, facts: &Facts) -> Result<Node, (&'static str, &'static str)> {
    let text = |key: &str| vnic.get(key).and_then(Node::as_str).filter(|t| !t.is_empty());
    let mac = text("macAddr").ok_or(("macAddr", "expected a MAC address"))?.to_ascii_lowercase();
    let name = facts.name_of(&mac).ok_or(("macAddr", "no NIC has this MAC address"))?;
    let first_v6 = vnic.get("ipv6Addresses").and_then(Node::as_seq).and_then(<[_]>::first);
    let first_v6 = first_v6.and_then(Node::as_str);
    let v6_only = text("ipv6VirtualRouterIp").is_some() && text("privateIp").is_none();
    // An address without a prefix is that of a single host.
    let prefix = if v6_only {
        let address = first_v6.ok_or(("ipv6Addresses", "expected an address"))?;
        if address.contains('/') {
            prefix(address).ok_or(("ipv6Addresses", "expected an address"))?
        } else {
            128
        }
    } else {
        text("subnetCidrBlock").and_then(prefix).ok_or(("subnetCidrBlock", "expected a subnet"))?
    };
    let mut subnets = Vec::new();
    let mut subnet = |kind: &str, address: Option<&str>| {
        let mut map = Map::from([("type", kind.into())]);
        map.insert_some("address", address.map(|address| format!("{address}/{prefix}")));
        subnets.push(Node::from(map));
    };
    match (is_primary, v6_only) {
        (true, true) => subnet("dhcp6", None),
        (true, false) => subnet("dhcp", None),
        (false, _) => {
            let addresses = [text("privateIp"), first_v6];
            addresses.into_iter().flatten().for_each(|address| subnet("static", Some(address)));
        }
    }
    Ok(Node::from([
        ("name", name.into()),
        ("type", "physical".into()),
        ("mac_address", mac.into()),
        ("mtu", MTU.into()),
        ("subnets", subnets.into()),
    ]))
}

fn prefix(block: &str) -> Option<u8> {
    block.contains('/').then(|| address::parse_network(block, None, None).ok())?.map(|n| n.prefix)
}

/// The NICs of a failover pair have the MAC of their master, which is identified by its name only.
fn remove_shared_mac(entry: &mut Node, facts: &Facts) {
    let mac = entry.get("mac_address").and_then(Node::as_str);
    let is_master = mac.is_some_and(|mac| facts.with_mac(mac).any(|nic| nic.is_failover_master));
    if is_master && let Some(map) = entry.as_map_mut() {
        map.remove("mac_address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conversions are compared with upstream's in tests/formats.
    #[test]
    fn unusable_interfaces_are_reported() {
        let facts = Facts::from_pairs([("ens3", "02:00:17:00:00:01")]);
        let first =
            r#"{"macAddr":"02:00:17:00:00:01","privateIp":"10.0.0.2","subnetCidrBlock":"10.0.0.0/20"}"#;
        let other = r#"{"macAddr":"02:00:17:00:00:09","subnetCidrBlock":"10.0.0.0/8"}"#;
        let initramfs = config::yaml::parse("t", "{version: 1, config: [{name: ens3}]}").unwrap().root;
        let booted = Facts { initramfs: Some(initramfs), ..facts.clone() };
        let metal = first.replacen('{', r#"{"nicIndex":0,"#, 1);
        for (facts, document, expected) in [
            (
                &facts,
                format!(r#"{{"vnics":[{first},{other},{{}}]}}"#),
                &["vnics[1].macAddr", "vnics[2].macAddr"][..],
            ),
            (&booted, format!(r#"{{"configure_secondary_nics":true,"vnics":[{metal}]}}"#), &["vnics"]),
        ] {
            let mut findings = Findings::default();
            let document = Node::from_json(&serde_json::from_str(&document).unwrap());
            to_v1(&document, facts, &mut findings).unwrap();
            let keys: Vec<_> = findings.iter().map(|finding| finding.key.as_str()).collect();
            assert_eq!(keys, expected);
        }
    }
}
