//! The handlers of `reporting:`: each gets the events of the boot. The log and standard output are sinks of `system`; the
//! others are here. A handler starts as soon as the configuration that names it is read: the machine's at the start of a
//! stage, the instance's once user-data and vendor-data are consumed.

mod hyperv;
mod keys;
mod webhook;

use std::collections::BTreeMap;
use std::time::Duration;

use config::{Findings, Node};
use state::Layout;
use system::{EventSink, StepResult, System, WriteOptions, debug, warning};

use crate::{Stage, StageName, Task};

/// The file below the run directory with events that a stage had no time to send, by handler. The next stage sends them.
const UNSENT_FILE: &str = "unsent-events.json";
const MAX_UNSENT: u64 = 4 << 20;

/// The time that handlers get for their last events. The next stage sends what an earlier one could not send.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const LAST_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a handler is made from.
struct Parts<'a> {
    sys: &'a System,
    layout: &'a Layout,
    name: &'a str,
    /// Events of an earlier stage.
    unsent: Vec<String>,
    /// Where unsent events are stored for the next stage; `None` in the last one.
    unsent_file: Option<String>,
    /// There may be no network yet: a failure is no reason to drop an event.
    before_network: bool,
}

impl Stage {
    /// Starts, replaces and stops handlers according to `reporting:` of the current settings. Unchanged ones continue.
    pub(crate) fn configure_reporting(&mut self) {
        let config = self.settings.merged.get("reporting").cloned();
        self.configure_handlers(config.as_ref());
    }

    /// Starts, in the local stage of a later boot once the instance is known, the handlers that an earlier boot stored for
    /// it. They get the events of this stage so far as well.
    pub(crate) fn configure_stored_reporting(&mut self, instance: &state::Instance) {
        let stored = self.stored_settings(instance, &["reporting"]);
        let config = stored.and_then(|settings| settings.merged.get("reporting").cloned());
        self.configure_handlers(config.as_ref());
    }

    fn configure_handlers(&mut self, config: Option<&Node>) {
        let is_silent = match &self.args.task {
            Task::Hotplug(_) => true,
            Task::Single(single) => !single.report,
            _ => false,
        };
        if is_silent || self.args.plan.is_some() {
            return;
        }
        let Some(config) = config.filter(|config| !config.is_falsy()) else { return };
        let mut findings = Findings::default();
        let mut reader = config::Reader::new();
        let Some(map) = config.as_map() else {
            reader.nested("reporting", |reader| reader.type_error::<()>(config, "a map"));
            return self.report_once(reader.into_findings());
        };
        for (key, node) in map.iter() {
            let name = key.scalar_text().unwrap_or_default();
            if self.handlers.get(&name) == Some(node) {
                continue;
            }
            self.handlers.insert(name.clone(), node.clone());
            self.sys.events().remove(&name);
            if node.is_falsy() {
                continue;
            }
            let mut reader = config::Reader::new();
            let keys = reader.nested("reporting", |r| r.nested(&name, |r| keys::Handler::read(node, r)));
            findings.extend(reader.into_findings());
            let Some(keys) = keys else { continue };
            let parts = Parts {
                sys: &self.sys,
                layout: &self.layout,
                name: &name,
                unsent: self.unsent.remove(&name).unwrap_or_default(),
                unsent_file: (!self.is_last()).then(|| self.layout.run(UNSENT_FILE)),
                before_network: self.name == StageName::Local,
            };
            match sink(keys, parts) {
                Ok(sink) => self.sys.events().add_and_replay(&self.sys, &name, sink),
                Err(e) => warning!(self.sys, "reporting.{name}: {e}"),
            }
        }
        self.report_once(findings);
    }

    /// Begins the stage's own step, with the handlers of the machine's configuration.
    pub(crate) fn begin_reporting(&mut self) {
        self.unsent = self.take_unsent();
        if self.name == StageName::Local {
            self.sys.events().keep();
        }
        if !matches!(self.args.task, Task::Single(_)) {
            self.configure_reporting();
        }
        self.step = Some(self.sys.begin_step(self.own_event(), self.own_description()));
    }

    /// Returns the name of the stage's own step.
    pub(crate) fn own_event(&self) -> String {
        match &self.args.task {
            Task::Single(single) => format!("single/{}", single.name),
            _ => self.name.event_name().into(),
        }
    }

    fn own_description(&self) -> String {
        match &self.args.task {
            Task::Single(single) => format!("running single module {}", single.name),
            _ => self.name.description().into(),
        }
    }

    /// Ends the stage's own step and waits for its handlers, for a limited time.
    pub(crate) fn end_reporting(&mut self) {
        let has_failed = !self.record.errors.is_empty() || self.sys.events().has_failure();
        let result = if has_failed { StepResult::Fail } else { StepResult::Success };
        if let Some(step) = self.step.take() {
            step.end(&self.sys, result, self.own_description());
        }
        self.sys.events().close(&self.sys, if self.is_last() { LAST_CLOSE_TIMEOUT } else { CLOSE_TIMEOUT });
        let unsent = std::mem::take(&mut self.unsent);
        if !self.is_last() {
            // Events of handlers that only a later stage starts.
            unsent.iter().for_each(|(name, events)| {
                store_unsent(&self.sys, &self.layout.run(UNSENT_FILE), name, events)
            });
        }
    }

    /// Returns whether no later stage of this boot continues.
    fn is_last(&self) -> bool {
        match self.args.task {
            Task::Boot => self.name == StageName::Final,
            Task::CatchUp(_) => false,
            _ => true,
        }
    }

    /// Reads and removes what earlier stages could not send.
    fn take_unsent(&self) -> BTreeMap<String, Vec<String>> {
        if self.args.task != Task::Boot || self.name == StageName::Local {
            return BTreeMap::new();
        }
        let path = self.layout.run(UNSENT_FILE);
        let unsent = read_unsent(&self.sys, &path);
        if !unsent.is_empty()
            && let Err(e) = self.sys.remove(&path)
        {
            debug!(self.sys, "{e}");
        }
        unsent
    }
}

fn sink(keys: keys::Handler, parts: Parts<'_>) -> system::Result<Box<dyn EventSink>> {
    Ok(match keys {
        keys::Handler::Log(level) => Box::new(system::LogSink(level)),
        keys::Handler::Print => Box::new(system::PrintSink),
        keys::Handler::Webhook(webhook) => Box::new(webhook::Webhook::start(webhook, parts)?),
        keys::Handler::HyperV { pool, event_types } => {
            Box::new(hyperv::HyperV::new(parts.sys, parts.name, pool, event_types))
        }
    })
}

fn read_unsent(sys: &System, path: &str) -> BTreeMap<String, Vec<String>> {
    let text = sys.read_at_most(path, MAX_UNSENT).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Adds events to those that the next stage will send.
fn store_unsent(sys: &System, path: &str, name: &str, events: &[String]) {
    let mut all = read_unsent(sys, path);
    all.entry(name.to_string()).or_default().extend_from_slice(events);
    let text = serde_json::to_vec(&all).unwrap_or_default();
    if text.len() as u64 > MAX_UNSENT {
        return warning!(sys, "reporting.{name}: {} events are too large to store; dropped", events.len());
    }
    if let Err(e) = sys.write(path, text, WriteOptions::secret()) {
        warning!(sys, "reporting.{name}: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/run/cloud-init/unsent-events.json";

    /// Stores an event of this size for a handler `h`, and returns the sizes of those that the next stage gets.
    fn stored(sys: &System, size: usize) -> Vec<usize> {
        store_unsent(sys, PATH, "h", &["x".repeat(size)]);
        read_unsent(sys, PATH).remove("h").unwrap_or_default().iter().map(String::len).collect()
    }

    #[test]
    fn unsent_events_beyond_the_limit_are_dropped() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        // The file is `{"h":["x…x"]}`.
        let largest = MAX_UNSENT as usize - r#"{"h":[""]}"#.len();
        assert!(stored(&sys, largest + 1).is_empty());
        assert_eq!(stored(&sys, largest), [largest]);
        assert_eq!(sys.read(PATH).unwrap().len() as u64, MAX_UNSENT);
        // The stored ones are kept.
        assert_eq!(stored(&sys, 1), [largest]);
    }

    #[test]
    fn larger_files_of_unsent_events_than_the_limit_are_ignored() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let text = r#"{"h":["e"]}"#;
        for (size, count) in [(MAX_UNSENT, 1), (MAX_UNSENT + 1, 0)] {
            let padding = " ".repeat(size as usize - text.len());
            sys.write(PATH, text.to_owned() + &padding, WriteOptions::default()).unwrap();
            assert_eq!(read_unsent(&sys, PATH).len(), count, "{size}");
        }
    }
}
