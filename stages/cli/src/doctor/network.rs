//! The network as the kernel has it, beside the configuration that was applied: links, addresses, default route.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use config::Node;
use netconfig::apply::MANIFEST;
use netconfig::manifest::Manifest;
use netconfig::model::{Link, Method};
use netconfig::{Facts, parse};
use serde_json::json;
use system::{LinkAddress, System};

use super::boot::Boot;
use super::page::Page;
use crate::finding::Layer;
use crate::machine::Machine;

/// Where networkd's files are, in the order of its preference for files of one name.
const NETWORKD: [&str; 3] = ["/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network"];
/// The services that configure links.
const SERVICES: [&str; 4] =
    ["systemd-networkd.service", "NetworkManager.service", "networking.service", "wicked.service"];
// Wait: doctor --network | each name server | -
const TIMEOUT: Duration = Duration::from_secs(3);
/// The remedy for a configuration of other NICs.
pub const NICS_REMEDY: &str =
    "update the network configuration at its source for the NICs of this machine, then reboot";
/// The files of the renderers beside networkd's.
const OTHER_FILES: [&str; 6] = [
    "/etc/netplan/50-cloud-init.yaml",
    "/etc/network/interfaces.d/50-cloud-init",
    "/etc/network/interfaces",
    "/etc/NetworkManager/system-connections/cloud-init-LINK.nmconnection",
    "/etc/sysconfig/network-scripts/ifcfg-LINK",
    "/etc/sysconfig/network/ifcfg-LINK",
];
const UNWRITTEN_REMEDY: &str =
    "cloud-init clean --reboot; on a machine of which an image is made: cloud-init clean --machine-id";
const NAME_SERVICES: &str = "/etc/nsswitch.conf";
const RESOLV: &str = "/etc/resolv.conf";
const REMEDY: &str = "ip address; networkctl, nmcli or journalctl -b show what the network service did";

pub fn section(machine: &Machine, merged: &Node, boot: &Boot, asks_servers: bool, page: &mut Page) {
    page.findings.layer = Layer::Network;
    let sys = &machine.sys;
    let nics = Manifest::read(sys, &machine.layout.data(MANIFEST)).missing_nics;
    if !nics.is_empty() {
        let problem =
            format!("DHCP is used, because no NIC of the network configuration exists: {}", nics.join(", "));
        page.findings.warning("network", problem, NICS_REMEDY);
    }
    if !sys.is_live() {
        return;
    }
    let Some(links) = page.findings.read(sys.links()) else { return };
    let addresses = page.findings.read(sys.link_addresses()).unwrap_or_default();
    let routes = page.findings.read(sys.routes()).unwrap_or_default();
    let of = |index: u32| -> Vec<&LinkAddress> {
        addresses.iter().filter(|address| address.index == index).collect()
    };
    let mut lines = Vec::new();
    for link in &links {
        let state = match (link.up, link.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let all: Vec<String> = of(link.index).iter().map(|address| address.prefix.to_string()).collect();
        lines.push(format!("{}: {state} {}", link.name, all.join(" ")));
    }
    let gateways = routes.iter().filter(|route| route.to.length == 0).filter_map(|route| route.via);
    let gateways: BTreeSet<String> = sort::collect(gateways.map(|via| via.to_string()));
    lines.push(match gateways.is_empty() {
        true => "no default route".to_string(),
        false => format!("default route via {}", gateways.iter().cloned().collect::<Vec<_>>().join(", ")),
    });
    if sys.is_live() && sys.is_link(RESOLV) && !sys.exists(RESOLV) && !gateways.is_empty() {
        let target = sys.read_link(RESOLV).unwrap_or_default();
        let problem = format!("a link to {target}, which does not exist: names cannot be resolved");
        let remedy =
            "enable the service that writes it (systemd-resolved, resolvconf), or replace the link by a file";
        page.findings.warning(RESOLV, problem, remedy);
    }
    let services = sys.read_text(NAME_SERVICES).unwrap_or_default();
    let hosts = services.lines().find_map(|line| line.strip_prefix("hosts:"));
    for (database, number) in
        ["passwd", "shadow"].iter().filter_map(|name| Some((name, without_files(&services, name)?)))
    {
        page.findings.layer = Layer::Machine;
        let problem =
            format!("{database}: does not name files, so the accounts of /etc/{database} are not known");
        page.findings.error(
            format!("{NAME_SERVICES}, line {number}"),
            problem,
            "add files to the line, as its first word",
        );
        page.findings.layer = Layer::Network;
    }
    // Others ask a server in their own way, such as sss and mdns.
    let only_files = |hosts: &str| {
        let words = hosts.split('#').next().unwrap_or_default().split_whitespace();
        words.clone().count() > 0 && words.into_iter().all(|word| ["files", "myhostname"].contains(&word))
    };
    if !gateways.is_empty() && hosts.is_some_and(only_files) {
        let problem = "hosts: names neither dns nor resolve, so names are not asked of a server";
        page.findings.warning(NAME_SERVICES, problem, "add dns to the line hosts:");
    }
    let servers = sys.read_text(RESOLV).unwrap_or_default();
    let servers: Vec<&str> = servers
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver")?.strip_prefix([' ', '\t']).map(str::trim))
        .collect();
    let asks_resolved = hosts.is_some_and(|hosts| hosts.contains("resolve"));
    if sys.exists(RESOLV) && servers.is_empty() && !gateways.is_empty() && !asks_resolved && boot.has_failed {
        let remedy = "add name servers to the network configuration; a line is: nameserver ADDRESS";
        page.findings.warning(RESOLV, "it names no server, so names are asked of 127.0.0.1", remedy);
    }
    lines.push(format!(
        "name servers: {}",
        if servers.is_empty() { "none".into() } else { servers.join(", ") }
    ));
    for server in servers.iter().filter(|_| asks_servers) {
        let answer = answers(sys, server.trim());
        lines.push(format!(
            "name server {server}: {}",
            answer.as_ref().map_or_else(String::clone, |()| "answers".into())
        ));
        if let Err(e) = answer {
            let remedy = "compare it with the nameservers of the network configuration; ip route get ADDRESS";
            page.findings.error(RESOLV, format!("the name server {server} does not answer: {e}"), remedy);
        }
    }
    page.section("network", "Network", lines.clone(), json!(lines));
    let setting =
        merged.at_path(&["network", "config"]).filter(|setting| setting.as_str() == Some("disabled"));
    let is_nic =
        |address: &LinkAddress| links.iter().any(|link| link.index == address.index && link.name != "lo");
    let has_address = addresses.iter().any(is_nic);
    if boot.is_running {
        // Before the finding about a unit that waits for it.
        page.findings.layer = Layer::Units;
        let link = links.iter().find(|link| link.name != "lo").filter(|_| setting.is_none() && !has_address);
        if let Some((link, cause)) = link.and_then(|link| Some((link, unwritten(machine, &link.name)?))) {
            page.findings.error(&link.name, cause, UNWRITTEN_REMEDY);
        }
        return;
    }
    // The kernel command line overrides the files.
    let is_word = |word: &str| word == "network-config=disabled";
    let at = match sys.kernel_command_line().split_whitespace().any(is_word) {
        true => Some("network-config=disabled on the kernel command line".to_string()),
        false => setting.map(|setting| format!("network: {{config: disabled}} is set ({})", setting.at)),
    };
    if let Some(at) = at.filter(|_| links.len() > 1 && !has_address) {
        let problem = format!("no link has an address, and cloud-init configures none: {at}");
        let remedy = "remove the setting and reboot, or configure the network service";
        page.findings.warning("network", problem, remedy);
    }
    let path = machine.layout.network_config();
    let Some(text) = sys.read_text_if_exists(&path).ok().flatten() else {
        let link = links.iter().find(|link| link.name != "lo");
        if setting.is_none()
            && !has_address
            && let Some(link) = link
            && let Some(cause) = unwritten(machine, &link.name)
        {
            page.findings.error(&link.name, cause, UNWRITTEN_REMEDY);
        }
        return;
    };
    let facts = Facts::from_pairs(links.iter().map(|link| (link.name.as_str(), link.mac.as_str())));
    let Ok(config) = config::json::parse(&text) else { return };
    let Ok(parsed) = parse::parse(&config, &facts) else { return };
    // A container may have no NIC, or one with an address of its manager.
    let has_nic = links.iter().any(|link| link.name != "lo");
    let is_reached = addresses.iter().any(|address| address.global && is_nic(address));
    let known = page.findings.all.len();
    for wanted in &parsed.model.links {
        if let Some(part) = missing_part(&parsed.model.links, wanted, &links, &config).filter(|_| has_nic) {
            let problem = format!("{} is made of {part}, which does not exist", wanted.name);
            let remedy = format!("{NICS_REMEDY}; the links are: {}", names(&links));
            page.findings.error("network", problem, remedy);
            continue;
        }
        if wanted.subnets.is_empty() && !wanted.is_bond() {
            continue;
        }
        let by_mac = |link: &&system::Link| wanted.mac.as_ref().is_some_and(|mac| *mac == link.mac);
        let found = links.iter().find(|link| link.name == wanted.name).or_else(|| links.iter().find(by_mac));
        let Some(link) = found else {
            // Of a match that several NICs may fulfil nothing is known.
            if wanted.drivers.is_empty()
                && !wanted.name.contains(['*', '?', '['])
                && !is_pattern(&config, wanted)
            {
                let problem = format!("{} is configured and does not exist", wanted.name);
                page.findings.error("network", problem, format!("the links are: {}", names(&links)));
            }
            continue;
        };
        let own = of(link.index);
        let missing: Vec<&str> = wanted
            .subnets
            .iter()
            .filter_map(|subnet| subnet.address.as_deref())
            .filter(|address| !own.iter().any(|own| address.parse() == Ok(own.prefix.address)))
            .collect();
        let wants_dhcp =
            wanted.subnets.iter().any(|subnet| matches!(subnet.method, Method::Dhcp | Method::Dhcp4));
        let has_global = own.iter().any(|address| address.global && !address.ipv6);
        let gateways = wanted.subnets.iter().flat_map(|subnet| {
            let routes = subnet.routes.iter().filter(|route| route.is_default() && route.table.is_none());
            routes.filter_map(|route| route.gateway.as_deref()).chain(subnet.gateway.as_deref())
        });
        let has_route =
            |via: &str| routes.iter().any(|route| route.to.length == 0 && route.via == via.parse().ok());
        let lacks_route: Vec<&str> = gateways.filter(|via| !has_route(via)).collect();
        let problem = match (link.up, link.carrier) {
            (false, _) => "the link is down".to_string(),
            (true, false) if !missing.is_empty() || wants_dhcp => "the link has no carrier".to_string(),
            (true, _) if !missing.is_empty() => {
                format!("the link does not have the configured {}", missing.join(", "))
            }
            (true, true) if !lacks_route.is_empty() => {
                format!("the link lacks the configured default route via {}", lacks_route.join(", "))
            }
            (true, _) if wants_dhcp && !has_global => "the link has no address from DHCP".to_string(),
            _ => continue,
        };
        if let Some(mac) = wanted.mac.as_ref().filter(|_| !links.iter().any(|link| by_mac(&link))) {
            let problem =
                format!("no link has the configured MAC address {mac}; {} has {}", link.name, link.mac);
            page.findings.error(&link.name, problem, NICS_REMEDY);
            continue;
        }
        if let Some((name, problem)) = no_service(machine) {
            let remedy = format!("systemctl unmask {name}; systemctl enable --now {name}");
            page.findings.error("network", problem, remedy);
        }
        let mut others = overriding(sys, link.index, &link.name);
        let is_near = |via: IpAddr| own.iter().any(|own| own.prefix.contains(via));
        let far = lacks_route
            .iter()
            .find(|via| via.parse().is_ok_and(|via: IpAddr| !via.is_ipv6() && !is_near(via)));
        if let Some(via) = far.filter(|_| !own.is_empty() && missing.is_empty()) {
            others.insert(
                0,
                format!(
                    "{via} is in no network of {}'s addresses: correct it, or set on-link: true",
                    link.name
                ),
            );
        }
        if let Some(cause) = unwritten(machine, &link.name).filter(|_| others.is_empty()) {
            page.findings.error(&link.name, cause, UNWRITTEN_REMEDY).details = vec![problem];
        } else {
            page.findings.error(&link.name, problem, REMEDY).details = others;
        }
    }
    // A MAC address has a finding of its own.
    let is_unknown = has_nic && !is_reached && nics.is_empty() && page.findings.all.len() == known;
    if let Some(id) = unmatched(sys, &config, &links).filter(|_| is_unknown) {
        let problem = format!("no link fits the match of any ethernet of the configuration, such as {id}");
        let remedy = format!("{NICS_REMEDY}; the links are: {}", names(&links));
        page.findings.error("network", problem, remedy);
    }
}

/// Returns a network service and a problem if such services are installed and none runs.
fn no_service(machine: &Machine) -> Option<(String, String)> {
    let units = crate::units::show(machine, &SERVICES).unwrap_or_default();
    let known: Vec<_> = units.iter().filter(|unit| unit.get("LoadState") != "not-found").collect();
    let states: Vec<String> = known
        .iter()
        .map(|unit| match unit.get("LoadState") {
            "loaded" => {
                format!("{} is {}, {}", unit.get("Id"), unit.get("UnitFileState"), unit.get("ActiveState"))
            }
            state => format!("{} is {state}", unit.get("Id")),
        })
        .collect();
    let runs = units.iter().any(|unit| unit.get("ActiveState") == "active" || unit.is_pending());
    let name = known.first().filter(|_| !runs)?.get("Id").to_string();
    Some((name, format!("no network service runs: {}", states.join("; "))))
}

/// Asks a name server for the servers of the root zone. Any answer is one (RFC 1035).
fn answers(sys: &System, server: &str) -> Result<(), String> {
    // The header with one question and the flag "recursion desired", the root's name, type NS, class IN.
    const QUESTION: [u8; 17] = [0x46, 0x4c, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    let address: IpAddr = server.parse().map_err(|_| "expected an IP address".to_string())?;
    sys.ask_udp((address, 53).into(), &QUESTION, TIMEOUT).map_err(|e| e.to_string())
}

/// Returns the number of the line of nsswitch.conf(5) by which the accounts of this machine are not looked up.
fn without_files(services: &str, database: &str) -> Option<usize> {
    let is_local = |word: &str| ["files", "compat", "db", "altfiles"].contains(&word);
    let accounts = (1..)
        .zip(services.lines())
        .filter_map(|(at, line)| Some((at, line.trim().strip_prefix(database)?.strip_prefix(':')?)));
    let (number, words) = accounts.last()?;
    let mut words = words.split('#').next().unwrap_or_default().split_whitespace().peekable();
    (words.peek().is_some() && !words.any(is_local)).then_some(number)
}

/// Returns the first part of a bond, bridge or VLAN, as the configuration names it, that is neither a NIC nor configured: of one that has
/// other parts, none that is optional.
fn missing_part<'a>(
    all: &'a [Link],
    wanted: &'a Link,
    links: &[system::Link],
    config: &Node,
) -> Option<&'a str> {
    let members =
        all.iter().filter(|link| link.bond.as_ref() == Some(&wanted.id)).map(|link| link.id.as_str());
    let ports = wanted.ports.iter().chain(&wanted.vlan_link).map(String::as_str);
    let parts = members.chain(ports).filter(|_| wanted.is_made());
    let configured = |part: &str| all.iter().find(|link| link.id == part || link.name == part);
    let is_missing = |part: &&str| {
        let own = configured(part);
        // NICs of a match, and those that a MAC address identifies, may have another name.
        let is_known =
            own.is_some_and(|link| link.is_made() || link.mac.is_some() || is_pattern(config, link));
        let name = own.map_or(*part, |link| &link.name);
        !is_known && !links.iter().any(|link| link.name == name)
    };
    let (missing, others): (Vec<&str>, Vec<&str>) = parts.partition(is_missing);
    let is_optional = |part: &str| configured(part).is_some_and(|link| link.optional == Some(true));
    missing.into_iter().find(|part| others.is_empty() || !is_optional(part))
}

/// Returns the ID of the first ethernet of the configuration if each has a match, and no link fits one of them.
fn unmatched(sys: &System, config: &Node, links: &[system::Link]) -> Option<String> {
    let ethernets = parse::network_section(config).get("ethernets")?.as_map()?;
    let fits = |patterns: Option<&Node>, value: &str| {
        let is_one = |pattern: &Node| {
            let pattern = pattern.scalar_text().unwrap_or_default().to_ascii_lowercase();
            netconfig::glob_match(&pattern, value)
        };
        patterns.is_none_or(|all| match all.as_seq() {
            Some(all) => all.iter().any(is_one),
            None => is_one(all),
        })
    };
    let mut first = None;
    for (id, ethernet) in ethernets.iter() {
        let matching = ethernet.get("match")?;
        for link in links.iter().filter(|link| link.name != "lo") {
            let driver = sys.read_link(format!("/sys/class/net/{}/device/driver", link.name));
            let driver = driver.unwrap_or_default();
            let driver = driver.rsplit('/').next().unwrap_or_default();
            let facts = [("name", &*link.name), ("macaddress", &link.mac), ("driver", driver)];
            if facts.iter().all(|(key, value)| fits(matching.get(key), &value.to_ascii_lowercase())) {
                return None;
            }
        }
        first = first.or(id.scalar_text());
    }
    first
}

/// Returns whether the configuration's name of a link is only an ID, which a match replaces.
fn is_pattern(config: &Node, wanted: &Link) -> bool {
    parse::network_section(config).at_path(&["ethernets", &wanted.id, "match"]).is_some()
}

fn names(links: &[system::Link]) -> String {
    links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns a problem if no renderer's file for this link exists, and the last boot did not write them, as it was not the instance's
/// first: an image was captured without `clean`, or they were removed.
fn unwritten(machine: &Machine, link: &str) -> Option<String> {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let id = |path: String| sys.read_text(path).ok().map(|text| text.trim().to_string());
    let own =
        id(layout.instance_id()).filter(|own| id(layout.previous_instance_id()).as_ref() == Some(own))?;
    let of_networkd = NETWORKD.map(|top| format!("{top}/10-cloud-init-{link}.network"));
    let of_others = OTHER_FILES.iter().map(|file| file.replace("LINK", link));
    let exists = of_networkd.into_iter().chain(of_others).any(|path| sys.exists(path.as_str()));
    (!exists).then(|| {
        format!(
            "no network configuration: cloud-init's files do not exist, and this boot did not write them, because the instance ID has not changed ({})",
            config::shown_name(&own)
        )
    })
}

/// Returns files that are not cloud-init's and that networkd reads for this link instead of ours, or that are beside ours for
/// other services.
fn overriding(sys: &System, index: u32, link: &str) -> Vec<String> {
    let own = format!("10-cloud-init-{link}.network");
    let mut found = Vec::new();
    for path in NETWORKD.map(|top| format!("{top}/{own}")) {
        if sys.read_link(&path).is_ok_and(|target| target == "/dev/null") {
            found.push(format!("{path} is a link to /dev/null: networkd ignores the files of this name"));
        }
    }
    let state = sys.read_text(format!("/run/systemd/netif/links/{index}")).unwrap_or_default();
    let files = |key: &str| {
        let value = system::assigned(&state, key).unwrap_or_default().trim_matches('"');
        value.split(':').filter(|path| !path.is_empty()).map(str::to_string).collect::<Vec<_>>()
    };
    let used = files("NETWORK_FILE");
    let is_ours = |path: &String| ["/10-cloud-init-", "/10-netplan-"].iter().any(|name| path.contains(name));
    let others = if used.is_empty() { matching(sys, link) } else { used };
    let others = others.into_iter().filter(|path| !is_ours(path));
    found.extend(others.map(|path| format!("{path} is read for {link} instead of {own}")));
    let parts = files("NETWORK_FILE_DROPINS").into_iter();
    found.extend(parts.map(|path| format!("{path} changes the configuration of {link}")));
    for (top, own) in [("/etc/netplan", "50-cloud-init.yaml"), ("/etc/network/interfaces.d", "50-cloud-init")]
    {
        let others = sys.list(top).unwrap_or_default().into_iter().filter(|name| name != own);
        found.extend(others.map(|name| format!("{top}/{name} is not cloud-init's")));
    }
    found
}

/// Returns the files of networkd that come before cloud-init's and name this link.
fn matching(sys: &System, link: &str) -> Vec<String> {
    let mut found = Vec::new();
    for top in NETWORKD {
        let names = sys.list(top).unwrap_or_default().into_iter();
        for name in names.filter(|name| name.as_str() < "10-cloud-init" && name.ends_with(".network")) {
            let path = format!("{top}/{name}");
            let text = sys.read_text(&path).unwrap_or_default();
            let mut patterns = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("Name="))
                .flat_map(str::split_whitespace);
            if patterns.any(|pattern| netconfig::glob_match(pattern, link)) {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, mac: &str) -> system::Link {
        system::Link { name: name.into(), mac: mac.into(), ..system::Link::default() }
    }

    #[test]
    fn configurations_that_no_link_fits_are_found() {
        let root = scratch::TempDir::new();
        let links = [link("lo", "00:00:00:00:00:00"), link("eth0", "52:54:00:00:00:01")];
        for (ethernets, expected) in [
            ("{lan: {match: {driver: virtio_net}}}", Some("lan")),
            ("{lan: {match: {name: en*}}, wan: {match: {macaddress: '52:54:00:00:00:02'}}}", Some("lan")),
            ("{lan: {match: {name: en*}}, wan: {match: {macaddress: '52:54:00:00:00:01'}}}", None),
            ("{lan: {match: {name: [en*, E*]}}}", None),
            // The option hides it, but there is no other way to the machine.
            ("{lan: {match: {name: en*}, optional: true}}", Some("lan")),
            ("{lan: {match: {name: en*}}, eth1: {}}", None),
        ] {
            let text = format!("network: {{version: 2, ethernets: {ethernets}}}");
            let config = config::yaml::parse("t", &text).unwrap().root;
            assert_eq!(unmatched(&System::new(&root), &config, &links).as_deref(), expected, "{ethernets}");
        }
    }

    #[test]
    fn accounts_that_are_not_looked_up_are_found() {
        for (services, expected) in [
            ("hosts: dns\npasswd: sss systemd\n", Some(2)),
            ("passwd: # files\n", None),
            ("passwd:\tcompat\n", None),
            ("passwd: sss [NOTFOUND=return] files\n", None),
            ("#passwd: sss\nshadow: sss\n", None),
        ] {
            assert_eq!(without_files(services, "passwd"), expected, "{services}");
        }
    }

    #[test]
    fn missing_parts_are_found() {
        let links = [link("lo", ""), link("eth0", "52:54:00:00:00:01"), link("dummy7", "")];
        for (text, expected) in [
            ("{ethernets: {ens3: {optional: true}}, bridges: {br0: {interfaces: [ens3]}}}", Some("ens3")),
            (
                "{ethernets: {eth0: {}, ens4: {optional: true}}, bridges: {br0: {interfaces: [eth0, ens4]}}}",
                None,
            ),
            ("{ethernets: {eth0: {}, ens4: {}}, bonds: {bond0: {interfaces: [eth0, ens4]}}}", Some("ens4")),
            (
                "{ethernets: {eth0: {}}, vlans: {v7: {id: 7, link: eth0}}, bridges: {br0: {interfaces: [v7]}}}",
                None,
            ),
            ("{ethernets: {e: {match: {name: 'en*'}}}, vlans: {v7: {id: 7, link: e}}}", None),
            ("{vlans: {v7: {id: 7, link: dummy7}}, bridges: {br1: {interfaces: []}}}", None),
        ] {
            let text = format!("{{version: 2, {}", &text[1..]);
            let config = config::yaml::parse("t", &text).unwrap().root;
            let facts = Facts::from_pairs(links.iter().map(|link| (link.name.as_str(), link.mac.as_str())));
            let all = parse::parse(&config, &facts).unwrap().model.links;
            let found = all.iter().find_map(|wanted| missing_part(&all, wanted, &links, &config));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn files_that_networkd_reads_instead_are_named() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        let own = "/etc/systemd/network/10-cloud-init-eth0.network";
        root.put("etc/systemd/network/05-own.network", "[Match]\nName=eth*\n");
        assert_eq!(
            overriding(&sys, 2, "eth0"),
            ["/etc/systemd/network/05-own.network is read for eth0 instead of 10-cloud-init-eth0.network"]
        );
        for (state, expected) in [
            (format!("NETWORK_FILE={own}\nNETWORK_FILE_DROPINS=\"\"\n"), vec![]),
            // By another key of [Match], such as Type=ether.
            (
                "NETWORK_FILE=/etc/systemd/network/06-other.network\n".to_string(),
                vec![
                    "/etc/systemd/network/06-other.network is read for eth0 instead of 10-cloud-init-eth0.network",
                ],
            ),
            (
                format!("NETWORK_FILE={own}\nNETWORK_FILE_DROPINS=\"{own}.d/a.conf:{own}.d/b.conf\"\n"),
                vec![
                    "/etc/systemd/network/10-cloud-init-eth0.network.d/a.conf changes the configuration of eth0",
                    "/etc/systemd/network/10-cloud-init-eth0.network.d/b.conf changes the configuration of eth0",
                ],
            ),
            ("NETWORK_FILE=/run/systemd/network/10-netplan-eth0.network\n".to_string(), vec![]),
        ] {
            root.put("run/systemd/netif/links/2", &state);
            assert_eq!(overriding(&sys, 2, "eth0"), expected, "{state}");
        }
        sys.link("/dev/null", own).unwrap();
        assert_eq!(
            overriding(&sys, 2, "eth0"),
            [format!("{own} is a link to /dev/null: networkd ignores the files of this name")]
        );
    }
}
