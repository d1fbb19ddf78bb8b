//! NICs that are plugged in while the machine runs: the metadata is fetched again, and once its network configuration
//! has the NIC, the configuration is written and the NIC brought up. udev's hook writes a line for each event into a FIFO;
//! systemd starts a service for the FIFO, which runs this code.

use std::time::Duration;

use config::Timeout;
use datasource::{Search, datasource};
use modules::{enable_hotplug, is_hotplug_enabled, is_hotplug_enabled_by_operator};
use netconfig::events::Event;
use netconfig::log_lines as lines;
use netconfig::{ApplyMode, Outcome, bring_up, decide, nics, parse};
use state::{Cached, Instance, Status, write_instance_data};
use system::{Deadline, Error, Result, debug, info, warning};

use crate::network::WriteOptions;
use crate::{Hotplug, Stage, error_prefix, platform};

/// The pause in seconds after each failed attempt but the last: a cloud's metadata lists a new NIC with a delay.
// Wait: hotplug | the next attempt | -
const RETRY_DELAYS: [u64; 4] = [1, 3, 5, 10];
/// Bytes that are read from the FIFO at once.
const MAX_QUEUE_BYTES: u64 = 64 << 10;
/// The FIFO that the hook writes to, below the run directory.
const FIFO: &str = "share/hook-hotplug-cmd";

impl Stage {
    /// Runs a task of `cloud-init devel hotplug-hook`.
    pub fn hotplug(&mut self, task: &Hotplug) {
        match task {
            Hotplug::Query => self.query_hotplug(),
            Hotplug::Enable => self.enable_hotplug(),
            Hotplug::Handle { path, action } => self.handle_event(path, action),
            Hotplug::Listen => {
                for (path, action) in self.read_queue() {
                    self.handle_event(&path, &action);
                }
            }
        }
    }

    /// Returns the cached instance. Each event reads it again, as the one before may have stored a newer one.
    fn load_cached(&self) -> Option<Instance> {
        match Instance::load(&self.sys, &self.layout) {
            Cached::Instance(instance) => Some(*instance),
            _ => None,
        }
    }

    /// Returns whether the user, an operator or the datasource's defaults enable hotplug.
    fn is_hotplug_enabled(&self, instance: &Instance) -> bool {
        is_hotplug_enabled(&self.sys, &self.layout, &self.settings.merged)
            || self.is_event_enabled(instance, Event::Hotplug)
    }

    /// Returns the input of the module `install_hotplug`.
    pub(crate) fn hotplug_settings<'i>(&self, instance: &'i Instance) -> modules::HotplugPolicy<'i> {
        modules::HotplugPolicy {
            enabled: self.is_event_enabled(instance, Event::Hotplug),
            udev_match: datasource::hotplug_udev_match(instance),
        }
    }

    fn query_hotplug(&mut self) {
        self.log_call("query", None, None);
        let Some(instance) = self.load_cached() else {
            let message = "Unable to determine hotplug state. No datasource detected";
            println!("{message}");
            return self.record_error(message.into());
        };
        println!("{}", if self.is_hotplug_enabled(&instance) { "enabled" } else { "disabled" });
    }

    fn enable_hotplug(&mut self) {
        self.log_call("enable", None, None);
        let Some(instance) = self.load_cached() else {
            return self.fail("cannot enable hotplug: no datasource was found yet");
        };
        let supported =
            datasource::update_events(&instance.datasource).map(|e| e.supported).unwrap_or_default();
        if !supported.contains(&"hotplug") {
            eprintln!("hotplug not supported for event of net");
            return self.fail(format!("the datasource {} does not support hotplug", instance.datasource));
        }
        if is_hotplug_enabled_by_operator(&self.sys, &self.layout) {
            eprintln!("Not installing hotplug for event of type net. Reason: Already done.");
            println!("Enabled cloud-init hotplug for subsystem=net");
            return;
        }
        match enable_hotplug(&self.sys, &self.layout, self.hotplug_settings(&instance).udev_match) {
            Ok(()) => println!("Enabled cloud-init hotplug for subsystem=net"),
            Err(e) => self.fail(format!("enabling hotplug: {e}")),
        }
    }

    /// Returns the path and action of each event in the FIFO, without duplicates.
    fn read_queue(&mut self) -> Vec<(String, String)> {
        let bytes = match self.sys.drain_fifo(self.layout.run(FIFO), MAX_QUEUE_BYTES) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.fail(format!("hotplug: {e}"));
                return Vec::new();
            }
        };
        let mut requests = Vec::new();
        for line in String::from_utf8_lossy(&bytes).lines().filter(|l| !l.trim().is_empty()) {
            match parse_request(line) {
                Some(request) if requests.contains(&request) => {}
                Some(request) => requests.push(request),
                None => warning!(self.sys, "hotplug: ignoring malformed request"),
            }
        }
        requests
    }

    /// Handles one event. An error is recorded in status.json, in the place of an earlier error of the same NIC.
    fn handle_event(&mut self, path: &str, action: &str) {
        let name = path.rsplit('/').next().unwrap_or_default().to_string();
        let is_name = !name.is_empty() && name.len() < 16 && name != ".." && name != ".";
        if !is_name || path.split('/').any(|part| part == "..") {
            return self.fail(format!("hotplug: invalid device path {path}"));
        }
        self.log_call("handle", Some(action), Some(path));
        info!(self.sys, "hotplug: {action} of {name}");
        debug!(self.sys, "Fetching datasource");
        let Some(instance) = self.load_cached() else {
            return self.record_hotplug(&name, Some("no datasource was found yet".into()));
        };
        if is_hotplug_enabled_by_operator(&self.sys, &self.layout) {
            let switch = self.layout.cloud("hotplug.enabled");
            debug!(self.sys, "Adding event: scope=network EventType=hotplug found in {switch}");
            debug!(self.sys, "{}hotplug", lines::ALLOWED);
        } else {
            self.log_events(&instance, &[Event::Hotplug]);
        }
        let supported =
            datasource::update_events(&instance.datasource).map(|e| e.supported).unwrap_or_default();
        if !supported.contains(&"hotplug") {
            debug!(self.sys, "hotplug not supported for event of type net");
            return;
        }
        if !self.is_hotplug_enabled(&instance) {
            debug!(self.sys, "hotplug not enabled for event of type net: {name} is not configured");
            return;
        }
        if action != "add" {
            debug!(self.sys, "hotplug: ignoring action '{action}'");
            return;
        }
        let deadline = Deadline::after(Timeout::Hotplug.of([&self.settings.merged]));
        debug!(self.sys, "Creating net event handler");
        let mut pauses = RETRY_DELAYS.into_iter().map(Duration::from_secs);
        let mut attempt = 0;
        let failure = loop {
            debug!(self.sys, "subsystem=net update attempt {attempt}/{}", RETRY_DELAYS.len() + 1);
            attempt += 1;
            let failure = match self.configure_nic(&instance, path, &name) {
                Ok(()) => break None,
                Err(e) => e,
            };
            debug!(self.sys, "Exception while processing hotplug event. {failure}");
            match pauses.next().filter(|pause| deadline.remaining() > *pause) {
                Some(pause) => {
                    debug!(self.sys, "hotplug: retrying in {} s", pause.as_secs());
                    self.sys.clock().sleep(pause);
                }
                None => break Some(failure.to_string()),
            }
        };
        self.record_hotplug(&name, failure);
        debug!(self.sys, "Exiting hotplug handler");
    }

    /// Logs the call, in upstream's words.
    fn log_call(&self, what: &str, action: Option<&str>, path: Option<&str>) {
        let [action, path] = [action, path].map(|word| word.unwrap_or("None"));
        debug!(
            self.sys,
            "hotplug-hook called with the following arguments: {{hotplug_action: {what}, subsystem: net, udevaction: \
             {action}, devpath: {path}}}"
        );
    }

    /// Fetches the metadata and configures the NIC accordingly.
    fn configure_nic(&mut self, instance: &Instance, path: &str, name: &str) -> Result<()> {
        let mac = self.sys.read_text(format!("/sys{path}/address"))?.trim().to_ascii_lowercase();
        debug!(self.sys, "Refreshing metadata");
        let found = self.refetch_instance(instance)?;
        debug!(self.sys, "Detecting device in updated metadata");
        let decision = decide(&self.network_inputs(Some(&found)));
        let Outcome::Use(config) = &decision.outcome else {
            info!(self.sys, "hotplug: {name} is not configured: {}", decision.reason);
            return Ok(());
        };
        let facts = nics::facts(&nics::read(&self.sys));
        let link = parse::parse(config, &facts).map_err(Error::new)?.model.links.into_iter().find(|link| {
            // The configuration may write a MAC with hyphens; the kernel uses colons.
            link.mac.as_deref().map(|m| m.replace('-', ":")).as_deref() == Some(mac.as_str())
                || (link.mac.is_none() && link.name == name)
        });
        let name = match link {
            Some(link) => link.name,
            None if !datasource::lists_hotplugged_nics(&found.datasource) => name.to_string(),
            None => {
                return Err(Error::new(format!(
                    "Failed to detect {mac} in updated metadata: no configuration for {name}"
                )));
            }
        };
        debug!(self.sys, "Applying config change");
        // The link exists and has its name: no wait.
        let mode = ApplyMode::Event("a NIC was plugged in");
        let options =
            WriteOptions { mode, has_instance: true, is_new: false, wait: Duration::ZERO, bring_up: false };
        let applied = self.write_network(&decision, &options)?;
        if let Some(error) = applied.no_renderer.into_iter().chain(applied.errors).next() {
            return Err(Error::new(error));
        }
        if self.may_bring_up() {
            let done = bring_up(&self.sys, &[name], self.network_list("activators").as_deref());
            if let (None, Some(problem)) = (done.activator, done.problems.into_iter().next()) {
                return Err(Error::new(problem));
            }
        }
        debug!(self.sys, "Updating cache");
        found.store(&self.sys, &self.layout)?;
        let config = self.settings.system.to_json();
        write_instance_data(&self.sys, &self.layout, &found, &platform::platform(&self.sys), &config)
    }

    /// Fetches the current metadata of this instance.
    fn refetch_instance(&self, instance: &Instance) -> Result<Instance> {
        let Some(row) = datasource(&instance.datasource) else {
            return Err(Error::new(format!("unknown datasource {}", instance.datasource)));
        };
        // The network is up by now. A datasource that needs no network is read as in the local stage.
        let stages = row.stages.iter().rev();
        let mut failure = None;
        for stage in stages {
            let ctx = Search {
                sys: &self.sys,
                layout: &self.layout,
                config: &self.settings.system,
                command_line: &self.command_line,
                stage: *stage,
                machine: self,
                has_cached_instance: false,
            };
            match row.find_instance(&ctx) {
                Ok(Some(found)) if found.id == instance.id => return Ok(found),
                Ok(Some(found)) => {
                    let now = found.id;
                    return Err(Error::new(format!(
                        "the metadata now belongs to instance {now}; the change takes effect at the next boot"
                    )));
                }
                Ok(None) => {}
                Err(e) => failure = Some(e),
            }
        }
        Err(failure.unwrap_or_else(|| Error::new(format!("{} has no metadata for this instance", row.name))))
    }

    /// Records the result for a NIC in status.json, beside the stages.
    fn record_hotplug(&mut self, nic: &str, failure: Option<String>) {
        let mut status = Status::read(&self.sys, &self.layout);
        let mut record = status.get(state::HOTPLUG);
        let prefix = error_prefix::hotplug(nic);
        let before = record.errors.len();
        record.errors.retain(|e| !e.starts_with(&prefix));
        match failure {
            Some(failure) => {
                self.fail(format!("{prefix}{failure}"));
                record.errors.push(format!("{prefix}{failure}"));
            }
            None if before == 0 => return,
            None => {}
        }
        record.finished = Some(self.sys.clock().uptime());
        record.start = record.start.or(record.finished);
        status.set(state::HOTPLUG, &record);
        if let Err(e) = status.write(&self.sys, &self.layout) {
            warning!(self.sys, "{e}");
        }
    }
}

/// Parses a line of the hook, which has the arguments of `devel hotplug-hook`, into path and action.
fn parse_request(line: &str) -> Option<(String, String)> {
    let (mut path, mut action, mut is_net) = (None, None, false);
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("--subsystem", value)) => is_net = value == "net",
            Some(("--devpath", value)) => path = Some(value.to_string()),
            Some(("--udevaction", value)) => action = Some(value.to_string()),
            _ if word == "handle" => {}
            _ => return None,
        }
    }
    path.zip(action).filter(|_| is_net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_requests_are_ignored() {
        let good = " --subsystem=net handle --devpath=/devices/pci/net/eth1 --udevaction=add";
        assert_eq!(parse_request(good), Some(("/devices/pci/net/eth1".into(), "add".into())));
        for bad in [
            "",
            "handle",
            "--subsystem=block handle --devpath=/x --udevaction=add",
            "--subsystem=net rm -rf /",
        ] {
            assert_eq!(parse_request(bad), None, "{bad}");
        }
    }
}
