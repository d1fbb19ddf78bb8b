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
                // The datasource has reported it.
                None if address.is_null() || ip.is_some_and(Node::is_null) => {}
                None => {
                    let key = format!("{path}.{family}.ipAddress[{n}].privateIpAddress");
                    findings.invalid(&address.at, key, "expected an address; ignored");
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
    let mut drivers = facts.with_mac(mac).map(|nic| nic.driver.as_deref());
    if drivers.clone().any(|d| d == Some("hv_netvsc")) {
        return Some("hv_netvsc");
    }
    let only = drivers.next().flatten();
    if drivers.next().is_some() { None } else { only.filter(|d| !d.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conversions are compared with upstream's in tests/formats.
    #[test]
    fn invalid_parts_of_interfaces_are_reported() {
        let convert = |interfaces: &str| {
            let text = format!(r#"{{"network":{{"interface":[{interfaces}]}}}}"#);
            let node = Node::from_json(&serde_json::from_str(&text).unwrap());
            let mut findings = Findings::default();
            let config = to_v2(&node, &Facts::default(), &mut findings)?;
            Ok::<_, String>((
                config.at_path(&["ethernets"]).unwrap().entries().count(),
                findings.iter().count(),
            ))
        };
        let with_addresses = |addresses: &str| {
            format!(r#"{{"macAddress":"000D3A04FFEE","ipv6":{{"ipAddress":[{addresses}]}}}}"#)
        };
        assert_eq!(convert(&with_addresses("{},{}")), Ok((1, 1)));
        assert_eq!(convert(&format!(r#"{{"macAddress":"xyz"}},{}"#, with_addresses("{}"))), Ok((1, 1)));
        let error = convert(r#"{"macAddress":"xyz"}"#).unwrap_err();
        assert!(error.contains("network.interface[0].macAddress: expected twelve"), "{error}");
    }
}
