//! `status`: shows what cloud-init is doing or how it ended.

mod live;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use system::System;

use self::live::LiveLine;
pub use self::report::{Report, State, boot_code};
use crate::arguments::{self, StatusFormat};
use crate::machine::Machine;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Consecutive polls without a decision of the generator and without a running or queued stage, as systemd may be
/// reloading.
const POLLS_WITHOUT_VERDICT: u32 = 8;
const NO_VERDICT_MESSAGE: &str = "The generator did not decide whether cloud-init runs, and no stage is running or queued: \
                          cloud-init does not run in this boot. See 'journalctl -b' for the generator's messages.";

pub fn run(machine: &Machine, args: &arguments::Status) -> ExitCode {
    let mut report = Report::read(machine);
    let is_open = |report: &Report| matches!(report.state, State::Running | State::NotStarted);
    // A script of a stage would wait forever, because the stage waits for the script.
    let stage =
        (args.wait && is_open(&report)).then(|| crate::ancestors::calling_stage(&System::new("/"))).flatten();
    let mut without_verdict = 0;
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
        without_verdict = if report.has_no_verdict(machine) { without_verdict + 1 } else { 0 };
        if without_verdict == POLLS_WITHOUT_VERDICT {
            report.fail(NO_VERDICT_MESSAGE);
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
