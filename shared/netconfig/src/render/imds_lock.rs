//! The lock of systemd-imds: routes and rules of its early networkd file, which keep programs from the metadata service.
//! Files of cloud-init come before that file, so that networkd would ignore it, and with it the lock.

use std::collections::BTreeSet;

use super::unit_file::UnitFile;

/// The paths of the file while it is active, in networkd's order. systemd-imds puts it into /run, an administrator into
/// /etc.
pub const PATHS: [&str; 2] =
    ["/etc/systemd/network/85-imds-early.network", "/run/systemd/network/85-imds-early.network"];

/// The limit of copied sections; the file has three.
const MAX_SECTIONS: usize = 16;

/// Adds the routes and rules of the file to a unit.
pub fn add(unit: &mut UnitFile, file: &str) {
    for (name, lines) in sections(file).into_iter().take(MAX_SECTIONS) {
        match name {
            "Route" => unit.routes.push(lines),
            _ => unit.rules.push(lines),
        }
    }
}

/// Returns the sections of routes and rules, with their lines.
fn sections(file: &str) -> Vec<(&str, BTreeSet<String>)> {
    let mut found: Vec<(&str, BTreeSet<String>)> = Vec::new();
    for line in file.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => found.push((name, BTreeSet::new())),
            None if line.is_empty() || line.starts_with(['#', ';']) => {}
            None => {
                if let Some((_, lines)) = found.last_mut() {
                    lines.insert(line.to_string());
                }
            }
        }
    }
    found.retain(|(name, lines)| ["Route", "RoutingPolicyRule"].contains(name) && !lines.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_rules_are_kept() {
        let file = "# a note\n[Match]\nType=ether\n\n[Network]\nDHCP=yes\n\n[Route]\nDestination=192.0.2.254\nType=prohibit\n\n\
                    [Route]\n; another\nTable=0x7FFF0815\nDestination=192.0.2.254\nScope=link\n\n\
                    [RoutingPolicyRule]\nFirewallMark=0x7FFF0815\nTable=0x7FFF0815\n";
        let mut unit = UnitFile::default();
        unit.add("Match", "Name", "eth0");
        add(&mut unit, file);
        assert_eq!(
            unit.text(),
            "[Match]\nName=eth0\n\n[Route]\nDestination=192.0.2.254\nType=prohibit\n\n\
             [Route]\nDestination=192.0.2.254\nScope=link\nTable=0x7FFF0815\n\n\
             [RoutingPolicyRule]\nFirewallMark=0x7FFF0815\nTable=0x7FFF0815\n"
        );
        for nothing in
            ["", "[Route]\n", "Type=prohibit\n", "[Route\nType=prohibit\n", &"[Link]\nA=b\n".repeat(1000)]
        {
            assert_eq!(sections(nothing), [], "{nothing}");
        }
    }
}
