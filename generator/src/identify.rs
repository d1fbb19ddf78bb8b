//! One run of ds-identify: the steps in their order. Answers whether cloud-init is to run, and leaves
//! cloud.cfg for the stages, the result for later runs of this boot, and the log.

use system::{Error, Result, Write};

use crate::facts::Facts;
use crate::log::Log;
use crate::places::{Doors, Env, Place, Places};
use crate::policy::Mode;
use crate::table;
use crate::verdict::{self, Answer, Decision, Outcome, Verdict};

/// Decides for the machine behind `doors`. An error means that the decision could not be written.
pub fn run(arguments: &[String], env: &Env, doors: &Doors) -> Result<Decision> {
    let places = Places::new(env);
    let log = Log::new(env, &places.run);
    log.line(1, format!("[up {:.2}s] ds-identify {}", doors.root.clock().uptime(), arguments.join(" ")));
    let facts = Facts::new(env, doors, &places, &log);
    let result = if env.get("DI_MAIN").is_some_and(|word| word == "print_info") {
        print_info(&facts)
    } else {
        decide_once(arguments.first().is_some_and(|a| a == "--force"), &facts)
    };
    let ended = match &result {
        Ok(decision) => format!("returning {}", decision.code()),
        Err(e) => {
            log.error(e.to_string());
            "returning 3".to_string()
        }
    };
    log.line(1, format!("[up {:.2}s] {ended}", doors.root.clock().uptime()));
    log.flush(doors);
    result
}

fn print_info(facts: &Facts<'_>) -> Result<Decision> {
    use std::io::Write as _;
    facts.gather();
    let _ = writeln!(std::io::stdout(), "{}", facts.dump());
    Ok(Decision::Enable)
}

/// An earlier result of this boot stands, unless `--force` is given: reloads of the manager are cheap and
/// always end alike.
fn decide_once(force: bool, facts: &Facts<'_>) -> Result<Decision> {
    let places = facts.places;
    if !force
        && facts.doors.is_file(&places.result_config)
        && let Some(line) = facts.doors.line(&places.result)
        && let Some(decision) = Decision::from_code(&line)
    {
        facts.log.line(1, format!("this boot's earlier result stands ({})", places.result.path));
        return Ok(decision);
    }
    let plan = plan(facts);
    if plan.decision != Decision::SwitchedOff {
        facts.log.line(0, facts.dump());
    }
    facts.log.line(0, &plan.why);
    if let Some(text) = &plan.config {
        write(facts.doors, &places.result_config, text)?;
    }
    write(facts.doors, &places.result, &format!("{}\n", plan.decision.code()))?;
    Ok(plan.decision)
}

/// What is to be done, and the reason in one line.
struct Plan {
    decision: Decision,
    /// The new text of cloud.cfg; without one it is left as it is.
    config: Option<String>,
    why: String,
}

fn plan(facts: &Facts<'_>) -> Plan {
    let enable = |config: String, why: String| Plan { decision: Decision::Enable, config: Some(config), why };
    if let Some(what) = switched_off(facts) {
        return Plan { decision: Decision::SwitchedOff, config: None, why: format!("disabled by {what}") };
    }
    let settings = facts.settings();
    let policy = &settings.policy;
    facts.log.line(1, format!("policy loaded: {policy}"));
    if let Mode::Enabled | Mode::Disabled = policy.mode {
        let decision = if policy.mode == Mode::Enabled { Decision::Enable } else { Decision::Disable };
        return Plan {
            decision,
            config: None,
            why: format!("mode={}: nothing is searched for", policy.mode),
        };
    }
    if let Some(name) = &settings.datasource {
        let named = Outcome::Take { names: vec![name.clone()], extra: Vec::new() };
        let why = format!("datasource '{name}' is named by hand");
        return enable(verdict::config_text(&named, policy), why);
    }
    if facts.doors.is_file(&facts.places.cloud.join("instance/manual-clean")) {
        return enable(
            "# manual_cache_clean.\n".into(),
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
    let (outcome, decision) = verdict::weigh(&search(facts), policy);
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
    Plan { decision, config: Some(verdict::config_text(&outcome, policy)), why }
}

/// What the administrator switched cloud-init off with, if so.
fn switched_off(facts: &Facts<'_>) -> Option<&'static str> {
    const WORD: &str = "cloud-init=disabled";
    if facts.doors.is_file(&Place::fixed("/etc/cloud/cloud-init.disabled")) {
        return Some("the file /etc/cloud/cloud-init.disabled");
    }
    if facts.env.get("KERNEL_CMDLINE").is_some_and(|line| line == WORD) {
        return Some("the environment: KERNEL_CMDLINE=cloud-init=disabled");
    }
    facts.command_line().contains(WORD).then_some("the kernel command line: cloud-init=disabled")
}

/// Checks the candidates in their order. With `found=first` nothing after the first that is found matters.
fn search(facts: &Facts<'_>) -> Vec<(String, Verdict)> {
    let first_only = facts.settings().policy.found == crate::policy::OnFound::First;
    let mut verdicts = Vec::new();
    for name in &facts.candidates().names {
        let Some(row) = table::row(name) else {
            facts.log.line(1, format!("no check for '{name}': it is used only when named by hand or alone"));
            continue;
        };
        let verdict = (row.check)(facts);
        let level = if verdict.answer == Answer::NotFound { 2 } else { 1 };
        let (answer, why) = (verdict.answer.word(), &verdict.why);
        facts.log.line(level, format!("check for '{name}' returned {answer}: {why}"));
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
        .write(&place.path, text, Write::default())
        .map(drop)
        .map_err(|e| Error::new(e.to_string()))
}
