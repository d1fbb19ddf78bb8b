//! Cleans up after a stage that was stopped or killed, with the information on disk only.

use std::process::ExitCode;
use std::time::Duration;

use state::{Cached, Instance, Status};
use system::{Level, debug, error, info};

use crate::status::confirm;
use crate::{Boot, StageName, error_prefix, journal, logging};

/// The time that the stage's programs have to end; systemd gives the stage 90 seconds.
// Wait: a stopped stage | its programs to end after SIGTERM; then they are killed | -
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);

fn open_log(boot: &Boot) {
    logging::open_log(&boot.sys, &boot.settings, boot.args.debug);
    boot.sys.log().discard_early();
}

/// Removes the network for metadata that a stage left, however it ended.
pub(crate) fn undo_network(boot: &Boot) -> ExitCode {
    open_log(boot);
    ephemeral::roll_back_stale(&boot.sys, &boot.layout.run(ephemeral::JOURNAL_DIR));
    ExitCode::SUCCESS
}

/// Ends the programs that the stage was waiting for, removes its network for metadata, and records the signal in log
/// and status. The exit code is 128 plus the signal's number.
pub(crate) fn record(boot: &Boot, signal: &str) -> ExitCode {
    open_log(boot);
    let (stage, sys, layout) = (boot.stage, &boot.sys, &boot.layout);
    let message = format!("{}{signal}", error_prefix::interrupted(stage));
    // Upstream's sentence, which scripts search for.
    info!(sys, "Received signal {signal} resulting in exit. Cause: stage {} had to end", stage.status_key());
    sys.print(&message);
    error!(sys, "{message}");
    for program in system::terminate_programs(TERMINATION_TIMEOUT) {
        info!(sys, "ended {program}");
    }
    let activity = layout.run(state::ACTIVITY_FILE);
    sys.log_error(Level::Debug, sys.remove(&activity));
    ephemeral::roll_back_stale(sys, &layout.run(ephemeral::JOURNAL_DIR));
    modules::finish_interrupted(sys, layout);
    confirm(boot);
    debug!(sys, "finish: {}: FAIL: running stage {}", stage.event_name(), stage.status_key());
    let mut status = Status::read(sys, layout);
    let mut record = status.get(stage.status_key());
    record.start = record.start.or(Some(sys.clock().uptime()));
    record.errors.push(message);
    record.record_messages(&sys.log().logged_warnings());
    record.finished = Some(sys.clock().uptime());
    if status.datasource.is_none()
        && let Cached::Instance(instance) = Instance::load_without_raw_data(sys, layout)
    {
        status.datasource = Some(instance.description.clone());
    }
    journal::send_failures(boot, &record);
    status.set(stage.status_key(), &record);
    status.stage = None;
    sys.log_error(Level::Error, status.write(sys, layout));
    if stage == StageName::Final
        && let Err(e) = status.write_result(sys, layout)
    {
        error!(sys, "{e}");
    }
    ExitCode::from(system::exit_code_of_signal(signal))
}
