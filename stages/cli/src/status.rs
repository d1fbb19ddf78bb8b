//! `status`: shows what cloud-init is doing or how it ended.

mod live;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use system::System;

use self::live::LiveLine;
pub use self::report::{BY_MARKER_FILE, Report, State, boot_code};
use crate::arguments::{self, StatusFormat};
use crate::machine::Machine;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Consecutive polls without a decision of the generator and without a running or queued stage, as systemd may be
/// reloading.
const POLLS_WITHOUT_VERDICT: u32 = 8;
const NO_VERDICT_MESSAGE: &str = "The generator did not decide whether cloud-init runs, and no stage is running or queued: \
                          cloud-init does not run in this boot. See 'journalctl -b' for the generator's messages.";

/// Ends a wait in which no stage ran and systemd did not answer: longer than the waits for a network between two stages.
// Wait: status --wait | a stage, where systemd does not answer or does not run | -
const TIME_WITHOUT_STAGE: Duration = Duration::from_secs(600);
const NO_STAGE_MESSAGE: &str =
    "No stage has run for ten minutes, and systemd does not say whether one will. See 'cloud-init doctor'.";

/// Decides whether a wait is in vain.
#[derive(Default)]
struct Patience {
    polls_without_verdict: u32,
    /// When a stage ran, or systemd answered; `None` before the first poll.
    last_sign: Option<Duration>,
}

impl Patience {
    /// Returns why the wait has to end, `None` if it goes on.
    fn end(&mut self, has_no_verdict: bool, has_sign: bool, now: Duration) -> Option<&'static str> {
        self.polls_without_verdict = if has_no_verdict { self.polls_without_verdict + 1 } else { 0 };
        let last = if has_sign { self.last_sign.insert(now) } else { self.last_sign.get_or_insert(now) };
        if self.polls_without_verdict == POLLS_WITHOUT_VERDICT {
            Some(NO_VERDICT_MESSAGE)
        } else {
            (now.saturating_sub(*last) >= TIME_WITHOUT_STAGE).then_some(NO_STAGE_MESSAGE)
        }
    }
}

pub fn run(machine: &Machine, args: &arguments::Status) -> ExitCode {
    let mut report = Report::read(machine);
    let is_open = |report: &Report| matches!(report.state, State::Running | State::NotStarted);
    // A script of a stage would wait forever, because the stage waits for the script.
    let host = System::new("/");
    let stage =
        (args.wait && is_open(&report)).then(|| crate::stage_processes::calling_stage(&host)).flatten();
    let mut patience = Patience::default();
    let mut line = LiveLine::on_terminal(args.format == StatusFormat::Tabular);
    while args.wait && stage.is_none() && is_open(&report) {
        if let Some(line) = &mut line {
            line.show(&report);
        } else if args.format == StatusFormat::Tabular {
            print!(".");
            let _ = std::io::Write::flush(&mut std::io::stdout());
        }
        machine.sys.clock().sleep(POLL_INTERVAL);
        report = Report::read(machine);
        let has_sign = !report.is_unknown(machine) || crate::stage_processes::may_run(&host);
        let has_no_verdict = report.has_no_verdict(machine);
        if let Some(why) = patience.end(has_no_verdict, has_sign, machine.sys.clock().elapsed()) {
            report.fail(why);
            break;
        }
    }
    drop(line);
    // Not while it waits: early in a boot systemd does not answer yet, which the next poll finds out.
    if let Some(e) = &report.unanswered {
        eprintln!(
            "Failed to get status from systemd. Cloud-init status may be inaccurate. Error from systemctl: {e}"
        );
    }
    match args.format {
        StatusFormat::Json => print!("{}", state::json_text(&report.json(), 2)),
        // Followed by a blank line, as upstream prints it.
        StatusFormat::Yaml => println!("{}", report.yaml()),
        StatusFormat::Tabular => print!("{}", report.tabular(args.long)),
    }
    if let Some(stage) = stage {
        eprintln!(
            "error: not waiting: this command was started by stage {stage}, which waits for this command"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::from(report.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_systemd_ends_ten_minutes_after_the_last_stage() {
        let mut patience = Patience::default();
        for (second, has_sign, ends) in [
            (100, false, false),
            (699, false, false),
            (699, true, false),
            (1298, false, false),
            (1299, false, true),
        ] {
            let why = patience.end(false, has_sign, Duration::from_secs(second));
            assert_eq!(why.is_some(), ends, "{second}");
        }
    }
}
