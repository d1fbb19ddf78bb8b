//! One run of ds-identify: the steps in their order. Answers whether cloud-init is to run, and leaves
//! cloud.cfg for the stages, the result for later runs of this boot, and the log.

use system::{Error, Result, WriteOptions};

use crate::facts::Facts;
use crate::log::Log;
use crate::paths::{Env, Paths, RootedPath, Roots};
use crate::pending;
use crate::policy::{Mode, Policy};
use crate::table;
use crate::undecided::UndecidedState;
use crate::verdict::{self, Answer, Enablement, Selection, Verdict};

/// What was decided, and the reason in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub enablement: Enablement,
    pub reason: String,
}

/// How an early look ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Decided(Decision),
    /// Nothing was found, but devices may still turn up, for these reasons.
    Undecided(Vec<String>),
}

/// Decides for the machine behind `doors`. An error means that the decision could not be written.
pub fn run(force: bool, arguments: &[String], env: &Env, roots: &Roots) -> Result<Decision> {
    let outcome = with_log(arguments, env, roots, |facts| decide_once(force, None, facts))?;
    match outcome {
        Outcome::Decided(decision) => Ok(decision),
        Outcome::Undecided(_) => Err(Error::new("undecided, although that was not asked for")),
    }
}

/// As the generator does it, at a time when "undecided" is an answer too.
/// `link` is what makes the target wanted then.
pub fn run_early(link: &str, env: &Env, roots: &Roots) -> Result<Outcome> {
    with_log(&[], env, roots, |facts| decide_once(false, Some(link), facts))
}

fn with_log(
    arguments: &[String],
    env: &Env,
    roots: &Roots,
    decide: impl FnOnce(&Facts<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let paths = Paths::new(env);
    let log = Log::new(env, &paths.run);
    log.line(1, format!("[up {:.2}s] ds-identify {}", roots.target.clock().uptime(), arguments.join(" ")));
    let facts = Facts::new(env, roots, &paths, &log);
    let result = if env.get("DI_MAIN").is_some_and(|word| word == "print_info") {
        print_info(&facts)
    } else {
        decide(&facts)
    };
    log.report_read_errors(roots);
    let message = match &result {
        Ok(Outcome::Decided(decision)) => format!("returning {}", decision.enablement.exit_code()),
        Ok(Outcome::Undecided(_)) => "returning undecided".to_string(),
        Err(e) => {
            log.error(e.to_string());
            "returning 3".to_string()
        }
    };
    log.line(1, format!("[up {:.2}s] {message}", roots.target.clock().uptime()));
    log.flush(roots);
    result
}

fn print_info(facts: &Facts<'_>) -> Result<Outcome> {
    use std::io::Write as _;
    facts.collect_all();
    let _ = writeln!(std::io::stdout(), "{}", facts.dump());
    let reason = "DI_MAIN=print_info: nothing is decided".to_string();
    Ok(Outcome::Decided(Decision { enablement: Enablement::Enabled, reason }))
}

/// An earlier result of this boot stands, unless it is to be looked at anew: reloads of the manager are cheap
/// and always end alike.
fn decide_once(force: bool, undecided_link: Option<&str>, facts: &Facts<'_>) -> Result<Outcome> {
    let paths = facts.paths;
    if !force
        && facts.roots.is_file(&paths.result_config)
        && let Some(line) = facts.roots.line(&paths.result)
        && let Some(enablement) = Enablement::from_exit_code(&line)
    {
        let reason = format!("this boot's earlier result stands ({})", paths.result.path);
        facts.log.line(1, &reason);
        return Ok(Outcome::Decided(Decision { enablement, reason }));
    }
    let plan = plan(facts);
    if plan.enablement != Enablement::SwitchedOff {
        facts.log.line(0, facts.dump());
    }
    facts.log.line(0, &plan.reason);
    if let Some(link) = undecided_link
        && plan.may_change
    {
        let reasons = pending_devices(facts);
        if !reasons.is_empty() {
            let state = UndecidedState {
                virtualization: facts.env.get("SYSTEMD_VIRTUALIZATION").cloned(),
                wait: facts.settings().settle,
                link: Some(link.to_string()),
                reasons,
            };
            state.reasons.iter().for_each(|reason| facts.log.line(0, format!("undecided: {reason}")));
            write(facts.roots, &paths.undecided, &state.to_text())?;
            return Ok(Outcome::Undecided(state.reasons));
        }
    }
    if let Some(text) = &plan.config {
        write(facts.roots, &paths.result_config, text)?;
    }
    write(facts.roots, &paths.result, &format!("{}\n", plan.enablement.exit_code()))?;
    Ok(Outcome::Decided(Decision { enablement: plan.enablement, reason: plan.reason }))
}

/// Why a device may still turn up that a candidate would be found on. Not asked where there is no later look:
/// in containers, in the initrd, and where it is turned off.
fn pending_devices(facts: &Facts<'_>) -> Vec<String> {
    let in_initrd = facts.env.get("SYSTEMD_IN_INITRD").is_some_and(|value| value == "1");
    let needs_devices =
        facts.candidates().names.iter().any(|name| table::row(name).is_some_and(|row| row.needs_devices));
    if facts.is_container() || in_initrd || !needs_devices || facts.settings().settle.is_zero() {
        return Vec::new();
    }
    pending::reasons(&facts.roots.target)
}

/// What is to be done.
pub struct Plan {
    pub enablement: Enablement,
    /// The new text of cloud.cfg; without one it is left as it is.
    pub config: Option<String>,
    /// The reason in one line.
    pub reason: String,
    /// The verdicts, where a search was needed.
    pub verdicts: Vec<(String, Verdict)>,
    /// Nothing was found, which a device that turns up later would change.
    pub may_change: bool,
    /// The one line that would enable cloud-init where a search or a switch disabled it.
    pub remedy: Option<String>,
}

impl Plan {
    fn new(enablement: Enablement, config: Option<String>, reason: String) -> Plan {
        Plan { enablement, config, reason, verdicts: Vec::new(), may_change: false, remedy: None }
    }
}

/// Judges; writes nothing but log lines.
pub fn plan(facts: &Facts<'_>) -> Plan {
    if let Some((what, remedy)) = switched_off(facts) {
        let off = Plan::new(Enablement::SwitchedOff, None, format!("disabled by {what}"));
        return Plan { remedy: Some(remedy.into()), ..off };
    }
    let policy = &facts.settings().policy;
    facts.log.line(1, format!("policy loaded: {policy}"));
    plan_with_policy(policy, facts)
}

/// The same under that policy, whether cloud-init is switched off or not.
pub fn plan_with_policy(policy: &Policy, facts: &Facts<'_>) -> Plan {
    let enable = |config: String, reason: String| Plan::new(Enablement::Enabled, Some(config), reason);
    let settings = facts.settings();
    let why_mode = || format!("mode={}: nothing is searched for", policy.mode);
    match policy.mode {
        Mode::Enabled => return Plan::new(Enablement::Enabled, None, why_mode()),
        Mode::Disabled => return Plan::new(Enablement::Disabled, None, why_mode()),
        Mode::Search | Mode::Report => {}
    }
    if let Some(name) = &settings.datasource {
        let named = Selection::Use { names: vec![name.clone()], extra: Vec::new() };
        let reason = format!("datasource '{name}' is named by hand");
        return enable(verdict::config_text(&named, policy), reason);
    }
    if facts.roots.is_file(&facts.paths.cloud.join("instance/manual-clean")) {
        return enable(
            verdict::render(vec!["# manual_cache_clean.".into()], policy.mode == Mode::Report),
            "manual-clean: the instance in place is kept".into(),
        );
    }
    let candidates = facts.candidates();
    let names = &candidates.names;
    let is_settled = match names.as_slice() {
        [_] => true,
        [_, second] => second == "None",
        _ => false,
    };
    if is_settled {
        let reason =
            format!("{} is the only datasource in {}, nothing is checked", names[0], candidates.origin);
        return enable(verdict::config_text_of_list(names, policy), reason);
    }
    let verdicts = search(facts);
    let (selection, enablement) = verdict::select(&verdicts, policy);
    let reason = match &selection {
        Selection::Use { names, .. } => {
            format!("Found {} [mode={}, found={}]", names.join(" "), policy.mode, policy.found)
        }
        Selection::Nothing => {
            let what = if enablement == Enablement::Enabled { "Enabled" } else { "Disabled" };
            let reason = format!("[mode={}, notfound={}]", policy.mode, policy.not_found);
            format!("No ds found {reason}. {what} cloud-init [{}]", enablement.exit_code())
        }
    };
    let may_change = enablement == Enablement::Disabled;
    let remedy = may_change.then(|| {
        let is_maybe = verdicts.iter().any(|(_, verdict)| verdict.answer == Answer::Maybe);
        let policy = if is_maybe { "search,maybe=all" } else { "search,notfound=enabled" };
        policy_hint(policy, facts)
    });
    let config = Some(verdict::config_text(&selection, policy));
    Plan { enablement, config, reason, verdicts, may_change, remedy }
}

/// What sets that policy: where it stands on the command line, a file would not.
pub fn policy_hint(policy: &str, facts: &Facts<'_>) -> String {
    const WORD: &str = "ci.di.policy=";
    if facts.command_line().split(' ').any(|word| word.starts_with(WORD)) {
        return format!("on the kernel command line, write {WORD}{policy}");
    }
    format!("in /etc/cloud/ds-identify.cfg, write the line policy: {policy}")
}

/// What the administrator switched cloud-init off with, if so, and what takes it back.
fn switched_off(facts: &Facts<'_>) -> Option<(&'static str, &'static str)> {
    const WORD: &str = "cloud-init=disabled";
    if facts.roots.is_file(&RootedPath::in_root("/etc/cloud/cloud-init.disabled")) {
        return Some(("the file /etc/cloud/cloud-init.disabled", "rm /etc/cloud/cloud-init.disabled"));
    }
    if facts.env.get("KERNEL_CMDLINE").is_some_and(|line| line == WORD) {
        let remedy = "take KERNEL_CMDLINE=cloud-init=disabled out of the manager's environment";
        return Some(("the environment: KERNEL_CMDLINE=cloud-init=disabled", remedy));
    }
    let remedy = "take cloud-init=disabled off the kernel command line";
    facts.command_line().contains(WORD).then_some(("the kernel command line: cloud-init=disabled", remedy))
}

/// Checks the candidates in their order. With `found=first` nothing after the first that is found matters.
fn search(facts: &Facts<'_>) -> Vec<(String, Verdict)> {
    let first_only = facts.settings().policy.found == crate::policy::OnFound::First;
    let mut verdicts = Vec::new();
    for name in &facts.candidates().names {
        let Some(check) = table::row(name).and_then(|row| row.check) else {
            facts.log.line(1, format!("no check for '{name}': it is used only when named by hand or alone"));
            continue;
        };
        let verdict = check(facts);
        let (answer, reason) = (verdict.answer.as_str(), &verdict.reason);
        facts.log.line(1, format!("check for '{name}' returned {answer}: {reason}"));
        let done = first_only && verdict.answer == Answer::Found;
        verdicts.push((name.clone(), verdict));
        if done {
            break;
        }
    }
    verdicts
}

fn write(roots: &Roots, path: &RootedPath, text: &str) -> Result<()> {
    roots
        .system_for(path)
        .write(&path.path, text, WriteOptions::default())
        .map(drop)
        .map_err(|e| Error::new(e.to_string()))
}
