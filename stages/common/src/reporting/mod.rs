//! The handlers of `reporting:`: each gets the events of the boot. The log and standard output are sinks of `system`; the
//! others are here. A handler starts as soon as the configuration that names it is read: the machine's at the start of a
//! stage, the instance's once user-data and vendor-data are consumed.

mod hyperv;
mod keys;
mod unsent;
mod webhook;

use std::collections::BTreeMap;
use std::time::Duration;

use config::{Findings, Node};
use system::{EventSink, StepResult, debug, warning};

use crate::{Stage, StageName, Task};
use unsent::{read_unsent, store_unsent};
use webhook::Parts;

/// The file below the run directory with events that a stage had no time to send, by handler. The next stage sends them.
const UNSENT_FILE: &str = "unsent-events.json";

/// The time that handlers get for their last events. The next stage sends what an earlier one could not send.
// Wait: reporting | the server of a webhook, at the end of a stage | -
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
// Wait: reporting | the server of a webhook, at the end of the final stage | -
const LAST_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

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
