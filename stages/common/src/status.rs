//! The stage's record in status.json and result.json. It is written when the stage begins, with each error, and at the end.

use state::Status;
use system::{debug, error, info, warning};

use crate::{Stage, StageName, Task, error_prefix};

impl Stage {
    /// Returns whether the stage is recorded in the status: only the boot's own stages are.
    pub(crate) fn writes_status(&self) -> bool {
        self.args.task == Task::Boot
    }

    pub(crate) fn begin_status(&mut self, uptime: f64, was_undecided: bool) {
        let (sys, layout) = (&self.sys, &self.layout);
        if self.name == StageName::Local {
            self.remove_stale_temporaries();
            if let Err(e) = Status::remove_files(sys, layout) {
                error!(sys, "{e}");
            }
        } else {
            if sys.exists(layout.status()) {
                self.status = Status::read(sys, layout);
            } else if let Err(e) = Status::remove_files(sys, layout) {
                // Without the link, which is in /run, the file is of an earlier boot.
                error!(sys, "{e}");
            }
            if self.name == StageName::Network && self.local_was_interrupted(was_undecided) {
                warning!(sys, "the local stage did not complete; running its steps now");
                self.replaces_local = true;
            }
            let before = self.status.get(self.name.status_key());
            if before.start.is_some() && before.finished.is_none() {
                warning!(
                    sys,
                    "stage {} was started before in this boot and did not complete; starting it again",
                    self.name.status_key()
                );
            }
        }
        if self.args.plan.is_none() {
            let words = std::env::args_os().skip(1);
            if let Err(e) = system::exec_when_interrupted("--interrupted", words) {
                debug!(self.sys, "{e}");
            }
        }
        self.record.start = Some(uptime);
        self.status.stage = Some(self.name.status_key().into());
        // If this fails, so do the later writes, which count as errors.
        let _ = self.write_status();
        if self.name == StageName::Final {
            self.count_interrupted_stages();
        }
    }

    /// After an interrupted boot, removes the temporary files that were not renamed yet.
    fn remove_stale_temporaries(&self) {
        let (sys, layout) = (&self.sys, &self.layout);
        if self.args.plan.is_some() {
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

    /// Counts stages that a kill, or a disk that takes nothing, kept from recording their end. The network stage has
    /// replaced an interrupted local one.
    fn count_interrupted_stages(&mut self) {
        for (name, unit) in
            [(StageName::Network, "cloud-init-network.service"), (StageName::Config, "cloud-config.service")]
        {
            let record = self.status.get(name.status_key());
            if record.finished.is_none() && (record.start.is_some() || self.is_unit_enabled(unit)) {
                self.fail(format!("stage {} did not complete in this boot", name.status_key()));
            }
        }
    }

    /// Returns whether a unit is started at boot.
    fn is_unit_enabled(&self, unit: &str) -> bool {
        let wanted = format!("/etc/systemd/system/cloud-init.target.wants/{unit}");
        let masked = self.sys.read_link(format!("/etc/systemd/system/{unit}"));
        self.sys.is_link(&wanted) && masked.map_or(true, |to| to != "/dev/null")
    }

    /// Returns whether the local stage was to run in this boot and did not complete. One that the administrator disabled was
    /// not to run.
    fn local_was_interrupted(&self, was_undecided: bool) -> bool {
        let local = self.status.get(StageName::Local.status_key());
        let is_unit_enabled = || self.is_unit_enabled("cloud-init-local.service");
        // Its end is recorded, but it did not take all steps: a service manager's time limit is a SIGTERM.
        let prefix = error_prefix::interrupted(StageName::Local);
        if local.errors.iter().any(|error| error.starts_with(&prefix)) {
            return true;
        }
        local.finished.is_none() && (was_undecided || local.start.is_some() || is_unit_enabled())
    }

    /// Returns whether this network stage runs the steps of a local stage that did not complete in this boot.
    pub(crate) fn replaces_local(&self) -> bool {
        self.replaces_local
    }

    /// Logs an error, lists it in status.json and counts it in the exit code.
    pub fn fail(&mut self, message: impl Into<String>) {
        let message = message.into();
        error!(self.sys, "{message}");
        self.record_error(message);
    }

    /// Does the same as [`Stage::fail`] for an error that is already logged.
    pub fn record_error(&mut self, message: String) {
        self.record.errors.push(message);
        // Written at once, as the stage may be stopped or killed; errors are few.
        if self.writes_status() && self.record.start.is_some() {
            let _ = self.write_status();
        }
    }

    /// Turns the errors of a stage that begin with `prefix` into warnings.
    pub(crate) fn clear_errors(&mut self, name: StageName, prefix: &str) {
        if name == self.name {
            self.record.errors.retain(|e| !e.starts_with(prefix));
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
    fn write_status(&mut self) -> Result<(), String> {
        self.record.recoverable_errors.clear();
        self.record.record_messages(&self.sys.log().logged_warnings());
        self.status.set(self.name.status_key(), &self.record);
        self.status.write(&self.sys, &self.layout).map_err(|e| {
            error!(self.sys, "{e}");
            e.to_string()
        })
    }

    /// Writes how the stage went. A failure to write counts as an error, in the files that can still be written.
    pub(crate) fn finish_status(&mut self) {
        self.record.finished = Some(self.sys.clock().uptime());
        self.status.stage = None;
        if let Err(e) = self.write_status() {
            self.record.errors.push(e);
            let _ = self.write_status();
        }
        if self.name == StageName::Final
            && let Err(e) = self.status.write_result(&self.sys, &self.layout)
        {
            error!(self.sys, "{e}");
            self.record.errors.push(e.to_string());
            let _ = self.write_status();
            // Once more, with that error in it, if it can be written by now.
            let _ = self.status.write_result(&self.sys, &self.layout);
        }
    }
}
