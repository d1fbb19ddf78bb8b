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

/// Returns the configuration without the value at a position, and its key. A match is removed with its device, which would be
/// for other NICs; in what only netplan reads nothing is removed.
fn without_value(network: &Node, is_there: &dyn Fn(&Position) -> bool) -> Option<(String, Node)> {
    let key = key_at(network, "network", is_there)?;
    let key = key.split(".match").next().map_or("", whole);
    // A network without its password would be another one.
    let is_ours = !Level::Sections.is_netplan_only(key.split('.').nth(1).unwrap_or_default());
    let left = |keys: HashSet<&str>| without(network, "network", Level::Sections, &keys);
    Some((key.to_string(), left(HashSet::from([key]))))
        .filter(|(_, without)| is_ours && *without != left(HashSet::new()))
}

/// Returns the configuration without the device that is at a position or that netplan's message begins with, and its key.
fn without_device(
    network: &Node,
    message: &str,
    is_there: &dyn Fn(&Position) -> bool,
) -> Option<(String, Node)> {
    let is_named = |id: &str| message.strip_prefix(id).is_some_and(|rest| rest.starts_with(": "));
    let is_rejected = |(id, device): &(&Node, &Node)| {
        id.scalar_text().is_some_and(|id| is_named(&id)) || key_at(device, "", is_there).is_some()
    };
    let device = |(section, devices): (&Node, &Node)| {
        let (id, _) = devices.entries().find(is_rejected)?;
        Some((section.as_str()?.to_string(), id.clone()))
    };
    let (section, id) = network.entries().find_map(device)?;
    let mut left = network.clone();
    left.as_map_mut()?.get_mut(&section)?.as_map_mut()?.remove_node(&id);
    Some((join_key(&join_key("network", &section), &id.scalar_text()?), left))
}

/// Returns netplan's message about a device without a position, which begins with the device's ID.
fn device_message(stderr: &str) -> Option<&str> {
    let of_parser = format!("{PATH}: Error in network definition: ");
    let message = |line: &'_ str| line.find(&of_parser).map(|start| start + of_parser.len());
    stderr.lines().find_map(|line| match message(line) {
        Some(start) => Some(&line[start..]),
        None => line.strip_prefix("ERROR: "),
    })
}

/// Removes from the file what netplan rejects, and reports its key: the value at a position, or else the device. Returns whether
/// something is removed; fails if no device would be left.
fn remove_rejected(sys: &System, stderr: &str) -> system::Result<bool> {
    let text = sys.read_text(PATH)?;
    let mut numbers = error_position(stderr).unwrap_or_default().rsplitn(3, ':').map(str::parse::<u32>);
    let position = numbers.next().zip(numbers.next());
    let is_there = |at: &Position| position == Some((Ok(at.column), Ok(at.line)));
    let Ok(parsed) = config::yaml::parse(PATH, &text) else { return Ok(false) };
    let Some(network) = parsed.root.get("network") else { return Ok(false) };
    let header = text.find("\nnetwork:").map_or("", |start| &text[..=start]);
    let message = device_message(stderr).unwrap_or_default();
    let rest = without_value(network, &is_there).or_else(|| without_device(network, message, &is_there));
    let Some((key, left)) = rest else {
        return Ok(false);
    };
    if left.entries().all(|(_, devices)| devices.entries().next().is_none()) {
        return Err(system::Error::new(format!("netplan rejects the configuration: {key}")));
    }
    system::warning!(sys, "{key}: netplan rejects the value; ignored");
    let mode = sys.mode(PATH).unwrap_or(0o600);
    let changed = format!("{header}{}", emit_entry("network", &left, Style::PLAIN));
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
        if !remove_rejected(sys, &stderr)? {
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
            let stderr = format!("{PATH}:{line}:{column}: Error in network definition: x");
            assert_eq!(remove_rejected(&sys, &stderr).unwrap(), lost.is_some());
            let parsed = |text: &str| config::yaml::parse("t", text).unwrap().root.to_json();
            let left = sys.read_text(PATH).unwrap();
            let wanted = text.replace(lost.unwrap_or("|"), "").replace("routes:\n    b", "routes: []\n    b");
            assert!(left.starts_with("# network: x\nnetwork:\n"), "{left}");
            assert_eq!(parsed(&left), parsed(&wanted), "{line}:{column}");
        }
        assert_eq!(sys.log().logged_warnings().len(), 3);
    }

    /// The messages of netplan 1.1 about what is in no single place.
    #[test]
    fn rejected_device_is_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let text = "network:\n  version: 2\n  ethernets:\n    a: {dhcp4: true}\n  wifis:\n    w:1: {foo: 1}\n    v: {}\n";
        for (message, lost) in [
            (format!("{PATH}: Error in network definition: w:1: No access points defined"), Some("w:1")),
            (format!("{PATH}: Error in network definition: v: missing 'table' property"), Some("v")),
            // Only netplan reads its keys.
            (format!("{PATH}:6:11: Error in network definition: unknown key 'foo'"), Some("w:1")),
            ("ERROR: a: NetworkManager only supports unicast routes".into(), Some("a")),
            ("ERROR: b: NetworkManager only supports unicast routes".into(), None),
            (format!("{PATH}: Error in network definition: w: x"), None),
            ("/etc/netplan/90-mine.yaml: Error in network definition: v: x".into(), None),
        ] {
            sys.write(PATH, text, WriteOptions::default()).unwrap();
            let is_removed = remove_rejected(&sys, &format!("\n** WARNING **: x\n{message}\nFailed\n"));
            assert_eq!(is_removed.unwrap(), lost.is_some(), "{message}");
            let left = config::yaml::parse("t", &sys.read_text(PATH).unwrap()).unwrap().root;
            let devices = left.get("network").unwrap().entries().flat_map(|(_, section)| section.entries());
            let mut ids: Vec<_> = devices.filter_map(|(id, _)| id.as_str()).collect();
            ids.sort_unstable();
            let kept = ["a", "v", "w:1"].into_iter().filter(|id| Some(*id) != lost);
            assert_eq!(ids, kept.collect::<Vec<_>>(), "{message}");
        }
        let warnings = sys.log().logged_warnings();
        assert!(
            warnings[1].1.ends_with("network.wifis.v: netplan rejects the value; ignored"),
            "{warnings:?}"
        );
        // Nothing else could be reached.
        sys.write(PATH, "network: {version: 2, vrfs: {v: {}}}\n", WriteOptions::default()).unwrap();
        let error = remove_rejected(&sys, &format!("{PATH}: Error in network definition: v: x")).unwrap_err();
        assert_eq!(error.to_string(), "netplan rejects the configuration: network.vrfs.v");
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
