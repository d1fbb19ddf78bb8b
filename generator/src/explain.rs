//! `ds-identify --explain [--root DIR] [--format text|json]`, also `cloud-init query --identify`: every datasource with its verdict and the evidence that
//! decided it, for people and for programs. Looks at everything, whatever an earlier run found; writes nothing.

use std::io::Write as _;
use std::process::ExitCode;

use crate::facts::Facts;
use crate::identify::{self, Plan};
use crate::log::{Log, printable};
use crate::places::{Doors, Env, Places};
use crate::policy::{self, Mode};
use crate::table;
use crate::verdict::{Decision, Verdict};

/// One line of the table.
struct Line {
    name: String,
    is_candidate: bool,
    /// `None`: there is no check for it.
    verdict: Option<Verdict>,
}

pub fn run(arguments: &[String], env: &Env, root: &str) -> ExitCode {
    let (mut root, mut json, mut format) = (root.to_string(), false, "text".to_string());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), word.split_once('=')) {
            ("--json", _) => json = true,
            ("--format", _) if words.len() > 0 => format = words.next().cloned().unwrap_or_default(),
            (_, Some(("--format", given))) => format = given.to_string(),
            ("--root", _) if words.len() > 0 => root = words.next().cloned().unwrap_or_default(),
            (_, Some(("--root", given))) => root = given.to_string(),
            _ => return usage(),
        }
    }
    match format.as_str() {
        "json" => json = true,
        "text" => {}
        _ => return usage(),
    }
    let (doors, places) = (Doors::new(&root), Places::new(env));
    let log = Log::silent();
    let facts = Facts::new(env, &doors, &places, &log);
    let mut plan = identify::plan(&facts);
    plan.remedy = remedy(&plan, &facts);
    let lines = lines(&facts, &plan);
    log.problems(&doors);
    let text = if json { as_json(&facts, &plan, &lines) } else { printable(&as_text(&facts, &plan, &lines)) };
    // A reader that went away is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    crate::let_go(&doors);
    ExitCode::SUCCESS
}

/// What enables cloud-init where it is not: the switch back, or a policy under which it runs, or both.
fn remedy(plan: &Plan, facts: &Facts<'_>) -> Option<String> {
    let given = facts.settings().policy;
    let off_by_policy = given.mode == Mode::Disabled;
    if plan.decision == Decision::Enable || (plan.decision == Decision::Disable && !off_by_policy) {
        return plan.remedy.clone();
    }
    let policy = if off_by_policy { policy::DEFAULT } else { given };
    let search = off_by_policy.then(|| identify::policy_line("search", facts));
    let line = identify::plan_under(&policy, facts).remedy.or(search);
    let steps: Vec<String> = plan.remedy.iter().cloned().chain(line).collect();
    Some(steps.join("; then "))
}

fn usage() -> ExitCode {
    const USAGE: u8 = 2;
    eprintln!("usage: ds-identify --explain [--root DIR] [--format text|json]");
    ExitCode::from(USAGE)
}

/// The candidates in their order, then all others.
fn lines(facts: &Facts<'_>, plan: &Plan) -> Vec<Line> {
    let candidates = &facts.candidates().names;
    let known = |name: &str| plan.checked.iter().find(|(n, _)| n == name).map(|(_, verdict)| verdict.clone());
    let judge = |name: &str| {
        known(name).or_else(|| table::row(name).and_then(|row| row.check).map(|check| check(facts)))
    };
    let mut lines: Vec<Line> = candidates
        .iter()
        .map(|name| Line { name: name.clone(), is_candidate: true, verdict: judge(name) })
        .collect();
    let others = table::ROWS.iter().filter(|row| !candidates.iter().any(|name| name == row.name));
    lines.extend(others.map(|row| Line {
        name: row.name.into(),
        is_candidate: false,
        verdict: judge(row.name),
    }));
    lines
}

impl Line {
    fn answer(&self) -> &'static str {
        self.verdict.as_ref().map_or("no check", |verdict| verdict.answer.word())
    }

    fn why(&self) -> &str {
        const NO_CHECK: &str = "used only when named by hand, or alone in the list";
        self.verdict.as_ref().map_or(NO_CHECK, |verdict| verdict.why.as_str())
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Enable => "enabled",
        Decision::Disable => "disabled",
        Decision::SwitchedOff => "switched off",
    }
}

fn as_text(facts: &Facts<'_>, plan: &Plan, lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).max(10);
    let mut text = format!("{:width$}  {:9}  EVIDENCE\n", "DATASOURCE", "VERDICT");
    let mut others = false;
    for line in lines {
        if !line.is_candidate && !others {
            others = true;
            text += &format!("\nNot among the candidates, which {} names:\n", facts.candidates().origin);
        }
        text += &format!("{:width$}  {:9}  {}\n", line.name, line.answer(), line.why());
    }
    text += &format!("\ncloud-init is {}: {}\n", word(plan.decision), plan.why);
    if let Some(config) = &plan.config {
        text += &format!("{} would be:\n", facts.places.result_config.path);
        text.extend(config.lines().map(|line| format!("    {line}\n")));
    }
    text += &format!("virtualization: {}\n", facts.virt());
    text.extend(facts.log.remarks().iter().map(|remark| format!("{remark}\n")));
    if let Some(line) = &plan.remedy {
        text += &format!("To enable it: {line}\n");
    }
    text
}

fn as_json(facts: &Facts<'_>, plan: &Plan, lines: &[Line]) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let datasources = lines.iter().map(|line| {
        format!(
            "\n    {{\"name\": {}, \"candidate\": {}, \"verdict\": {}, \"evidence\": {}, \"found_by\": {}}}",
            quoted(&line.name),
            line.is_candidate,
            quoted(line.answer()),
            quoted(line.why()),
            table::row(&line.name).map_or("null".into(), |row| quoted(row.found_by))
        )
    });
    let or_null = |text: &Option<String>| text.as_deref().map_or("null".to_string(), quoted);
    let fields = [
        ("decision", quoted(word(plan.decision))),
        ("exit_status", plan.decision.code().to_string()),
        ("reason", quoted(&plan.why)),
        ("virtualization", quoted(facts.virt())),
        ("policy", quoted(&facts.settings().policy.to_string())),
        ("candidates_from", quoted(facts.candidates().origin)),
        ("config", or_null(&plan.config)),
        ("enable_with", or_null(&plan.remedy)),
        ("remarks", list(facts.log.remarks().iter().map(|remark| quoted(remark)).collect())),
        ("datasources", list(datasources.collect())),
    ];
    let fields = fields.map(|(name, value)| format!("  \"{name}\": {value}"));
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

/// A JSON string (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\n' => json += "\\n",
            c if u32::from(c) < 0x20 => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json + "\""
}

#[cfg(test)]
mod tests {
    #[test]
    fn json_strings() {
        assert_eq!(super::quoted("a\"\\\n\té\u{1}"), r#""a\"\\\n\u0009é\u0001""#);
    }
}
