//! Plans and applies the renaming of links. Everything but [`apply`] and [`current_links`] is pure. Swaps go through a
//! temporary name; links with addresses in use are not renamed.

use std::collections::{HashMap, HashSet};

use config::Node;
use system::{LinkAddress, System, debug, warning};

use crate::log_lines as lines;
use crate::nics::Nic;
use crate::parse;
use crate::parse::characters::{MAX_NAME, is_shell_special, is_unsafe_in_files};

/// A link that the configuration identifies by its MAC address, and the name that it sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredLink {
    /// The name to set.
    pub name: String,
    /// The MAC address in lower case.
    pub mac: String,
    /// The names of the kernel drivers that the configuration gives; the link has one of them.
    pub drivers: Vec<String>,
    /// The device ID, if the configuration gives it.
    pub device_id: Option<String>,
}

/// A link of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentLink {
    /// The current name.
    pub name: String,
    /// The MAC address in lower case.
    pub mac: String,
    /// The name of the kernel driver.
    pub driver: Option<String>,
    /// The device ID.
    pub device_id: Option<String>,
    /// Whether the link is up.
    pub up: bool,
    /// Whether the link is up and has addresses that connections may use.
    pub in_use: bool,
    /// Whether a configuration can describe the link; others can only occupy a name.
    pub configurable: bool,
}

/// A step of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sets the link down.
    Down(String),
    /// Renames the first to the second.
    Rename(String, String),
    /// Sets the link up.
    Up(String),
}

/// The steps that rename links, and the renames that are not possible.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// A message for each rename that is not possible.
    pub problems: Vec<String>,
}

/// Returns the names that a configuration of version 1 or 2 sets for MAC addresses.
pub fn desired_links(config: &Node) -> Vec<DesiredLink> {
    let config = parse::network_section(config);
    let found = |name: Option<String>, mac: Option<String>, drivers, device_id| {
        let name = name.filter(|name| name.len() <= MAX_NAME)?;
        Some(DesiredLink { name, mac: mac?, drivers, device_id })
    };
    match config.as_map().and_then(parse::version) {
        Some(1) => {
            let entries = config.get("config").into_iter().flat_map(Node::items);
            let physical = entries.filter(|e| e.get("type").and_then(Node::as_str) == Some("physical"));
            let link = |e: &Node| {
                let (driver, id) = (text(e, &["params", "driver"]), text(e, &["params", "device_id"]));
                found(text(e, &["name"]), mac(e, &["mac_address"]), driver.into_iter().collect(), id)
            };
            physical.filter_map(link).collect()
        }
        Some(2) => {
            let link =
                |d: &Node| found(text(d, &["set-name"]), mac(d, &["match", "macaddress"]), drivers(d), None);
            let devices = config.get("ethernets").into_iter().flat_map(Node::entries);
            devices.filter_map(|(_, device)| link(device)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the MAC addresses that a configuration of version 2 matches without setting a name, with the ids of the
/// entries.
pub fn matched_links(config: &Node) -> Vec<DesiredLink> {
    let config = parse::network_section(config);
    if config.as_map().and_then(parse::version) != Some(2) {
        return Vec::new();
    }
    let devices = config.get("ethernets").into_iter().flat_map(Node::entries);
    devices
        .filter(|(_, device)| device.get("set-name").is_none())
        .filter_map(|(id, device)| {
            let mac = mac(device, &["match", "macaddress"])?;
            Some(DesiredLink { name: id.scalar_text()?, mac, ..DesiredLink::default() })
        })
        .collect()
}

fn text(node: &Node, path: &[&str]) -> Option<String> {
    usable(node.at_path(path)?)
}

/// Returns the text of a node, unless it is empty. Values that the files must not contain must not become names of links
/// either.
fn usable(node: &Node) -> Option<String> {
    node.as_str().filter(|text| is_usable(text)).map(str::to_string)
}

fn is_usable(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| is_unsafe_in_files(c) || is_shell_special(c))
}

/// Returns the drivers that a device of version 2 matches.
fn drivers(device: &Node) -> Vec<String> {
    let Some(driver) = device.at_path(&["match", "driver"]) else { return Vec::new() };
    driver.as_seq().unwrap_or(std::slice::from_ref(driver)).iter().filter_map(usable).collect()
}

/// Returns a MAC address as the kernel writes it; `None` for one that no NIC has and for other text, which the parser reports.
pub(crate) fn mac(node: &Node, path: &[&str]) -> Option<String> {
    let mac =
        parse::mac_text(node.at_path(path)?).filter(|mac| parse::is_mac(mac) && !parse::is_zero_mac(mac))?;
    Some(mac.to_ascii_lowercase().replace('-', ":"))
}

/// Returns the desired links whose MAC address no NIC has.
pub fn missing<'a>(desired: &'a [DesiredLink], nics: &[Nic]) -> Vec<&'a DesiredLink> {
    let known: HashSet<&String> = nics.iter().map(|nic| &nic.mac).collect();
    desired.iter().filter(|w| !known.contains(&w.mac)).collect()
}

/// Returns the desired links as the log shows them: `[['MAC', 'NAME', 'DRIVER', 'ID'], …]`.
pub fn format_links(desired: &[DesiredLink]) -> String {
    let text = |text: &Option<String>| text.as_deref().map_or(Node::null(), Node::from);
    let one = |w: &DesiredLink| {
        let driver = match &*w.drivers {
            [] => Node::null(),
            [driver] => Node::from(&**driver),
            drivers => Node::from(drivers.iter().map(|driver| Node::from(&**driver)).collect::<Vec<_>>()),
        };
        let fields = [Node::from(&*w.mac), Node::from(&*w.name), driver, text(&w.device_id)];
        Node::from(fields.to_vec())
    };
    lines::python_repr(&Node::from(desired.iter().map(one).collect::<Vec<Node>>()))
}

/// Returns the steps as the log shows them.
fn format_steps(steps: &[Step]) -> String {
    let one = |step: &Step| {
        let words = match step {
            Step::Down(name) => vec!["down", name],
            Step::Rename(from, to) => vec!["rename", from, to],
            Step::Up(name) => vec!["up", name],
        };
        lines::python_list(words).replace('[', "(").replace(']', ")")
    };
    format!("[{}]", steps.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Plans the steps that give every desired link its name.
pub fn plan(desired: &[DesiredLink], current: &[CurrentLink]) -> Plan {
    let mut plan = Plan::default();
    // The links after the steps so far, and their indices by name.
    let mut links = current.to_vec();
    let mut holders: HashMap<String, usize> = links.iter().map(|link| link.name.clone()).zip(0..).collect();
    let mut by_mac: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, link) in current.iter().enumerate().filter(|(_, link)| link.configurable) {
        by_mac.entry(&link.mac).or_default().push(i);
    }
    let mut down: Vec<usize> = Vec::new();
    let mut taken = vec![false; current.len()];
    let mut spare = 0;
    for want in desired {
        let agrees = |have: &Option<String>, asked: &[String]| {
            asked.is_empty() || have.as_ref().is_none_or(|have| asked.contains(have))
        };
        // If the configuration names a driver, it distinguishes two functions of one card that share an address.
        let is_match = |i: &usize| {
            let p = &current[*i];
            !taken[*i] && agrees(&p.driver, &want.drivers) && agrees(&p.device_id, want.device_id.as_slice())
        };
        let same_mac = by_mac.get(&*want.mac).into_iter().flatten().copied();
        let matching: Vec<usize> = same_mac.filter(is_match).collect();
        let has_name = matching.iter().copied().find(|i| links[*i].name == want.name);
        let Some(link) = has_name.or(matching.first().copied()) else { continue };
        taken[link] = true;
        if has_name.is_none() && matching.len() > 1 {
            plan.problems.push(format!(
                "more than one interface has the MAC address {} of {}; using {}",
                want.mac, want.name, links[link].name
            ));
        }
        if links[link].name == want.name {
            continue;
        }
        if current[link].in_use {
            let name = &links[link].name;
            plan.problems.push(format!("{name} is in use and cannot be renamed to {}", want.name));
            continue;
        }
        if let Some(&holder) = holders.get(&want.name) {
            if current[holder].in_use {
                let (holder, name) = (&links[holder].name, &links[link].name);
                plan.problems.push(format!("{holder} is in use, so {name} cannot take its name"));
                continue;
            }
            while holders.contains_key(&format!("cirename{spare}")) {
                spare += 1;
            }
            let spare = format!("cirename{spare}");
            push_rename(&mut plan, &mut links, &mut holders, &mut down, holder, spare);
        }
        push_rename(&mut plan, &mut links, &mut holders, &mut down, link, want.name.clone());
    }
    for link in down {
        plan.steps.push(Step::Up(links[link].name.clone()));
    }
    plan
}

fn push_rename(
    plan: &mut Plan,
    links: &mut [CurrentLink],
    holders: &mut HashMap<String, usize>,
    down: &mut Vec<usize>,
    link: usize,
    to: String,
) {
    let CurrentLink { name, up, .. } = &mut links[link];
    if std::mem::take(up) {
        plan.steps.push(Step::Down(name.clone()));
        down.push(link);
    }
    let from = std::mem::replace(name, to.clone());
    holders.remove(&from);
    holders.insert(to.clone(), link);
    plan.steps.push(Step::Rename(from, to));
}

/// Returns all links of the kernel, with what sysfs shows of the NICs.
///
/// # Errors
/// Fails if netlink does.
pub fn current_links(sys: &System, nics: &[&Nic]) -> system::Result<Vec<CurrentLink>> {
    let by_name: HashMap<&str, &&Nic> = nics.iter().map(|n| (n.name.as_str(), n)).collect();
    if !sys.is_live() {
        let of = |n: &&Nic| CurrentLink {
            name: n.name.clone(),
            mac: n.mac.clone(),
            driver: n.driver.clone(),
            device_id: n.device_id.clone(),
            configurable: true,
            ..CurrentLink::default()
        };
        return Ok(nics.iter().map(of).collect());
    }
    let addresses = sys.link_addresses()?;
    // IPv6 addresses from router advertisements come back by themselves; others may have been set on purpose.
    let is_in_use = |a: &LinkAddress| !a.ipv6 || (a.global && a.permanent);
    Ok(sys
        .links()?
        .into_iter()
        .map(|link| {
            let nic = by_name.get(link.name.as_str());
            CurrentLink {
                mac: nic.map_or(link.mac, |n| n.mac.clone()),
                driver: nic.and_then(|n| n.driver.clone()),
                device_id: nic.and_then(|n| n.device_id.clone()),
                up: link.up,
                in_use: link.up && addresses.iter().any(|a| a.index == link.index && is_in_use(a)),
                configurable: nic.is_some(),
                name: link.name,
            }
        })
        .collect())
}

/// Runs the steps; failures are logged and the remaining steps run. Returns the renamed links (old name, new name) and
/// a message for each failure.
pub fn apply(sys: &System, desired: &[DesiredLink], plan: &Plan) -> (Vec<(String, String)>, Vec<String>) {
    let mut renamed = Vec::new();
    let mut problems = plan.problems.clone();
    for step in &plan.steps {
        let result = match step {
            Step::Down(name) => sys.set_link_up(name, false),
            Step::Up(name) => sys.set_link_up(name, true),
            Step::Rename(from, to) => {
                sys.rename_link(from, to).inspect(|()| renamed.push((from.clone(), to.clone())))
            }
        };
        if let Err(e) = result {
            problems.push(e.to_string());
        }
    }
    let asked = format_links(desired);
    if !plan.steps.is_empty() {
        debug!(sys, "{}{asked} with ops {}", lines::RENAMED, format_steps(&plan.steps));
    } else if problems.is_empty() {
        debug!(sys, "{}{asked}", lines::NO_RENAMES);
    }
    if !problems.is_empty() {
        let errors = lines::python_list(problems.iter().map(String::as_str));
        warning!(sys, "{}{asked} due to errors: {errors}", lines::NOT_RENAMED);
    }
    (renamed, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(name: &str, mac: &str) -> DesiredLink {
        DesiredLink { name: name.into(), mac: mac.into(), ..DesiredLink::default() }
    }

    fn have(name: &str, mac: &str) -> CurrentLink {
        CurrentLink { name: name.into(), mac: mac.into(), configurable: true, ..CurrentLink::default() }
    }

    fn steps(plan: &Plan) -> String {
        let words = plan.steps.iter().map(|s| match s {
            Step::Down(n) => format!("-{n}"),
            Step::Up(n) => format!("+{n}"),
            Step::Rename(a, b) => format!("{a}>{b}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn renames_free_names_that_are_in_use() {
        let up = |p: CurrentLink| CurrentLink { up: true, ..p };
        let in_use = |p: CurrentLink| CurrentLink { up: true, in_use: true, ..p };
        let with_driver = |driver: &str, p: CurrentLink| CurrentLink { driver: Some(driver.into()), ..p };
        let other = |p: CurrentLink| CurrentLink { configurable: false, ..p };
        type Row<'a> = (&'a str, &'a [DesiredLink], &'a [CurrentLink], &'a str, usize);
        let rows: &[Row<'_>] = &[
            ("nothing to do", &[want("a", "1")], &[have("a", "1")], "", 0),
            ("one", &[want("b", "1")], &[have("a", "1")], "a>b", 0),
            ("down and up again", &[want("b", "1")], &[up(have("a", "1"))], "-a a>b +b", 0),
            (
                "swap",
                &[want("b", "1"), want("a", "2")],
                &[have("a", "1"), up(have("b", "2"))],
                "-b b>cirename0 a>b cirename0>a +a",
                0,
            ),
            (
                "circle",
                &[want("b", "1"), want("c", "2"), want("a", "3")],
                &[have("a", "1"), have("b", "2"), have("c", "3")],
                "b>cirename0 a>b c>cirename1 cirename0>c cirename1>a",
                0,
            ),
            (
                "in the way",
                &[want("b", "1")],
                &[have("a", "1"), up(other(have("b", "9")))],
                "-b b>cirename0 a>b +cirename0",
                0,
            ),
            ("busy", &[want("b", "1"), want("d", "3")], &[in_use(have("a", "1")), have("c", "3")], "c>d", 1),
            ("busy holder", &[want("b", "1")], &[have("a", "1"), in_use(have("b", "2"))], "", 1),
            (
                "a holder with another driver",
                &[DesiredLink { drivers: vec!["e1000".into()], ..want("b", "1") }],
                &[with_driver("e1000", have("a", "1")), with_driver("x", have("b", "2"))],
                "b>cirename0 a>b",
                0,
            ),
            ("nobody has it", &[want("b", "7")], &[have("a", "1")], "", 0),
            ("two have it", &[want("b", "1")], &[have("a", "1"), have("c", "1")], "a>b", 1),
            ("one has the name", &[want("c", "1")], &[have("a", "1"), have("c", "1")], "", 0),
            ("both", &[want("b", "1"), want("d", "1")], &[have("a", "1"), have("c", "1")], "a>b c>d", 1),
            (
                "a bridge of the same address",
                &[want("b", "1")],
                &[have("a", "1"), other(have("br", "1"))],
                "a>b",
                0,
            ),
        ];
        for (name, desired, current, expected, problems) in rows {
            let plan = plan(desired, current);
            assert_eq!((steps(&plan).as_str(), plan.problems.len()), (*expected, *problems), "{name}");
        }
    }

    #[test]
    fn driver_distinguishes_links_with_one_mac() {
        let twin = |name: &str, driver: &str| CurrentLink { driver: Some(driver.into()), ..have(name, "1") };
        let want = |drivers: &[&str]| {
            let drivers = drivers.iter().map(|driver| (*driver).into()).collect();
            DesiredLink { drivers, ..want("b", "1") }
        };
        let current = [twin("a", "mlx5"), twin("c", "hv_netvsc")];
        assert_eq!(steps(&plan(&[want(&["hv_netvsc"])], &current)), "c>b");
        assert_eq!(steps(&plan(&[want(&["e1000", "hv_netvsc"])], &current)), "c>b");
        let config = "version: 2\nethernets: {i: {match: {macaddress: '00:00:00:00:00:01', driver: [x, y]}, set-name: b}}";
        let links = desired_links(&config::yaml::parse("t", config).unwrap().root);
        assert_eq!(links[0].drivers, ["x", "y"]);
        assert_eq!(format_links(&links), "[['00:00:00:00:00:01', 'b', ['x', 'y'], None]]");
    }

    #[test]
    fn desired_links_are_read_from_both_versions() {
        let v1 = "version: 1\nconfig:\n- {type: physical, name: a, mac_address: 'AA:00:00:00:00:01', params: {driver: x}}\n- {type: vlan, name: v, mac_address: 'aa:00:00:00:00:02'}\n- {type: physical, name: b}\n";
        let v2 = "network:\n  version: 2\n  ethernets:\n    i: {match: {macaddress: 'AA:00:00:00:00:01'}, set-name: a}\n    j: {set-name: b}\n    k: {match: {macaddress: 52:54:00:00:00:03}}\n";
        for (text, drivers) in [(v1, vec!["x".to_string()]), (v2, Vec::new())] {
            let config = config::yaml::parse("t", text).unwrap().root;
            let expected = DesiredLink { drivers, ..want("a", "aa:00:00:00:00:01") };
            assert_eq!(desired_links(&config), [expected], "{text}");
            let matched = if text == v2 { vec![want("k", "52:54:00:00:00:03")] } else { Vec::new() };
            assert_eq!(matched_links(&config), matched, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_mac_names_no_link() {
        let infiniband = "80:00:02:08:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:5e:8f:de";
        for (mac, expected) in [
            ("zQ7-planted-518", None),
            ("52:54", None),
            ("52540000000a", None),
            ("52:54:00:00:00:*", None),
            ("00:00:00:00:00:00", None),
            ("52-54-00-00-00-0A", Some("52:54:00:00:00:0a")),
            (infiniband, Some(infiniband)),
        ] {
            let v1 = format!("{{version: 1, config: [{{type: physical, name: a, mac_address: '{mac}'}}]}}");
            let v2 =
                format!("{{version: 2, ethernets: {{i: {{match: {{macaddress: '{mac}'}}, set-name: a}}}}}}");
            for text in [v1, v2] {
                let found = desired_links(&config::yaml::parse("t", &text).unwrap().root);
                assert_eq!(found.first().map(|link| link.mac.as_str()), expected, "{text}");
            }
            let unnamed = format!("{{version: 2, ethernets: {{i: {{match: {{macaddress: '{mac}'}}}}}}}}");
            let found = matched_links(&config::yaml::parse("t", &unnamed).unwrap().root);
            assert_eq!(found.first().map(|link| link.mac.as_str()), expected, "{unnamed}");
        }
    }
}
