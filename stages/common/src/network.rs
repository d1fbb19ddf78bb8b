//! Decides which network configuration applies to this machine, and applies it. The decision is netconfig's; its inputs
//! are gathered here from the settings, the command line and the instance.

use std::time::Duration;

use config::source_map::from_json;
use config::{Node, Position};
use datasource::{NetworkSource, datasource};
use netconfig::apply::DEFAULT_WAIT;
use netconfig::events::Event;
use netconfig::log_lines as lines;
use netconfig::{
    Applied, ApplyMode, ApplyRequest, BootContext, Decision, Inputs, Outcome, Source, apply, apply_mode,
    bring_up, decide, facts, fallback_config, from_format, source,
};
use state::{Instance, NetworkConfig};
use system::{Result, debug, info, warning};

use crate::{FoundInstance, Stage, StageName};

/// The name of the step that applies the network configuration, as a cause of effects.
pub(crate) const NETWORK_STEP: &str = "network";

/// How to write a network configuration.
pub(crate) struct WriteOptions {
    /// What is applied, and why.
    pub mode: ApplyMode,
    /// There is an instance, whose directory keeps a copy.
    pub has_instance: bool,
    /// The machine was another instance before.
    pub is_new: bool,
    /// How long to wait for links that do not exist yet.
    pub wait: Duration,
    /// Whether the links are brought up afterwards.
    pub bring_up: bool,
}

impl Stage {
    /// Writes the network configuration and renames links, if that is due. The network stage does so only for an instance
    /// that was found there, or that enables the event `boot-legacy`: the local stage did it for all others, if it completed.
    pub fn apply_network(&mut self, found: Option<&FoundInstance>) {
        // The machine needs its own network, which may have no DHCP, to find its instance in the network stage.
        let expected = self.expected.take().filter(|_| found.is_none());
        let instance = found.map(|f| &f.instance).or(expected.as_deref());
        let marker = instance.map(|i| self.network_due_marker(i)).filter(|path| self.sys.exists(path));
        let is_done = self.apply_network_if_due(found, instance, marker.is_some());
        if let Some(Err(e)) = marker.filter(|_| is_done).map(|path| self.sys.remove(path)) {
            self.fail(e.to_string());
        }
    }

    /// Returns the path of the marker that a new instance's network is not applied yet. It tells a later stage or the next
    /// boot that the one before was interrupted or could not write the files, although the instance is known.
    pub(crate) fn network_due_marker(&self, instance: &Instance) -> String {
        format!("{}/network-is-due", self.layout.instance_dir(&instance.id))
    }

    /// Returns whether the network is done; after an error it stays due.
    fn apply_network_if_due(
        &mut self,
        found: Option<&FoundInstance>,
        instance: Option<&Instance>,
        was_interrupted: bool,
    ) -> bool {
        let event = |event| found.is_some_and(|f| self.is_event_enabled(&f.instance, event));
        let again = self.name == StageName::Network && (event(Event::BootLegacy) || self.replaces_local());
        let applied = self.sys.exists(self.layout.run(source::APPLIED_MARKER));
        let is_new = was_interrupted || found.is_some_and(|f| f.is_new);
        if let Some(found) = found.filter(|_| !is_new) {
            // The event `boot` does not concern what is applied in this boot already.
            let events = [Event::Boot, Event::BootLegacy];
            self.log_events(&found.instance, if applied { &events[1..] } else { &events });
        }
        if self.name == StageName::Network && !again && !was_interrupted && found.is_none_or(|f| f.is_cached)
        {
            if found.is_some() {
                debug!(self.sys, "{}", lines::NOT_APPLIED);
            }
            return true;
        }
        self.sys.set_cause(NETWORK_STEP, "");
        for finding in self.user_events(instance).1.iter() {
            warning!(self.sys, "{finding}");
        }
        let decision = self.decide_network(instance);
        let was_refetched = found.is_some_and(|f| !f.is_cached);
        let context = BootContext {
            has_datasource: instance.is_some(),
            is_new_instance: is_new,
            boot_event: was_refetched && event(Event::Boot),
            // The network stage uses what the local stage fetched in this boot.
            boot_legacy_event: event(Event::BootLegacy) && (was_refetched || (again && applied)),
            applied,
        };
        self.network_position = self.position_of(&decision, found);
        let may_bring_up = self.name == StageName::Network && self.may_bring_up();
        let options = WriteOptions {
            mode: apply_mode(&context),
            has_instance: found.is_some() && !self.activation_failed,
            is_new,
            wait: DEFAULT_WAIT,
            bring_up: may_bring_up,
        };
        match self.write_network(&decision, &options) {
            Ok(applied) => {
                if applied.renderer.is_some() && may_bring_up {
                    debug!(self.sys, "{}", lines::BRINGING_UP);
                    bring_up(&self.sys, &applied.links, self.network_list("activators").as_deref());
                } else if applied.renderer.is_some() {
                    debug!(self.sys, "{}", lines::NOT_BRINGING_UP);
                }
                for (path, change) in &applied.files {
                    info!(self.sys, "{path}: {change:?}");
                }
                self.record_findings(&applied.findings);
                if !applied.edited.is_empty() {
                    self.set_extra("network_files_edited", &applied.edited.join(" "));
                }
                for error in applied.errors {
                    self.fail(error);
                }
                true
            }
            Err(e) => {
                self.fail(format!("applying the network configuration: {e}"));
                false
            }
        }
    }

    /// Returns the configuration of the source with the highest precedence. If no source has one: the fallback, unless the
    /// owner disabled it.
    fn decide_network(&self, instance: Option<&Instance>) -> Decision {
        let sys = &self.sys;
        let decision = decide(&self.network_inputs(instance));
        if decision.outcome != Outcome::NoConfig {
            return decision;
        }
        // Not earlier, as these may have to wait for udev to name the NICs.
        let from_cmdline = facts::command_line_config(sys, &self.command_line);
        let last_resort = match from_cmdline {
            Some(config) => {
                Some((config, "no source has a network config: using ip= from the kernel command line"))
            }
            None if self.is_fallback_disabled() => None,
            None => fallback_config(sys)
                .map(|config| (config, "no source has a network config: DHCP on the preferred NIC")),
        };
        match &last_resort {
            Some((config, why)) => decision.with_fallback(config, why),
            None => decision,
        }
    }

    /// Collects the network configuration of each source.
    pub(crate) fn network_inputs(&self, instance: Option<&Instance>) -> Inputs {
        let sys = &self.sys;
        let row = instance.and_then(|i| datasource(&i.datasource));
        Inputs {
            disabled_by_file: Some(self.layout.data("upgraded-network")).filter(|marker| sys.exists(marker)),
            order: row.map(|row| row.network_order.iter().map(to_source).collect()),
            command_line: source::from_command_line(&self.command_line)
                .and_then(|read| read.map_err(|e| warning!(sys, "{e}")).ok()),
            initramfs: facts::initramfs_config(sys, &self.command_line),
            system: self.settings.system.get("network").cloned(),
            datasource: instance.and_then(|i| self.datasource_network(i)),
        }
    }

    /// Writes the files and renames the links of a decision, if that is due.
    ///
    /// # Errors
    /// Fails if the configuration cannot be applied at all; errors of single links are in the result.
    pub(crate) fn write_network(&self, decision: &Decision, options: &WriteOptions) -> Result<Applied> {
        self.measure_network(decision);
        let renderers = self.network_list("renderers");
        let instance_dir = options.has_instance.then(|| self.layout.instance(""));
        let request = ApplyRequest {
            decision,
            mode: options.mode,
            distro: self.distro().name,
            renderers: renderers.as_deref(),
            instance_dir: instance_dir.as_deref(),
            run_dir: &self.layout.run(""),
            data_dir: &self.layout.data(""),
            is_new_instance: options.is_new,
            wait: options.wait,
            bring_up: options.bring_up,
        };
        apply(&self.sys, &request)
    }

    /// Returns whether links are brought up (`disable_network_activation`).
    pub(crate) fn may_bring_up(&self) -> bool {
        self.settings.system.get("disable_network_activation").is_none_or(Node::is_falsy)
    }

    /// Returns where the configuration of a decision was written, if that is known.
    fn position_of(&self, decision: &Decision, found: Option<&FoundInstance>) -> Option<Position> {
        let Outcome::Use(config) = &decision.outcome else { return None };
        let file = |name: &str| Some(Position { source: Some(name.into()), ..Position::default() });
        match decision.source? {
            Source::System => {
                self.settings.system.as_map()?.get_key_value("network").map(|(key, _)| key.at.clone())
            }
            // Formats that were converted have no lines.
            Source::Datasource if config.at.source.is_none() => {
                file(&network_source_name(&found?.instance, found?.instance.network.as_ref()?))
            }
            Source::Initramfs => file("initramfs"),
            Source::Fallback => None,
            Source::CommandLine | Source::Datasource => Some(config.at.clone()),
        }
    }

    /// Returns the instance's network configuration as version 1 or 2.
    pub(crate) fn datasource_network(&self, instance: &Instance) -> Option<Node> {
        let network = instance.network.as_ref()?;
        let source = network_source_name(instance, network);
        let content = from_json(&network.content, &source, &network.positions);
        let renderers = self.network_list("renderers");
        match from_format(&self.sys, &network.format, &content, renderers.as_deref()) {
            Ok(config) => Some(config),
            Err(e) => {
                warning!(self.sys, "{}: network configuration ignored: {e}", instance.datasource);
                None
            }
        }
    }

    fn is_fallback_disabled(&self) -> bool {
        let key = "disable_fallback_netcfg";
        let system = &self.settings.system;
        let places = [system.at_path(&["system_info", key]), system.get(key)];
        let mut set = places.into_iter().flatten().peekable();
        // These distributions leave a machine without a configuration to their own first-boot tools.
        let default = ["photon", "raspberry-pi-os"].contains(&self.distro().name);
        if set.peek().is_none() { default } else { set.any(|n| !n.is_falsy()) }
    }

    /// Returns the list of names in `system_info.network.KEY`.
    pub(crate) fn network_list(&self, key: &str) -> Option<Vec<String>> {
        let list = self.settings.system.at_path(&["system_info", "network", key])?.as_seq()?;
        Some(list.iter().filter_map(|n| n.as_str().map(Into::into)).collect())
    }
}

fn to_source(source: &NetworkSource) -> Source {
    match source {
        NetworkSource::CommandLine => Source::CommandLine,
        NetworkSource::Initramfs => Source::Initramfs,
        NetworkSource::System => Source::System,
        NetworkSource::Datasource => Source::Datasource,
    }
}

/// Returns the name of an instance's network configuration in messages.
fn network_source_name(instance: &Instance, network: &NetworkConfig) -> String {
    match network.source.as_str() {
        "" => format!("network configuration of {}", instance.description),
        file => file.to_string(),
    }
}
