//! What Azure is told of a machine: that it is ready, or why it is not. Once for each instance, so what it was told is kept.

use std::time::Duration;

use serde_json::Value as Json;
use state::{Cached, Instance};
use system::{Command, Deadline, Error, Result, System, debug, warning};

use super::{Azure, wire_server};
use crate::Search;

/// For the report. With DHCP and the metadata it fits into the stage's ten minutes.
const REPORT: Duration = Duration::from_secs(150);
/// Among what an instance keeps for its check: what Azure was told of it.
const REPORTED: &str = "reported";

/// What Azure is to be told, in its own words where it has some.
pub struct Failure {
    pub reason: String,
    pub details: Vec<(&'static str, String)>,
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
            _ => Known { told: "", is_whole: false, is_new: true },
        }
    }
}

impl Azure<'_, '_> {
    /// Tells Azure how it went, if it has not heard so before.
    pub fn report(&mut self, instance: Result<Instance>, server: &str) -> Result<Instance> {
        let sys = self.sys();
        let told = self.known.told;
        let now = if self.failure.is_none() && instance.is_ok() { "ready" } else { "failure" };
        let is_wanted = now == "failure" || !self.is_set("experimental_skip_ready_report", false);
        // A machine that was ready once is no failure of its making, whatever happens to it.
        if told == "ready" || told == now || !is_wanted || !sys.is_live() {
            debug!(sys, "Azure: {now} is not reported: it was before, or nobody wants it");
            return instance.map(|instance| noted(instance, told));
        }
        if now == "ready"
            && let Some(seed) = self.seed.as_ref().filter(|seed| seed.is_disc)
        {
            eject(sys, &seed.place);
        }
        let text = (now == "failure").then(|| self.failure_text(instance.as_ref().err()));
        let deadline = Deadline::after(REPORT.min(self.terms.max_wait));
        match wire_server::report(sys, server, text.as_deref(), deadline) {
            Ok(()) => instance.map(|instance| noted(instance, now)),
            Err(e) => {
                warning!(
                    sys,
                    "Azure: {now} could not be reported: {e}; Azure may take the machine for one that failed"
                );
                instance.map(|instance| noted(instance, told))
            }
        }
    }

    fn failure_text(&self, e: Option<&Error>) -> String {
        let unknown = Failure { reason: e.map(ToString::to_string).unwrap_or_default(), details: Vec::new() };
        let failure = self.failure.as_ref().unwrap_or(&unknown);
        let details: Vec<(&str, &str)> = failure.details.iter().map(|(k, v)| (*k, v.as_str())).collect();
        wire_server::encoded(&failure.reason, &details, &self.vm, self.sys().clock().wall())
    }
}

fn noted(mut instance: Instance, told: &str) -> Instance {
    if !told.is_empty() {
        instance.check.insert(REPORTED.into(), told.into());
    }
    instance
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
