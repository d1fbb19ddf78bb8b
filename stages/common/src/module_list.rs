//! Runs a stage's list of modules, or a single module.

use config::Node;
use modules::{
    Context, HotplugPolicy, ModuleEntry, ModuleResult, RunMode, find_module, parse_module_list,
    reboot_if_requested, run_module,
};
use state::{Frequency, Instance};
use system::{debug, info, warning};

use crate::consume::{is_unconsumed, mark_own_host_keys, preserve_own_host_keys, run_mode};
use crate::hotplug::hotplug_policy;
use crate::own_step::own_event;
use crate::status::Record;
use crate::{Boot, FoundInstance, Mode, Single, StageName, error_prefix};

/// Runs the modules of `cloud_MODE_modules`. A failed module is an error of the stage.
pub fn run_modules(boot: &mut Boot, record: &mut Record, found: &FoundInstance, mode: Mode) {
    boot.layout.note_link(&boot.sys);
    let instance = &found.instance;
    // With the last list, so that each key is reported once a boot.
    if mode == Mode::Final && run_mode(boot, found) == RunMode::Full {
        modules::report_ineffective_keys(&context(boot, instance));
    }
    let mode = mode.as_str();
    let section = format!("cloud_{mode}_modules");
    let (list, bad) = parse_module_list(boot.settings.get(&section));
    for message in bad {
        warning!(boot.sys, "{section}: {message}");
    }
    if list.is_empty() {
        let text = format!("No '{mode}' modules to run under section '{section}'");
        boot.sys.print(&text);
        debug!(boot.sys, "{text}");
        return;
    }
    let event = boot.stage.event_name();
    let mode = run_mode(boot, found);
    preserve_own_host_keys(boot, mode);
    let context = Context { hotplug: hotplug_policy(boot, instance), ..context(boot, instance) };
    let mut outcomes = modules::run_modules(&context, &list, event, mode);
    if boot.stage == StageName::Final
        && let Err(e) = reboot_if_requested(&context)
    {
        warning!(boot.sys, "{e}");
        outcomes.push(("reboot".into(), ModuleResult::Failed(e.to_string())));
    }
    let waiting: Vec<&str> =
        outcomes.iter().filter(|(_, ran)| *ran == ModuleResult::Waiting).map(|(n, _)| &**n).collect();
    let waiting = waiting.join(" ");
    if mode == RunMode::WithoutUserData
        && outcomes.iter().any(|(name, ran)| is_ssh(name) && *ran == ModuleResult::Done)
    {
        mark_own_host_keys(boot, found);
    }
    let done = outcomes.iter().filter(|(_, ran)| *ran == ModuleResult::Done).count();
    let failed = outcomes.iter().filter(|(_, ran)| matches!(ran, ModuleResult::Failed(_))).count();
    debug!(boot.sys, "Ran {done} modules with {failed} failures");
    for (_, ran) in outcomes {
        if let ModuleResult::Failed(message) = ran {
            record.record_error(boot, message);
        }
    }
    if !waiting.is_empty() {
        let prefix = error_prefix::UNCONSUMED;
        record.fail(boot, format!("{prefix}not consumed; modules deferred until the next boot: {waiting}"));
    }
}

/// Runs one module (`cloud-init single`), without regard to its activation keys and distributions.
pub fn run_single(boot: &mut Boot, record: &mut Record, found: &FoundInstance, single: &Single) {
    boot.layout.note_link(&boot.sys);
    let Some(row) = find_module(&single.name) else {
        let hint = config::suggestion(&single.name, modules::MODULES.iter().map(|row| row.name));
        warning!(boot.sys, "Did not run {}, does it exist?{}", single.name, hint.trim_start_matches(';'));
        return record.record_error(boot, format!("unknown module {}{hint}", single.name));
    };
    let mut frequency = single.frequency;
    if frequency.unwrap_or(row.frequency) != Frequency::Always && is_unconsumed(boot, found) {
        warning!(
            boot.sys,
            "user-data of this instance is not consumed yet; {} runs without it now, and again at the boot that consumes it",
            row.name
        );
        frequency = Some(Frequency::Always);
    }
    // As in upstream the handlers get the events from here on.
    record.configure_reporting(boot);
    let event = own_event(boot);
    let args = single.args.iter().map(|a| Node::from(a.as_str())).collect();
    // Reports the configuration's errors again, because the user of this command did not see the boot's output.
    let source_map = boot.source_map.without_reported();
    let hotplug = hotplug_policy(boot, &found.instance);
    let context = Context { source_map: &source_map, hotplug, ..context(boot, &found.instance) };
    let outcome =
        run_module(&context, &ModuleEntry::single(row.name, frequency, args), row, &event, RunMode::Full);
    match outcome {
        ModuleResult::Failed(message) => {
            warning!(boot.sys, "Ran {} but it failed!", single.name);
            record.record_error(boot, message);
        }
        ModuleResult::AlreadyRan => info!(boot.sys, "{} previously ran", single.name),
        ModuleResult::Done | ModuleResult::Waiting | ModuleResult::Skipped(_) => {}
    }
}

/// Returns the context of a module, without the events of hotplug.
pub(crate) fn context<'a>(boot: &'a Boot, instance: &'a Instance) -> Context<'a> {
    Context {
        sys: &boot.sys,
        layout: &boot.layout,
        instance,
        distro: boot.distro(),
        config: &boot.settings.merged,
        source_map: &boot.source_map,
        // The built-in configuration has this key.
        system_info: boot.settings.get("system_info").unwrap_or(&boot.settings.merged),
        layers: &boot.settings.layers,
        args: &[],
        script_timeout: config::Timeout::Script.of([&boot.settings.merged]),
        is_repeat: false,
        hotplug: HotplugPolicy::default(),
    }
}

fn is_ssh(name: &str) -> bool {
    find_module(name).is_some_and(|row| row.name == "ssh")
}
