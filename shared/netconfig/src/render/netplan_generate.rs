//! The steps after netplan's file is written: snapd's default is removed, the backends' files are generated, interfaces
//! are named.

use std::collections::HashSet;

use config::yaml::{Style, emit_entry};
use config::{Node, Position, Value, join_key};
use system::{Command, System, WriteOptions, debug};

use crate::parse::sanitize::Level;

use super::netplan_prune::{whole, without};

/// The file that the netplan renderer writes.
pub const PATH: &str = "/etc/netplan/50-cloud-init.yaml";

/// The files of snapd's image build, and those that netplan generated from them. They would bring up every NIC.
const SNAPD_CONFIG: &str = "/etc/netplan/00-snapd-config.yaml";
const SNAPD_GENERATED: &[&str] = &[
    "/run/systemd/network/10-netplan-all-en.network",
    "/run/systemd/network/10-netplan-all-eth.network",
    "/run/systemd/generator/netplan.stamp",
];

/// The content of snapd's file if it is unchanged.
const SNAPD_DEFAULT: &str = "\
# This is the initial network config.
# It can be overwritten by cloud-init or console-conf.
network:
    version: 2
    ethernets:
        all-en:
            match:
                name: \"en*\"
            dhcp4: true
        all-eth:
            match:
                name: \"eth*\"
            dhcp4: true
";

/// Returns the position in the written file that netplan reports. Its message is omitted, because it may contain a value.
fn error_position(stderr: &str) -> Option<&str> {
    let begin = stderr.find(&format!("{PATH}:"))?;
    let rest = &stderr[begin..];
    let place =
        rest.len() - rest[PATH.len()..].trim_start_matches(|c: char| c == ':' || c.is_ascii_digit()).len();
    Some(rest[..place].trim_end_matches(':'))
}

/// The number of values that are removed from a file that netplan rejects.
const MAX_REJECTED: usize = 100;

/// Returns the key of the innermost value at a position.
fn key_at(node: &Node, path: &str, is_there: &dyn Fn(&Position) -> bool) -> Option<String> {
    match &node.value {
        Value::Map(map) => map.iter().find_map(|(key, value)| {
            let path = join_key(path, &key.scalar_text()?);
            let inner = key_at(value, &path, is_there);
            inner.or_else(|| (is_there(&key.at) || is_there(&value.at)).then_some(path))
        }),
        Value::Seq(items) => items.iter().zip(0..).find_map(|(item, i): (_, usize)| {
            let path = format!("{path}[{i}]");
            key_at(item, &path, is_there).or_else(|| is_there(&item.at).then_some(path))
        }),
        _ => None,
    }
}

/// Removes from the file what netplan rejects at a position, and reports its key. A match is removed with its device, which would
/// be for other NICs. Returns whether something is removed.
fn remove_rejected(sys: &System, position: &str) -> system::Result<bool> {
    let text = sys.read_text(PATH)?;
    let mut numbers = position.rsplitn(3, ':').map(str::parse::<u32>);
    let (Some(Ok(column)), Some(Ok(line))) = (numbers.next(), numbers.next()) else { return Ok(false) };
    let Ok(parsed) = config::yaml::parse(PATH, &text) else { return Ok(false) };
    let Some(network) = parsed.root.get("network") else { return Ok(false) };
    let is_there = |at: &Position| (at.line, at.column) == (line, column);
    let Some(key) = key_at(network, "network", &is_there) else { return Ok(false) };
    let key = key.split(".match").next().map_or("", whole);
    let left = without(network, "network", Level::Sections, &HashSet::from([key]));
    let header = text.find("\nnetwork:").map_or("", |start| &text[..=start]);
    let changed = format!("{header}{}", emit_entry("network", &left, Style::PLAIN));
    // In a section that only netplan reads nothing is removed.
    if changed == text {
        return Ok(false);
    }
    system::warning!(sys, "{key}: netplan rejects the value; ignored");
    let mode = sys.mode(PATH).unwrap_or(0o600);
    sys.write(PATH, changed, WriteOptions::mode(mode))?;
    Ok(true)
}

/// Removes snapd's default if it is unchanged, has netplan write its backends' files, and applies `set-name`. Returns an
/// error if netplan rejects the file.
pub fn post_write(sys: &System) -> system::Result<()> {
    let default = sys.read_text_if_exists(SNAPD_CONFIG).inspect_err(|e| system::warning!(sys, "{e}"));
    if default.ok().flatten().is_some_and(|text| text == SNAPD_DEFAULT) {
        debug!(sys, "removing snapd's default {SNAPD_CONFIG} and the files that netplan generated from it");
        for path in std::iter::once(&SNAPD_CONFIG).chain(SNAPD_GENERATED) {
            if let Err(e) = sys.remove(path) {
                system::warning!(sys, "{e}");
            }
        }
    }
    if !sys.is_live() {
        return Ok(());
    }
    let generate = Command::new(["netplan", "generate"]).accept_all();
    let mut finished = sys.run(&generate);
    for _ in 0..MAX_REJECTED {
        let stderr = match &finished {
            Ok(run) if run.code != 0 => String::from_utf8_lossy(&run.stderr),
            _ => break,
        };
        if !error_position(&stderr).map_or(Ok(false), |position| remove_rejected(sys, position))? {
            break;
        }
        finished = sys.run(&generate);
    }
    match finished {
        Ok(finished) if finished.code != 0 => {
            if let Some(position) = error_position(&String::from_utf8_lossy(&finished.stderr)) {
                return Err(system::Error::new(format!("netplan rejects the configuration: {position}")));
            }
            // Not an error of the file (systemd could not be notified, for example): netplan reads it again at the next
            // reload.
            system::warning!(sys, "netplan generate: exit code {}", finished.code);
        }
        Ok(_) => {}
        // A program that does not start proves nothing about the file, which is kept.
        Err(e) => system::warning!(sys, "{e}"),
    }
    if sys.kernel_command_line().split_whitespace().any(|w| w == "net.ifnames=0") {
        debug!(
            sys,
            "predictable interface names are disabled (net.ifnames=0); not renaming interfaces through udev"
        );
        return Ok(());
    }
    if sys.which("udevadm").is_none() {
        debug!(sys, "udevadm not found; not renaming interfaces through udev");
        return Ok(());
    }
    for nic in sys.list("/sys/class/net").unwrap_or_default() {
        let path = format!("/sys/class/net/{nic}");
        // A NIC that disappears in the meantime does not affect the others.
        if sys.is_link(&path)
            && let Err(e) = sys.run(&Command::new(["udevadm", "test-builtin", "net_setup_link", &path]))
        {
            system::warning!(sys, "{e}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_read_from_netplan_errors() {
        for (message, place) in [
            ("", None),
            ("Failed to reload daemon", None),
            ("/etc/netplan/90-mine.yaml:1:2: Error in network definition: x", None),
            (
                "** WARNING **: a: /etc/netplan/50-cloud-init.yaml:1:39: Error in network definition: unknown key 'k'",
                Some("/etc/netplan/50-cloud-init.yaml:1:39"),
            ),
            ("/etc/netplan/50-cloud-init.yaml:", Some("/etc/netplan/50-cloud-init.yaml")),
        ] {
            assert_eq!(error_position(message), place, "{message}");
        }
    }

    #[test]
    fn rejected_value_is_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let text = "# network: x\nnetwork:\n  version: 2\n  ethernets:\n    a:\n      foo: 1\n      dhcp4: true\n      routes:\n      - to: 10.0.0.0/8\n        via: x\n    b:\n      match: {name: [c]}\n";
        for (line, column, lost) in [
            (6, 7, Some("      foo: 1\n")),
            (10, 14, Some("      - to: 10.0.0.0/8\n        via: x\n")),
            (12, 21, Some("    b:\n      match: {name: [c]}\n")),
            (6, 8, None),
        ] {
            sys.write(PATH, text, WriteOptions::default()).unwrap();
            assert_eq!(remove_rejected(&sys, &format!("{PATH}:{line}:{column}")).unwrap(), lost.is_some());
            let parsed = |text: &str| config::yaml::parse("t", text).unwrap().root.to_json();
            let left = sys.read_text(PATH).unwrap();
            let wanted = text.replace(lost.unwrap_or("|"), "").replace("routes:\n    b", "routes: []\n    b");
            assert!(left.starts_with("# network: x\nnetwork:\n"), "{left}");
            assert_eq!(parsed(&left), parsed(&wanted), "{line}:{column}");
        }
        assert_eq!(sys.log().logged_warnings().len(), 3);
    }

    #[test]
    fn only_unmodified_snapd_config_is_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        for (text, stays) in [(SNAPD_DEFAULT.to_string(), false), (format!("{SNAPD_DEFAULT}# mine\n"), true)]
        {
            sys.write(SNAPD_CONFIG, &text, system::WriteOptions::default()).unwrap();
            sys.write(SNAPD_GENERATED[0], "", system::WriteOptions::default()).unwrap();
            post_write(&sys).unwrap();
            assert_eq!((sys.exists(SNAPD_CONFIG), sys.exists(SNAPD_GENERATED[0])), (stays, stays));
        }
    }
}
