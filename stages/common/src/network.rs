//! Decides which network configuration applies to this machine, and applies it. The decision is netconfig's; its inputs
//! are gathered here from the settings, the command line and the instance.

use std::time::Duration;

use config::source_map::from_json;
use config::{Node, Position};
use datasource::datasource;
use netconfig::apply::{DEFAULT_WAIT, MANIFEST};
use netconfig::events::Event;
use netconfig::log_lines as lines;
use netconfig::manifest::Manifest;
use netconfig::parse::Parsed;
use netconfig::replaced::Replaced;
use netconfig::{
    Applied, ApplyMode, ApplyRequest, BootContext, Decision, Facts, Inputs, Outcome, Source, apply,
    apply_mode, bring_up, decide, facts, fallback_config, find_replaced, from_format, nics, source,
};
use state::{Instance, NetworkConfig};
use system::{Level, Result, debug, info, warning};

use crate::events::Events;
use crate::status::Record;
use crate::{Boot, FoundInstance, NotFound, StageName, measure};

/// The name of the step that applies the network configuration, as a cause of effects.
pub(crate) const NETWORK_STEP: &str = "network";

/// The MAC addresses of the NICs for which this boot applied the network configuration, below the run directory.
pub(crate) const NICS_FILE: &str = "nics";

/// How to write a network configuration.
pub(crate) struct WriteOptions<'a> {
    /// The configuration as it was parsed with these facts, if it was parsed already.
    pub parsed: Option<&'a (Facts, Parsed)>,
    /// Which parts are applied, and why.
    pub mode: ApplyMode,
    /// There is an instance, whose directory keeps a copy.
    pub has_instance: bool,
    /// As in [`ApplyRequest`].
    pub missing_nics: &'a [String],
    /// The machine was another instance before.
    pub is_new: bool,
    /// How long to wait for links that do not exist yet.
    pub wait: Duration,
    /// Whether the links are brought up afterwards.
    pub bring_up: bool,
}

/// Writes the network configuration and renames links, if that is due. The network stage does so only for an instance
/// that was found there, or that enables the event `boot-legacy`: the local stage did it for all others, if it completed.
pub fn apply_network(boot: &Boot, record: &mut Record, found: &FoundInstance) {
    apply_until_done(boot, record, Some(found), Some(&found.instance));
}

/// Applies the network configuration of a machine without an instance, with which the network stage may find one. On a
/// network without DHCP that needs the machine's own configuration.
pub fn apply_network_without_instance(boot: &Boot, record: &mut Record, not_found: &NotFound) {
    apply_until_done(boot, record, None, not_found.expected.as_deref());
}

fn apply_until_done(
    boot: &Boot,
    record: &mut Record,
    found: Option<&FoundInstance>,
    instance: Option<&Instance>,
) {
    let (sys, layout) = (&boot.sys, &boot.layout);
    let is_due = instance.is_some_and(|i| state::is_network_due(sys, layout, &i.id));
    let is_done = apply_if_due(boot, record, found, instance, is_due);
    if is_due
        && is_done
        && let Err(e) = state::mark_network_written(sys, layout)
    {
        record.fail(boot, e.to_string());
    }
}

/// Records the NICs that the network configuration is about to be applied to.
fn record_nics(boot: &Boot) {
    let macs: Vec<String> = nics::read(&boot.sys).into_iter().map(|nic| nic.mac + "\n").collect();
    let path = boot.layout.run(NICS_FILE);
    boot.sys.log_error(Level::Warning, boot.sys.write(path, macs.concat(), system::WriteOptions::default()));
}

/// Returns whether the network was applied or did not have to be; after an error it stays due.
fn apply_if_due(
    boot: &Boot,
    record: &mut Record,
    found: Option<&FoundInstance>,
    instance: Option<&Instance>,
    was_interrupted: bool,
) -> bool {
    let events = Events::of(boot, instance);
    let event = |event| found.is_some() && events.is_enabled(event);
    let again = boot.stage == StageName::Network && (event(Event::BootLegacy) || record.replaces_local);
    let applied = boot.sys.exists(boot.layout.run(source::APPLIED_MARKER));
    let is_new = was_interrupted || found.is_some_and(|f| f.is_new);
    if found.is_some() && !is_new {
        // The event `boot` does not concern what is applied in this boot already.
        let requested = [Event::Boot, Event::BootLegacy];
        events.log(boot, if applied { &requested[1..] } else { &requested });
    }
    if boot.stage == StageName::Network && !again && !was_interrupted && found.is_none_or(|f| f.is_cached) {
        if found.is_some() {
            debug!(boot.sys, "{}", lines::NOT_APPLIED);
        }
        return true;
    }
    boot.sys.set_cause(NETWORK_STEP, "");
    record_nics(boot);
    for finding in events.findings.iter() {
        warning!(boot.sys, "{finding}");
    }
    let mut decision = decide_network(boot, instance);
    let replaced = record.replaced_nics.take().filter(|_| instance.is_some() && !is_new);
    let missing_nics = match &replaced {
        Some(nics) => fit_to_nics(boot, &mut decision, nics),
        None => Vec::new(),
    };
    let was_refetched = found.is_some_and(|f| !f.is_cached);
    let context = BootContext {
        has_datasource: instance.is_some(),
        is_new_instance: is_new,
        boot_event: was_refetched && event(Event::Boot),
        // The network stage uses what the local stage fetched in this boot.
        boot_legacy_event: event(Event::BootLegacy) && (was_refetched || (again && applied)),
        applied,
        is_replaced: replaced.is_some(),
    };
    record.network_position = position_of(boot, &decision, found);
    let may_bring_up = boot.stage == StageName::Network && may_bring_up(boot);
    let options = WriteOptions {
        parsed: None,
        mode: apply_mode(&context),
        // The instance keeps its configuration, for the NICs that may come back.
        has_instance: missing_nics.is_empty() && found.is_some_and(|f| !f.is_unrecorded),
        missing_nics: &missing_nics,
        is_new,
        wait: DEFAULT_WAIT,
        bring_up: may_bring_up,
    };
    match write_network(boot, &decision, &options) {
        Ok(applied) => {
            if applied.renderer.is_some() && may_bring_up {
                debug!(boot.sys, "{}", lines::BRINGING_UP);
                bring_up(&boot.sys, &applied.links, boot.network_list("activators").as_deref());
            } else if applied.renderer.is_some() {
                debug!(boot.sys, "{}", lines::NOT_BRINGING_UP);
            }
            for (path, change) in &applied.files {
                info!(boot.sys, "{path}: {change:?}");
            }
            record.record_findings(&applied.findings);
            if !applied.edited.is_empty() {
                record.set_extra("network_files_edited", &applied.edited.join(" "));
            }
            for error in applied.errors {
                record.fail(boot, error);
            }
            true
        }
        Err(e) => {
            record.fail(boot, format!("applying the network configuration: {e}"));
            false
        }
    }
}

/// Returns the configuration of the source with the highest precedence. If no source has one: the fallback, unless the
/// owner disabled it.
fn decide_network(boot: &Boot, instance: Option<&Instance>) -> Decision {
    let sys = &boot.sys;
    let decision = decide(&network_inputs(boot, instance));
    if decision.outcome != Outcome::NoConfig {
        return decision;
    }
    // Not earlier, as these may have to wait for udev to name the NICs.
    if let Some(config) = netconfig::command_line_config(sys, &boot.command_line) {
        let why = "no source has a network config: using ip= from the kernel command line";
        return decision.with_fallback(&config, why);
    }
    let fallback = if is_fallback_disabled(boot) { None } else { fallback_config(sys) };
    match &fallback {
        Some(c) => decision.with_fallback(c, "no source has a network config: DHCP on the preferred NIC"),
        None => decision,
    }
}

/// Returns the NICs if those of the instance's written configuration were replaced, or are back after a fallback was written for them,
/// unless the network is disabled.
pub(crate) fn replaced_nics(boot: &Boot, instance: Option<&Instance>) -> Option<Replaced> {
    let (sys, layout) = (&boot.sys, &boot.layout);
    let written = sys.read_text(layout.network_config()).ok()?;
    let written = config::json::parse(&written).ok()?;
    let replaced = find_replaced(sys, &written, boot.network_list("renderers").as_deref());
    let handled = Manifest::read(sys, &layout.data(MANIFEST)).missing_nics;
    // Once is enough while nothing changes. What the local stage of this boot wrote is for the search of the network stage.
    let is_applied = sys.exists(layout.run(source::APPLIED_MARKER));
    let is_new = |nics: &Replaced| is_applied || nics.all() != handled;
    let replaced = match replaced {
        Some(nics) => is_new(&nics).then_some(nics),
        None => (!handled.is_empty()).then(Replaced::default),
    }?;
    (decide(&network_inputs(boot, instance)).outcome != Outcome::Disabled).then_some(replaced)
}

/// Warns that the NICs were replaced. If the configuration does not identify the new ones either, decides for DHCP on them and
/// returns the missing ones.
fn fit_to_nics(boot: &Boot, decision: &mut Decision, replaced: &Replaced) -> Vec<String> {
    let sys = &boot.sys;
    let Outcome::Use(config) = &decision.outcome else { return Vec::new() };
    let still = find_replaced(sys, config, boot.network_list("renderers").as_deref());
    let mut missing_nics = Vec::new();
    if let Some(still) = still.filter(|_| !is_fallback_disabled(boot))
        && let Some(dhcp) = nics::dhcp_config(&nics::candidates(&nics::read(sys)))
    {
        *decision = decision.clone().with_fallback(&dhcp, "using DHCP on the NICs of the machine");
        missing_nics = still.all();
    }
    if replaced.missing.is_empty() {
        info!(sys, "NICs of the instance's network configuration are back");
    } else {
        let [gone, here] = [&replaced.missing, &replaced.present].map(|nics| nics.join(", "));
        warning!(
            sys,
            "no NIC of the network configuration exists: {gone}; the machine has {here}: {}",
            decision.reason
        );
    }
    missing_nics
}

/// Collects the network configuration of each source.
pub(crate) fn network_inputs(boot: &Boot, instance: Option<&Instance>) -> Inputs {
    let sys = &boot.sys;
    let row = instance.and_then(|i| datasource(&i.datasource));
    Inputs {
        disabled_by_file: Some(boot.layout.data("upgraded-network")).filter(|marker| sys.exists(marker)),
        order: row.map(|row| row.network_order.to_vec()),
        command_line: source::from_command_line(&boot.command_line)
            .and_then(|read| read.map_err(|e| warning!(sys, "{e}")).ok()),
        initramfs: facts::initramfs_config(sys, &boot.command_line),
        system: boot.settings.system.get("network").cloned(),
        datasource: instance.and_then(|i| datasource_network(boot, i)),
    }
}

/// Writes the files and renames the links of a decision, if that is due.
///
/// # Errors
/// Fails if the configuration cannot be applied at all; errors of single links are in the result.
pub(crate) fn write_network(boot: &Boot, decision: &Decision, options: &WriteOptions<'_>) -> Result<Applied> {
    measure::network(boot, decision);
    let renderers = boot.network_list("renderers");
    let instance_dir = options.has_instance.then(|| boot.layout.instance(""));
    let request = ApplyRequest {
        decision,
        parsed: options.parsed,
        mode: options.mode,
        distro: boot.distro().name,
        renderers: renderers.as_deref(),
        instance_dir: instance_dir.as_deref(),
        run_dir: &boot.layout.run(""),
        data_dir: &boot.layout.data(""),
        is_new_instance: options.is_new,
        missing_nics: options.missing_nics,
        wait: options.wait,
        bring_up: options.bring_up,
    };
    apply(&boot.sys, &request)
}

/// Returns whether links are brought up (`disable_network_activation`).
pub(crate) fn may_bring_up(boot: &Boot) -> bool {
    boot.settings.system.get("disable_network_activation").is_none_or(Node::is_falsy)
}

/// Returns where the configuration of a decision was written, if that is known.
fn position_of(boot: &Boot, decision: &Decision, found: Option<&FoundInstance>) -> Option<Position> {
    let Outcome::Use(config) = &decision.outcome else { return None };
    let file = |name: &str| Some(Position { source: Some(name.into()), ..Position::default() });
    match decision.source? {
        Source::System => {
            boot.settings.system.as_map()?.get_key_value("network").map(|(key, _)| key.at.clone())
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
pub(crate) fn datasource_network(boot: &Boot, instance: &Instance) -> Option<Node> {
    let network = instance.network.as_ref()?;
    let source = network_source_name(instance, network);
    let content = from_json(&network.content, &source, &network.positions);
    let renderers = boot.network_list("renderers");
    let config = from_format(&boot.sys, &network.format, &content, renderers.as_deref());
    let ignored = |e| warning!(boot.sys, "{}: network configuration ignored: {e}", instance.datasource);
    config.map_err(ignored).ok()
}

fn is_fallback_disabled(boot: &Boot) -> bool {
    let key = "disable_fallback_netcfg";
    let system = &boot.settings.system;
    let places = [system.at_path(&["system_info", key]), system.get(key)];
    let mut set = places.into_iter().flatten().peekable();
    if set.peek().is_none() { boot.distro().has_own_network_setup } else { set.any(|n| !n.is_falsy()) }
}

/// Returns the name of an instance's network configuration in messages.
fn network_source_name(instance: &Instance, network: &NetworkConfig) -> String {
    match network.source.as_str() {
        "" => format!("network configuration of {}", instance.description),
        file => file.to_string(),
    }
}
