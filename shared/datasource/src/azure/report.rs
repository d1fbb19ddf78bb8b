//! What Azure is told of a machine: that it is ready, or why it is not. Once for each instance, so what it was told is kept.

use std::time::Duration;

use serde_json::Value as Json;
use state::{Cached, Instance, Previous};
use system::{Command, Deadline, Error, System, debug, warning};

use super::{Azure, wire_server};
use crate::Search;

/// For the report. With DHCP and the metadata it fits into the stage's ten minutes.
const REPORT: Duration = Duration::from_secs(150);
/// Among what an instance keeps for its check: what Azure was told of it.
const REPORTED: &str = "reported";

/// What Azure is to be told, in its own words where it has some.
pub struct Failure {
    pub reason: String,
    /// One more thing to know, by Azure's name for it.
    pub detail: Option<(&'static str, String)>,
}

/// What an earlier boot left of this very instance.
pub struct Known {
    /// What Azure was told of it, if that is known.
    pub told: &'static str,
    /// It has been read from the metadata service.
    pub is_whole: bool,
    /// No boot before this one was this instance's.
    pub is_new: bool,
}

impl Known {
    pub fn read(with: &Search<'_>, id: &str) -> Known {
        match Instance::load(with.sys, with.layout) {
            Cached::Instance(known) if known.datasource == "Azure" && known.id == id => Known {
                told: match known.check.get(REPORTED).and_then(Json::as_str) {
                    Some("ready") => "ready",
                    Some("failure") => "failure",
                    _ => "",
                },
                is_whole: known.crawled.pointer("/meta_data/imds/network").is_some(),
                is_new: false,
            },
            // Python's cloud-init told Azure, or nobody waits for it any more.
            Cached::Python { id: Some(of_python) } if of_python == id => {
                Known { told: "ready", is_whole: false, is_new: false }
            }
            cached => {
                // What cannot be read may have said that Azure was told. A second report would be a new life for a machine
                // that has one: as in all doubt, only another id makes another instance.
                let is_of_another = matches!(&cached, Cached::Instance(_) | Cached::Python { id: Some(_) });
                let is_new =
                    is_of_another || Previous::read(with.sys, with.layout).is_new_id(with.layout, id);
                Known { told: if is_new { "" } else { "ready" }, is_whole: !is_new, is_new }
            }
        }
    }
}

impl Azure<'_, '_> {
    /// Tells Azure how it went, if it has not heard so before; an error is why there is no instance. Returns what it
    /// knows now.
    pub fn report(&self, error: Option<&Error>, server: &str) -> &'static str {
        let sys = self.sys();
        let told = self.known.told;
        let now = if self.failure.is_none() && error.is_none() { "ready" } else { "failure" };
        let is_wanted = now == "failure" || !self.is_set("experimental_skip_ready_report", false);
        // A machine that was ready once is no failure of its making, whatever happens to it.
        if told == "ready" || told == now || !is_wanted || !sys.is_live() {
            debug!(sys, "Azure: {now} is not reported: it was before, or nobody wants it");
            return told;
        }
        if now == "ready"
            && let Some(seed) = self.seed.as_ref().filter(|seed| seed.is_disc)
        {
            eject(sys, &seed.place);
        }
        let text = (now == "failure").then(|| self.failure_text(error));
        let deadline = Deadline::after(REPORT.min(self.terms.max_wait));
        match wire_server::report(sys, server, text.as_deref(), deadline) {
            Ok(()) => now,
            Err(e) => {
                let may = "Azure may take the machine for one that failed";
                warning!(sys, "Azure: {now} could not be reported: {e}; {may}");
                told
            }
        }
    }

    fn failure_text(&self, error: Option<&Error>) -> String {
        let now = self.sys().clock().wall();
        match &self.failure {
            Some(Failure { reason, detail }) => {
                let detail = detail.as_ref().map(|(key, text)| (*key, text.as_str()));
                wire_server::encoded(reason, detail, &self.vm, now)
            }
            None => {
                let reason = error.map(ToString::to_string).unwrap_or_default();
                wire_server::encoded(&reason, None, &self.vm, now)
            }
        }
    }
}

/// Keeps what Azure was told of an instance.
pub fn note(instance: &mut Instance, told: &str) {
    if !told.is_empty() {
        instance.check.insert(REPORTED.into(), told.into());
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
