//! The lock of systemd-imds: routes and rules of its early networkd file, which keep programs from the metadata service.
//! networkd reads one file for each link, and those of cloud-init and netplan come before that file, which would remove the
//! lock. Drop-ins of them repeat it: in /run, because systemd-imds creates its file at every boot, or not.

use std::collections::BTreeSet;

use encoding::percent;
use system::{System, WriteOptions, info, warning};

use super::request::ApplyRequest;
use crate::render::{self, NETPLAN_PATH};
use crate::source::Outcome;

/// The paths of the file while it is active, in networkd's order. systemd-imds puts it into /run, an administrator into
/// /etc.
const PATHS: [&str; 2] =
    ["/etc/systemd/network/85-imds-early.network", "/run/systemd/network/85-imds-early.network"];

/// The directory of files that the networkd renderer wrote.
const NETWORKD: &str = "/etc/systemd/network";

/// The limit of copied sections; the file has six.
const MAX_SECTIONS: usize = 16;

/// Writes the lock, if there is one, into drop-ins of every file that cloud-init wrote for a NIC, in this boot or before.
/// Runs even if this boot writes no files, because those of an earlier boot still exist.
pub(super) fn keep(sys: &System, request: &ApplyRequest<'_>) {
    let text = |path| sys.read_text_if_exists(path).inspect_err(|e| warning!(sys, "{e}")).ok().flatten();
    let lock = PATHS.into_iter().find_map(text).map(|file| drop_in(&file)).unwrap_or_default();
    if lock.is_empty() {
        return;
    }
    let files = sys.list(NETWORKD).inspect_err(|e| warning!(sys, "{e}")).unwrap_or_default();
    let netplan = text(NETPLAN_PATH).unwrap_or_default();
    let units: BTreeSet<String> =
        sort::collect(networkd_units(&files).into_iter().chain(netplan_units(&netplan)));
    for unit in units {
        let path = format!("/run/systemd/network/{unit}.d/85-imds-lock.conf");
        match sys.write(&path, &lock, WriteOptions::default()) {
            Ok(_) => {
                info!(
                    sys,
                    "systemd-imds restricts access to the metadata service; keeping its routes and rules in {path}"
                );
            }
            Err(e) => warning!(sys, "the restriction of the metadata service by systemd-imds is lost: {e}"),
        }
    }
    if matches!(request.decision.outcome, Outcome::Use(_))
        && let Ok(renderer) = render::select(sys, request.renderers)
        && !renderer.keeps_imds_lock
    {
        warning!(
            sys,
            "systemd-imds restricts access to the metadata service by networkd's routes and rules, which network renderer \
             '{}' does not support: access may be unrestricted",
            renderer.name
        );
    }
}

/// Returns networkd's files of NICs. Links that networkd creates have a `.netdev` file too; systemd-imds omits them.
fn networkd_units(files: &[String]) -> Vec<String> {
    let all: BTreeSet<&str> = sort::collect(files.iter().map(String::as_str));
    let is_nic = |file: &&String| {
        let name = file.strip_suffix(".network").filter(|name| name.starts_with("10-cloud-init-"));
        name.is_some_and(|name| !all.contains(&*format!("{name}.netdev")))
    };
    files.iter().filter(is_nic).cloned().collect()
}

/// Returns the files that netplan generates for the NICs of a configuration. They may not exist yet: netplan 1.2 writes them
/// in a service that is not ordered after the local stage.
fn netplan_units(config: &str) -> Vec<String> {
    // An invalid file is reported by netplan.
    let root = config::yaml::parse(NETPLAN_PATH, config).map(|parsed| parsed.root).unwrap_or_default();
    let nics = root.at_path(&["network", "ethernets"]).and_then(|nics| nics.as_map());
    let ids = nics.into_iter().flat_map(config::Map::iter).filter_map(|(id, _)| id.as_str());
    // netplan escapes IDs in names of files.
    ids.map(|id| format!("10-netplan-{}.network", percent::encode(id, &percent::RESERVED))).collect()
}

/// Returns the drop-in with the routes and rules of a file; empty if it has none.
fn drop_in(file: &str) -> String {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in file.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => sections.push((name, Vec::new())),
            None if line.is_empty() || line.starts_with(['#', ';']) => {}
            None => {
                if let Some((_, lines)) = sections.last_mut() {
                    lines.push(line);
                }
            }
        }
    }
    sections.retain(|(name, lines)| ["Route", "RoutingPolicyRule"].contains(name) && !lines.is_empty());
    let mut text = String::new();
    for (name, lines) in sections.into_iter().take(MAX_SECTIONS) {
        let begin = if text.is_empty() {
            "# Routes and rules of 85-imds-early.network, by cloud-init.\n"
        } else {
            ""
        };
        text.push_str(&format!("{begin}\n[{name}]\n{}\n", lines.join("\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_rules_are_kept() {
        let file = "# a note\n[Match]\nType=ether\n\n[Network]\nDHCP=yes\n\n[Route]\nDestination=192.0.2.254\nType=prohibit\n\n\
                    [Route]\n; another\nDestination=192.0.2.254\nScope=link\nTable=0x7FFF0815\n\n\
                    [RoutingPolicyRule]\nFirewallMark=0x7FFF0815\nTable=0x7FFF0815\n";
        assert_eq!(
            drop_in(file),
            "# Routes and rules of 85-imds-early.network, by cloud-init.\n\n\
             [Route]\nDestination=192.0.2.254\nType=prohibit\n\n\
             [Route]\nDestination=192.0.2.254\nScope=link\nTable=0x7FFF0815\n\n\
             [RoutingPolicyRule]\nFirewallMark=0x7FFF0815\nTable=0x7FFF0815\n"
        );
        for nothing in
            ["", "[Route]\n", "Type=prohibit\n", "[Route\nType=prohibit\n", &"[Link]\nA=b\n".repeat(1000)]
        {
            assert_eq!(drop_in(nothing), "", "{nothing}");
        }
        assert_eq!(drop_in(&"[Route]\nA=b\n".repeat(1000)).matches("[Route]").count(), MAX_SECTIONS);
    }

    #[test]
    fn files_of_nics_are_listed() {
        let files = [
            "10-cloud-init-br0.netdev",
            "10-cloud-init-br0.network",
            "10-cloud-init-eth0.network",
            "10-cloud-init-eth0.network.d",
            "20-wired.network",
        ];
        assert_eq!(networkd_units(&files.map(String::from)), ["10-cloud-init-eth0.network"]);
        for (config, units) in [
            ("", &[][..]),
            ("network: [", &[]),
            ("network: {ethernets: [eth0]}", &[]),
            ("network: {version: 2, bridges: {br0: {}}}", &[]),
            (
                "network: {ethernets: {eth0: {dhcp4: true}, 1: {}, '../a b': {}}, bonds: {bond0: {}}}",
                &["10-netplan-eth0.network", "10-netplan-..%2Fa%20b.network"],
            ),
        ] {
            assert_eq!(netplan_units(config), units, "{config}");
        }
    }
}
