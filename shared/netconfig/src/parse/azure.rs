//! Azure's instance metadata, converted to version 2: DHCP for the first address of each family, static configuration for
//! the others. The value is the metadata service's whole document; the datasource's settings may be beside `network`.

use config::{Finding, FindingKind, Findings, Map, Node};

use super::facts::Facts;
use super::section::version_2;

/// `apply_network_config_for_secondary_ips` and `apply_network_config_set_name`, both enabled by default.
fn is_on(document: &Node, setting: &str) -> bool {
    document.get(setting).is_none_or(|n| !n.is_falsy())
}

pub fn to_v2(document: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let Some(interfaces) = document.at_path(&["network", "interface"]).and_then(Node::as_seq) else {
        return Err(format!("{}: network.interface: expected a list of interfaces", document.at));
    };
    let all_addresses = is_on(document, "apply_network_config_for_secondary_ips");
    let set_name = is_on(document, "apply_network_config_set_name");
    let mut ethernets = Map::new();
    let mut without_mac: Vec<Finding> = Vec::new();
    for (i, interface) in interfaces.iter().enumerate() {
        let path = format!("network.interface[{i}]");
        let Some(mac) = interface.get("macAddress").and_then(Node::as_str).and_then(mac_with_colons) else {
            let message = "expected twelve hexadecimal digits; ignoring the interface".into();
            let (kind, at, key) = (FindingKind::Invalid, interface.at.clone(), format!("{path}.macAddress"));
            without_mac.push(Finding { kind, at, key, message });
            continue;
        };
        let Some(mut device) = device(interface, i, all_addresses, &path, findings) else { continue };
        let name = if set_name { format!("eth{i}") } else { format!("enx{}", mac.replace(':', "")) };
        let mut match_by = Map::from([("macaddress", mac.as_str().into())]);
        match_by.insert_some("driver", driver(facts, &mac));
        device.insert("match", match_by);
        if set_name {
            device.insert("set-name", name.as_str());
        }
        ethernets.insert(name, device);
    }
    // A network without interfaces would be worse than the one that the system has now.
    if let Some(first) = without_mac.first().filter(|_| ethernets.is_empty()) {
        return Err(first.to_string());
    }
    without_mac.into_iter().for_each(|finding| findings.push(finding));
    Ok(version_2(ethernets))
}

/// Returns the configuration of an interface; `None` if it has no address.
fn device(interface: &Node, i: usize, all: bool, path: &str, findings: &mut Findings) -> Option<Map> {
    let mut overrides = Map::from([("route-metric", ((i as i64 + 1) * 100).into())]);
    if i > 0 {
        overrides.insert("use-dns", false);
    }
    let mut device = Map::from([
        ("dhcp4", true.into()),
        ("dhcp4-overrides", overrides.clone().into()),
        ("dhcp6", false.into()),
    ]);
    let (mut has_any, mut addresses_to_add) = (false, Vec::new());
    for (family, default_prefix) in [("ipv4", "24"), ("ipv6", "128")] {
        let addresses = interface.at_path(&[family, "ipAddress"]).map_or(&[][..], Node::items);
        if addresses.is_empty() {
            continue;
        }
        has_any = true;
        if family == "ipv6" {
            device.insert("dhcp6", true);
            device.insert("dhcp6-overrides", overrides.clone());
        }
        let subnet = interface.at_path(&[family, "subnet"]).and_then(|subnets| subnets.items().first());
        let prefix =
            subnet.and_then(|s| s.get("prefix")).filter(|n| !n.is_null()).and_then(Node::scalar_text);
        let prefix = prefix.as_deref().unwrap_or(default_prefix);
        for (n, address) in addresses.iter().enumerate().skip(1).filter(|_| all) {
            let ip = address.get("privateIpAddress");
            match ip.and_then(Node::as_str) {
                Some(ip) => addresses_to_add.push(Node::from(format!("{ip}/{prefix}"))),
                // What the datasource has reported.
                None if address.is_null() || ip.is_some_and(Node::is_null) => {}
                None => {
                    let key = format!("{path}.{family}.ipAddress[{n}].privateIpAddress");
                    findings.add(FindingKind::Invalid, &address.at, key, "expected an address; ignored");
                }
            }
        }
    }
    device.insert_unless_empty("addresses", addresses_to_add);
    has_any.then_some(device)
}

fn mac_with_colons(digits: &str) -> Option<String> {
    let digits: String = digits.chars().filter(|c| !matches!(c, ':' | '-')).collect();
    if digits.len() != 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let pairs: Vec<&str> = (0..6).map(|i| &digits[2 * i..2 * i + 2]).collect();
    Some(pairs.join(":").to_ascii_lowercase())
}

/// Hyper-V shows a NIC and its fast path with the same address; their drivers differ.
fn driver<'a>(facts: &'a Facts, mac: &str) -> Option<&'a str> {
    let mut drivers = facts.nics.iter().filter(|nic| nic.mac == mac).map(|nic| nic.driver.as_deref());
    if drivers.clone().any(|d| d == Some("hv_netvsc")) {
        return Some("hv_netvsc");
    }
    let only = drivers.next().flatten();
    if drivers.next().is_some() { None } else { only.filter(|d| !d.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::NicFacts;

    fn convert(json: &str, facts: &Facts) -> (String, usize) {
        let node = Node::from_json(&serde_json::from_str(json).unwrap());
        let mut findings = Findings::default();
        let config = to_v2(&node, facts, &mut findings).unwrap();
        let text = config.get("ethernets").unwrap().to_json().to_string().replace('"', "");
        (text, findings.iter().count())
    }

    #[test]
    fn interfaces_are_converted_with_addresses_and_metrics() {
        let facts = Facts::default();
        let one = |more: &str, settings: &str| {
            format!(r#"{{"network":{{"interface":[{{"macAddress":"000D3A04FFEE"{more}}}]}}{settings}}}"#)
        };
        let v4 = r#","ipv4":{"ipAddress":[{"privateIpAddress":"10.0.0.4"},{"privateIpAddress":"10.0.0.5"}],"subnet":[{"prefix":"16"}]}"#;
        let match_by = "match:{macaddress:00:0d:3a:04:ff:ee}";
        for (more, settings, expected) in [
            ("", "", "{}".to_string()),
            (
                v4,
                "",
                format!(
                    "{{eth0:{{addresses:[10.0.0.5/16],dhcp4:true,dhcp4-overrides:{{route-metric:100}},dhcp6:false,{match_by},set-name:eth0}}}}"
                ),
            ),
            (
                v4,
                r#","apply_network_config_for_secondary_ips":false,"apply_network_config_set_name":false"#,
                format!(
                    "{{enx000d3a04ffee:{{dhcp4:true,dhcp4-overrides:{{route-metric:100}},dhcp6:false,{match_by}}}}}"
                ),
            ),
            (
                r#","ipv6":{"ipAddress":[{"privateIpAddress":"fd00::4"},{"privateIpAddress":"fd00::5"},{}]}"#,
                "",
                format!(
                    "{{eth0:{{addresses:[fd00::5/128],dhcp4:true,dhcp4-overrides:{{route-metric:100}},dhcp6:true,dhcp6-overrides:{{route-metric:100}},{match_by},set-name:eth0}}}}"
                ),
            ),
        ] {
            assert_eq!(convert(&one(more, settings), &facts).0, expected, "{more}");
        }
        assert_eq!(convert(&one(",\"ipv6\":{\"ipAddress\":[{},{}]}", ""), &facts).1, 1);
        let without_mac = |more: &str| {
            let text = format!(r#"{{"network":{{"interface":[{{"macAddress":"xyz"}}{more}]}}}}"#);
            let mut findings = Findings::default();
            let config =
                to_v2(&Node::from_json(&serde_json::from_str(&text).unwrap()), &facts, &mut findings);
            config.map(|config| {
                (config.to_json()["ethernets"].as_object().unwrap().len(), findings.iter().count())
            })
        };
        assert_eq!(
            without_mac(&format!(",{}", r#"{"macAddress":"000D3A04FFEE","ipv4":{"ipAddress":[{}]}}"#)),
            Ok((1, 1))
        );
        assert!(without_mac("").unwrap_err().contains("network.interface[0].macAddress: expected twelve"));
        assert!(
            to_v2(&Node::null(), &facts, &mut Findings::default()).unwrap_err().contains("network.interface")
        );
    }

    #[test]
    fn driver_is_set_only_if_unambiguous() {
        let nic = |driver: &str| NicFacts {
            mac: "00:0d:3a:04:ff:ee".into(),
            driver: Some(driver.into()).filter(|d: &String| !d.is_empty()),
            ..NicFacts::default()
        };
        for (drivers, expected) in [
            (&[][..], None),
            (&["mlx5_core"], Some("mlx5_core")),
            (&["mlx5_core", "hv_netvsc"], Some("hv_netvsc")),
            (&["mlx5_core", "mana"], None),
            (&[""], None),
        ] {
            let facts = Facts { nics: drivers.iter().map(|d| nic(d)).collect(), ..Facts::default() };
            assert_eq!(driver(&facts, "00:0d:3a:04:ff:ee"), expected, "{drivers:?}");
        }
    }
}
