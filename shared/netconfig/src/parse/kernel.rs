//! `ip=`, `ip6=` and `BOOTIF=` of a kernel command line (in the kernel's own form, klibc's and dracut's), converted to
//! version 1. Files of an initramfs have precedence; this is for machines without them.

use std::net::IpAddr;

use config::{Findings, Map, Node, Position};

use super::facts::Facts;
use super::klibc;
use super::scalar::is_ethernet_mac;
use super::section::version_1;

/// The name, MTU, MAC and subnets of a device.
type Device = (String, Option<Node>, Option<String>, Vec<Node>);

/// Converts the kernel command line (a scalar) to version 1.
///
/// # Errors
/// Fails if no word of it configures a NIC.
pub fn to_v1(text: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let words = words(text.as_str().unwrap_or_default());
    let boot_nic = words.iter().rev().find_map(|w| w.strip_prefix("BOOTIF=")).and_then(parse_bootif);
    let boot_nic = boot_nic.and_then(|mac| facts.name_of(&mac));
    let servers: Vec<&str> = words.iter().filter_map(|w| w.strip_prefix("nameserver=")).collect();
    let at = Position { source: Some("kernel command line".into()), line: 0, column: 0 };
    let mut devices: Vec<Device> = Vec::new();
    for word in &words {
        let (key, argument) = match (word.strip_prefix("ip="), word.strip_prefix("ip6=")) {
            (Some(value), _) => ("ip", parse_ip_argument(value, false)),
            (_, Some(value)) => ("ip6", parse_ip_argument(value, true)),
            _ => continue,
        };
        let argument = match argument {
            Ok(Some(argument)) => argument,
            Ok(None) => continue,
            Err(wanted) => {
                findings.invalid(&at, key, format!("expected {wanted}; ignored"));
                continue;
            }
        };
        let named = argument.device.as_deref().filter(|name| *name != "BOOTIF");
        if named.or(boot_nic).is_none() && argument.address.is_none() {
            // DHCP on any NIC is the fallback, which also configures IPv6.
            continue;
        }
        let Some(name) = named.or(boot_nic).or(facts.fallback.as_deref()) else {
            findings.invalid(&at, key, "no NIC is specified; ignored");
            continue;
        };
        let subnets = argument.methods.iter().map(|method| subnet(method, &argument, &servers));
        let mtu = argument.mtu.map(Node::from);
        match devices.iter_mut().find(|(known, ..)| known == name) {
            Some((_, old, _, all)) => {
                all.extend(subnets);
                *old = mtu.or(old.take());
            }
            None => devices.push((name.to_string(), mtu, argument.mac.clone(), subnets.collect())),
        }
    }
    if devices.is_empty() {
        return Err("the kernel command line configures no NIC".into());
    }
    let entry = |(name, mtu, mac, subnets): Device| {
        let mut entry = Map::from([("type", "physical".into()), ("name", name.as_str().into())]);
        entry.insert_some("mac_address", facts.mac_of(&name).or(mac.as_deref()));
        entry.insert_some("mtu", mtu);
        entry.insert("subnets", subnets);
        Node::from(entry)
    };
    Ok(version_1(devices.into_iter().map(entry).collect()))
}

/// Returns the words of a command line; after an unbalanced quote, those between whitespace.
fn words(command_line: &str) -> Vec<String> {
    klibc::shell_words(command_line)
        .unwrap_or_else(|| command_line.split_whitespace().map(Into::into).collect())
}

/// Returns whether a command line configures a network before user space.
pub fn has_network_argument(command_line: &str) -> bool {
    words(command_line).iter().any(|word| word.starts_with("ip=") || word.starts_with("ip6="))
}

/// Parses `01-52-54-00-00-00-01`, as PXE loaders write it: the hardware type precedes the address.
fn parse_bootif(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(['-', ':']).collect();
    let mac = if parts.len() == 7 { &parts[1..] } else { &parts[..] }.join(":");
    is_ethernet_mac(&mac).then(|| mac.to_ascii_lowercase())
}

/// Returns the configuration in one word.
#[derive(Debug, Default, PartialEq)]
struct IpArgument {
    device: Option<String>,
    /// Subnet types of version 1.
    methods: Vec<&'static str>,
    address: Option<String>,
    gateway: Option<String>,
    mask: Option<String>,
    servers: Vec<String>,
    mtu: Option<i64>,
    mac: Option<String>,
}

/// Parses the value of `ip=` or `ip6=`. Returns `None` if it configures nothing.
fn parse_ip_argument(value: &str, is_v6: bool) -> Result<Option<IpArgument>, &'static str> {
    let fields = split_fields(value);
    let filled = |i: usize| fields.get(i).copied().filter(|f| !f.is_empty());
    let mut argument = IpArgument::default();
    if let [only] = fields[..] {
        match parse_method(only, is_v6) {
            Some(methods) => argument.methods = methods,
            // klibc's `ip6=NAME`.
            None if is_v6 && !only.is_empty() => {
                (argument.device, argument.methods) = (Some(only.into()), vec!["dhcp6"]);
            }
            None => {
                let ip: IpAddr = only.parse().map_err(|_| "a method or an address")?;
                (argument.address, argument.methods) = (Some(ip.to_string()), vec!["static"]);
            }
        }
    } else if let Some(found) =
        filled(1).and_then(|word| parse_method(word, is_v6)).filter(|_| fields.len() <= 4)
    {
        // dracut's NAME:METHOD[:MTU[:MAC]].
        (argument.device, argument.methods) = (filled(0).map(Into::into), found);
        parse_mtu_and_mac(&mut argument, &fields[2..])?;
    } else {
        // CLIENT:SERVER:GATEWAY:MASK:HOST:DEVICE:METHOD, then DNS servers or MTU and MAC.
        let text = |i: usize| filled(i).map(String::from);
        (argument.address, argument.gateway, argument.mask, argument.device) =
            (text(0), text(2), text(3), text(5));
        argument.methods = match filled(6) {
            Some(word) => parse_method(word, is_v6).ok_or("a method in the seventh field")?,
            None => vec!["dhcp"],
        };
        if let Some(address) = &argument.address {
            address.parse::<IpAddr>().map_err(|_| "an address in the first field")?;
            argument.methods = vec!["static"];
        }
        let rest = fields.get(7..).unwrap_or_default();
        if rest.first().is_some_and(|f| f.parse::<i64>().is_ok()) {
            parse_mtu_and_mac(&mut argument, rest)?;
        } else {
            let servers = rest.iter().take(2).filter(|f| f.parse::<IpAddr>().is_ok());
            argument.servers = servers.map(|f| f.to_string()).collect();
        }
    }
    let has_method = !argument.methods.is_empty();
    Ok(has_method.then_some(argument))
}

fn parse_mtu_and_mac(argument: &mut IpArgument, fields: &[&str]) -> Result<(), &'static str> {
    if let Some(mtu) = fields.first().filter(|f| !f.is_empty()) {
        argument.mtu = Some(mtu.parse().map_err(|_| "a number as the MTU")?);
    }
    if let Some(rest) = fields.get(1..).filter(|rest| !rest.is_empty()) {
        argument.mac = parse_bootif(&rest.join(":"));
    }
    Ok(())
}

/// Splits a word at colons, except within the brackets of an IPv6 address.
fn split_fields(value: &str) -> Vec<&str> {
    let (mut fields, mut start, mut is_bracketed) = (Vec::new(), 0, false);
    for (i, c) in value.char_indices() {
        match c {
            '[' => is_bracketed = true,
            ']' => is_bracketed = false,
            ':' if !is_bracketed => {
                fields.push(&value[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    fields.push(&value[start..]);
    fields.into_iter().map(|f| f.trim_start_matches('[').trim_end_matches(']')).collect()
}

/// Returns the subnets of a method, none for `off`; `None` if the word is not a method.
fn parse_method(word: &str, is_v6: bool) -> Option<Vec<&'static str>> {
    Some(match word {
        "on" | "any" | "dhcp" if is_v6 => vec!["dhcp6"],
        "on" | "any" | "dhcp" | "bootp" | "rarp" | "both" | "single-dhcp" => vec!["dhcp"],
        "dhcp6" => vec!["dhcp6"],
        "either6" => vec!["ipv6_dhcpv6-stateless"],
        "auto6" => vec!["ipv6_slaac"],
        // With an address in its field `none` means static, which the caller checks.
        "off" | "none" | "ibft" | "link6" | "link-local" => vec![],
        _ => return None,
    })
}

fn subnet(method: &str, argument: &IpArgument, servers: &[&str]) -> Node {
    let mut subnet = Map::from([("type", method.into())]);
    if method == "static" {
        let fixed =
            [("address", &argument.address), ("netmask", &argument.mask), ("gateway", &argument.gateway)];
        for (key, value) in fixed {
            subnet.insert_some(key, value.as_deref());
        }
        let servers = argument.servers.iter().map(String::as_str).chain(servers.iter().copied());
        subnet.insert_unless_empty("dns_nameservers", servers.map(Node::from).collect::<Vec<_>>());
    }
    Node::from(subnet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(line: &str) -> Result<(String, usize), String> {
        let mut facts = Facts::from_pairs([("ens3", "52:54:00:00:00:01")]);
        facts.fallback = Some("ens3".into());
        let mut findings = Findings::default();
        let config = to_v1(&line.into(), &facts, &mut findings)?;
        let text = config.get("config").unwrap().to_json().to_string().replace('"', "");
        Ok((text, findings.iter().count()))
    }

    #[test]
    fn ip_arguments_are_converted() {
        let ens3 = |subnets: &str| {
            format!("[{{mac_address:52:54:00:00:00:01,name:ens3,subnets:[{subnets}],type:physical}}]")
        };
        let dhcp = "{type:dhcp}";
        for (line, expected) in [
            ("quiet ip=ens3:dhcp", ens3(dhcp)),
            ("ip=::::host::dhcp BOOTIF=01-52-54-00-00-00-01", ens3(dhcp)),
            ("ip=:::::BOOTIF: BOOTIF=52:54:00:00:00:01", ens3(dhcp)),
            (
                "ip=ens9:dhcp:1400 ip6=ens9",
                "[{mtu:1400,name:ens9,subnets:[{type:dhcp},{type:dhcp6}],type:physical}]".into(),
            ),
            (
                "ip=10.0.0.5::10.0.0.1:255.255.255.0:host:ens3:none:10.0.0.2:10.0.0.3",
                ens3("{address:10.0.0.5,dns_nameservers:[10.0.0.2,10.0.0.3],gateway:10.0.0.1,netmask:255.255.255.0,type:static}"),
            ),
            (
                "ip=[fd00::5]::[fd00::1]:64::ens3:none:9000 nameserver=fd00::2",
                "[{mac_address:52:54:00:00:00:01,mtu:9000,name:ens3,subnets:[{address:fd00::5,dns_nameservers:[fd00::2],gateway:fd00::1,netmask:64,type:static}],type:physical}]".into(),
            ),
            ("ip=ens3:auto6", ens3("{type:ipv6_slaac}")),
            ("ip=10.0.0.5", ens3("{address:10.0.0.5,type:static}")),
        ] {
            assert_eq!(convert(line), Ok((expected, 0)), "{line}");
        }
        for nothing in
            ["", "ip=off", "ip=none quiet", "ip=what", "ip=x::::::", "ip=:::::ens3:what", "ip=e:dhcp:x"]
        {
            assert!(convert(nothing).is_err(), "{nothing}");
        }
        assert_eq!(convert("ip=what ip=ens3:dhcp"), Ok((ens3(dhcp), 1)));
    }

    #[test]
    fn network_arguments_are_recognised() {
        for (line, has_method) in
            [("a b", false), ("ip=off", true), ("x ip6=e", true), ("'ip=a'", true), ("zip=1 'ip", false)]
        {
            assert_eq!(has_network_argument(line), has_method, "{line}");
        }
        assert_eq!(parse_bootif("01-52-54-00-00-00-0A").as_deref(), Some("52:54:00:00:00:0a"));
        assert_eq!(parse_bootif("01-52-54-00-00"), None);
    }
}
