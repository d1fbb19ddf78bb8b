//! Which network configuration applies to this machine, and applying it. The judgement is netconfig's; here its facts
//! are gathered from the settings, the command line and the instance.

use config::Node;
use datasource::{NetworkSource, datasource};
use netconfig::{
    Inputs, Moment, Outcome, Plan, Source, apply, bring_up, decide, due, fallback, from_format, source,
};
use state::Instance;
use system::{info, warning};

use crate::{Found, Name, Stage};

impl Stage {
    /// Decides, and writes and renames what is due. In the network stage only for an instance that was found there:
    /// the local stage did it for all others.
    pub fn apply_network(&mut self, found: Option<&Found>) {
        if self.name == Name::Network && found.is_none_or(|f| f.is_cached) {
            return;
        }
        let sys = &self.sys;
        let from_line = source::from_command_line(&self.command_line)
            .and_then(|r| r.map_err(|e| warning!(sys, "{e}")).ok());
        let of_datasource = found.and_then(|f| self.datasource_network(&f.instance));
        let order: Option<Vec<Source>> = found
            .and_then(|f| datasource(&f.instance.datasource))
            .map(|row| row.network_order.iter().map(order).collect());
        let mut inputs = Inputs {
            frozen: sys.exists(self.layout.data("upgraded-network")),
            order: order.as_deref(),
            command_line: from_line.as_ref(),
            initramfs: None,
            system: self.settings.system.get("network"),
            datasource: of_datasource.as_ref(),
            fallback: None,
        };
        let mut decision = decide(&inputs);
        // Only now, as it may have to wait for udev to name the NICs.
        let fallback = if decision.outcome == Outcome::Nothing && !self.wants_no_fallback() {
            fallback(sys)
        } else {
            None
        };
        if fallback.is_some() {
            inputs.fallback = fallback.as_ref();
            decision = decide(&inputs);
        }
        let was_read_anew = found.is_some_and(|f| !f.is_cached);
        let moment = Moment {
            has_datasource: found.is_some(),
            new_instance: found.is_some_and(|f| f.is_new),
            on_boot: was_read_anew && self.has_update_event("boot"),
            on_boot_legacy: was_read_anew && self.has_update_event("boot-legacy"),
            applied: sys.exists(self.layout.run(source::APPLIED_MARKER)),
        };
        let instance_dir = found.map(|_| self.layout.instance(""));
        let renderers = self.network_list("renderers");
        let plan = Plan {
            decision: &decision,
            due: due(&moment),
            distro: self.distro().name,
            renderers: renderers.as_deref(),
            instance_dir: instance_dir.as_deref(),
            run_dir: &self.layout.run(""),
            wait: netconfig::apply::USUAL_WAIT,
        };
        match apply(sys, &plan) {
            Ok(applied) => {
                let wanted =
                    self.settings.system.get("disable_network_activation").is_none_or(Node::is_falsy);
                if self.name == Name::Network && wanted && applied.renderer.is_some() {
                    bring_up(sys, &applied.links, self.network_list("activators").as_deref());
                }
                for (path, change) in &applied.files {
                    info!(self.sys, "{path}: {change:?}");
                }
            }
            Err(e) => self.fail(format!("applying the network configuration: {e}")),
        }
    }

    /// What the instance says, as version 1 or 2.
    fn datasource_network(&self, instance: &Instance) -> Option<Node> {
        let network = instance.network.as_ref()?;
        match from_format(
            &self.sys,
            &network.format,
            &Node::from_json(&network.content),
            self.network_list("renderers").as_deref(),
        ) {
            Ok(config) => Some(config),
            Err(e) => {
                warning!(self.sys, "{}: network configuration ignored: {e}", instance.datasource);
                None
            }
        }
    }

    fn wants_no_fallback(&self) -> bool {
        let key = "disable_fallback_netcfg";
        let system = &self.settings.system;
        let places = [system.at_path(&["system_info", key]), system.get(key)];
        places.into_iter().flatten().any(|n| !n.is_falsy())
    }

    /// `system_info.network.KEY`, a list of names.
    fn network_list(&self, key: &str) -> Option<Vec<String>> {
        let list = self.settings.system.at_path(&["system_info", "network", key])?.as_seq()?;
        Some(list.iter().filter_map(|n| n.as_str().map(Into::into)).collect())
    }

    /// Whether `updates: {network: {when: […]}}` names the event.
    pub(crate) fn has_update_event(&self, event: &str) -> bool {
        let when = self.settings.merged.at_path(&["updates", "network", "when"]).and_then(Node::as_seq);
        when.into_iter().flatten().any(|word| word.as_str() == Some(event))
    }
}

fn order(source: &NetworkSource) -> Source {
    match source {
        NetworkSource::CommandLine => Source::CommandLine,
        NetworkSource::Initramfs => Source::Initramfs,
        NetworkSource::System => Source::System,
        NetworkSource::Datasource => Source::Datasource,
    }
}
