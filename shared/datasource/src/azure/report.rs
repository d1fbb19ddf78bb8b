//! Reports to Azure that a machine is ready, or why it is not: once for each instance, so the report is recorded.

use std::time::Duration;

use serde_json::Value as Json;
use state::{Cached, Instance, Previous};
use system::{Command, Deadline, Error, System, debug, warning};

use super::{Azure, wire_server};
use crate::Search;

/// For the report. With DHCP and the metadata it fits into the stage's ten minutes.
const REPORT_TIMEOUT: Duration = Duration::from_secs(150);
/// Key, among the values kept for the instance check, of the last status reported to Azure.
const REPORTED: &str = "reported";

/// A failure to report to Azure, in Azure's own words where it has some.
pub struct Failure {
    pub reason: String,
    /// One more thing to know, by Azure's name for it.
    pub detail: Option<(&'static str, String)>,
}

/// What an earlier boot left of this very instance.
pub struct PreviousBoot {
    /// The status last reported to Azure; empty if unknown.
    pub reported: &'static str,
    /// It has been read from the metadata service.
    pub has_imds: bool,
    /// No boot before this one was this instance's.
    pub is_new: bool,
}

impl PreviousBoot {
    pub fn read(ctx: &Search<'_>, id: &str) -> PreviousBoot {
        match Instance::load(ctx.sys, ctx.layout) {
            Cached::Instance(known) if known.datasource == "Azure" && known.id == id => PreviousBoot {
                reported: match known.check.get(REPORTED).and_then(Json::as_str) {
                    Some("ready") => "ready",
                    Some("failure") => "failure",
                    _ => "",
                },
                has_imds: known.crawled.pointer("/meta_data/imds/network").is_some(),
                is_new: false,
            },
            // Python's cloud-init reported it, or Azure no longer waits for it.
            Cached::Python { id: Some(python_id) } if python_id == id => {
                PreviousBoot { reported: "ready", has_imds: false, is_new: false }
            }
            cached => {
                // What cannot be read may have said that Azure was told. A second report would be a new life for a machine
                // that has one: as in all doubt, only another id makes another instance.
                let is_other_instance =
                    matches!(&cached, Cached::Instance(_) | Cached::Python { id: Some(_) });
                let is_new =
                    is_other_instance || Previous::read(ctx.sys, ctx.layout).is_new_id(ctx.layout, id);
                PreviousBoot { reported: if is_new { "" } else { "ready" }, has_imds: !is_new, is_new }
            }
        }
    }
}

impl Azure<'_, '_> {
    /// Tells Azure how it went, if it has not heard so before; an error is why there is no instance. Returns what it
    /// knows now.
    pub fn report(&self, error: Option<&Error>, server: &str) -> &'static str {
        let sys = self.sys();
        let reported = self.previous.reported;
        let state = if self.failure.is_none() && error.is_none() { "ready" } else { "failure" };
        let is_enabled = state == "failure" || !self.is_set("experimental_skip_ready_report", false);
        // A machine that was ready once is no failure of its making, whatever happens to it.
        if reported == "ready" || reported == state || !is_enabled || !sys.is_live() {
            debug!(sys, "Azure: not reporting {state}: already reported, or not expected");
            return reported;
        }
        if state == "ready"
            && let Some(seed) = self.seed.as_ref().filter(|seed| seed.is_disc)
        {
            eject(sys, &seed.source);
        }
        let text = (state == "failure").then(|| self.failure_text(error));
        let deadline = Deadline::after(REPORT_TIMEOUT.min(self.policy.max_wait));
        match wire_server::report(sys, server, text.as_deref(), deadline) {
            Ok(()) => state,
            Err(e) => {
                let may = "Azure may take the machine for one that failed";
                warning!(sys, "Azure: {state} could not be reported: {e}; {may}");
                reported
            }
        }
    }

    fn failure_text(&self, error: Option<&Error>) -> String {
        let now = self.sys().clock().wall();
        match &self.failure {
            Some(Failure { reason, detail }) => {
                let detail = detail.as_ref().map(|(key, text)| (*key, text.as_str()));
                wire_server::encode_failure(reason, detail, &self.vm_id, now)
            }
            None => {
                let reason = error.map(ToString::to_string).unwrap_or_default();
                wire_server::encode_failure(&reason, None, &self.vm_id, now)
            }
        }
    }
}

/// Records the status of an instance that was reported to Azure.
pub fn record(instance: &mut Instance, reported: &str) {
    if !reported.is_empty() {
        instance.check.insert(REPORTED.into(), reported.into());
    }
}

/// Azure takes the disc away only from an open drive.
fn eject(sys: &System, device: &str) {
    const HELPER: &str = "/lib/udev/cdrom_id";
    let command = match sys.which("eject") {
        Some(_) => Command::new(["eject", device]),
        None => Command::new([HELPER, "--eject-media", device]),
    };
    if let Err(e) = sys.run(&command.timeout(Duration::from_secs(30))) {
        warning!(sys, "Azure: the disc stays in its drive: {e}");
    }
}
