//! Runs the modules of a list that are due, in order.

use config::schema::Deprecation;
use config::{Node, shown_name};
use state::{Frequency, Layout, Progress, acquire, confirm, has_run, mark_finished, mark_started, progress};
use system::{Step, StepResult, System, WriteOptions, debug, deprecated, error, info, warning};

use crate::user_scripts::{ScriptDirectory, WrittenScript, exit_codes, run_parts};
use crate::{Context, MODULES, Module, ModuleEntry, ModuleFlag, find_module, or_debug, or_warn, plain_name};

/// Names that upstream has removed; configurations still list them.
const REMOVED: [&str; 4] = ["emit_upstart", "refresh_rmc_and_interface", "migrator", "rightscale_userdata"];

/// The part of a list that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// Everything that is due.
    Full,
    /// The modules that run without the instance's user-data: those that run at every boot, and those that let the
    /// owner log in. The latter have no semaphore then, so that they run again with the complete configuration.
    WithoutUserData,
}

/// The result of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleResult {
    /// It ran without an error.
    Done,
    /// Its semaphore shows that it ran before.
    AlreadyRan,
    /// It waits for user-data that could not be consumed.
    Waiting,
    /// It is not due.
    Skipped(Skip),
    /// It failed: the error.
    Failed(String),
}

/// The reason why a module is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Upstream has removed it.
    Removed,
    /// There is no module of that name.
    Unknown,
    /// None of the keys that activate it is set.
    NotConfigured,
    /// It does not support the distribution.
    OtherDistro,
}

/// Runs the entries in order. A failure is logged and kept, and the next module runs. Returns name and outcome
/// of each; `stage` prefixes the names of events in the log.
pub fn run_modules(
    context: &Context<'_>,
    entries: &[ModuleEntry],
    stage: &str,
    mode: RunMode,
) -> Vec<(String, ModuleResult)> {
    let unverified = unverified_modules(context.config);
    let selected: Vec<_> =
        entries.iter().map(|entry| (entry, select_module(context, entry, &unverified))).collect();
    let skipped = |why: Skip| {
        let entries =
            selected.iter().filter(|(_, selected)| selected.as_ref().is_err_and(|skip| *skip == why));
        entries.map(|(entry, _)| entry.name.as_str()).collect::<Vec<_>>().join(",")
    };
    // The sentences are upstream's, as in the events below.
    let inactive = skipped(Skip::NotConfigured);
    if !inactive.is_empty() {
        info!(context.sys, "Skipping modules '{inactive}' because no applicable config is provided.");
    }
    let other_distro = skipped(Skip::OtherDistro);
    if !other_distro.is_empty() {
        info!(
            context.sys,
            "Skipping modules '{other_distro}' because they are not verified on distro '{}'.  To run anyway, add them \
             to 'unverified_modules' in config.",
            context.distro.name
        );
    }
    for module in selected.iter().filter_map(|(_, module)| module.as_ref().ok()) {
        if mode == RunMode::Full
            && module.written_script.is_some()
            && instance_progress(context, module.name) == Progress::Due
        {
            or_debug!(
                context.sys,
                context.sys.write(due_record(context, module), "", WriteOptions::default())
            );
        }
    }
    let run = |(i, (entry, module)): (usize, &(&ModuleEntry, Result<&'static Module, Skip>))| {
        let outcome = match module {
            Ok(module) => {
                if let [(next, Ok(follower)), ..] = &selected[i + 1..]
                    && mode == RunMode::Full
                {
                    start_ahead(context, module, next, follower);
                }
                run_module(context, entry, module, stage, mode)
            }
            Err(skip) => ModuleResult::Skipped(*skip),
        };
        (entry.name.clone(), outcome)
    };
    selected.iter().enumerate().map(run).collect()
}

/// Starts work of the next module while a module runs, if its row allows this and it is due.
fn start_ahead(context: &Context<'_>, module: &Module, next: &ModuleEntry, follower: &Module) {
    let Some(ahead) = follower.start_ahead.filter(|ahead| ahead.during == module.name) else { return };
    let frequency = next.frequency.unwrap_or(follower.frequency);
    let run_name = format!("config-{}", next.name);
    if progress(context.sys, context.layout, &run_name, frequency) == Progress::Due {
        (ahead.start)(context);
    }
}

/// Returns the names of the modules that run on distributions that they do not support.
pub(crate) fn unverified_modules(config: &Node) -> Vec<String> {
    let names = config.get("unverified_modules").and_then(Node::as_seq).into_iter().flatten();
    names.filter_map(|name| Some(name.as_str()?.replace('-', "_"))).collect()
}

/// Returns the module of an entry, if it runs at all.
fn select_module(
    context: &Context<'_>,
    entry: &ModuleEntry,
    unverified: &[String],
) -> Result<&'static Module, Skip> {
    let sys = context.sys;
    if let Some(problem) = entry.frequency_problem() {
        deprecated!(sys, "module {}: {problem}", shown_name(&entry.name));
    }
    let (plain, shown) = (plain_name(&entry.name), shown_name(&entry.name));
    if REMOVED.contains(&&*plain) {
        info!(sys, "module {shown} was removed; skipping");
        return Err(Skip::Removed);
    }
    let Some(module) = find_module(&entry.name) else {
        let near = config::suggestion(&plain, crate::MODULES.iter().map(|row| row.name));
        warning!(sys, "unknown module {shown}; skipped{near}");
        return Err(Skip::Unknown);
    };
    if let Some(version) = module.deprecated_name(&plain) {
        deprecated!(sys, "module {}: {}", entry.name, Deprecation::new(version, module.name).text(false));
    }
    if !module.is_active(context.config) {
        return Err(Skip::NotConfigured);
    }
    if !module.distros.contains(context.distro) {
        if !unverified.iter().any(|name| name == module.name) {
            return Err(Skip::OtherDistro);
        }
        info!(sys, "running unverified module {}", entry.name);
    }
    Ok(module)
}

/// Runs one module, guarded by its semaphore.
pub fn run_module(
    context: &Context<'_>,
    entry: &ModuleEntry,
    module: &Module,
    stage: &str,
    mode: RunMode,
) -> ModuleResult {
    let (sys, layout) = (context.sys, context.layout);
    let mut frequency = entry.frequency.unwrap_or(module.frequency);
    let run_name = format!("config-{}", entry.name);
    let before = progress(sys, layout, &run_name, frequency);
    let is_due = match frequency {
        Frequency::Always => module.has(ModuleFlag::NeedsUserData),
        _ => before != Progress::Finished,
    };
    if mode == RunMode::WithoutUserData && is_due {
        if !module.has(ModuleFlag::GrantsLogin) {
            debug!(sys, "{run_name}: postponed until user-data has been consumed");
            return ModuleResult::Waiting;
        }
        frequency = Frequency::Always;
    }
    // The words and their order are upstream's, as in the events below: scripts search logs for them.
    debug!(
        sys,
        "Running module {} (<module 'cc_{}'>) with frequency {}",
        entry.name,
        module.name,
        frequency.as_str()
    );
    let description = format!("running {run_name} with frequency {}", frequency.as_str());
    let step = sys.begin_step(format!("{stage}/{run_name}"), &description);
    let must_not_repeat = !module.has(ModuleFlag::Repeatable) && has_work(context, module);
    let writer = MODULES.iter().find(|other| other.written_script.is_some_and(|s| s.run_by == module.name));
    match (before, writer) {
        (Progress::Finished, Some(writer))
            if has_run(sys, layout, &late_semaphore(writer), Frequency::Instance) =>
        {
            return run_late_script(context, entry, module, writer, step);
        }
        (Progress::Finished, _)
            if mode == RunMode::Full && !exit_codes::requested_reruns(context, module).is_empty() =>
        {
            return run_again(context, entry, module, step);
        }
        (Progress::Finished, _) => {
            step.end(sys, StepResult::Success, format!("{run_name} previously ran"));
            return ModuleResult::AlreadyRan;
        }
        (Progress::Started, _) if mode == RunMode::Full && must_not_repeat => {
            warning!(
                sys,
                "module {0} was interrupted in an earlier boot; not running it again. To run it: \
                 cloud-init single --name {0} --frequency always",
                module.name
            );
            step.end(sys, StepResult::Success, format!("{run_name} was interrupted"));
            // Reported once.
            or_debug!(sys, mark_finished(sys, layout, &run_name, frequency));
            return ModuleResult::AlreadyRan;
        }
        (Progress::Started, _) => {
            info!(sys, "module {} did not complete in an earlier boot; running it again", module.name);
        }
        (Progress::Due, _) => {}
    }
    if let Err(e) = mark_started(sys, layout, &run_name, frequency) {
        // Without a semaphore the module would run at every boot: report this instead of running it.
        error!(sys, "not running module {}: {e}", entry.name);
        step.end(sys, StepResult::Fail, description);
        return entry.result(Err(e));
    }
    let interrupted_script = module.written_script.filter(|_| before == Progress::Started);
    let is_late = interrupted_script.is_some_and(|script| is_script_late(context, &script));
    if is_late {
        or_warn!(sys, acquire(sys, layout, &late_semaphore(module), Frequency::Instance));
    }
    if let Some(writer) = writer
        && frequency == Frequency::Instance
    {
        mark_missing_script(context, writer);
    }
    if must_not_repeat
        && frequency != Frequency::Always
        && let Err(e) = confirm(sys, layout)
    {
        warning!(sys, "{e}; after a power failure module {} may run again", entry.name);
    }
    let started_at = sys.clock().elapsed();
    sys.set_cause(module.name, module.configured_keys(context.config));
    let args = if entry.args.is_empty() { context.args } else { &entry.args };
    let own = Context { args, is_repeat: before == Progress::Started, ..*context };
    let result = (module.run)(&own);
    // A failure of the machine keeps the mark of unfinished work: the next boot repeats it, if that is safe, and only
    // once.
    let is_system_failure = result.as_ref().is_err_and(system::Error::is_system_failure);
    let runs_again = is_system_failure
        && before == Progress::Due
        && frequency != Frequency::Always
        && module.has(ModuleFlag::Repeatable);
    if !runs_again && let Err(e) = mark_finished(sys, layout, &run_name, frequency) {
        warning!(sys, "{e}; module {} may run again at the next boot", entry.name);
    }
    if let Some(script) = interrupted_script
        && !is_late
    {
        warn_if_script_was_missing(context, module, script.run_by);
    }
    let seconds = (sys.clock().elapsed() - started_at).as_secs_f64();
    match &result {
        Ok(()) => {
            let message = format!("{run_name} ran successfully and took {seconds:.3} seconds");
            step.end(sys, StepResult::Success, message);
        }
        Err(e) => {
            warning!(sys, "Running module {} (<module 'cc_{}'>) failed: {e}", entry.name, module.name);
            if runs_again {
                info!(sys, "module {} runs again at the next boot", entry.name);
            }
            step.end(sys, StepResult::Fail, description);
        }
    }
    entry.result(result)
}

/// Returns whether a module has anything to do. Only one that runs the scripts of a directory may have nothing.
fn has_work(context: &Context<'_>, module: &Module) -> bool {
    let scripts = |directory: ScriptDirectory| context.sys.list((directory.path)(context.layout));
    module.scripts.is_none_or(|directory| scripts(directory).is_ok_and(|names| !names.is_empty()))
}

/// Ends the work of a stage that was stopped by a signal: the interrupted module that may not run again was reported then,
/// and the next boot need not report it.
pub fn finish_interrupted(sys: &System, layout: &Layout) {
    for (name, frequency) in state::unfinished(sys, layout) {
        let row = name.strip_prefix("config_").and_then(find_module);
        if row.is_none_or(|row| row.has(ModuleFlag::Repeatable)) {
            continue;
        }
        warning!(
            sys,
            "module {name} was interrupted; not running it again",
            name = name.trim_start_matches("config_")
        );
        or_debug!(sys, mark_finished(sys, layout, &name, frequency));
    }
}

/// Returns the semaphore of a script that was written after the module that runs it had run.
fn late_semaphore(writer: &Module) -> String {
    format!("late_{}", writer.name)
}

/// Returns the progress of a module that runs once per instance.
fn instance_progress(context: &Context<'_>, name: &str) -> Progress {
    progress(context.sys, context.layout, &format!("config-{name}"), Frequency::Instance)
}

/// Returns whether the module that runs a script ran before the script was written.
fn is_script_late(context: &Context<'_>, script: &WrittenScript) -> bool {
    instance_progress(context, script.run_by) == Progress::Finished
        && !context.sys.exists((script.path)(context.layout))
}

/// Returns the file of this boot that says that a module which writes a script was due.
fn due_record(context: &Context<'_>, writer: &Module) -> String {
    context.layout.run(&format!("sem/due_{}", writer.name))
}

/// Marks the module that writes a script as started if it was due in this boot and did not begin, because its stage was stopped
/// or its semaphore could not be written, so that the next boot runs it. Called before the module that runs the script does.
fn mark_missing_script(context: &Context<'_>, writer: &Module) {
    let (sys, layout) = (context.sys, context.layout);
    let is_missing = sys.exists(due_record(context, writer))
        && writer.written_script.is_some_and(|script| !sys.exists((script.path)(layout)))
        && instance_progress(context, writer.name) == Progress::Due;
    let name = format!("config-{}", writer.name);
    if is_missing {
        or_warn!(sys, mark_started(sys, layout, &name, Frequency::Instance));
    }
}

/// Runs a script that did not exist yet when the module ran the others.
fn run_late_script(
    context: &Context<'_>,
    entry: &ModuleEntry,
    module: &Module,
    writer: &Module,
    step: Step,
) -> ModuleResult {
    let (sys, name, description) = (context.sys, writer.name, format!("delayed run of {}", writer.name));
    // The semaphore comes first: not running is better than running twice.
    let released = state::release(sys, context.layout, &late_semaphore(writer), Frequency::Instance);
    if let Err(e) = released.and_then(|()| confirm(sys, context.layout)) {
        error!(sys, "not running the commands of {name}: {e}");
        step.end(sys, StepResult::Fail, description);
        return entry.result(Err(e));
    }
    info!(sys, "running the commands of {name}, which an earlier boot could not write");
    let result = run_parts::run_script(context, module, name, &[])
        .inspect_err(|e| warning!(sys, "delayed run of {name} failed: {e}"));
    step.end(sys, StepResult::from(&result), description);
    entry.result(result)
}

/// Runs the scripts of a module that requested another run.
fn run_again(context: &Context<'_>, entry: &ModuleEntry, module: &Module, step: Step) -> ModuleResult {
    let scripts = exit_codes::requested_reruns(context, module);
    let result = run_parts::run_again(context, module, &scripts);
    step.end(context.sys, StepResult::from(&result), format!("{} ran again", scripts.join(", ")));
    let name = &entry.name;
    entry.result(result.inspect_err(|e| warning!(context.sys, "Running module {name} again failed: {e}")))
}

/// Warns if another module ran its scripts while the one that writes a script was interrupted.
fn warn_if_script_was_missing(context: &Context<'_>, writer: &Module, by: &str) {
    if instance_progress(context, by) != Progress::Due {
        warning!(
            context.sys,
            "module {} was interrupted in an earlier boot, and {by} ran without its result; to run it now: \
             cloud-init single --name {by} --frequency always",
            writer.name
        );
    }
}

impl ModuleEntry {
    /// Returns the entry for `cloud-init single`.
    pub fn single(name: &str, frequency: Option<Frequency>, args: Vec<Node>) -> ModuleEntry {
        ModuleEntry { name: name.to_string(), frequency, args, bad_frequency: None }
    }

    fn result(&self, result: system::Result<()>) -> ModuleResult {
        result.map_or_else(|e| ModuleResult::Failed(format!("{}: {e}", self.name)), |()| ModuleResult::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    fn run(sandbox: &Sandbox, names: &[&str], mode: RunMode) -> Vec<ModuleResult> {
        let entries: Vec<_> = names.iter().map(|name| ModuleEntry::single(name, None, Vec::new())).collect();
        let ran = sandbox.with_context(|context| run_modules(context, &entries, "test", mode));
        ran.into_iter().map(|(_, ran)| ran).collect()
    }

    #[test]
    fn skipped_modules_are_named() {
        let sandbox = Sandbox::new(
            "{unverified_modules: [ubuntu-autoinstall], autoinstall: {version: 1}, snap: {commands: [x]}}",
        );
        let names = [
            "snap",
            "fan",
            "cc_migrator",
            "emit-upstart",
            "refresh_rmc_and_interface",
            "nonsense",
            "ubuntu_advantage.py",
            "ubuntu-autoinstall",
        ];
        let skipped = [
            Skip::OtherDistro,
            Skip::NotConfigured,
            Skip::Removed,
            Skip::Removed,
            Skip::Removed,
            Skip::Unknown,
            Skip::NotConfigured,
        ];
        let outcomes = run(&sandbox, &names, RunMode::Full);
        assert_eq!(outcomes[..7], skipped.map(ModuleResult::Skipped));
        assert_eq!(outcomes[7], ModuleResult::Done);
        let warnings = sandbox.logged_warnings();
        assert_eq!(warnings[0], "unknown module nonsense; skipped", "{warnings:?}");
    }

    #[test]
    fn modules_that_are_never_repeated() {
        let is_once = |module: &&&Module| module.frequency != Frequency::Always;
        let not_repeated =
            MODULES.iter().filter(is_once).filter(|module| !module.has(ModuleFlag::Repeatable));
        let names = not_repeated.map(|module| module.name).filter(|name| !name.starts_with("scripts_"));
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert_eq!(Vec::from_iter(names), ["ansible", "power_state_change", "raspberry_pi", "snap"]);
    }

    #[test]
    fn interrupted_modules_do_not_run_scripts_again() {
        let sandbox = Sandbox::new("timezone: UTC\nruncmd: [x]\n");
        let (sys, layout) = (&sandbox.sys, &sandbox.layout);
        sys.write("/usr/share/zoneinfo/UTC", "", system::WriteOptions::default()).unwrap();
        for name in ["config-runcmd", "config-scripts_user", "config-scripts_per_instance"] {
            mark_started(sys, layout, name, Frequency::Instance).unwrap();
        }
        sys.write(layout.runcmd_script(), "", system::WriteOptions::mode(0o700)).unwrap();
        // The script exists; as it is unknown whether it ran, it does not run again.
        let names = ["runcmd", "scripts_user"];
        assert_eq!(run(&sandbox, &names, RunMode::Full), [ModuleResult::Done, ModuleResult::AlreadyRan]);
        // Without a script there is nothing to run twice.
        assert_eq!(run(&sandbox, &["scripts_per_instance"], RunMode::Full), [ModuleResult::Done]);
        assert!(sys.exists(layout.runcmd_script()));
        let logged_warnings = sandbox.logged_warnings();
        assert_eq!(logged_warnings.len(), 2, "{logged_warnings:?}");
        assert!(logged_warnings[0].contains("single --name scripts_user"), "{logged_warnings:?}");
        assert!(
            logged_warnings[1].starts_with("module scripts_user was interrupted in an earlier boot"),
            "{logged_warnings:?}"
        );
        // Reported once.
        assert_eq!(
            run(&sandbox, &names, RunMode::Full),
            [ModuleResult::AlreadyRan, ModuleResult::AlreadyRan]
        );
        assert_eq!(sandbox.logged_warnings().len(), 2);
        assert!(state::unfinished(sys, layout).is_empty());
    }

    /// A machine whose useradd and ssh-keygen do `wait` before they end.
    fn first_boot(wait: [&str; 2]) -> Sandbox {
        let sandbox = Sandbox::new("{users: [a], ssh_genkeytypes: [rsa, ed25519], disable_root: false}");
        for (path, text) in [("/etc/passwd", "root:x:0:0::/root:/bin/sh\n"), ("/etc/shadow", "a:!:1::::::\n")]
        {
            sandbox.sys.write(path, text, system::WriteOptions::default()).unwrap();
        }
        sandbox.sys.create_dir_all("/etc/ssh", 0o755).unwrap();
        let [useradd, keygen] = wait.map(|condition| {
            format!("i=0; until {condition}; do i=$((i + 1)); [ $i -lt 3000000 ] || exit 1; done")
        });
        sandbox
            .stub("useradd", &format!(": >/adding; {useradd}; echo \"$1:x:7:7::/home/$1:\" >>/etc/passwd"));
        sandbox
            .stub("ssh-keygen", &format!(": >/making-$2; {keygen}; echo key >$6; echo \"$2 key\" >$6.pub"));
        sandbox
    }

    /// Each program waits until the others run.
    #[test]
    fn host_keys_are_generated_while_users_are_created() {
        let all = "[ -e /adding -a -e /making-rsa -a -e /making-ed25519 ]";
        let sandbox = first_boot([all, all]);
        let done = [ModuleResult::Done, ModuleResult::Done];
        assert_eq!(run(&sandbox, &["users_groups", "ssh"], RunMode::Full), done);
        assert_eq!(sandbox.logged_warnings(), [""; 0]);
        assert_eq!(sandbox.calls().lines().filter(|line| !line.starts_with('<')).count(), 3);
        for kind in ["rsa", "ed25519"] {
            let key = format!("/etc/ssh/ssh_host_{kind}_key");
            assert_eq!(sandbox.sys.read_text(&key).unwrap(), "key\n");
        }
        // Programs are recorded in the order of the modules.
        let commands = sandbox.commands();
        assert!(commands[0].starts_with("useradd a") && commands[1].contains(" rsa "), "{commands:?}");
        assert!(commands[2].contains(" ed25519 ") && commands.len() == 3, "{commands:?}");
    }

    /// The module decides about existing host keys, and one that has run before is not started.
    #[test]
    fn host_keys_that_are_not_generated_ahead() {
        let (in_turn, no_wait) = (["! [ -e /making-rsa ]", "[ -e /adding ]"], ["true", "true"]);
        let done = [ModuleResult::Done, ModuleResult::Done];
        let sandbox = first_boot(in_turn);
        sandbox.sys.write("/etc/ssh/ssh_host_rsa_key", "old\n", system::WriteOptions::secret()).unwrap();
        assert_eq!(run(&sandbox, &["users_groups", "ssh"], RunMode::Full), done);
        assert_eq!(sandbox.sys.read_text("/etc/ssh/ssh_host_rsa_key").unwrap(), "key\n");
        assert!(sandbox.calls().starts_with("useradd a"), "{}", sandbox.calls());

        let sandbox = first_boot(no_wait);
        mark_started(&sandbox.sys, &sandbox.layout, "config-ssh", Frequency::Instance).unwrap();
        mark_finished(&sandbox.sys, &sandbox.layout, "config-ssh", Frequency::Instance).unwrap();
        let ran = run(&sandbox, &["users_groups", "ssh"], RunMode::Full);
        assert_eq!(ran, [ModuleResult::Done, ModuleResult::AlreadyRan]);
        assert!(!sandbox.calls().contains("ssh-keygen"), "{}", sandbox.calls());

        // A type that ssh-keygen does not know is reported as without a start ahead.
        let sandbox = first_boot(no_wait);
        sandbox.stub("ssh-keygen", "[ $2 = rsa ] || { echo out of luck >&2; exit 1; }; echo key >$6");
        assert_eq!(run(&sandbox, &["users_groups", "ssh"], RunMode::Full), done);
        let warnings = sandbox.logged_warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("no ed25519 host key"), "{warnings:?}");
    }

    /// A script that could not be written, or begun, when the user's scripts ran is run alone at the next boot, once.
    #[test]
    fn runcmd_written_too_late_runs_once() {
        let sandbox = Sandbox::live("runcmd: [echo $0 >>$OUT]\n");
        let (sys, layout) = (&sandbox.sys, &sandbox.layout);
        let out = sandbox.top.join("out");
        let script = |name: &str| {
            let text = format!("#!/bin/sh\necho {name} >>{}\n", out.display());
            sys.write(layout.instance(&format!("scripts/{name}")), text, system::WriteOptions::mode(0o700))
                .unwrap();
        };
        let names = ["runcmd", "scripts_user"];
        script("own");
        // A boot whose config stage was stopped before the module.
        sandbox.with_context(|context| {
            sys.write(due_record(context, find_module("runcmd").unwrap()), "", WriteOptions::default())
                .unwrap();
        });
        assert_eq!(run(&sandbox, &names[1..], RunMode::Full), [ModuleResult::Done]);
        assert_eq!(progress(sys, layout, "config-runcmd", Frequency::Instance), Progress::Started);
        assert_eq!(run(&sandbox, &names[..1], RunMode::Full), [ModuleResult::Done]);
        script("runcmd");
        for ran in [ModuleResult::Done, ModuleResult::AlreadyRan] {
            assert_eq!(run(&sandbox, &names[1..], RunMode::Full), [ran]);
        }
        assert_eq!(
            run(&sandbox, &names, RunMode::Full),
            [ModuleResult::AlreadyRan, ModuleResult::AlreadyRan]
        );
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "own\nruncmd\n");
        assert!(sandbox.logged_warnings().is_empty(), "{:?}", sandbox.logged_warnings());
    }

    /// A script that cleans the machine before it becomes an image: what runs after it leaves no state of the instance.
    #[test]
    fn nothing_is_written_after_the_state_was_removed() {
        let mut sandbox = Sandbox::live("runcmd: [x]\n");
        let (cloud, directory) = (sandbox.layout.cloud(""), sandbox.layout.instance_dir("i-test"));
        sandbox.sys.create_dir_all(&directory, 0o755).unwrap();
        sandbox.sys.link(&directory, sandbox.layout.instance("")).unwrap();
        sandbox.layout.note_link(&sandbox.sys);
        assert_eq!(run(&sandbox, &["runcmd"], RunMode::Full), [ModuleResult::Done]);
        sandbox.sys.remove_dir_all(&cloud).unwrap();
        let names = ["scripts_per_once", "scripts_user", "final_message"];
        assert_eq!(run(&sandbox, &names, RunMode::Full), [const { ModuleResult::Done }; 3]);
        assert!(!sandbox.sys.exists(&cloud), "{:?}", sandbox.sys.list(&cloud));
    }

    /// A module that is in no list of a boot is not due: it runs at a later boot as any other, and its script does not.
    #[test]
    fn a_writer_in_no_list_is_not_marked() {
        let sandbox = Sandbox::live("runcmd: [x]\n");
        let (sys, layout) = (&sandbox.sys, &sandbox.layout);
        sys.write(layout.instance("scripts/own"), "#!/bin/sh\n", WriteOptions::mode(0o700)).unwrap();
        assert_eq!(run(&sandbox, &["scripts_user"], RunMode::Full), [ModuleResult::Done]);
        assert_eq!(progress(sys, layout, "config-runcmd", Frequency::Instance), Progress::Due);
        let next = run(&sandbox, &["runcmd", "scripts_user"], RunMode::Full);
        assert_eq!(next, [ModuleResult::Done, ModuleResult::AlreadyRan]);
        assert!(sandbox.logged_warnings().is_empty(), "{:?}", sandbox.logged_warnings());
    }

    /// Work that failed because of the machine runs again at the next boot, and at no further one.
    #[test]
    fn machine_failures_are_retried_once() {
        const SEMAPHORE: &str = "config-runcmd";
        let sandbox = Sandbox::new("runcmd: [x]\n");
        let (sys, layout) = (&sandbox.sys, &sandbox.layout);
        let failing: [(std::io::Error, [Progress; 2]); 3] = [
            (std::io::Error::from_raw_os_error(28), [Progress::Started, Progress::Finished]),
            (std::io::Error::from_raw_os_error(30), [Progress::Started, Progress::Finished]),
            (std::io::Error::from_raw_os_error(2), [Progress::Finished, Progress::Finished]),
        ];
        for (cause, expected) in failing {
            thread_local!(static CAUSE: std::cell::RefCell<Option<std::io::Error>> = const { std::cell::RefCell::new(None) });
            CAUSE.set(Some(cause));
            let fails = |_: &Context<'_>| {
                CAUSE.with_borrow(|e| e.as_ref().map_or(Ok(()), |e| Err(system::Error::io("writing x", e))))
            };
            for (boot, progress_then) in expected.into_iter().enumerate() {
                let failing = Module { run: fails, ..*find_module("runcmd").unwrap() };
                sandbox.with_context(|context| {
                    run_module(
                        context,
                        &ModuleEntry::single("runcmd", None, Vec::new()),
                        &failing,
                        "test",
                        RunMode::Full,
                    )
                });
                assert_eq!(
                    progress(sys, layout, SEMAPHORE, Frequency::Instance),
                    progress_then,
                    "boot {boot}"
                );
            }
            state::release(sys, layout, SEMAPHORE, Frequency::Instance).unwrap();
        }
    }

    #[test]
    fn modules_wait_for_missing_user_data() {
        let sandbox = Sandbox::new("runcmd: [x]\n");
        let names = ["runcmd", "scripts_user", "scripts_per_once", "users_groups"];
        let waits = [ModuleResult::Waiting, ModuleResult::Waiting, ModuleResult::Waiting, ModuleResult::Done];
        assert_eq!(run(&sandbox, &names, RunMode::WithoutUserData), waits);
        assert!(sandbox.sys.list(sandbox.layout.instance_semaphores()).unwrap_or_default().is_empty());
        // Modules of every boot run, unless they would replace the user's configuration by the cloud's.
        let always = ["update_etc_hosts", "update_hostname"];
        assert_ne!(run(&sandbox, &always[..1], RunMode::WithoutUserData), [ModuleResult::Waiting]);
        assert_eq!(run(&sandbox, &always[1..], RunMode::WithoutUserData), [ModuleResult::Waiting]);
        std::fs::create_dir_all(sandbox.top.join("var/lib/cloud/instance/sem")).unwrap();
        assert_eq!(run(&sandbox, &["runcmd"], RunMode::Full), [ModuleResult::Done]);
        assert_eq!(run(&sandbox, &["runcmd"], RunMode::WithoutUserData), [ModuleResult::AlreadyRan]);
    }
}
