//! Reports to Azure that a machine is ready, or why it is not: to the host through Hyper-V's key-value pairs, if the image
//! enables these, and to the wire server. The wire server gets one report for each instance, which is therefore recorded.

use std::time::Duration;

use config::Node;
use system::{Command, Error, KVP_POOL, Result, System, debug, error, info, warning};

use super::failure::{self, Failure};
use super::previous::PreviousBoot;
use super::settings::Settings;
use super::wire_server::{Health, WireServer};
use crate::Search;

/// The key of the host's report.
const HOST_REPORT: &str = "PROVISIONING_REPORT";

/// The reports of one search.
pub struct Reporter<'a> {
    sys: &'a System,
    vm_id: String,
    /// The pool of the handler `hyperv`, if that is configured as images of Azure do.
    pool: Option<String>,
    skip_ready: bool,
    /// Whether the start of provisioning is reported, too.
    provisioning: bool,
    failure: Option<Failure>,
    /// The failures that were not logged as errors so far.
    unlogged: Vec<String>,
    pub previous: PreviousBoot,
}

impl<'a> Reporter<'a> {
    pub fn new(ctx: &Search<'a>, vm_id: &str, previous: PreviousBoot) -> Reporter<'a> {
        Reporter {
            sys: ctx.sys,
            vm_id: vm_id.to_string(),
            pool: host_pool(ctx.config),
            skip_ready: Settings::of(ctx).is_set("experimental_skip_ready_report", false),
            provisioning: Settings::of(ctx).reports_provisioning(ctx.sys),
            failure: None,
            unlogged: Vec::new(),
            previous,
        }
    }

    /// Records a failure, which is reported at the end, and to the host at once.
    pub fn fail(&mut self, failure: Failure) {
        self.report_to_host(&failure);
        // The first one is the cause of the others.
        self.failure.get_or_insert(failure);
    }

    /// Reports a failure to the host only: a later attempt may still succeed. It is logged at level INFO: the end of the search
    /// decides whether it is an error of its own ([`Reporter::log_failures`]) or the reason of one ([`Reporter::explain`]).
    pub fn report_to_host(&mut self, failure: &Failure) {
        let cause = failure.details.iter().find(|(key, _)| *key == "exception");
        let cause = cause.map(|(_, text)| format!(": {text}")).unwrap_or_default();
        self.note(format!("{}{cause}", failure.reason));
        if self.previous.reported != "ready" {
            self.send_to_host(&failure.encode(&self.vm_id, self.sys.clock().wall()));
        }
    }

    /// Records a consequence of the failures so far.
    pub fn note(&mut self, text: String) {
        info!(self.sys, "Azure: {text}");
        self.unlogged.push(text);
    }

    /// Logs the failures of a search that nevertheless found an instance, as one error.
    pub fn log_failures(&mut self) {
        let failures = std::mem::take(&mut self.unlogged);
        if !failures.is_empty() {
            error!(self.sys, "Azure: {}", failures.join("; "));
        }
    }

    /// Returns the error of a search that found no instance, with the failures before it.
    pub fn explain(&self, error: Error) -> Error {
        let (text, failures) = (error.to_string(), self.unlogged.join("; "));
        match failures {
            failures if failures.is_empty() => error,
            failures if failures.contains(&text) => Error::new(format!("Azure: {failures}")),
            failures => Error::new(format!("{text}: {failures}")),
        }
    }

    pub fn has_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// Drops the failure of a NIC over which Azure's services are not reachable.
    pub fn forget_failure(&mut self) {
        self.failure = None;
    }

    fn send_to_host(&self, report: &str) {
        let Some(pool) = self.pool.as_ref().filter(|_| self.sys.is_live()) else { return };
        if let Err(e) = self.sys.append_kvp(pool, &[(HOST_REPORT, report)]) {
            warning!(self.sys, "Azure: writing the Hyper-V KVP report failed: {e}");
        }
    }

    /// Reports the result unless that was done before; `error` is the reason if there is no instance. Returns the status that
    /// Azure has now.
    pub fn report(
        &self,
        error: Option<&Error>,
        server: &mut WireServer<'_>,
        disc: Option<&str>,
    ) -> &'static str {
        let sys = self.sys;
        let reported = self.previous.reported;
        let state = if self.failure.is_none() && error.is_none() { "ready" } else { "failure" };
        let is_enabled = state == "failure" || !self.skip_ready;
        // A machine that has reported "ready" is provisioned: a later failure is not a provisioning failure.
        if reported == "ready" || reported == state || !is_enabled || !sys.is_live() {
            debug!(sys, "Azure: not reporting {state}: already reported, or not expected");
            return reported;
        }
        let sent = match state {
            "ready" => self.ready(server, disc),
            _ => server.report(Health::Failed(&self.failure_text(error))),
        };
        match sent {
            Ok(()) => state,
            Err(e) => {
                let message = format!(
                    "Azure: {state} could not be reported: {e}; Azure may consider its provisioning failed"
                );
                match state {
                    "ready" => warning!(sys, "{message}"),
                    // The failure itself is logged as a warning or an error.
                    _ => info!(sys, "{message}"),
                }
                reported
            }
        }
    }

    /// Reports that the machine is ready, after opening the drive of its provisioning disc.
    pub fn ready(&self, server: &mut WireServer<'_>, disc: Option<&str>) -> Result<()> {
        self.send_to_host(&failure::encode_success(&self.vm_id, self.sys.clock().wall()));
        if let Some(device) = disc {
            eject(self.sys, device);
        }
        server.report(Health::Ready)
    }

    /// Reports that provisioning has begun, if that is enabled: once, at an instance's first boot. A failure to
    /// report it does not affect the boot.
    pub fn report_provisioning(&self, server: &mut WireServer<'_>) {
        let sys = self.sys;
        if !self.provisioning || !self.previous.is_new || !self.previous.reported.is_empty() || !sys.is_live()
        {
            return;
        }
        if let Err(e) = server.report(Health::Provisioning) {
            info!(sys, "Azure: the start of provisioning could not be reported: {e}");
        }
    }

    fn failure_text(&self, error: Option<&Error>) -> String {
        let now = self.sys.clock().wall();
        if let Some(failure) = &self.failure {
            return failure.encode(&self.vm_id, now);
        }
        let failure = Failure::new(error.map(ToString::to_string).unwrap_or_default());
        let text = failure.encode(&self.vm_id, now);
        self.send_to_host(&text);
        text
    }
}

/// Returns the pool of the reporting handler that Azure's images configure, if they do: `reporting: {telemetry: {type:
/// hyperv}}`.
fn host_pool(config: &Node) -> Option<String> {
    let handler = config.at_path(&["reporting", "telemetry"])?;
    if handler.get("type").and_then(Node::as_str) != Some("hyperv") {
        return None;
    }
    Some(handler.get("kvp_file_path").and_then(Node::as_str).unwrap_or(KVP_POOL).to_string())
}

/// Opens the drive: Azure removes the disc only from an open one.
fn eject(sys: &System, device: &str) {
    const HELPER: &str = "/lib/udev/cdrom_id";
    let command = match sys.which("eject") {
        Some(_) => Command::new(["eject", device]),
        None => Command::new([HELPER, "--eject-media", device]),
    };
    // Wait: Azure | the drive to eject the provisioning disc | -
    if let Err(e) = sys.run(&command.timeout(Duration::from_secs(30))) {
        warning!(sys, "Azure: could not eject the disc: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_of_the_handler_telemetry_is_used() {
        for (config, expected) in [
            ("reporting: {telemetry: {type: hyperv}}", Some(KVP_POOL)),
            ("reporting: {telemetry: {type: hyperv, kvp_file_path: /x}}", Some("/x")),
            ("reporting: {telemetry: {type: log}}", None),
            ("reporting: {logging: {type: hyperv}}", None),
            ("reporting: 3", None),
        ] {
            let config = config::yaml::parse("x", config).unwrap().root;
            assert_eq!(host_pool(&config).as_deref(), expected);
        }
    }
}
