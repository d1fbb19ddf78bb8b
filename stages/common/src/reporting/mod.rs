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
use system::{EventSink, Step, StepResult, debug, warning};

use crate::status::Record;
use crate::{Boot, StageName, Task};
use unsent::{read_unsent, store_unsent};
use webhook::Parts;

/// The file below the run directory with events that a stage had no time to send, by handler. The next stage sends them.
const UNSENT_FILE: &str = "unsent-events.json";

/// The time that handlers get for their last events. The next stage sends what an earlier one could not send.
// Wait: reporting | the server of a webhook, at the end of a stage | -
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
// Wait: reporting | the server of a webhook, at the end of the final stage | -
const LAST_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The events of a stage, for the handlers of `reporting:`.
#[derive(Default)]
pub(crate) struct Reporting {
    /// The stage's own step, from its start to its end.
    step: Option<Step>,
    /// The configurations of the running handlers, by name.
    handlers: BTreeMap<String, Node>,
    /// Events that earlier stages could not send, by handler.
    unsent: BTreeMap<String, Vec<String>>,
}

impl Record {
    /// Starts, replaces and stops handlers according to `reporting:` of the current settings. Unchanged ones continue.
    pub(crate) fn configure_reporting(&mut self, boot: &Boot) {
        let findings = self.reporting.configure(boot, boot.settings.merged.get("reporting"));
        self.report_once(boot, findings);
    }

    /// Starts, in the local stage of a later boot once the instance is known, the handlers that an earlier boot stored for
    /// it. They get the events of this stage so far as well.
    pub(crate) fn configure_stored_reporting(&mut self, boot: &Boot, instance: &state::Instance) {
        let stored = boot.stored_settings(instance, &["reporting"]);
        let config = stored.as_ref().and_then(|settings| settings.merged.get("reporting"));
        let findings = self.reporting.configure(boot, config);
        self.report_once(boot, findings);
    }

    /// Begins the stage's own step, with the handlers of the machine's configuration.
    pub(crate) fn begin_reporting(&mut self, boot: &Boot) {
        self.reporting.unsent = take_unsent(boot);
        if boot.stage == StageName::Local {
            boot.sys.events().keep();
        }
        if !matches!(boot.args.task, Task::Single(_)) {
            self.configure_reporting(boot);
        }
        self.reporting.step = Some(boot.sys.begin_step(own_event(boot), own_description(boot)));
    }

    /// Ends the stage's own step and waits for its handlers, for a limited time.
    pub(crate) fn end_reporting(&mut self, boot: &Boot) {
        let events = boot.sys.events();
        let has_failed = !self.own.errors.is_empty() || events.has_failure();
        let result = if has_failed { StepResult::Fail } else { StepResult::Success };
        if let Some(step) = self.reporting.step.take() {
            step.end(&boot.sys, result, own_description(boot));
        }
        events.close(&boot.sys, if is_last(boot) { LAST_CLOSE_TIMEOUT } else { CLOSE_TIMEOUT });
        if !is_last(boot) {
            // Events of handlers that only a later stage starts.
            for (name, events) in std::mem::take(&mut self.reporting.unsent) {
                store_unsent(&boot.sys, &boot.layout.run(UNSENT_FILE), &name, &events);
            }
        }
    }
}

impl Reporting {
    /// Starts, replaces and stops handlers. Returns what is invalid in their configuration.
    fn configure(&mut self, boot: &Boot, config: Option<&Node>) -> Findings {
        let mut findings = Findings::default();
        let is_silent = match &boot.args.task {
            _ if boot.is_plan() => true,
            Task::Hotplug(_) => true,
            Task::Single(single) => !single.report,
            _ => false,
        };
        let Some(config) = config.filter(|config| !is_silent && !config.is_falsy()) else { return findings };
        let mut reader = config::Reader::new();
        let Some(map) = config.as_map() else {
            reader.nested("reporting", |reader| reader.type_error::<()>(config, "a map"));
            return reader.into_findings();
        };
        for (key, node) in map.iter() {
            let name = key.scalar_text().unwrap_or_default();
            if self.handlers.get(&name) == Some(node) {
                continue;
            }
            self.handlers.insert(name.clone(), node.clone());
            boot.sys.events().remove(&name);
            if node.is_falsy() {
                continue;
            }
            let mut reader = config::Reader::new();
            let keys = reader.nested("reporting", |r| r.nested(&name, |r| keys::Handler::read(node, r)));
            findings.extend(reader.into_findings());
            let Some(keys) = keys else { continue };
            let parts = Parts {
                sys: &boot.sys,
                layout: &boot.layout,
                name: &name,
                unsent: self.unsent.remove(&name).unwrap_or_default(),
                unsent_file: (!is_last(boot)).then(|| boot.layout.run(UNSENT_FILE)),
                before_network: boot.stage == StageName::Local,
            };
            match sink(keys, parts) {
                Ok(sink) => boot.sys.events().add_and_replay(&boot.sys, &name, sink),
                Err(e) => warning!(boot.sys, "{}: {e}", config::join_key("reporting", &name)),
            }
        }
        findings
    }
}

/// Returns the name of the stage's own step.
pub(crate) fn own_event(boot: &Boot) -> String {
    match &boot.args.task {
        Task::Single(single) => format!("single/{}", single.name),
        _ => boot.stage.event_name().into(),
    }
}

fn own_description(boot: &Boot) -> String {
    match &boot.args.task {
        Task::Single(single) => format!("running single module {}", single.name),
        _ => boot.stage.description().into(),
    }
}

/// Returns whether no later stage of this boot continues.
fn is_last(boot: &Boot) -> bool {
    match boot.args.task {
        Task::Boot => boot.stage == StageName::Final,
        Task::CatchUp(_) => false,
        _ => true,
    }
}

/// Reads and removes what earlier stages could not send.
fn take_unsent(boot: &Boot) -> BTreeMap<String, Vec<String>> {
    if !boot.is_recorded() || boot.stage == StageName::Local {
        return BTreeMap::new();
    }
    let path = boot.layout.run(UNSENT_FILE);
    let unsent = read_unsent(&boot.sys, &path);
    if !unsent.is_empty()
        && let Err(e) = boot.sys.remove(&path)
    {
        debug!(boot.sys, "{e}");
    }
    unsent
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
