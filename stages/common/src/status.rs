//! The record of a stage in status.json and result.json, and its events. The record is written when the stage begins, with
//! each error, and at the end.

use std::process::ExitCode;

use config::Position;
use netconfig::replaced::Replaced;
use state::{StageStatus, Status};
use system::{Command, Level, OutputMode, debug, error, info, warning};

use crate::reporting::Reporting;
use crate::{Boot, StageName, error_prefix};

/// The results of a stage, for status.json, result.json and the handlers of `reporting:`.
#[derive(Default)]
pub struct Record {
    /// The status of all stages of this boot.
    pub(crate) status: Status,
    /// The record of this stage in the status.
    pub(crate) own: StageStatus,
    /// This network stage runs the steps of a local stage that did not complete in this boot.
    pub(crate) replaces_local: bool,
    /// The NICs of the written network configuration were replaced.
    pub(crate) replaced_nics: Option<Replaced>,
    /// The source position of the network configuration that applies.
    pub(crate) network_position: Option<Position>,
    /// The events for the handlers of `reporting:`.
    pub(crate) reporting: Reporting,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { status: Status::new(), ..Record::default() }
    }

    pub(crate) fn begin(&mut self, boot: &Boot, uptime: f64, was_undecided: bool) {
        let (sys, layout) = (&boot.sys, &boot.layout);
        state::prepare_run_directory(sys, layout);
        if boot.stage == StageName::Local {
            remove_stale_temporaries(boot);
            // The status is in it. An error is reported with those of the other directories.
            for path in [layout.cloud(""), layout.cloud("data")] {
                sys.log_error(Level::Debug, state::create_directory(sys, layout, &path));
            }
            sys.log_error(Level::Error, Status::remove_files(sys, layout));
        } else {
            if sys.exists(layout.status()) {
                self.status = Status::read(sys, layout);
            } else {
                // Without the link, which is in /run, the file is of an earlier boot.
                sys.log_error(Level::Error, Status::remove_files(sys, layout));
            }
            if boot.stage == StageName::Network && self.local_was_interrupted(boot, was_undecided) {
                warning!(sys, "the local stage did not complete; running its steps now");
                self.replaces_local = true;
            }
            let before = self.status.get(boot.stage.status_key());
            if before.start.is_some() && before.finished.is_none() {
                let stage = boot.stage.status_key();
                let then = "did not complete; starting it again";
                warning!(sys, "stage {stage} was started before in this boot and {then}");
            }
        }
        if !boot.is_plan() {
            let words = std::env::args_os().skip(1);
            boot.sys.log_error(Level::Debug, system::exec_when_interrupted("--interrupted", words));
        }
        self.own.start = Some(uptime);
        self.status.stage = Some(boot.stage.status_key().into());
        // If this fails, the later writes fail too and are recorded as errors.
        let _ = self.write_status(boot);
        if boot.stage == StageName::Final {
            self.count_interrupted_stages(boot);
        }
    }

    /// Records an error for each earlier stage that did not record its end, because it was killed or the disk could not be
    /// written. The local stage is left out, as the network stage replaces an interrupted one.
    fn count_interrupted_stages(&mut self, boot: &Boot) {
        for (name, unit) in
            [(StageName::Network, "cloud-init-network.service"), (StageName::Config, "cloud-config.service")]
        {
            let record = self.status.get(name.status_key());
            if record.finished.is_none() && (record.start.is_some() || is_unit_enabled(boot, unit)) {
                self.fail(boot, format!("stage {} did not complete in this boot", name.status_key()));
            }
        }
    }

    /// Returns whether the local stage did not complete in this boot, although it is enabled.
    fn local_was_interrupted(&self, boot: &Boot, was_undecided: bool) -> bool {
        let local = self.status.get(StageName::Local.status_key());
        let is_unit_enabled = || is_unit_enabled(boot, "cloud-init-local.service");
        // Its end is recorded, but a signal interrupted it, for example at the service manager's time limit.
        let prefix = error_prefix::interrupted(StageName::Local);
        if local.errors.iter().any(|error| error.starts_with(&prefix)) {
            return true;
        }
        local.finished.is_none() && (was_undecided || local.start.is_some() || is_unit_enabled())
    }

    /// Logs an error, lists it in status.json and counts it in the exit code.
    pub fn fail(&mut self, boot: &Boot, message: impl Into<String>) {
        let message = message.into();
        error!(boot.sys, "{message}");
        self.record_error(boot, message);
    }

    /// Does the same as [`Record::fail`] for an error that is already logged.
    pub fn record_error(&mut self, boot: &Boot, message: String) {
        self.own.errors.push(message);
        // Written at once, as the stage may be stopped or killed; errors are few.
        if boot.is_recorded() && self.own.start.is_some() {
            let _ = self.write_status(boot);
        }
    }

    /// Turns the errors of a stage that begin with `prefix` into warnings.
    pub(crate) fn clear_errors(&mut self, boot: &Boot, name: StageName, prefix: &str) {
        if name == boot.stage {
            self.own.errors.retain(|e| !e.starts_with(prefix));
        } else {
            self.status.clear_errors(name.status_key(), prefix);
        }
    }

    /// Sets the datasource that `cloud-init status` shows.
    pub fn set_datasource(&mut self, description: &str) {
        self.status.datasource = Some(description.into());
    }

    /// Sets a field of status.json that upstream does not have.
    pub fn set_extra(&mut self, key: &str, text: &str) {
        self.status.set_extra(key, text.into());
    }

    /// Writes the status. An error is logged and returned.
    fn write_status(&mut self, boot: &Boot) -> Result<(), String> {
        self.own.recoverable_errors.clear();
        self.own.record_messages(&boot.sys.log().logged_warnings());
        self.status.set(boot.stage.status_key(), &self.own);
        self.status.write(&boot.sys, &boot.layout).map_err(|e| {
            error!(boot.sys, "{e}");
            e.to_string()
        })
    }

    /// Writes how the stage went. A failure to write counts as an error, in the files that can still be written.
    pub(crate) fn finish(&mut self, boot: &Boot) {
        self.own.finished = Some(boot.sys.clock().uptime());
        self.status.stage = None;
        if let Err(e) = self.write_status(boot) {
            self.own.errors.push(e);
            let _ = self.write_status(boot);
        }
        if boot.stage == StageName::Final
            && let Err(e) = self.status.write_result(&boot.sys, &boot.layout)
        {
            error!(boot.sys, "{e}");
            self.own.errors.push(e.to_string());
            let _ = self.write_status(boot);
            // Try again, with that error in the result.
            let _ = self.status.write_result(&boot.sys, &boot.layout);
        }
    }

    /// Returns the number of errors as an exit code; 255 stands for more.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(u8::try_from(self.own.errors.len()).unwrap_or(u8::MAX))
    }
}

/// After an interrupted boot, removes the temporary files that were not renamed yet.
fn remove_stale_temporaries(boot: &Boot) {
    let (sys, layout) = (&boot.sys, &boot.layout);
    if boot.is_plan() {
        return;
    }
    let sweep = |top: String, depth| match sys.remove_stale_temporaries(&top, depth) {
        Ok(0) => {}
        Ok(count) => info!(sys, "removed {count} temporary files of an interrupted boot below {top}"),
        Err(e) if e.is_not_found() => {}
        Err(e) => debug!(sys, "{e}"),
    };
    match Status::previous_boot_completed(sys, layout) {
        Some(true) => {}
        Some(false) => {
            sweep(layout.cloud(""), 6);
            sweep("/etc".into(), 4);
            sweep("/root/.ssh".into(), 0);
        }
        // A first boot, or one that was interrupted while it wrote its first status.
        None => sweep(layout.data(""), 0),
    }
}

/// Returns whether a unit is started at boot.
pub(crate) fn is_unit_enabled(boot: &Boot, unit: &str) -> bool {
    let wanted = format!("/etc/systemd/system/cloud-init.target.wants/{unit}");
    let masked = boot.sys.read_link(format!("/etc/systemd/system/{unit}"));
    boot.sys.is_link(&wanted) && masked.map_or(true, |to| to != "/dev/null")
}

/// Starts a process that confirms the work of this and earlier stages beside the next stage, which waits for the process before
/// it confirms its own. Returns whether that is done.
pub(crate) fn start_confirming(boot: &Boot) -> bool {
    let sys = &boot.sys;
    if !sys.is_live() || boot.is_plan() {
        return false;
    }
    if !state::has_unconfirmed(sys, &boot.layout) {
        return true;
    }
    let Some(program) = system::libexec::find("cloud-init-config") else { return false };
    let files = boot.args.files.iter().flat_map(|file| ["--file", file]);
    let words = [&*program.to_string_lossy(), "--confirm"].map(str::to_string).into_iter();
    let command = Command::new(words.chain(files.map(str::to_string))).output(OutputMode::Null);
    sys.spawn_detached(&command).inspect_err(|e| debug!(sys, "{e}")).is_ok()
}

/// Confirms the work of this and earlier stages, before the status says that it is done.
pub(crate) fn confirm(boot: &Boot) {
    if let Err(e) = state::confirm_ended(&boot.sys, &boot.layout, boot.stage == StageName::Final) {
        warning!(boot.sys, "{e}; the next boot repeats what may be lost after a power failure");
    }
}
