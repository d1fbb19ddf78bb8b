//! VMware's guest customization file (`cust.cfg`), converted to version 2. Pure. On a running system NICs
//! keep their own names; `net-convert` names them like their sections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Finding, FindingKind, Findings, Ini, Map, Node, Position, shown_name};
use system::Prefix;

use crate::address;

use super::facts::Facts;
use super::section::version_2;

/// Converts for `net-convert`: NICs are named like their sections.
///
/// # Errors
/// Fails if the node is not text, if the text does not list its NICs, or if all NICs are invalid.
pub fn to_v2(text: &Node, _facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    convert(text, None, findings)
}

/// Converts on a running system: NICs keep their names.
///
/// # Errors
/// Fails as [`to_v2`] does; a NIC is also invalid if the machine has none with its MAC address.
pub fn to_v2_on_machine(text: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    convert(text, Some(facts), findings)
}

fn convert(text: &Node, names: Option<&Facts>, findings: &mut Findings) -> Result<Node, String> {
    let Some(content) = text.as_str() else {
        return Err(format!("{}: expected the text of a customization file, found {}", text.at, text.kind()));
    };
    let ini = Ini::parse(content);
    let position = |line| Position { source: text.at.source.clone(), line, column: 1 };
    for line in &ini.invalid_lines {
        findings.invalid(&position(*line), "", "expected a section or 'KEY = VALUE'; ignored");
    }
    let Some(nics) = ini.get("NIC-CONFIG", "NICS") else {
        return Err(format!("{}: NIC-CONFIG.NICS: required, but missing", text.at));
    };
    let nics: Vec<&str> = nics.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    let primaries = nics.iter().filter(|nic| ini.is_yes(nic, "PRIMARY")).count();
    if primaries > 1 {
        return Err(format!("{}: PRIMARY: more than one primary NIC", text.at));
    }
    let mut ethernets = Map::new();
    let mut problems: Vec<Finding> = Vec::new();
    for nic in &nics {
        let mut report = |key: &str, message: &str| {
            let line = ini.line(nic, key);
            let at = if line == 0 { text.at.clone() } else { position(line) };
            let (kind, key, message) =
                (FindingKind::Invalid, format!("{}.{key}", shown_name(nic)), message.into());
            problems.push(Finding { kind, at, key, message });
        };
        let Some(mac) = ini.get(nic, "MACADDR").filter(|m| !m.is_empty()) else {
            report("MACADDR", "required, but missing; ignoring the NIC");
            continue;
        };
        let mac = mac.to_ascii_lowercase();
        let Some(name) = names.map_or(Some(*nic), |facts| facts.name_of_needed(&mac)) else {
            report("MACADDR", "no NIC has this MAC address; ignoring the NIC");
            continue;
        };
        if let Some(device) = device(&ini, nic, &mac, name, primaries > 0, &mut report) {
            ethernets.insert(Node { at: position(ini.line(nic, "MACADDR")), ..name.into() }, device);
        }
    }
    if ethernets.is_empty()
        && let Some(first) = problems.first()
    {
        // A network without NICs would be worse than the one that the system has now.
        return Err(first.to_string());
    }
    problems.into_iter().for_each(|problem| findings.push(problem));
    Ok(version_2(ethernets))
}

/// Returns the settings of a NIC; `None` if it would have neither an address nor DHCP because of invalid values. Each is
/// reported with its key: for an invalid mask the address and its routes are ignored, for an invalid gateway its route.
fn device(
    ini: &Ini<'_>,
    nic: &str,
    mac: &str,
    name: &str,
    has_primary: bool,
    report: &mut dyn FnMut(&str, &str),
) -> Option<Map> {
    let dns = |key: &str| ini.numbered("DNS", key).into_iter().map(Node::from).collect::<Vec<_>>();
    let (servers, search) = (dns("NAMESERVER"), dns("SUFFIX"));
    let is = |key: &str, word: &str| ini.get(nic, key).is_some_and(|v| v.eq_ignore_ascii_case(word));
    let is_static = is("BOOTPROTO", "static");
    // Upstream uses DHCP even if IPv4 is disabled.
    let uses_dhcp = !is_static || is("IPv4_MODE", "disabled");
    let mut device = Map::from([
        ("match", Node::from([("macaddress", mac.into())])),
        ("set-name", name.into()),
        ("wakeonlan", ini.is_yes(nic, "ONBOOT").into()),
        ("dhcp4", uses_dhcp.into()),
    ]);
    if uses_dhcp && !(servers.is_empty() && search.is_empty()) {
        device.insert("dhcp4-overrides", Node::from([("use-dns", false.into())]));
    }
    let (mut addresses, mut routes) = (Vec::new(), Vec::new());
    let is_primary = ini.is_yes(nic, "PRIMARY");
    let mut has_problem = false;
    let mut report = |key: &str, problem: &str, outcome: &str| {
        has_problem = true;
        report(key, &format!("{problem}; ignoring the {outcome}"));
    };
    let mut route = |any: &str, prefix: u8, via: &str| {
        let ip: IpAddr = via.parse().map_err(|_| "expected an IP address")?;
        let to = if is_primary { any.to_string() } else { subnet_of(ip, prefix) };
        routes.push(Node::from([("to", to.into()), ("via", via.into())]));
        Ok::<(), &str>(())
    };
    let get = |key: &str| ini.get(nic, key).filter(|v| !v.is_empty());
    if is_static {
        match get("NETMASK").map_or(Ok(32), |mask| prefix(mask, Ipv4Addr::UNSPECIFIED.into())) {
            Err(problem) => report("NETMASK", &problem, "address"),
            Ok(prefix) => {
                if let Some(ip) = get("IPADDR") {
                    addresses.push(Node::from(format!("{ip}/{prefix}")));
                }
                let gateways = get("GATEWAY").into_iter().flat_map(|g| g.split(',')).map(str::trim);
                // A default route has one gateway.
                let count = match (is_primary, has_primary) {
                    (true, _) => 1,
                    (false, true) => 0,
                    (false, false) => usize::MAX,
                };
                for gateway in gateways.take(count) {
                    if let Err(problem) = route("0.0.0.0/0", prefix, gateway) {
                        report("GATEWAY", problem, "route");
                    }
                }
            }
        }
    }
    let v6 = ini.numbered(nic, "IPv6ADDR");
    for (ip, n) in v6.iter().zip(1..) {
        let (mask_key, gateway_key) = (format!("IPv6NETMASK|{n}"), format!("IPv6GATEWAY|{n}"));
        let mask = get(&mask_key).ok_or_else(|| "required, but missing".to_string());
        match mask.and_then(|mask| prefix(mask, Ipv6Addr::UNSPECIFIED.into())) {
            Err(problem) => report(&mask_key, &problem, "address"),
            Ok(prefix) => {
                addresses.push(Node::from(format!("{ip}/{prefix}")));
                let gateway = get(&gateway_key).filter(|_| is_primary || !has_primary);
                if let Some(Err(problem)) = gateway.map(|gateway| route("::/0", prefix, gateway)) {
                    report(&gateway_key, problem, "route");
                }
            }
        }
    }
    if has_problem && addresses.is_empty() && !uses_dhcp {
        return None;
    }
    if !v6.is_empty() {
        device.insert("dhcp6", false);
    }
    let mut nameservers = Map::new();
    nameservers.insert_unless_empty("search", search);
    nameservers.insert_unless_empty("addresses", servers);
    device.insert_unless_empty("addresses", addresses);
    device.insert_unless_empty("routes", routes);
    device.insert_unless_empty("nameservers", nameservers);
    Some(device)
}

fn prefix(mask: &str, family: IpAddr) -> Result<u8, String> {
    address::parse_prefix(mask, family).map_err(|wanted| format!("expected {wanted}"))
}

/// Returns the subnet of a gateway.
fn subnet_of(gateway: IpAddr, prefix: u8) -> String {
    format!("{}/{prefix}", Prefix::new(gateway, prefix).network().address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(text: &str) -> Result<Node, String> {
        let at = Position { source: Some("cust.cfg".into()), line: 0, column: 0 };
        to_v2(&Node { at, ..text.into() }, &Facts::default(), &mut Findings::default())
    }

    const HEAD: &str = "[NIC-CONFIG]\nNICS = NIC1\n[NIC1]\nMACADDR = 00:50:56:A6:8C:08\n";

    /// An invalid gateway drops its route, an invalid mask its address, an invalid MAC its NIC. Conversions are compared with
    /// upstream's in tests/formats.
    #[test]
    fn only_what_needs_an_invalid_value_is_ignored() {
        let head =
            format!("{}[NIC2]\nMACADDR = 00:50:56:A6:8C:09\n", HEAD.replace("NIC1\n[", "NIC1,NIC2\n["));
        let nic = "[NIC1]\nBOOTPROTO=static\nIPADDR=10.0.0.2\nIPv6ADDR|1=fc00::2\n";
        for (more, addresses, routes, key) in [
            ("NETMASK=24\nIPv6NETMASK|1=64\nGATEWAY=10.0.0.1,x\n", 2, 1, "GATEWAY"),
            (
                "NETMASK=24\nIPv6NETMASK|1=64\nPRIMARY=yes\nGATEWAY=x\nIPv6GATEWAY|1=fc00::1\n",
                2,
                1,
                "GATEWAY",
            ),
            ("NETMASK=24\nIPv6NETMASK|1=64\nGATEWAY=10.0.0.1\nIPv6GATEWAY|1=x\n", 2, 1, "IPv6GATEWAY|1"),
            ("NETMASK=255.0.255.0\nIPv6NETMASK|1=64\nGATEWAY=10.0.0.1\n", 1, 0, "NETMASK"),
            (
                "NETMASK=24\nIPv6NETMASK|1=129\nGATEWAY=10.0.0.1\nIPv6GATEWAY|1=fc00::1\n",
                1,
                1,
                "IPv6NETMASK|1",
            ),
            ("NETMASK=24\nGATEWAY=10.0.0.1\n", 1, 1, "IPv6NETMASK|1"),
        ] {
            let text = Node::from(format!("{head}{nic}{more}"));
            let mut findings = Findings::default();
            let config = to_v2(&text, &Facts::default(), &mut findings).unwrap();
            let list = |nic: &str, key: &str| {
                config.at_path(&["ethernets", nic, key]).and_then(Node::as_seq).map_or(0, <[Node]>::len)
            };
            assert_eq!((list("NIC1", "addresses"), list("NIC1", "routes")), (addresses, routes), "{more}");
            assert!(config.at_path(&["ethernets", "NIC2"]).is_some(), "{more}");
            let keys: Vec<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
            assert_eq!(keys, [format!("NIC1.{key}")], "{more}");
        }
        let facts = Facts::from_pairs([("ens192", "00:50:56:a6:8c:09")]);
        let mut findings = Findings::default();
        let config = to_v2_on_machine(&Node::from(head.as_str()), &facts, &mut findings).unwrap();
        assert!(config.at_path(&["ethernets", "ens192"]).is_some());
        let keys: Vec<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(keys, ["NIC1.MACADDR"]);
    }

    #[test]
    fn invalid_configurations_are_rejected() {
        for (text, message) in [
            ("", "NIC-CONFIG.NICS: required"),
            ("[NIC-CONFIG]\nNICS=a,b\n[a]\nPRIMARY=yes\n[b]\nPRIMARY=yes\n", "more than one primary NIC"),
            (
                &format!("{HEAD}BOOTPROTO=static\nIPv6ADDR|1=fc00::1\n"),
                "NIC1.IPv6NETMASK|1: required, but missing; ignoring the address",
            ),
            (
                &format!("{HEAD}BOOTPROTO=static\nNETMASK=255.0.255.0\n"),
                "cust.cfg:6:1: NIC1.NETMASK: expected a contiguous netmask",
            ),
        ] {
            let error = convert(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(convert("[NIC-CONFIG]\nNICS=a\nwhat\n").unwrap_err().contains("a.MACADDR: required"));
        let text = Node::from(HEAD);
        let on_machine = |facts: &Facts| to_v2_on_machine(&text, facts, &mut Findings::default());
        assert!(on_machine(&Facts::default()).unwrap_err().contains("no NIC"));
        let found = on_machine(&Facts::from_pairs([("ens192", "00:50:56:a6:8c:08")])).unwrap();
        assert!(found.at_path(&["ethernets", "ens192"]).is_some());
    }
}
