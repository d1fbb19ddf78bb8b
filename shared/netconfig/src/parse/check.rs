//! Checks across the entries of a configuration: undescribed members, duplicate names, and devices that depend on
//! themselves. Each is reported with its position. A cycle is broken; everything else is left unchanged.

use std::collections::{HashMap, HashSet};

use config::shown_name;

use crate::model::{Link, LinkKind};

use super::builder::{Builder, Place};
use super::characters::{is_shell_special, is_unsafe_in_files};

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

/// Reports names that the kernel does not accept or that would be more than a name in a path, a udev rule or a command;
/// and names of more than one device.
fn check_names(build: &mut Builder) {
    let is_invalid = |name: &str| {
        name.contains('/') || name.chars().any(|c| c.is_whitespace() || c.is_control() || is_shell_special(c))
    };
    let is_invalid_id = |id: &str| id.contains('/') || id.chars().any(is_unsafe_in_files);
    let links = build.parsed.model.links.iter();
    let invalid: Vec<String> =
        links.filter(|l| is_invalid(&l.name) || is_invalid_id(&l.id)).map(|l| l.id.clone()).collect();
    for id in &invalid {
        let Place { at, key } = place(build, id);
        let problem = "invalid name (a slash, whitespace, a control character or a shell metacharacter)";
        build.discard_at(&at, &key, problem, "ignoring the device");
        build.lose();
    }
    let invalid: HashSet<String> = invalid.into_iter().collect();
    build.remove(&|id| invalid.contains(id));
    let mut seen: HashMap<&str, &str> = HashMap::new();
    let mut twice = Vec::new();
    for link in &build.parsed.model.links {
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
    let known: HashSet<&str> = links.iter().flat_map(|l| [l.id.as_str(), l.name.as_str()]).collect();
    let is_new = |id: &&String| !known.contains(id.as_str()) && !build.elsewhere.contains(*id);
    let parents = links.iter().filter_map(|link| link.vlan_link.as_ref()).filter(is_new);
    for id in parents.cloned().collect::<Vec<String>>() {
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
    let by_id: HashMap<&str, &Link> = links.iter().map(|l| (l.id.as_str(), l)).collect();
    for link in links.iter().filter(|l| l.kind == LinkKind::Bridge) {
        for port in &link.ports {
            if let Some(member) = by_id.get(port.as_str()) {
                problems.extend(undescribed(member, &link.id));
            }
            let other = container.insert(port, &link.id);
            let bond = by_id.get(port.as_str()).and_then(|m| m.bond.as_deref());
            if let Some(other) = other.or(bond).filter(|other| *other != link.id) {
                problems.push((
                    link.id.clone(),
                    format!("port {} is already a port of {}", shown_name(port), shown_name(other)),
                ));
            }
        }
    }
    let names: HashSet<&String> = links.iter().filter(|l| is_described(&l.id)).map(|l| &l.name).collect();
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
    let lower = links.iter().flat_map(|link| link.ports.iter().chain(&link.vlan_link));
    let lower: HashSet<String> = lower.cloned().collect();
    for link in links {
        let is_made = matches!(link.kind, LinkKind::Bond | LinkKind::Bridge | LinkKind::Vlan);
        if link.bond.is_some() || is_made && (lower.contains(&link.id) || lower.contains(&link.name)) {
            link.subnets.iter_mut().for_each(|subnet| drop(subnet.control.take_if(|c| c == "manual")));
        }
    }
}

/// Reports devices that depend on themselves, directly or not, and removes the dependency that closes the cycle.
fn break_cycles(build: &mut Builder) {
    let links = &build.parsed.model.links;
    let index: HashMap<&str, usize> =
        links.iter().zip(0..).flat_map(|(l, i)| [(l.name.as_str(), i), (l.id.as_str(), i)]).collect();
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
