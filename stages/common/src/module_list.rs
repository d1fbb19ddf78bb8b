//! Running a stage's list of modules.

use config::Node;
use modules::{Context, Entry, Extent, Ran, entries, module, run_list, run_one};
use state::{Frequency, Instance};
use system::{debug, info, warning};

use crate::consume::UNCONSUMED;
use crate::{Single, Stage};

impl Stage {
    /// Runs the modules of `cloud_MODE_modules`; failures are counted.
    pub fn run_modules(&mut self, instance: &Instance, mode: &str) {
        let section = format!("cloud_{mode}_modules");
        let (list, bad) = entries(self.settings.get(&section));
        for message in bad {
            warning!(self.sys, "{section}: {message}");
        }
        if list.is_empty() {
            let text = format!("No '{mode}' modules to run under section '{section}'");
            self.sys.print(&text);
            debug!(self.sys, "{text}");
            return;
        }
        let event = self.name.event();
        let extent = self.extent();
        if extent == Extent::Reachable {
            self.keep_own_host_keys();
        }
        let context = self.context(instance);
        let outcomes = run_list(&context, &list, event, extent);
        let waiting: Vec<&str> =
            outcomes.iter().filter(|(_, ran)| *ran == Ran::Waits).map(|(n, _)| &**n).collect();
        let waiting = waiting.join(" ");
        if extent == Extent::Reachable && outcomes.iter().any(|(name, ran)| is_ssh(name) && *ran == Ran::Done)
        {
            self.note_own_host_keys();
        }
        let done = outcomes.iter().filter(|(_, ran)| *ran == Ran::Done).count();
        debug!(
            self.sys,
            "Ran {done} modules with {} failures",
            outcomes.iter().filter(|(_, ran)| matches!(ran, Ran::Failed(_))).count()
        );
        for (_, ran) in outcomes {
            if let Ran::Failed(message) = ran {
                self.count_error(message);
            }
        }
        if !waiting.is_empty() {
            self.fail(format!("{UNCONSUMED}not consumed; these modules wait for the next boot: {waiting}"));
        }
    }

    /// `cloud-init single`: one module, whatever its activation and distributions.
    pub fn run_single(&mut self, instance: &Instance, single: &Single) {
        let frequency = match single.frequency.as_deref().map(|w| (w, Frequency::named(w))) {
            Some((word, None)) => return self.fail(format!("no frequency is named {word}")),
            Some((_, frequency)) => frequency,
            None => None,
        };
        let Some(row) = module(&single.name) else {
            warning!(self.sys, "Did not run {}, does it exist?", single.name);
            return self.count_error(format!("no module is named {}", single.name));
        };
        let marked = frequency.unwrap_or(row.frequency) != Frequency::Always;
        let frequency = if marked && self.is_open() {
            warning!(
                self.sys,
                "the instance's user-data is not consumed; {} runs without it, and again at the boot that has it",
                row.name
            );
            Some(Frequency::Always)
        } else {
            frequency
        };
        let args = single.args.iter().map(|a| Node::from(a.as_str())).collect();
        // Whoever types this was not there when the boot said what is wrong.
        let origins = self.origins.anew();
        let context = Context { origins: &origins, ..self.context(instance) };
        let outcome =
            run_one(&context, &Entry::single(row.name, frequency, args), row, "single", Extent::Whole);
        match outcome {
            Ran::Failed(message) => {
                warning!(self.sys, "Ran {} but it failed!", single.name);
                self.count_error(message);
            }
            Ran::Before => info!(self.sys, "{} previously ran", single.name),
            Ran::Done | Ran::Waits | Ran::Skipped(_) => {}
        }
    }

    pub(crate) fn context<'a>(&'a self, instance: &'a Instance) -> Context<'a> {
        Context {
            sys: &self.sys,
            layout: &self.layout,
            instance,
            distro: self.distro(),
            config: &self.settings.merged,
            origins: &self.origins,
            system_info: self.settings.get("system_info").unwrap_or(&self.nothing),
            args: &[],
            script_timeout: config::Timeout::Script.of([&self.settings.merged]),
            hotplug: self.hotplug_of(instance),
        }
    }
}

fn is_ssh(name: &str) -> bool {
    module(name).is_some_and(|row| row.name == "ssh")
}
