//! Which network configuration applies to this machine, and applying it. The judgement is netconfig's; here its facts
//! are gathered from the settings, the command line and the instance.

use std::time::Duration;

use config::source_map::from_json;
use config::{Findings, Node, Position};
use datasource::{NetworkSource, Nic, Nics, datasource};
use netconfig::apply::DEFAULT_WAIT;
use netconfig::events::{self, Event};
use netconfig::log_lines as lines;
use netconfig::{
    Applied, ApplyMode, ApplyRequest, BootContext, Decision, Inputs, Outcome, Source, apply, apply_mode,
    bring_up, decide, facts, fallback_config, from_format, source,
};
use state::{Instance, NetworkConfig};
use system::{Result, debug, info, warning};

use crate::{FoundInstance, Stage, StageName};

/// The step whose effects come from the network configuration.
pub(crate) const NETWORK_STEP: &str = "network";

/// How a network configuration is written.
pub(crate) struct WriteOptions {
    pub mode: ApplyMode,
    /// There is an instance, whose folder keeps a copy.
    pub has_instance: bool,
    pub is_new: bool,
    /// For links that are not there yet.
    pub wait: Duration,
    /// Whether the links are brought up afterwards.
    pub bring_up: bool,
}

impl Stage {
    /// Decides, and writes and renames what is due. In the network stage only for an instance that was found there,
    /// or that asks for it with the event `boot-legacy`: the local stage did it for all others, if it came to its end.
    pub fn apply_network(&mut self, found: Option<&FoundInstance>) {
        let note = found.map(|f| self.network_due_marker(&f.instance)).filter(|note| self.sys.exists(note));
        let is_done = self.apply_network_if_due(found, note.is_some());
        if let Some(Err(e)) = note.filter(|_| is_done).map(|note| self.sys.remove(note)) {
            self.fail(e.to_string());
        }
    }

    /// The note that a new instance's network was not applied yet. Nothing else tells a stage that goes on, or the next
    /// boot, that the one before it was cut off in between, or could not write the files: by then the instance is known.
    pub(crate) fn network_due_marker(&self, instance: &Instance) -> String {
        format!("{}/network-is-due", self.layout.instance_dir(&instance.id))
    }

    /// Whether nothing is left to be done: an error leaves the network due.
    fn apply_network_if_due(&mut self, found: Option<&FoundInstance>, was_interrupted: bool) -> bool {
        let event = |event| found.is_some_and(|f| self.is_event_enabled(&f.instance, event));
        let again = self.name == StageName::Network && (event(Event::BootLegacy) || self.replaces_local());
        let applied = self.sys.exists(self.layout.run(source::APPLIED_MARKER));
        let is_new = was_interrupted || found.is_some_and(|f| f.is_new);
        if let Some(found) = found.filter(|_| !is_new) {
            // What was applied in this boot is not asked about again.
            let asked = [Event::Boot, Event::BootLegacy];
            self.log_events(&found.instance, if applied { &asked[1..] } else { &asked });
        }
        if self.name == StageName::Network && !again && !was_interrupted && found.is_none_or(|f| f.is_cached)
        {
            if found.is_some() {
                debug!(self.sys, "{}", lines::NOT_APPLIED);
            }
            return true;
        }
        self.sys.set_cause(NETWORK_STEP, "");
        for finding in self.user_events(found.map(|f| &f.instance)).1.iter() {
            warning!(self.sys, "{finding}");
        }
        let decision = self.decide_network(found.map(|f| &f.instance));
        let was_refetched = found.is_some_and(|f| !f.is_cached);
        let context = BootContext {
            has_datasource: found.is_some(),
            is_new_instance: is_new,
            boot_event: was_refetched && event(Event::Boot),
            // The network stage has what the local stage read in this boot.
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

    /// The configuration that counts, of all that there are; the likeliest one, unless the owner wants none, if there
    /// is none.
    fn decide_network(&self, instance: Option<&Instance>) -> Decision {
        let sys = &self.sys;
        let decision = decide(&self.network_inputs(instance));
        if decision.outcome != Outcome::NoConfig {
            return decision;
        }
        // Only now, as they may have to wait for udev to name the NICs.
        let from_cmdline = facts::command_line_config(sys, &self.command_line);
        let last_resort = match from_cmdline {
            Some(config) => {
                Some((config, "no source has a network config: what ip= on the kernel command line says"))
            }
            None if self.is_fallback_disabled() => None,
            None => fallback_config(sys)
                .map(|config| (config, "no source has a network config: DHCP on the likeliest NIC")),
        };
        match &last_resort {
            Some((config, why)) => decision.with_fallback(config, why),
            None => decision,
        }
    }

    /// What each source says.
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

    /// Writes the files and renames the links of what was decided, if it is due.
    pub(crate) fn write_network(&self, decision: &Decision, options: &WriteOptions) -> Result<Applied> {
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

    /// Whether links are brought up, or left to the owner.
    pub(crate) fn may_bring_up(&self) -> bool {
        self.settings.system.get("disable_network_activation").is_none_or(Node::is_falsy)
    }

    /// Where the configuration that was decided on was written, as far as it is known.
    fn position_of(&self, decision: &Decision, found: Option<&FoundInstance>) -> Option<Position> {
        let Outcome::Use(config) = &decision.outcome else { return None };
        let file = |name: &str| Some(Position { source: Some(name.into()), ..Position::default() });
        match decision.source? {
            Source::System => {
                self.settings.system.as_map()?.get_key_value("network").map(|(key, _)| key.at.clone())
            }
            // Formats that had to be put into other words have no lines any more.
            Source::Datasource if config.at.source.is_none() => {
                file(&network_source_name(&found?.instance, found?.instance.network.as_ref()?))
            }
            Source::Initramfs => file("initramfs"),
            Source::Fallback => None,
            Source::CommandLine | Source::Datasource => Some(config.at.clone()),
        }
    }

    /// What the instance says, as version 1 or 2.
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
        // These leave a machine that nobody configures to their own first-boot tools.
        let default = ["photon", "raspberry-pi-os"].contains(&self.distro().name);
        if set.peek().is_none() { default } else { set.any(|n| !n.is_falsy()) }
    }

    /// `system_info.network.KEY`, a list of names.
    pub(crate) fn network_list(&self, key: &str) -> Option<Vec<String>> {
        let list = self.settings.system.at_path(&["system_info", "network", key])?.as_seq()?;
        Some(list.iter().filter_map(|n| n.as_str().map(Into::into)).collect())
    }

    /// The events that the user has set instead of the datasource's own.
    fn user_events(&self, instance: Option<&Instance>) -> (Option<Vec<Event>>, Findings) {
        let mut findings = Findings::default();
        let updates = match instance {
            Some(instance) => self.updates(instance),
            None => self.settings.merged.get("updates"),
        };
        let events = events::from_updates(updates, &mut findings);
        (events, findings)
    }

    /// The setting `updates`. The local stage's settings have nothing of an instance; the events of one that is known to
    /// be this machine's are its user's all the same, as far as an earlier boot has stored them.
    fn updates(&self, instance: &Instance) -> Option<&Node> {
        let stored = || {
            let settings = self.stored_settings(instance, &["updates"]);
            (instance.id.clone(), settings.and_then(|settings| settings.merged.get("updates").cloned()))
        };
        let (id, updates) = self.instance_updates.get_or_init(stored);
        match updates {
            Some(updates) if *id == instance.id => Some(updates),
            _ => self.settings.merged.get("updates"),
        }
    }

    /// Whether a datasource's network configuration is read and applied again at an event.
    pub(crate) fn is_event_enabled(&self, instance: &Instance, event: Event) -> bool {
        let Some(of) = datasource::update_events(&instance.datasource) else { return false };
        let named = |words: &[&str]| words.iter().filter_map(|w| Event::from_name(w)).collect::<Vec<_>>();
        let of_user = self.user_events(Some(instance)).0;
        let [default, supported] = [of.default, of.supported].map(named);
        events::is_enabled(event, of_user.as_deref(), &default, &supported)
    }

    /// Logs which events are on, and what that means for these.
    pub(crate) fn log_events(&self, instance: &Instance, asked: &[Event]) {
        let defaults =
            datasource::update_events(&instance.datasource).map(|of| of.default).unwrap_or_default();
        let defaults = || defaults.iter().filter_map(|word| Event::from_name(word)).collect();
        let on = self.user_events(Some(instance)).0.unwrap_or_else(defaults);
        let format_event =
            |event: &Event| format!("<EventType.{}: '{}'>", event.constant_name(), event.as_str());
        for event in asked {
            let all = on.iter().map(format_event).collect::<Vec<_>>().join(", ");
            debug!(self.sys, "{}{{<EventScope.NETWORK: 'network'>: {{{all}}}}}", lines::EVENTS);
            let line = if self.is_event_enabled(instance, *event) { lines::ALLOWED } else { lines::DENIED };
            debug!(self.sys, "{line}{}", event.as_str());
        }
    }
}

/// What datasources may ask of the machine's NICs.
impl datasource::Machine for Stage {
    fn wait_for_devices(&self) {
        if self.sys.is_live() && !self.sys.is_container() {
            debug!(self.sys, "devices: {}", identify::second_look::settle(&self.sys));
        }
    }

    fn nics(&self) -> Nics {
        let all = netconfig::settled_nics(&self.sys);
        let nic = |nic: &&netconfig::nics::Nic| Nic {
            name: nic.name.clone(),
            mac: nic.mac.clone(),
            driver: nic.driver.clone(),
        };
        let renderers = self.network_list("renderers");
        Nics {
            candidates: netconfig::nics::candidates(&all).iter().map(nic).collect(),
            configurable: netconfig::nics::configurable(&all).unwrap_or_default().iter().map(nic).collect(),
            uses_netplan: netconfig::render::select(&self.sys, renderers.as_deref())
                .is_ok_and(|r| r.name == "netplan"),
        }
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

/// How messages call where an instance's network configuration came from.
fn network_source_name(instance: &Instance, network: &NetworkConfig) -> String {
    match network.source.as_str() {
        "" => format!("network configuration of {}", instance.description),
        file => file.to_string(),
    }
}
