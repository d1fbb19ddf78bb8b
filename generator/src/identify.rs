//! One run of ds-identify: the steps in their order. Answers whether cloud-init is to run, and leaves
//! cloud.cfg for the stages, the result for later runs of this boot, and the log.

use system::{Error, Result, WriteOptions};

use crate::facts::Facts;
use crate::log::Log;
use crate::pending;
use crate::places::{Doors, Env, Place, Places};
use crate::policy::{Mode, Policy};
use crate::table;
use crate::undecided::Note;
use crate::verdict::{self, Answer, Decision, Outcome, Verdict};

/// What was decided, and the reason in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub decision: Decision,
    pub why: String,
}

/// How an early look ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Decided(Decided),
    /// Nothing was found, but devices may still turn up, for these reasons.
    Undecided(Vec<String>),
}

/// Decides for the machine behind `doors`. An error means that the decision could not be written.
pub fn run(force: bool, arguments: &[String], env: &Env, doors: &Doors) -> Result<Decided> {
    let decided = with_log(arguments, env, doors, |facts| decide_once(force, None, facts))?;
    match decided {
        Ended::Decided(decided) => Ok(decided),
        Ended::Undecided(_) => Err(Error::new("undecided, although that was not asked for")),
    }
}

/// As the generator does it, at a time when "undecided" is an answer too.
/// `link` is what makes the target wanted then.
pub fn run_early(link: &str, env: &Env, doors: &Doors) -> Result<Ended> {
    with_log(&[], env, doors, |facts| decide_once(false, Some(link), facts))
}

fn with_log(
    arguments: &[String],
    env: &Env,
    doors: &Doors,
    decide: impl FnOnce(&Facts<'_>) -> Result<Ended>,
) -> Result<Ended> {
    let places = Places::new(env);
    let log = Log::new(env, &places.run);
    log.line(1, format!("[up {:.2}s] ds-identify {}", doors.root.clock().uptime(), arguments.join(" ")));
    let facts = Facts::new(env, doors, &places, &log);
    let result = if env.get("DI_MAIN").is_some_and(|word| word == "print_info") {
        print_info(&facts)
    } else {
        decide(&facts)
    };
    log.problems(doors);
    let ended = match &result {
        Ok(Ended::Decided(decided)) => format!("returning {}", decided.decision.code()),
        Ok(Ended::Undecided(_)) => "returning undecided".to_string(),
        Err(e) => {
            log.error(e.to_string());
            "returning 3".to_string()
        }
    };
    log.line(1, format!("[up {:.2}s] {ended}", doors.root.clock().uptime()));
    log.flush(doors);
    result
}

fn print_info(facts: &Facts<'_>) -> Result<Ended> {
    use std::io::Write as _;
    facts.gather();
    let _ = writeln!(std::io::stdout(), "{}", facts.dump());
    let why = "DI_MAIN=print_info: nothing is decided".to_string();
    Ok(Ended::Decided(Decided { decision: Decision::Enable, why }))
}

/// An earlier result of this boot stands, unless it is to be looked at anew: reloads of the manager are cheap
/// and always end alike.
fn decide_once(force: bool, may_wait: Option<&str>, facts: &Facts<'_>) -> Result<Ended> {
    let places = facts.places;
    if !force
        && facts.doors.is_file(&places.result_config)
        && let Some(line) = facts.doors.line(&places.result)
        && let Some(decision) = Decision::from_code(&line)
    {
        let why = format!("this boot's earlier result stands ({})", places.result.path);
        facts.log.line(1, &why);
        return Ok(Ended::Decided(Decided { decision, why }));
    }
    let plan = plan(facts);
    if plan.decision != Decision::SwitchedOff {
        facts.log.line(0, facts.dump());
    }
    facts.log.line(0, &plan.why);
    if let Some(link) = may_wait
        && plan.may_change
    {
        let reasons = may_still_come(facts);
        if !reasons.is_empty() {
            let note = Note {
                virtualization: facts.env.get("SYSTEMD_VIRTUALIZATION").cloned(),
                wait: facts.settings().settle,
                link: Some(link.to_string()),
                because: reasons,
            };
            note.because.iter().for_each(|reason| facts.log.line(0, format!("undecided: {reason}")));
            write(facts.doors, &places.note, &note.text())?;
            return Ok(Ended::Undecided(note.because));
        }
    }
    if let Some(text) = &plan.config {
        write(facts.doors, &places.result_config, text)?;
    }
    write(facts.doors, &places.result, &format!("{}\n", plan.decision.code()))?;
    Ok(Ended::Decided(Decided { decision: plan.decision, why: plan.why }))
}

/// Why a device may still turn up that a candidate would be found on. Not asked where there is no later look:
/// in containers, in the initrd, and where it is turned off.
fn may_still_come(facts: &Facts<'_>) -> Vec<String> {
    let in_initrd = facts.env.get("SYSTEMD_IN_INITRD").is_some_and(|value| value == "1");
    let needs_devices =
        facts.candidates().names.iter().any(|name| table::row(name).is_some_and(|row| row.devices));
    if facts.is_container() || in_initrd || !needs_devices || facts.settings().settle.is_zero() {
        return Vec::new();
    }
    pending::all(&facts.doors.root)
}

/// What is to be done.
pub struct Plan {
    pub decision: Decision,
    /// The new text of cloud.cfg; without one it is left as it is.
    pub config: Option<String>,
    /// The reason in one line.
    pub why: String,
    /// The verdicts, where a search was needed.
    pub checked: Vec<(String, Verdict)>,
    /// Nothing was found, which a device that turns up later would change.
    pub may_change: bool,
    /// The one line that would enable cloud-init where a search or a switch disabled it.
    pub remedy: Option<String>,
}

impl Plan {
    fn new(decision: Decision, config: Option<String>, why: String) -> Plan {
        Plan { decision, config, why, checked: Vec::new(), may_change: false, remedy: None }
    }
}

/// Judges; writes nothing but log lines.
pub fn plan(facts: &Facts<'_>) -> Plan {
    if let Some((what, remedy)) = switched_off(facts) {
        let off = Plan::new(Decision::SwitchedOff, None, format!("disabled by {what}"));
        return Plan { remedy: Some(remedy.into()), ..off };
    }
    let policy = &facts.settings().policy;
    facts.log.line(1, format!("policy loaded: {policy}"));
    plan_under(policy, facts)
}

/// The same under that policy, whether cloud-init is switched off or not.
pub fn plan_under(policy: &Policy, facts: &Facts<'_>) -> Plan {
    let enable = |config: String, why: String| Plan::new(Decision::Enable, Some(config), why);
    let settings = facts.settings();
    let why_mode = || format!("mode={}: nothing is searched for", policy.mode);
    match policy.mode {
        Mode::Enabled => return Plan::new(Decision::Enable, None, why_mode()),
        Mode::Disabled => return Plan::new(Decision::Disable, None, why_mode()),
        Mode::Search | Mode::Report => {}
    }
    if let Some(name) = &settings.datasource {
        let named = Outcome::Take { names: vec![name.clone()], extra: Vec::new() };
        let why = format!("datasource '{name}' is named by hand");
        return enable(verdict::config_text(&named, policy), why);
    }
    if facts.doors.is_file(&facts.places.cloud.join("instance/manual-clean")) {
        return enable(
            verdict::reported(vec!["# manual_cache_clean.".into()], policy.mode == Mode::Report),
            "manual-clean: the instance in place is kept".into(),
        );
    }
    let candidates = facts.candidates();
    let names = &candidates.names;
    let decided = match names.as_slice() {
        [_] => true,
        [_, second] => second == "None",
        _ => false,
    };
    if decided {
        let why = format!("{} is the only datasource in {}, nothing is checked", names[0], candidates.origin);
        return enable(verdict::config_text_of_list(names, policy), why);
    }
    let checked = search(facts);
    let (outcome, decision) = verdict::weigh(&checked, policy);
    let why = match &outcome {
        Outcome::Take { names, .. } => {
            format!("Found {} [mode={}, found={}]", names.join(" "), policy.mode, policy.found)
        }
        Outcome::Nothing => {
            let what = if decision == Decision::Enable { "Enabled" } else { "Disabled" };
            let reason = format!("[mode={}, notfound={}]", policy.mode, policy.not_found);
            format!("No ds found {reason}. {what} cloud-init [{}]", decision.code())
        }
    };
    let may_change = decision == Decision::Disable;
    let remedy = may_change.then(|| {
        let is_maybe = checked.iter().any(|(_, verdict)| verdict.answer == Answer::Maybe);
        let policy = if is_maybe { "search,maybe=all" } else { "search,notfound=enabled" };
        policy_line(policy, facts)
    });
    let config = Some(verdict::config_text(&outcome, policy));
    Plan { decision, config, why, checked, may_change, remedy }
}

/// What sets that policy: where it stands on the command line, a file would not.
pub fn policy_line(policy: &str, facts: &Facts<'_>) -> String {
    const WORD: &str = "ci.di.policy=";
    if facts.command_line().split(' ').any(|word| word.starts_with(WORD)) {
        return format!("on the kernel command line, write {WORD}{policy}");
    }
    format!("in /etc/cloud/ds-identify.cfg, write the line policy: {policy}")
}

/// What the administrator switched cloud-init off with, if so, and what takes it back.
fn switched_off(facts: &Facts<'_>) -> Option<(&'static str, &'static str)> {
    const WORD: &str = "cloud-init=disabled";
    if facts.doors.is_file(&Place::fixed("/etc/cloud/cloud-init.disabled")) {
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
        let (answer, why) = (verdict.answer.word(), &verdict.why);
        facts.log.line(1, format!("check for '{name}' returned {answer}: {why}"));
        let done = first_only && verdict.answer == Answer::Found;
        verdicts.push((name.clone(), verdict));
        if done {
            break;
        }
    }
    verdicts
}

fn write(doors: &Doors, place: &Place, text: &str) -> Result<()> {
    doors
        .to(place)
        .write(&place.path, text, WriteOptions::default())
        .map(drop)
        .map_err(|e| Error::new(e.to_string()))
}
