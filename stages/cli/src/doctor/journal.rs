//! The journal of this boot: the lines that give a reason.

use std::time::Duration;

use system::Command;

use crate::machine::Machine;

// Wait: doctor | systemctl and journalctl, each | -
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// SD_MESSAGE_SPAWN_FAILED of systemd's sd-messages.h.
const SPAWN_FAILED: &str = "MESSAGE_ID=641257651c1b4ec9a8624d7a40a9e1e7";
/// Lines of the journal that are read, and those that are quoted.
const JOURNAL_LINES: &str = "100";
const QUOTED_LINES: usize = 6;
/// Parts of systemd's lines about a unit that failed again and again, which give no reason, separated by bars.
const REPEATED: &str = "Scheduled restart job|Start request repeated too quickly|: Failed with result 'exit-code'|Failed to start |\
    Starting |Stopped ";

/// Returns systemd's messages about a unit. The process that cannot start a program says so itself.
pub fn of_systemd(machine: &Machine, unit: &str) -> Vec<String> {
    let of = format!("UNIT={unit}");
    ask_journal(machine, &["_PID=1", &of, "+", SPAWN_FAILED, &of])
}

/// Returns the last messages of this boot's journal that these options of journalctl select.
pub fn ask_journal(machine: &Machine, options: &[&str]) -> Vec<String> {
    let command = Command::new(["journalctl", "-b", "-q", "-o", "cat", "--no-pager", "-n", JOURNAL_LINES]);
    let command = options.iter().fold(command, |command, word| command.arg(*word));
    let done = machine.sys.run(&command.timeout(TIMEOUT).accept_all().read_only());
    done.map(|done| quoted(&done.text())).unwrap_or_default()
}

/// Returns the last lines that may give a reason, each once; the last ones if there is none.
fn quoted(journal: &str) -> Vec<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for line in journal.lines().filter(|line| !REPEATED.split('|').any(|part| line.contains(part))) {
        reasons.retain(|known| *known != line);
        reasons.push(line);
    }
    let lines = if reasons.is_empty() { journal.lines().collect() } else { reasons };
    lines[lines.len().saturating_sub(QUOTED_LINES)..].iter().map(|line| (*line).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_do_not_hide_the_reason() {
        let start = "Starting ssh.service - OpenBSD Secure Shell server...\n/usr/sbin/sshd: bad option\n\
                     ssh.service: Main process exited, code=exited, status=255/EXCEPTION\n\
                     ssh.service: Failed with result 'exit-code'.\nFailed to start ssh.service - OpenBSD Secure Shell server.\n\
                     ssh.service: Scheduled restart job, restart counter is at 5.\n";
        let reasons = [
            "/usr/sbin/sshd: bad option",
            "ssh.service: Main process exited, code=exited, status=255/EXCEPTION",
        ];
        assert_eq!(quoted(&start.repeat(9)), reasons);
        assert_eq!(quoted("Starting a\n"), ["Starting a"]);
        let lines: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(quoted(&lines.join("\n")), &lines[3..]);
    }
}
