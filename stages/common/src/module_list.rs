//! Runs a stage's list of modules, or a single module.

use config::Node;
use modules::{
    Context, ModuleEntry, ModuleResult, RunMode, find_module, parse_module_list, reboot_if_requested,
    run_module, run_modules,
};
use state::{Frequency, Instance};
use system::{debug, info, warning};

use crate::{Single, Stage, StageName, error_prefix};

impl Stage {
    /// Runs the modules of `cloud_MODE_modules`. A failed module is an error of the stage.
    pub fn run_modules(&mut self, instance: &Instance, mode: &str) {
        // The last list: each key is named once a boot.
        if mode == "final" && self.run_mode() == RunMode::Full {
            modules::report_ineffective_keys(&self.context(instance));
        }
        let section = format!("cloud_{mode}_modules");
        let (list, bad) = parse_module_list(self.settings.get(&section));
        for message in bad {
            warning!(self.sys, "{section}: {message}");
        }
        if list.is_empty() {
            let text = format!("No '{mode}' modules to run under section '{section}'");
            self.sys.print(&text);
            debug!(self.sys, "{text}");
            return;
        }
        let event = self.name.event_name();
        let mode = self.run_mode();
        if mode == RunMode::WithoutUserData {
            self.preserve_own_host_keys();
        }
        let context = self.context(instance);
        let mut outcomes = run_modules(&context, &list, event, mode);
        if self.name == StageName::Final
            && let Err(e) = reboot_if_requested(&context)
        {
            warning!(self.sys, "{e}");
            outcomes.push(("reboot".into(), ModuleResult::Failed(e.to_string())));
        }
        let waiting: Vec<&str> =
            outcomes.iter().filter(|(_, ran)| *ran == ModuleResult::Waiting).map(|(n, _)| &**n).collect();
        let waiting = waiting.join(" ");
        if mode == RunMode::WithoutUserData
            && outcomes.iter().any(|(name, ran)| is_ssh(name) && *ran == ModuleResult::Done)
        {
            self.mark_own_host_keys();
        }
        let done = outcomes.iter().filter(|(_, ran)| *ran == ModuleResult::Done).count();
        debug!(
            self.sys,
            "Ran {done} modules with {} failures",
            outcomes.iter().filter(|(_, ran)| matches!(ran, ModuleResult::Failed(_))).count()
        );
        for (_, ran) in outcomes {
            if let ModuleResult::Failed(message) = ran {
                self.record_error(message);
            }
        }
        if !waiting.is_empty() {
            self.fail(format!(
                "{}not consumed; modules deferred until the next boot: {waiting}",
                error_prefix::UNCONSUMED
            ));
        }
    }

    /// Runs one module (`cloud-init single`), without regard to its activation keys and distributions.
    pub fn run_single(&mut self, instance: &Instance, single: &Single) {
        let frequency = match single.frequency.as_deref().map(|w| (w, Frequency::parse(w))) {
            Some((word, None)) => return self.fail(format!("unknown frequency {word}")),
            Some((_, frequency)) => frequency,
            None => None,
        };
        let Some(row) = find_module(&single.name) else {
            warning!(self.sys, "Did not run {}, does it exist?", single.name);
            return self.record_error(format!("unknown module {}", single.name));
        };
        let has_semaphore = frequency.unwrap_or(row.frequency) != Frequency::Always;
        let frequency = if has_semaphore && self.is_unconsumed() {
            warning!(
                self.sys,
                "user-data of this instance is not consumed yet; {} runs without it now, and again at the boot that consumes it",
                row.name
            );
            Some(Frequency::Always)
        } else {
            frequency
        };
        // As in upstream the handlers get the events from here on.
        self.configure_reporting();
        let event = self.own_event();
        let args = single.args.iter().map(|a| Node::from(a.as_str())).collect();
        // The boot reported the configuration's errors on the console, not to the user of this command.
        let source_map = self.source_map.without_reported();
        let context = Context { source_map: &source_map, ..self.context(instance) };
        let outcome =
            run_module(&context, &ModuleEntry::single(row.name, frequency, args), row, &event, RunMode::Full);
        match outcome {
            ModuleResult::Failed(message) => {
                warning!(self.sys, "Ran {} but it failed!", single.name);
                self.record_error(message);
            }
            ModuleResult::AlreadyRan => info!(self.sys, "{} previously ran", single.name),
            ModuleResult::Done | ModuleResult::Waiting | ModuleResult::Skipped(_) => {}
        }
    }

    /// Returns the context of a module.
    pub(crate) fn context<'a>(&'a self, instance: &'a Instance) -> Context<'a> {
        Context {
            sys: &self.sys,
            layout: &self.layout,
            instance,
            distro: self.distro(),
            config: &self.settings.merged,
            source_map: &self.source_map,
            system_info: self.settings.get("system_info").unwrap_or(&self.null_node),
            args: &[],
            script_timeout: config::Timeout::Script.of([&self.settings.merged]),
            hotplug: self.hotplug_settings(instance),
        }
    }
}

fn is_ssh(name: &str) -> bool {
    find_module(name).is_some_and(|row| row.name == "ssh")
}
