//! VMware's guest customization file (`cust.cfg`), converted to version 2. Pure. On a running system NICs
//! keep their own names; `net-convert` names them like their sections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{FindingKind, Findings, Ini, Map, Node, Position};
use system::Prefix;

use crate::address;

use super::facts::Facts;

/// Converts for `net-convert`: NICs are named like their sections.
///
/// # Errors
/// Fails if the node is not text, if the text does not list its NICs, or if a NIC is invalid.
pub fn to_v2(text: &Node, _facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    convert(text, None, findings)
}

/// Converts on a running system: NICs keep their names.
///
/// # Errors
/// Fails as [`to_v2`] does, or if no NIC has a configured MAC address.
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
        findings.add(
            FindingKind::Invalid,
            &position(*line),
            "",
            "expected a section or 'KEY = VALUE'; ignored",
        );
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
    for nic in nics {
        let error =
            |key: &str, message: &str| format!("{}: {nic}.{key}: {message}", position(ini.line(nic, key)));
        let Some(mac) = ini.get(nic, "MACADDR").filter(|m| !m.is_empty()) else {
            findings.add(
                FindingKind::Invalid,
                &text.at,
                format!("{nic}.MACADDR"),
                "required, but missing; ignoring the NIC",
            );
            continue;
        };
        let mac = mac.to_ascii_lowercase();
        let name = match names {
            None => nic,
            Some(facts) => {
                facts.name_of(&mac).ok_or_else(|| error("MACADDR", "no NIC has this MAC address"))?
            }
        };
        let device =
            device(&ini, nic, &mac, name, primaries > 0).map_err(|(key, message)| error(&key, &message))?;
        ethernets.insert(Node { at: position(ini.line(nic, "MACADDR")), ..name.into() }, device);
    }
    let mut config = Map::new();
    config.insert("version", 2);
    config.insert("ethernets", ethernets);
    Ok(Node::from(config))
}

/// The key and the problem.
type KeyError = (String, String);

fn device(ini: &Ini<'_>, nic: &str, mac: &str, name: &str, has_primary: bool) -> Result<Map, KeyError> {
    let dns = |key: &str| ini.numbered("DNS", key).into_iter().map(Node::from).collect::<Vec<_>>();
    let (servers, search) = (dns("NAMESERVER"), dns("SUFFIX"));
    let one = |key: &str, value: Node| Node::from([(Node::from(key), value)].into_iter().collect::<Map>());
    let is = |key: &str, word: &str| ini.get(nic, key).is_some_and(|v| v.eq_ignore_ascii_case(word));
    let mut device = Map::new();
    device.insert("match", one("macaddress", mac.into()));
    device.insert("set-name", name);
    device.insert("wakeonlan", ini.is_yes(nic, "ONBOOT"));
    let is_static = is("BOOTPROTO", "static");
    // Upstream uses DHCP even if IPv4 is disabled.
    device.insert("dhcp4", !is_static || is("IPv4_MODE", "disabled"));
    if device.get("dhcp4").and_then(Node::as_bool) == Some(true) && !(servers.is_empty() && search.is_empty())
    {
        device.insert("dhcp4-overrides", one("use-dns", false.into()));
    }
    let (mut addresses, mut routes) = (Vec::new(), Vec::new());
    let mut route = |to: String, via: &str| {
        routes.push(Node::from(
            [("to", to.as_str()), ("via", via)]
                .map(|(k, v)| (k.into(), v.into()))
                .into_iter()
                .collect::<Map>(),
        ));
    };
    let is_primary = ini.is_yes(nic, "PRIMARY");
    let get = |key: &str| ini.get(nic, key).filter(|v| !v.is_empty());
    if is_static {
        let prefix = match get("NETMASK") {
            None => 32,
            Some(mask) => {
                prefix(mask, Ipv4Addr::UNSPECIFIED.into()).map_err(|w| ("NETMASK".to_string(), w))?
            }
        };
        if let Some(ip) = get("IPADDR") {
            addresses.push(Node::from(format!("{ip}/{prefix}")));
        }
        let mut gateways = get("GATEWAY").into_iter().flat_map(|g| g.split(',')).map(str::trim);
        if is_primary && let Some(first) = gateways.next() {
            route("0.0.0.0/0".into(), first);
        } else if !has_primary {
            for gateway in gateways {
                route(subnet_of(gateway, prefix).map_err(|w| ("GATEWAY".to_string(), w))?, gateway);
            }
        }
    }
    let v6 = ini.numbered(nic, "IPv6ADDR");
    for (ip, n) in v6.iter().zip(1..) {
        let (mask_key, gateway_key) = (format!("IPv6NETMASK|{n}"), format!("IPv6GATEWAY|{n}"));
        let Some(mask) = get(&mask_key) else { return Err((mask_key, "required, but missing".into())) };
        let prefix = prefix(mask, Ipv6Addr::UNSPECIFIED.into()).map_err(|w| (mask_key, w))?;
        addresses.push(Node::from(format!("{ip}/{prefix}")));
        match get(&gateway_key) {
            Some(gateway) if is_primary => route("::/0".into(), gateway),
            Some(gateway) if !has_primary => {
                route(subnet_of(gateway, prefix).map_err(|w| (gateway_key, w))?, gateway);
            }
            _ => {}
        }
    }
    if !v6.is_empty() {
        device.insert("dhcp6", false);
    }
    let mut nameservers = Map::new();
    for (key, list) in [("search", search), ("addresses", servers)] {
        if !list.is_empty() {
            nameservers.insert(key, list);
        }
    }
    for (key, list) in [("addresses", addresses), ("routes", routes)] {
        if !list.is_empty() {
            device.insert(key, list);
        }
    }
    if !nameservers.is_empty() {
        device.insert("nameservers", nameservers);
    }
    Ok(device)
}

fn prefix(mask: &str, family: IpAddr) -> Result<u8, String> {
    address::parse_prefix(mask, family).map_err(|wanted| format!("expected {wanted}"))
}

/// Returns the subnet of a gateway.
fn subnet_of(gateway: &str, prefix: u8) -> Result<String, String> {
    let ip: IpAddr = gateway.parse().map_err(|_| "expected an IP address")?;
    Ok(format!("{}/{prefix}", Prefix::new(ip, prefix).network().address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(text: &str) -> Result<(String, usize), String> {
        let mut findings = Findings::default();
        let at = Position { source: Some("cust.cfg".into()), line: 0, column: 0 };
        let config = to_v2(&Node { at, ..text.into() }, &Facts::default(), &mut findings)?;
        let text = config.get("ethernets").unwrap().to_json().to_string().replace('"', "");
        Ok((text, findings.iter().count()))
    }

    const HEAD: &str = "[NIC-CONFIG]\nNICS = NIC1\n[NIC1]\nMACADDR = 00:50:56:A6:8C:08\n";

    #[test]
    fn nic_sections_are_converted() {
        let device = |more: &str| format!("{{NIC1:{{{more}}}}}");
        let tail = "match:{macaddress:00:50:56:a6:8c:08},";
        for (more, expected) in [
            ("", format!("dhcp4:true,{tail}set-name:NIC1,wakeonlan:false")),
            ("ONBOOT = yes\nBOOTPROTO = dhcp\n", format!("dhcp4:true,{tail}set-name:NIC1,wakeonlan:true")),
            (
                "BOOTPROTO = static\nIPADDR = 10.20.87.154\nNETMASK = 255.255.252.0\nGATEWAY = 10.20.87.253, 10.20.87.105\n",
                format!(
                    "addresses:[10.20.87.154/22],dhcp4:false,{tail}routes:[{{to:10.20.84.0/22,via:10.20.87.253}},\
                     {{to:10.20.84.0/22,via:10.20.87.105}}],set-name:NIC1,wakeonlan:false"
                ),
            ),
            (
                "PRIMARY = true\nBOOTPROTO = STATIC\nIPADDR = 10.20.87.154\nGATEWAY = 10.20.87.253\n\
                 IPv6ADDR|1 = fc00:10:20:87::154\nIPv6NETMASK|1 = 64\nIPv6GATEWAY|1 = fc00:10:20:87::253\n",
                format!(
                    "addresses:[10.20.87.154/32,fc00:10:20:87::154/64],dhcp4:false,dhcp6:false,{tail}\
                     routes:[{{to:0.0.0.0/0,via:10.20.87.253}},{{to:::/0,via:fc00:10:20:87::253}}],set-name:NIC1,wakeonlan:false"
                ),
            ),
            (
                "BOOTPROTO=static\nIPv4_MODE=disabled\n[DNS]\nNAMESERVER|1=10.0.0.1\nSUFFIX|1=a.test\nSUFFIX|2=b.test\n",
                format!(
                    "dhcp4:true,dhcp4-overrides:{{use-dns:false}},{tail}nameservers:{{addresses:[10.0.0.1],search:[a.test,b.test]}},\
                     set-name:NIC1,wakeonlan:false"
                ),
            ),
        ] {
            assert_eq!(convert(&format!("{HEAD}{more}")), Ok((device(&expected), 0)), "{more}");
        }
    }

    #[test]
    fn invalid_configurations_are_rejected() {
        for (text, message) in [
            ("", "NIC-CONFIG.NICS: required"),
            ("[NIC-CONFIG]\nNICS=a,b\n[a]\nPRIMARY=yes\n[b]\nPRIMARY=yes\n", "more than one primary NIC"),
            (&format!("{HEAD}IPv6ADDR|1=fc00::1\n"), "NIC1.IPv6NETMASK|1: required"),
            (
                &format!("{HEAD}BOOTPROTO=static\nNETMASK=255.0.255.0\n"),
                "cust.cfg:6:1: NIC1.NETMASK: expected a contiguous netmask",
            ),
        ] {
            let error = convert(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(convert("[NIC-CONFIG]\nNICS=a\nwhat\n"), Ok(("{}".into(), 2)));
        let text = Node::from(HEAD);
        let on_machine = |facts: &Facts| to_v2_on_machine(&text, facts, &mut Findings::default());
        assert!(on_machine(&Facts::default()).unwrap_err().contains("no NIC"));
        let found = on_machine(&Facts::from_pairs([("ens192", "00:50:56:a6:8c:08")])).unwrap();
        assert!(found.at_path(&["ethernets", "ens192"]).is_some());
    }
}
