//! The handlers of `reporting:`: each gets the events of the boot. The log and standard output are sinks of `system`; the
//! others are here. A handler starts as soon as the configuration that names it is read: the machine's at the start of a
//! stage, the instance's once user-data and vendor-data are consumed.

mod hyperv;
mod keys;
mod otlp;
mod unsent;
mod webhook;

use std::collections::BTreeMap;

use config::{Findings, Node};
use system::{EventSink, Step, warning};

use crate::{Boot, StageName, Task};
pub(crate) use unsent::{read_unsent, store_unsent};
use webhook::Parts;

/// The file below the run directory with events that a stage had no time to send, by handler. The next stage sends them.
pub(crate) const UNSENT_FILE: &str = "unsent-events.json";

/// The events of a stage, for the handlers of `reporting:`.
#[derive(Default)]
pub(crate) struct Reporting {
    /// The stage's own step, from its start to its end.
    pub(crate) step: Option<Step>,
    /// The configurations of the running handlers, by name.
    handlers: sort::Named<Option<Node>>,
    /// Events that earlier stages could not send, by handler.
    pub(crate) unsent: BTreeMap<String, Vec<String>>,
}

impl Reporting {
    /// Starts, replaces and stops handlers. Returns what is invalid in their configuration.
    pub(crate) fn configure(&mut self, boot: &Boot, config: Option<&Node>) -> Findings {
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
            let handler = self.handlers.entry(&name);
            if handler.as_ref() == Some(node) {
                continue;
            }
            *handler = Some(node.clone());
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

/// Returns whether no later stage of this boot continues.
pub(crate) fn is_last(boot: &Boot) -> bool {
    match boot.args.task {
        Task::Boot => boot.stage == StageName::Final,
        Task::CatchUp(_) => false,
        _ => true,
    }
}

fn sink(keys: keys::Handler, parts: Parts<'_>) -> system::Result<Box<dyn EventSink>> {
    Ok(match keys {
        keys::Handler::Log(level) => Box::new(system::LogSink(level)),
        keys::Handler::Print => Box::new(system::PrintSink),
        keys::Handler::Webhook(webhook) => Box::new(webhook::Webhook::start(webhook, parts)?),
        keys::Handler::Otlp(webhook) => {
            let (sys, layout) = (parts.sys, parts.layout);
            Box::new(otlp::Otlp::new(sys, layout, webhook::Webhook::start(webhook, parts)?))
        }
        keys::Handler::HyperV { pool, event_types } => {
            Box::new(hyperv::HyperV::new(parts.sys, parts.name, pool, event_types))
        }
    })
}
