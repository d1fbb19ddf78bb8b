//! One run of ds-identify: the steps in their order. Answers whether cloud-init is to run, and leaves
//! cloud.cfg for the stages, the result for later runs of this boot, and the log.

use system::{Error, Result, Write};

use crate::facts::Facts;
use crate::log::Log;
use crate::places::{Doors, Env, Place, Places};
use crate::policy::Mode;
use crate::table;
use crate::verdict::{self, Answer, Decision, Verdict};

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
    let decision = decide(facts)?;
    write(facts.doors, &places.result, &format!("{}\n", decision.code()))?;
    Ok(decision)
}

fn decide(facts: &Facts<'_>) -> Result<Decision> {
    let (doors, places, log) = (facts.doors, facts.places, facts.log);
    if let Some(why) = switched_off(facts) {
        log.line(0, format!("disabled by {why}"));
        return Ok(Decision::SwitchedOff);
    }
    let settings = facts.settings();
    let policy = &settings.policy;
    log.line(1, format!("policy loaded: {policy}"));
    if let Mode::Enabled | Mode::Disabled = policy.mode {
        let decision = if policy.mode == Mode::Enabled { Decision::Enable } else { Decision::Disable };
        log.line(0, format!("mode={}: nothing is searched for", policy.mode));
        return Ok(decision);
    }
    if let Some(name) = &settings.datasource {
        log.line(0, format!("datasource '{name}' is named by hand"));
        let text = take(vec![name.clone()], policy);
        write(doors, &places.result_config, &text)?;
        return Ok(Decision::Enable);
    }
    if doors.is_file(&places.cloud.join("instance/manual-clean")) {
        log.line(0, "the instance's files are cleaned by hand (manual-clean): all datasources may be used");
        write(doors, &places.result_config, "# manual_cache_clean.\n")?;
        return Ok(Decision::Enable);
    }
    let candidates = facts.candidates();
    let names = &candidates.names;
    if let [_] = names.as_slice() {
        log.line(0, format!("{} is the only datasource in {}", names[0], candidates.origin));
        write(doors, &places.result_config, &verdict::config_text_of_list(names, policy))?;
        return Ok(Decision::Enable);
    }
    if let [_, none] = names.as_slice()
        && none == "None"
    {
        log.line(0, format!("{} is the only datasource but None in {}", names[0], candidates.origin));
        write(doors, &places.result_config, &verdict::config_text_of_list(names, policy))?;
        return Ok(Decision::Enable);
    }
    let verdicts = search(facts);
    log.line(0, facts.dump());
    let (outcome, decision) = verdict::weigh(&verdicts, policy);
    match &outcome {
        verdict::Outcome::Take { names, .. } => {
            log.line(0, format!("Found {} [mode={}, found={}]", names.join(" "), policy.mode, policy.found));
        }
        verdict::Outcome::Nothing => {
            let what = if decision == Decision::Enable { "Enabled" } else { "Disabled" };
            let reason = format!("[mode={}, notfound={}]", policy.mode, policy.not_found);
            log.line(0, format!("No ds found {reason}. {what} cloud-init [{}]", decision.code()));
        }
    }
    write(doors, &places.result_config, &verdict::config_text(&outcome, policy))?;
    Ok(decision)
}

fn take(names: Vec<String>, policy: &crate::policy::Policy) -> String {
    verdict::config_text(&verdict::Outcome::Take { names, extra: Vec::new() }, policy)
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
            facts
                .log
                .warning(format!("no check for datasource '{name}', it is used only when named by hand"));
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
