//! Checks across the entries of a configuration: undescribed members, duplicate names, and devices that depend on
//! themselves. Each is reported with its position. A cycle is broken; everything else is left unchanged.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use config::shown_name;

use crate::model::{Link, LinkKind, Model, Subnet};

use super::builder::{Builder, Place};
use super::characters::{MAX_NAME, NAME_LENGTH, is_shell_special, is_unsafe_in_files};

pub fn check(build: &mut Builder) {
    add_parents(build);
    check_names(build);
    check_members(build);
    break_cycles(build);
    bring_up_lower(build);
}

fn place(build: &Builder, id: &str) -> Place {
    build.places.get(id).cloned().unwrap_or_default()
}

/// Returns whether no device can get the name of a link. In version 2 a NIC with a pattern or a MAC address has an ID of any length.
fn has_long_name(link: &Link, version: u8) -> bool {
    let is_named = version == 1 || link.match_names.is_empty() && link.mac.is_none();
    link.name.len() > MAX_NAME && (link.is_made() || link.kind == LinkKind::Physical && is_named)
}

/// Reports names that the kernel does not accept or that would be more than a name in a path, a udev rule or a command;
/// and names of more than one device.
fn check_names(build: &mut Builder) {
    let is_invalid = |name: &str| {
        name.contains('/') || name.chars().any(|c| c.is_whitespace() || c.is_control() || is_shell_special(c))
    };
    let is_invalid_id = |id: &str| id.contains('/') || id.chars().any(is_unsafe_in_files);
    let links = build.parsed.model.links.iter();
    let mut invalid: Vec<String> =
        links.filter(|l| is_invalid(&l.name) || is_invalid_id(&l.id)).map(|l| l.id.clone()).collect();
    for id in &invalid {
        let Place { at, key } = place(build, id);
        let problem = "invalid name (a slash, whitespace, a control character or a shell metacharacter)";
        build.discard_at(&at, &key, problem, "ignoring the device");
        build.lose();
    }
    let Model { version, links, .. } = &build.parsed.model;
    let too_long = links.iter().filter(|link| has_long_name(link, *version));
    let too_long: Vec<(String, bool)> = too_long.map(|link| (link.id.clone(), link.is_made())).collect();
    for (id, is_made) in too_long {
        let Place { at, key } = place(build, &id);
        if is_made {
            build.discard_at(&at, &key, NAME_LENGTH, "ignoring the device");
            build.lose();
            invalid.push(id);
        } else {
            // It may be an alternative name.
            build.report_invalid(&at, &key, NAME_LENGTH.into());
        }
    }
    if !invalid.is_empty() {
        let invalid: HashSet<String> = invalid.into_iter().collect();
        build.remove(&|id| invalid.contains(id));
    }
    let links = &build.parsed.model.links;
    let mut seen: HashMap<&str, &str> = HashMap::with_capacity(links.len());
    let mut twice = Vec::new();
    for link in links {
        if let Some(other) = seen.insert(&link.name, &link.id) {
            twice.push((link.id.clone(), format!("has the same name as {}", shown_name(other))));
        }
    }
    for (id, message) in twice {
        let Place { at, key } = place(build, &id);
        build.report_invalid(&at, &key, message);
    }
}

/// Adds the parents of VLANs that the configuration does not describe: networkd and netplan attach a VLAN at its parent.
fn add_parents(build: &mut Builder) {
    let links = &build.parsed.model.links;
    let is_new = |id: &&String| build.link(id).is_none() && !build.elsewhere.contains(*id);
    let mut parents: Vec<String> =
        links.iter().filter_map(|link| link.vlan_link.as_ref()).filter(is_new).cloned().collect();
    if !parents.is_empty() {
        let names: HashSet<&String> = links.iter().map(|link| &link.name).collect();
        parents.retain(|parent| !names.contains(parent));
    }
    for id in parents {
        build.placeholder(&id, LinkKind::Unknown);
    }
}

/// Reports members of bonds, bridges and vlans that the configuration does not describe.
fn check_members(build: &mut Builder) {
    let mut container: HashMap<&str, &str> = HashMap::new();
    let mut problems = Vec::new();
    let links = &build.parsed.model.links;
    let is_described = |id: &String| build.places.contains_key(id) || build.elsewhere.contains(id);
    let undescribed = |member: &Link, whole: &str| {
        let problems = || (whole.to_string(), format!("undefined member {}", shown_name(&member.id)));
        (!is_described(&member.id)).then(problems)
    };
    let undefined = links.iter().map(|link| &link.id).filter(|id| !is_described(id)).cloned().collect();
    for link in links {
        if let Some(bond) = &link.bond {
            problems.extend(undescribed(link, bond));
        }
    }
    for link in links.iter().filter(|l| l.kind == LinkKind::Bridge) {
        for port in &link.ports {
            if let Some(member) = build.link(port) {
                problems.extend(undescribed(member, &link.id));
            }
            let other = container.insert(port, &link.id);
            let bond = build.link(port).and_then(|m| m.bond.as_deref());
            if let Some(other) = other.or(bond).filter(|other| *other != link.id) {
                problems.push((
                    link.id.clone(),
                    format!("port {} is already a port of {}", shown_name(port), shown_name(other)),
                ));
            }
        }
    }
    let described = || links.iter().filter(|l| is_described(&l.id));
    let names = LazyCell::new(|| described().map(|l| &l.name).collect::<HashSet<&String>>());
    for link in links {
        if let Some(lower) = &link.vlan_link
            && !is_described(lower)
            && !names.contains(lower)
        {
            problems.push((link.id.clone(), format!("undefined parent device {}", shown_name(lower))));
        }
    }
    build.parsed.undefined = undefined;
    for (id, message) in problems {
        let Place { at, key } = place(build, &id);
        build.report_invalid(&at, &key, message);
    }
}

/// Has members of bonds, and devices that are made for a bridge or a VLAN, brought up with what is above them, which has no
/// network without them: interfaces(5) often leaves them to ifenslave or ifupdown2.
fn bring_up_lower(build: &mut Builder) {
    let links = &mut build.parsed.model.links;
    let is_manual = |subnet: &Subnet| subnet.control.as_deref() == Some("manual");
    if !links.iter().any(|link| link.subnets.iter().any(is_manual)) {
        return;
    }
    let lower = links.iter().flat_map(|link| link.ports.iter().chain(&link.vlan_link));
    let lower: HashSet<String> = lower.cloned().collect();
    for link in links {
        if link.bond.is_some() || link.is_made() && (lower.contains(&link.id) || lower.contains(&link.name)) {
            link.subnets.iter_mut().for_each(|subnet| drop(subnet.control.take_if(|c| c == "manual")));
        }
    }
}

/// Reports devices that depend on themselves, directly or not, and removes the dependency that closes the cycle.
fn break_cycles(build: &mut Builder) {
    let links = &build.parsed.model.links;
    let mut index: HashMap<&str, usize> = HashMap::with_capacity(2 * links.len());
    index.extend(links.iter().zip(0..).flat_map(|(l, i)| [(l.name.as_str(), i), (l.id.as_str(), i)]));
    // The devices below each device.
    let mut lower: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
    for (i, link) in links.iter().enumerate() {
        if let Some(bond) = link.bond.as_deref().and_then(|b| index.get(b)) {
            lower[*bond].push(i);
        }
        let others = link.ports.iter().chain(&link.vlan_link);
        lower[i].extend(others.filter_map(|name| index.get(name.as_str())));
    }
    let mut closing = Vec::new();
    // 0: not visited; 1: in progress; 2: done.
    let mut state = vec![0_u8; links.len()];
    for start in 0..links.len() {
        let mut stack = vec![(start, 0)];
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        while let Some((i, next)) = stack.last_mut() {
            let Some(step) = lower[*i].get(*next).copied() else {
                state[*i] = 2;
                stack.pop();
                continue;
            };
            *next += 1;
            match state[step] {
                0 => {
                    state[step] = 1;
                    stack.push((step, 0));
                }
                1 => closing.push((*i, step)),
                _ => {}
            }
        }
    }
    for (whole, part) in closing {
        let (id, member) =
            (build.parsed.model.links[whole].id.clone(), build.parsed.model.links[part].clone());
        let Place { at, key } = place(build, &id);
        let message = format!("dependency cycle through {}", shown_name(&member.id));
        build.discard_at(&at, &key, &message, "ignoring that dependency");
        let link = &mut build.parsed.model.links[whole];
        link.ports.retain(|port| *port != member.id && *port != member.name);
        if link.vlan_link.as_deref().is_some_and(|l| l == member.id || l == member.name) {
            link.vlan_link = None;
        }
        let member = &mut build.parsed.model.links[part];
        if member.bond.as_ref() == Some(&id) {
            member.bond = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Facts, parse};

    /// The kernel's limit. A NIC may have a longer alternative name, and an ID that is not a name any length.
    #[test]
    fn names_have_at_most_15_bytes() {
        let facts = Facts::from_pairs([("eth0", "52:54:00:00:00:01")]);
        let long = "enp129s0f1np1.12";
        for (text, finding, names) in [
            (format!("2, vlans: {{{long}: {{id: 12, link: eth0}}}}"), "ignoring the device", "eth0"),
            (format!("2, bonds: {{{long}: {{interfaces: []}}}}"), "ignoring the device", "eth0"),
            ("2, bridges: {enp129s0f1np1.1: {interfaces: []}}".into(), "", "eth0 enp129s0f1np1.1"),
            (
                format!("2, bonds: {{b: {{interfaces: [{long}]}}}}"),
                "undefined member",
                "eth0 b enp129s0f1np1.12",
            ),
        ] {
            let text = format!("{{version: {text}, ethernets: {{eth0: {{dhcp4: true}}}}}}");
            let parsed = parse(&config::yaml::parse("t", &text).unwrap().root, &facts).unwrap();
            let findings: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
            assert_eq!(findings.len(), usize::from(!finding.is_empty()), "{findings:?}");
            assert!(findings.iter().all(|found| found.contains(finding)), "{findings:?}");
            let found: Vec<&str> = parsed.model.links.iter().map(|link| link.name.as_str()).collect();
            assert_eq!(found.join(" "), names, "{text}");
        }
        for (text, finding, name) in [
            (format!("{long}: {{dhcp4: true}}"), "at most 15 bytes", long),
            (format!("{long}: {{dhcp4: true, match: {{macaddress: '52:54:00:00:00:01'}}}}"), "", "eth0"),
            (format!("{long}: {{dhcp4: true, match: {{macaddress: '52:54:00:00:00:02'}}}}"), "", long),
            (
                format!("e: {{dhcp4: true, match: {{macaddress: '52:54:00:00:00:01'}}, set-name: {long}}}"),
                "e.set-name: expected a name of at most 15 bytes; ignored",
                "eth0",
            ),
        ] {
            let text = format!("{{version: 2, ethernets: {{{text}}}}}");
            let config = config::yaml::parse("t", &text).unwrap().root;
            let parsed = parse(&config, &facts).unwrap();
            let findings: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
            assert_eq!(findings.len(), usize::from(!finding.is_empty()), "{findings:?}");
            assert!(findings.iter().all(|found| found.contains(finding)), "{findings:?}");
            assert_eq!(parsed.model.links[0].name, name, "{text}");
            assert!(crate::rename::desired_links(&config).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_below_a_device_is_brought_up() {
        let nic = |name: &str, control: &str| {
            format!("- {{type: physical, name: {name}, subnets: [{{type: manual, control: {control}}}]}}\n")
        };
        let nics = ["manual", "hotplug"].map(|control| nic(&format!("e-{control}"), control)).concat();
        let text = format!(
            "version: 1\nconfig:\n{nics}{}\
             - {{type: bond, name: b, bond_interfaces: [e-manual, e-hotplug], params: {{}}, subnets: [{{type: manual, control: manual}}]}}\n\
             - {{type: bond, name: alone, bond_interfaces: [], params: {{}}, subnets: [{{type: manual, control: manual}}]}}\n\
             - {{type: vlan, name: v, vlan_link: b, vlan_id: 5, subnets: [{{type: manual, control: manual}}]}}\n\
             - {{type: bridge, name: r, bridge_interfaces: [v, port], subnets: [{{type: dhcp}}]}}\n",
            nic("port", "manual")
        );
        let parsed = parse(&config::yaml::parse("t", &text).unwrap().root, &Facts::default()).unwrap();
        for (name, control) in [
            ("e-manual", None),
            ("e-hotplug", Some("hotplug")),
            ("b", None),
            ("v", None),
            // A bridge sets its ports up itself.
            ("port", Some("manual")),
            ("alone", Some("manual")),
        ] {
            let link = parsed.model.links.iter().find(|link| link.name == name).unwrap();
            assert_eq!(link.subnets[0].control.as_deref(), control, "{name}");
        }
    }
}
