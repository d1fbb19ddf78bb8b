//! Bringing interfaces up through the machine's own network service: one table row each. Only the network stage
//! does that; before it the services read the files by themselves when they start.

use system::{Command, System, debug, warning};

use crate::log_lines as lines;

/// One network service.
pub struct Activator {
    pub name: &'static str,
    /// Its name in upstream's log.
    pub class: &'static str,
    pub available: fn(&System) -> bool,
    /// Brings these interfaces up; what failed.
    pub up: fn(&System, &[String]) -> Vec<String>,
}

/// In the order in which they are tried when nobody says another one.
pub const ACTIVATORS: &[Activator] = &[
    Activator { name: "eni", class: "IfUpDownActivator", available: crate::render::eni_available, up: ifup },
    Activator {
        name: "netplan",
        class: "NetplanActivator",
        available: crate::render::netplan_available,
        up: netplan,
    },
    Activator {
        name: "network-manager",
        class: "NetworkManagerActivator",
        available: has_network_manager,
        up: network_manager,
    },
    Activator {
        name: "networkd",
        class: "NetworkdActivator",
        available: crate::render::networkd_available,
        up: networkd,
    },
    Activator {
        name: "ifconfig",
        class: "IfConfigActivator",
        available: |sys| sys.is_file("/sbin/ifconfig"),
        up: ifconfig,
    },
];

/// What bringing up did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BringUpResult {
    pub activator: Option<&'static str>,
    pub problems: Vec<String>,
}

/// Brings interfaces up with the first activator that the machine has, of those listed
/// (`system_info.network.activators`) or of all. Failures are logged as warnings and returned.
pub fn bring_up(sys: &System, links: &[String], listed: Option<&[String]>) -> BringUpResult {
    let mut done = BringUpResult::default();
    let rows: Vec<&Activator> = match listed {
        None | Some([]) => ACTIVATORS.iter().collect(),
        Some(names) => {
            let known = |n: &String| ACTIVATORS.iter().any(|a| a.name == n.as_str());
            for unknown in names.iter().filter(|n| !known(n)) {
                done.problems.push(format!("unknown network activator '{unknown}'"));
            }
            names.iter().filter_map(|n| ACTIVATORS.iter().find(|a| a.name == n.as_str())).collect()
        }
    };
    match rows.into_iter().find(|a| (a.available)(sys)) {
        Some(activator) => {
            let class = activator.class;
            let priority = match listed {
                None | Some([]) => lines::python_list(ACTIVATORS.iter().map(|a| a.name)),
                Some(names) => lines::python_list(names.iter().map(String::as_str)),
            };
            debug!(
                sys,
                "{}<class 'cloudinit.net.activators.{class}'> from priority: {priority}",
                lines::ACTIVATOR
            );
            debug!(sys, "bringing up {} with {}", links.join(" "), activator.name);
            done.activator = Some(activator.name);
            done.problems.extend((activator.up)(sys, links));
        }
        None => done.problems.push(lines::NO_ACTIVATOR.into()),
    }
    for problem in &done.problems {
        warning!(sys, "{problem}");
    }
    done
}

/// Runs a program; what it says on standard error is a problem even when it succeeds.
fn run_program(sys: &System, argv: &[&str], quiet: bool) -> Vec<String> {
    match sys.run(&Command::new(argv.iter().copied())) {
        Ok(finished) => {
            let said = String::from_utf8_lossy(&finished.stderr).trim().to_string();
            if said.is_empty() {
                return Vec::new();
            }
            let message = format!("{} said: {said}", argv.join(" "));
            if quiet {
                debug!(sys, "{message}");
                return Vec::new();
            }
            vec![message]
        }
        Err(e) => vec![e.to_string()],
    }
}

fn ifup(sys: &System, links: &[String]) -> Vec<String> {
    links.iter().flat_map(|link| run_program(sys, &["ifup", link], false)).collect()
}

fn netplan(sys: &System, _: &[String]) -> Vec<String> {
    debug!(sys, "Calling 'netplan apply' rather than altering individual interfaces");
    // Its standard error is full of remarks about things that are none of the configuration's business.
    run_program(sys, &["netplan", "apply"], true)
}

pub fn has_network_manager(sys: &System) -> bool {
    if sys.which("nmcli").is_none() {
        return false;
    }
    let enabled = || {
        let ask = Command::new(["systemctl", "is-enabled", "--quiet", "NetworkManager.service"])
            .read_only()
            .accept_all();
        sys.run(&ask).is_ok_and(|finished| finished.code == 0)
    };
    !sys.is_dir("/run/systemd/system") || enabled()
}

fn network_manager(sys: &System, links: &[String]) -> Vec<String> {
    let mut problems =
        run_program(sys, &["systemctl", "try-reload-or-restart", "NetworkManager.service"], false);
    let active = Command::new(["systemctl", "is-active", "--quiet", "NetworkManager.service"]).accept_all();
    if sys.run(&active).is_ok_and(|finished| finished.code != 0) {
        problems.push("NetworkManager is not running".into());
    }
    for link in links {
        let Some(file) = find_profile(sys, link) else {
            debug!(sys, "{link} has no connection profile");
            continue;
        };
        let load = run_program(sys, &["nmcli", "connection", "load", &file], false);
        if load.is_empty() {
            problems.extend(run_program(sys, &["nmcli", "connection", "up", "filename", &file], false));
        } else {
            problems.extend(run_program(sys, &["nmcli", "connection", "reload"], false));
            problems.extend(run_program(sys, &["nmcli", "connection", "up", "ifname", link], false));
        }
    }
    problems
}

/// Where NetworkManager reads about a link: our profile, which is named after the link's id and says its name, or
/// the ifcfg file where there is a reader of those.
fn find_profile(sys: &System, link: &str) -> Option<String> {
    let dir = "/etc/NetworkManager/system-connections";
    let path = |id: &str| format!("{dir}/cloud-init-{id}.nmconnection");
    let is_of_link = |path: &str| {
        let text = sys.read_text_if_exists(path).ok().flatten().unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("id=cloud-init ") == Some(link))
    };
    let own = path(link);
    if is_of_link(&own) {
        return Some(own);
    }
    let names = sys.list(dir).unwrap_or_default();
    let ids = names.iter().filter_map(|n| n.strip_prefix("cloud-init-")?.strip_suffix(".nmconnection"));
    if let Some(found) = ids.map(path).find(|p| is_of_link(p)) {
        return Some(found);
    }
    let ifcfg = format!("/etc/sysconfig/network-scripts/ifcfg-{link}");
    (sys.is_file(&ifcfg) && crate::render::has_ifcfg_plugin(sys)).then_some(ifcfg)
}

fn networkd(sys: &System, _: &[String]) -> Vec<String> {
    run_program(sys, &["systemctl", "restart", "systemd-networkd", "systemd-resolved"], false)
}

fn ifconfig(sys: &System, links: &[String]) -> Vec<String> {
    links.iter().flat_map(|link| run_program(sys, &["ifconfig", link, "up"], false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_unknown_activators_are_reported() {
        let sys = System::new("/nonexistent");
        let done = bring_up(&sys, &["eth0".into()], None);
        assert_eq!((done.activator, done.problems.len()), (None, 1));
        let done = bring_up(&sys, &[], Some(&["netpan".to_string()]));
        assert_eq!(done.problems.len(), 2);
        assert!(sys.effects().is_empty());
    }

    #[test]
    fn profiles_are_found_by_id_and_content() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let put = |path: &str, text: &str| sys.write(path, text, system::WriteOptions::default()).unwrap();
        let dir = "/etc/NetworkManager/system-connections";
        put(&format!("{dir}/cloud-init-eth1.nmconnection"), "[connection]\nid=cloud-init lan\n");
        put(&format!("{dir}/cloud-init-eth0.nmconnection"), "[connection]\nid=cloud-init eth0\n");
        put("/etc/sysconfig/network-scripts/ifcfg-eth2", "DEVICE=eth2\n");
        let found = |link: &str| find_profile(&sys, link).map(|p| p.rsplit('/').next().unwrap().to_string());
        assert_eq!(found("eth0").as_deref(), Some("cloud-init-eth0.nmconnection"));
        assert_eq!(found("lan").as_deref(), Some("cloud-init-eth1.nmconnection"));
        assert_eq!((found("eth1"), found("eth2")), (None, None));
        put("/usr/lib64/NetworkManager/1.40/libnm-settings-plugin-ifcfg-rh.so", "");
        assert_eq!(found("eth2").as_deref(), Some("ifcfg-eth2"));
    }
}
