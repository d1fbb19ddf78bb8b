//! The last two boots in the log.

use crate::analyze::event::{Event, from_log};
use crate::machine::Machine;

/// Bytes of a log that is read.
const MAX_LOG: u64 = 64 << 20;
/// The line with which the first stage of a boot begins.
const BEGIN: &str = " running 'init-local' at ";

/// Parts of what power_state says about a condition that is not fulfilled, separated by bars.
const UNFULFILLED: &str = "Condition was false|condition not met|unexpected exit";

/// A warning or an error of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub is_error: bool,
    /// The module that ran, if one did.
    pub module: Option<String>,
    pub text: String,
}

/// One boot.
#[derive(Debug, Default)]
pub struct Boot {
    /// The version of cloud-init.
    pub version: String,
    pub events: Vec<Event>,
    pub problems: Vec<Problem>,
    /// What power_state said about its condition, if it was not fulfilled.
    pub condition: Option<String>,
}

/// The log.
#[derive(Debug, Default)]
pub struct BootLog {
    pub path: String,
    pub last: Option<Boot>,
    pub before: Option<Boot>,
}

impl BootLog {
    pub fn read(machine: &Machine, unread: &mut Vec<String>) -> BootLog {
        let path = machine.log_files().into_iter().next().unwrap_or_default();
        match machine.sys.read_at_most(&path, MAX_LOG) {
            Ok(bytes) => {
                let now = machine.sys.clock().wall().as_micros() as i64;
                let (last, before) = split(&String::from_utf8_lossy(&bytes), now);
                BootLog { path, last, before }
            }
            Err(e) => {
                unread.push(e.to_string());
                BootLog { path, ..BootLog::default() }
            }
        }
    }
}

/// Returns the last boot and the one before.
fn split(log: &str, now: i64) -> (Option<Boot>, Option<Boot>) {
    let lines: Vec<&str> = log.lines().collect();
    let begins: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].contains(BEGIN)).collect();
    let boot = |from: usize, to: usize| Boot {
        version: lines[from].split_once("Cloud-init v. ").map_or("", |(_, rest)| word(rest)).to_string(),
        events: from_log(&lines[from..to].join("\n"), now).0,
        problems: problems(&lines[from..to], from + 1),
        condition: lines[from..to].iter().find_map(|line| {
            let (_, text) = line.split_once("]: ").filter(|(head, _)| head.contains("power_state_change"))?;
            UNFULFILLED.split('|').any(|part| text.contains(part)).then(|| text.to_string())
        }),
    };
    match *begins.as_slice() {
        [] => (None, None),
        [only] => (Some(boot(only, lines.len())), None),
        [.., before, last] => (Some(boot(last, lines.len())), Some(boot(before, last))),
    }
}

fn word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// Returns the warnings and errors of these lines, the first of which has this number.
fn problems(lines: &[&str], first: usize) -> Vec<Problem> {
    let (mut found, mut module) = (Vec::new(), None);
    for (line, text) in (first..).zip(lines) {
        // `2026-01-02 03:04:05,678 - find.rs[WARNING]: text`
        let Some((head, text)) = text.split_once("]: ") else { continue };
        let level = head.rsplit_once('[').map_or("", |(_, level)| level);
        let is_error = matches!(level, "ERROR" | "CRITICAL");
        // `start: init-network/config-ssh: running config-ssh with frequency once-per-instance`
        if text.starts_with("start: ") {
            module =
                text.split_once("/config-").and_then(|(_, name)| Some(name.split_once(':')?.0.to_string()));
        } else if text.starts_with("finish: ") {
            module = None;
        } else if is_error || level == "WARNING" {
            found.push(Problem { line, is_error, module: module.clone(), text: text.trim().to_string() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn log_is_split_into_the_last_two_boots() {
        let boot = |version: &str, more: &str| {
            format!(
                "2031-03-04 05:06:07,890 - stage.rs[DEBUG]: Cloud-init v. {version} running 'init-local' at x. Up 1 s.\n{more}"
            )
        };
        let log = boot("1", "")
            + &boot("2", "")
            + &boot(
                "3",
                "x - e.rs[DEBUG]: start: init-network/config-ssh: running\n2031-03-04 05:06:08,1 - a.rs[WARNING]: say [b]: c\n",
            );
        let (last, before) = super::split(&log, 0);
        let (last, before) = (last.unwrap(), before.unwrap());
        assert_eq!((last.version.as_str(), before.version.as_str()), ("3", "2"));
        assert_eq!((last.problems[0].line, last.problems[0].module.as_deref()), (5, Some("ssh")));
        assert_eq!(last.problems[0].text, "say [b]: c");
        assert!(super::split("", 0).0.is_none());
        for (text, expected) in [
            ("Condition was false. Will not perform state change.", true),
            ("check_condition command: exited 1. condition not met.", true),
            ("check_condition command: unexpected exit 127. do not apply change.", true),
            ("check_condition command: exited 0. condition met.", false),
        ] {
            let log = boot("1", &format!("x - power_state_change.rs[DEBUG]: {text}\n"));
            let condition = super::split(&log, 0).0.unwrap().condition;
            assert_eq!(condition.as_deref(), expected.then_some(text));
        }
    }
}
