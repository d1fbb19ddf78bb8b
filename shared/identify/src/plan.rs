//! The decision for a machine: the administrator's switches, an explicit datasource, else a check of the candidates.
//! Reads facts and writes log lines, nothing else.

use crate::checks;
use crate::facts::Facts;
use crate::policy::{Mode, OnFound, Policy};
use crate::text::{command_line_words, list_items};
use crate::verdict::{self, Answer, Enablement, Selection, Verdict};

/// The decision of a run of ds-identify.
pub struct Plan {
    pub enablement: Enablement,
    /// The new text of cloud.cfg; `None` leaves the file unchanged.
    pub config: Option<String>,
    /// The reason in one line.
    pub reason: String,
    /// The verdicts on the candidates, if they were checked.
    pub verdicts: Vec<(String, Verdict)>,
    /// Whether nothing was found and a device that appears later, or a program that answers later, could change that.
    pub may_change: bool,
    /// The line that would enable cloud-init, if a search or a switch disabled it.
    pub remedy: Option<String>,
}

impl Plan {
    fn new(enablement: Enablement, config: Option<String>, reason: String) -> Plan {
        Plan { enablement, config, reason, verdicts: Vec::new(), may_change: false, remedy: None }
    }
}

/// Decides for this machine.
pub fn plan(facts: &Facts<'_>) -> Plan {
    if let Some((what, remedy)) = switched_off(facts) {
        let off = Plan::new(Enablement::SwitchedOff, None, format!("disabled by {what}"));
        return Plan { remedy: Some(remedy.into()), ..off };
    }
    let policy = &facts.settings().policy;
    facts.log.line(1, format!("policy loaded: {policy}"));
    plan_with_policy(policy, facts)
}

/// Decides under the given policy, and ignores the switches that disable cloud-init.
pub fn plan_with_policy(policy: &Policy, facts: &Facts<'_>) -> Plan {
    let enable = |config: String, reason: String| Plan::new(Enablement::Enabled, Some(config), reason);
    let settings = facts.settings();
    let why_mode = || format!("mode={}: no datasource is checked", policy.mode);
    match policy.mode {
        Mode::Enabled => return Plan::new(Enablement::Enabled, None, why_mode()),
        Mode::Disabled => return Plan::new(Enablement::Disabled, None, why_mode()),
        Mode::Search | Mode::Report => {}
    }
    // A list is accepted too: `datasource: Ec2, None`.
    if let Some(name) = &settings.datasource
        && let names = list_items(name)
        && !names.is_empty()
    {
        let named = Selection::Use { names, extra: Vec::new() };
        let reason = format!("datasource '{}' is named explicitly", system::redacted_urls(name));
        return enable(verdict::config_text(&named, policy), reason);
    }
    if facts.roots.is_file(&facts.paths.cloud.join("instance/manual-clean")) {
        return enable(
            verdict::render(vec!["# manual_cache_clean.".into()], policy.mode == Mode::Report),
            "manual-clean: keeping the existing instance".into(),
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
        // An explicit None is a place to fall back to: the stages then check the datasource, unlike one that is alone.
        let checked =
            if names.len() == 1 { "no datasource is checked" } else { "it is checked by the stages" };
        let reason = format!("{} is the only datasource in {}; {checked}", names[0], candidates.origin);
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
    let has = |answer: Answer| verdicts.iter().any(|(_, verdict)| verdict.answer == answer);
    let is_disabled = enablement == Enablement::Disabled;
    let may_change = is_disabled || (has(Answer::Unknown) && !has(Answer::Found));
    let remedy = is_disabled.then(|| {
        let policy = if has(Answer::Maybe) { "search,maybe=all" } else { "search,notfound=enabled" };
        policy_hint(policy, facts)
    });
    let config = Some(verdict::config_text(&selection, policy));
    Plan { enablement, config, reason, verdicts, may_change, remedy }
}

/// Returns the instruction that sets a policy: on the command line if it has one, since that overrides the file.
pub fn policy_hint(policy: &str, facts: &Facts<'_>) -> String {
    const WORD: &str = "ci.di.policy=";
    if command_line_words(facts.command_line()).any(|word| word.starts_with(WORD)) {
        return format!("on the kernel command line, set {WORD}{policy}");
    }
    format!("in /etc/cloud/ds-identify.cfg, add the line policy: {policy}")
}

/// Returns the switch that disables cloud-init, if one is set, and how to undo it.
fn switched_off(facts: &Facts<'_>) -> Option<(&'static str, &'static str)> {
    const WORD: &str = "cloud-init=disabled";
    if facts.roots.target.is_file("/etc/cloud/cloud-init.disabled") {
        return Some(("the file /etc/cloud/cloud-init.disabled", "rm /etc/cloud/cloud-init.disabled"));
    }
    if facts.env.get("KERNEL_CMDLINE").is_some_and(|line| line == WORD) {
        let remedy = "remove KERNEL_CMDLINE=cloud-init=disabled from the manager's environment";
        return Some(("the environment: KERNEL_CMDLINE=cloud-init=disabled", remedy));
    }
    let remedy = "remove cloud-init=disabled from the kernel command line";
    facts.command_line().contains(WORD).then_some(("the kernel command line: cloud-init=disabled", remedy))
}

/// Checks the candidates in their order; with `found=first` only up to the first that is found.
fn search(facts: &Facts<'_>) -> Vec<(String, Verdict)> {
    let first_only = facts.settings().policy.found == OnFound::First;
    let mut verdicts = Vec::new();
    for name in &facts.candidates().names {
        let verdict = checks::check(name, facts);
        let failed = facts.commands.take_failed();
        let Some(verdict) = verdict.map(|verdict| verdict.with_unanswered(&failed)) else {
            facts.log.line(1, format!("no check for '{name}': it is used only if named explicitly or alone"));
            continue;
        };
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
