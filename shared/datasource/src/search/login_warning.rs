//! Warnings that administrators see when they log in: a file of the instance's directory `warnings` each, which
//! `/etc/profile.d/Z99-cloudinit-warnings.sh` prints. `warnings: {NAME: off}` turns one off, `sleep,SECONDS` delays the boot.

use std::time::Duration;

use config::{Node, Value};
use system::{Level, WriteOptions, debug, warning};

use crate::Search;

/// The width of the text.
const WIDTH: usize = 70;
/// The longest delay of a boot in seconds, whatever the configuration says.
// Wait: the network stage | administrators to read a warning, if the configuration asks for it | `warnings: {NAME: 'sleep,SECONDS'}`
const MAX_SLEEP: u64 = 300;

/// A warning that is shown at login.
#[derive(Debug, Clone)]
pub struct LoginWarning<'a> {
    /// The name of its file, and of its setting below `warnings`.
    pub name: &'a str,
    /// The problem in one sentence, which the log has too.
    pub problem: String,
    /// Advice for the administrator. Lines that begin with a space are not wrapped.
    pub advice: &'a str,
    /// The seconds by which the boot is delayed if the setting does not say otherwise.
    pub sleep: u64,
}

/// Logs the warning and stores it for logins, unless the configuration turns it off.
pub fn warn_at_login(ctx: &Search<'_>, what: &LoginWarning<'_>) {
    let sys = ctx.sys;
    let all = ctx.config.get("warnings");
    let one = all.and_then(|all| if all.as_map().is_some() { all.get(what.name) } else { Some(all) });
    let usual = what.sleep.min(MAX_SLEEP);
    let sleep = match one.filter(|node| !node.is_null()).map(|node| (node, parse_setting(node, usual))) {
        None => usual,
        Some((_, Some(Setting::Off))) => return debug!(sys, "the warning {} is turned off", what.name),
        Some((_, Some(Setting::On { sleep }))) => sleep,
        Some((node, None)) => {
            warning!(sys, "{}: warnings.{}: expected on, off or sleep,SECONDS; using on", node.at, what.name);
            usual
        }
    };
    warning!(sys, "{}", what.problem);
    let path = ctx.layout.instance(&format!("warnings/{}", what.name));
    let text = banner(&format!("{}\n\n{}", what.problem, what.advice));
    let written = sys
        .create_dir_all(ctx.layout.instance("warnings"), 0o755)
        .and_then(|()| sys.write(&path, text, WriteOptions::default()));
    sys.log_error(Level::Warning, written);
    if sleep > 0 && !sys.is_dry_run() {
        debug!(sys, "sleeping {sleep} seconds for warning '{}'", what.name);
        let _wait = sys.begin_wait("administrators to read a warning");
        sys.clock().sleep(Duration::from_secs(sleep));
    }
}

/// The setting of a warning.
#[derive(Debug, PartialEq, Eq)]
enum Setting {
    On { sleep: u64 },
    Off,
}

/// Reads a setting; `None` if it is invalid.
fn parse_setting(node: &Node, default_sleep: u64) -> Option<Setting> {
    let text = match &node.value {
        Value::Bool(true) => "on",
        Value::Bool(false) => "off",
        Value::Str(text) => text.trim(),
        _ => return None,
    };
    Some(match text.split_once(',').map_or((text, None), |(word, seconds)| (word, Some(seconds))) {
        ("on" | "true", None) => Setting::On { sleep: 0 },
        ("off" | "false", None) => Setting::Off,
        ("sleep", None) => Setting::On { sleep: default_sleep },
        ("sleep", Some(seconds)) => Setting::On { sleep: seconds.trim().parse::<u64>().ok()?.min(MAX_SLEEP) },
        _ => return None,
    })
}

/// Frames a string.
fn banner(text: &str) -> String {
    let border = "*".repeat(WIDTH + 4) + "\n";
    let lines = text.lines().flat_map(wrap).map(|line| format!("# {line:WIDTH$} #\n"));
    format!("{border}{}{border}", lines.collect::<String>())
}

/// Wraps a line at spaces.
fn wrap(line: &str) -> Vec<String> {
    if line.starts_with(' ') {
        return vec![line.to_string()];
    }
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let last = lines.len() - 1;
        let is_full = lines[last].chars().count() + word.chars().count() >= WIDTH;
        match lines[last].is_empty() {
            true => lines[last].push_str(word),
            false if is_full => lines.push(word.to_string()),
            false => lines[last] = format!("{} {word}", lines[last]),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_turns_the_warning_off_or_delays_the_login() {
        let on = |sleep| Some(Setting::On { sleep });
        for (text, expected) in [
            ("on", on(0)),
            ("'true'", on(0)),
            ("off", Some(Setting::Off)),
            ("'off'", Some(Setting::Off)),
            ("sleep", on(7)),
            ("'sleep,3'", on(3)),
            ("'sleep,301'", on(300)),
            ("sleep,x", None),
            ("sleep,-1", None),
            ("maybe", None),
            ("5", None),
            ("[off]", None),
        ] {
            let node = config::yaml::parse("t", text).unwrap().root;
            assert_eq!(parse_setting(&node, 7), expected, "{text}");
        }
    }

    #[test]
    fn text_is_framed_and_wrapped() {
        let text = banner(&format!("{}\n\n  kept: as it is\n", "word ".repeat(20)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines.iter().all(|line| line.chars().count() == 74), "{text}");
        assert!(lines[4].starts_with("#   kept: as it is  "), "{text}");
        assert!(banner(&"x".repeat(100)).contains(&"x".repeat(100)));
    }
}
