//! Runs a list of modules: which are due is decided first, from facts; then each runs, once, in the list's order.

use config::Node;
use state::{Frequency, acquire, has_run};
use system::{debug, deprecated, error, info, warning};

use crate::pending::pending_keys;
use crate::{Context, Entry, Module, module};

/// Names that upstream has removed; configurations still list them.
const GONE: [&str; 4] = ["emit_upstart", "refresh_rmc_and_interface", "migrator", "rightscale_userdata"];

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    Done,
    /// Its semaphore says that it ran before.
    Before,
    /// Not due: why.
    Skipped(String),
    Failed(String),
}

/// Runs the entries in order. A failure is logged and kept, and the next module runs. Returns name and outcome
/// of each; `stage` prefixes the names of events in the log.
pub fn run_list(context: &Context<'_>, entries: &[Entry], stage: &str) -> Vec<(String, Ran)> {
    let unverified: Vec<String> = context
        .config
        .get("unverified_modules")
        .and_then(Node::as_seq)
        .into_iter()
        .flatten()
        .filter_map(|n| n.as_str().map(Into::into))
        .collect();
    let mut inactive = Vec::new();
    let mut outcomes = Vec::new();
    for entry in entries {
        let outcome = match due(context, entry, &unverified) {
            Ok(module) => run_one(context, entry, module, stage),
            Err(why) => {
                if why.starts_with("none of its keys") {
                    inactive.push(entry.name.clone());
                }
                Ran::Skipped(why)
            }
        };
        outcomes.push((entry.name.clone(), outcome));
    }
    if !inactive.is_empty() {
        info!(
            context.sys,
            "Skipping modules '{}' because no applicable config is provided.",
            inactive.join(",")
        );
    }
    outcomes
}

/// The module of an entry, if it is to run at all.
fn due(context: &Context<'_>, entry: &Entry, unverified: &[String]) -> Result<&'static Module, String> {
    let sys = context.sys;
    if let Some(word) = &entry.bad_frequency {
        deprecated!(
            sys,
            "module {}: frequency '{word}' is none of once, once-per-instance, always; its own is taken",
            entry.name
        );
    }
    let plain = entry.name.replace('-', "_");
    if GONE.contains(&plain.as_str()) {
        info!(sys, "module {} was removed and does nothing", entry.name);
        return Err("removed".into());
    }
    let Some(module) = module(&entry.name) else {
        let known = plain.strip_prefix("cc_").unwrap_or(&plain);
        if let Some(keys) = pending_keys(known, context.config) {
            if !keys.is_empty() {
                warning!(sys, "module {known} is not in this version: {} has no effect", keys.join(", "));
            }
            return Err("not in this version".into());
        }
        warning!(sys, "no module named {}; skipped", entry.name);
        return Err("unknown".into());
    };
    let active = |key: &&str| context.config.get(key).is_some();
    if !module.activation.is_empty() && !module.activation.iter().any(active) {
        return Err(format!("none of its keys ({}) is set", module.activation.join(", ")));
    }
    if !module.distros.include(context.distro) {
        if unverified.iter().any(|n| n.replace('-', "_") == module.name) {
            info!(sys, "running unverified module {}", entry.name);
        } else {
            info!(sys, "module {} is not for {}; skipped", entry.name, context.distro.name);
            return Err(format!("not for {}", context.distro.name));
        }
    }
    Ok(module)
}

/// Runs one module under its semaphore.
pub fn run_one(context: &Context<'_>, entry: &Entry, module: &Module, stage: &str) -> Ran {
    let (sys, layout) = (context.sys, context.layout);
    let frequency = entry.frequency.unwrap_or(module.frequency);
    let run_name = format!("config-{}", entry.name);
    let event = format!("{stage}/{run_name}");
    // The words and their order are upstream's, as in the events below: logs are searched for them.
    debug!(
        sys,
        "Running module {} (<module 'cc_{}'>) with frequency {}",
        entry.name,
        module.name,
        frequency.word()
    );
    debug!(sys, "start: {event}: running {run_name} with frequency {}", frequency.word());
    if has_run(sys, layout, &run_name, frequency) {
        debug!(sys, "finish: {event}: SUCCESS: {run_name} previously ran");
        return Ran::Before;
    }
    if let Err(e) = acquire(sys, layout, &run_name, frequency) {
        // Without its mark it would run at every boot: rather not at all, and said.
        error!(sys, "not running module {}: {e}", entry.name);
        return Ran::Failed(format!("{}: {e}", entry.name));
    }
    let begun = sys.clock().elapsed();
    sys.because(module.name, keys_of(module, context.config));
    let own = Context { args: if entry.args.is_empty() { context.args } else { &entry.args }, ..*context };
    let result = (module.run)(&own);
    let seconds = (sys.clock().elapsed() - begun).as_secs_f64();
    match result {
        Ok(()) => {
            debug!(
                sys,
                "finish: {event}: SUCCESS: {run_name} ran successfully and took {seconds:.3} seconds"
            );
            Ran::Done
        }
        Err(e) => {
            warning!(sys, "Running module {} (<module 'cc_{}'>) failed: {e}", entry.name, module.name);
            debug!(sys, "finish: {event}: FAIL: running {run_name} with frequency {}", frequency.word());
            Ran::Failed(format!("{}: {e}", entry.name))
        }
    }
}

/// Those of a module's keys that the configuration has, as the cause of what it does.
pub(crate) fn keys_of(module: &Module, config: &Node) -> String {
    let names = module.keys.iter().copied().flatten().map(|key| key.name);
    names.filter(|name| config.get(name).is_some()).collect::<Vec<_>>().join(", ")
}

/// The frequency of an entry that `cloud-init single` makes.
impl Entry {
    pub fn single(name: &str, frequency: Option<Frequency>, args: Vec<Node>) -> Entry {
        Entry { name: name.to_string(), frequency, args, bad_frequency: None }
    }
}
