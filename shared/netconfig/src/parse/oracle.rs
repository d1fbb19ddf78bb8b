//! Oracle's VNICs, converted to version 1. What an initramfs configured for a root file system over iSCSI has
//! precedence and is kept up; the metadata adds what is missing. The value is `{vnics: […]}`, optionally with the
//! datasource's setting `configure_secondary_nics`.

use config::{FindingKind, Findings, Map, Node};

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
        findings.add(FindingKind::Invalid, &document.at, "vnics", "expected a list of network interfaces");
    }
    let is_metal = vnics.first().is_some_and(|v| v.get("nicIndex").is_some());
    if wants_others && !wants_primary && is_metal {
        findings.add(
            FindingKind::Invalid,
            &document.at,
            "vnics",
            "bare metal instance; ignoring secondary NICs",
        );
    } else if wants_primary || wants_others {
        for (i, vnic) in vnics.iter().enumerate().skip(usize::from(!wants_primary)) {
            match vnic_entry(vnic, wants_primary && i == 0, facts) {
                Ok(entry) => entries.push(entry),
                Err((key, message)) => {
                    let message = format!("{message}; ignoring the interface");
                    findings.add(FindingKind::Invalid, &vnic.at, format!("vnics[{i}].{key}"), message);
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
    let is_master = facts.nics.iter().any(|nic| nic.is_failover_master && Some(&*nic.mac) == mac);
    if is_master && let Some(map) = entry.as_map_mut() {
        map.remove("mac_address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::NicFacts;

    fn facts() -> Facts {
        let nic =
            |name: &str, mac: &str| NicFacts { name: name.into(), mac: mac.into(), ..NicFacts::default() };
        Facts {
            nics: vec![nic("ens3", "02:00:17:00:00:01"), nic("ens4", "02:00:17:00:00:02")],
            ..Facts::default()
        }
    }

    fn convert(document: &str, facts: &Facts) -> Result<(String, usize), String> {
        let node = Node::from_json(&serde_json::from_str(document).unwrap());
        let mut findings = Findings::default();
        let config = to_v1(&node, facts, &mut findings)?;
        let text = config.get("config").unwrap().to_json().to_string().replace('"', "");
        Ok((text, findings.iter().count()))
    }

    const FIRST: &str =
        r#"{"macAddr":"02:00:17:00:00:01","privateIp":"10.0.0.2","subnetCidrBlock":"10.0.0.0/20"}"#;
    const SECOND: &str = r#"{"macAddr":"02:00:17:00:00:02","privateIp":"10.0.4.2","subnetCidrBlock":"10.0.4.0/24","ipv6Addresses":["fd00::2"]}"#;
    const V6: &str =
        r#"{"macAddr":"02:00:17:00:00:01","ipv6VirtualRouterIp":"fe80::1","ipv6Addresses":["fd00::2"]}"#;

    #[test]
    fn primary_nic_uses_dhcp_and_others_are_static() {
        let head = |mac: u8, name: &str| format!("mac_address:02:00:17:00:00:0{mac},mtu:9000,name:{name}");
        let (one, two) = (head(1, "ens3"), head(2, "ens4"));
        let dhcp = format!("{{{one},subnets:[{{type:dhcp}}],type:physical}}");
        let fixed = format!(
            "{{{two},subnets:[{{address:10.0.4.2/24,type:static}},{{address:fd00::2/24,type:static}}],type:physical}}"
        );
        for (document, expected, findings) in [
            (format!(r#"{{"vnics":[{FIRST}]}}"#), format!("[{dhcp}]"), 0),
            (format!(r#"{{"vnics":[{FIRST},{SECOND}]}}"#), format!("[{dhcp},{fixed}]"), 0),
            (
                format!(r#"{{"vnics":[{V6}]}}"#),
                format!("[{{{one},subnets:[{{type:dhcp6}}],type:physical}}]"),
                0,
            ),
            (
                format!(
                    r#"{{"vnics":[{FIRST},{{"macAddr":"02:00:17:00:00:09","subnetCidrBlock":"10.0.0.0/8"}},{{}}]}}"#
                ),
                format!("[{dhcp}]"),
                2,
            ),
        ] {
            assert_eq!(convert(&document, &facts()), Ok((expected, findings)), "{document}");
        }
        assert!(convert("{}", &facts()).is_err());
    }

    #[test]
    fn iscsi_nic_keeps_the_configuration_of_the_initramfs() {
        let text = "{version: 1, config: [{type: physical, name: ens3, mac_address: '02:00:17:00:00:01'}]}";
        let from_initramfs = config::yaml::parse("t", text).unwrap().root;
        let iscsi = Facts { initramfs: Some(from_initramfs), iscsi_root: true, ..facts() };
        let document = format!(r#"{{"vnics":[{FIRST},{SECOND}]}}"#);
        let kept = "[{keep_configuration:true,mac_address:02:00:17:00:00:01,name:ens3,type:physical}]";
        assert_eq!(convert(&document, &iscsi), Ok((kept.into(), 0)));
        let with_others = document.replacen('{', r#"{"configure_secondary_nics":true,"#, 1);
        assert!(convert(&with_others, &iscsi).unwrap().0.contains("name:ens4"));
        let metal = with_others.replacen(r#"{"macAddr""#, r#"{"nicIndex":0,"macAddr""#, 1);
        assert_eq!(convert(&metal, &iscsi), Ok((kept.into(), 1)));
        let mut failover = iscsi.clone();
        failover.nics[0].is_failover_master = true;
        assert_eq!(
            convert(&document, &failover).unwrap().0,
            "[{keep_configuration:true,name:ens3,type:physical}]"
        );
    }
}
