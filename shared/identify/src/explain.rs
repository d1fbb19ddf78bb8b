//! `ds-identify --explain [--root DIR] [--format text|json]`, also `cloud-init query --identify`: every datasource with its
//! verdict and the evidence, for people and for programs. Ignores the result of an earlier run; writes nothing.

use std::io::Write as _;
use std::process::ExitCode;

use crate::checks;
use crate::facts::{EARLY, Facts};
use crate::log::Log;
use crate::paths::{Env, Paths, Roots};
use crate::plan::{self, Plan};
use crate::policy::{self, Mode};
use crate::text::list_items;
use crate::verdict::{self, Enablement, Verdict};

/// One line of the table.
struct Row {
    name: String,
    is_candidate: bool,
    /// `None`: the table has no check for it.
    verdict: Option<Verdict>,
}

/// Prints the explanation, with the arguments after `--explain`.
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
    let (roots, paths) = (Roots::new(&root), Paths::new(env));
    let log = Log::silent();
    let facts = Facts::new(EARLY, env, &roots, &paths, &log);
    let mut plan = plan::plan(&facts);
    plan.remedy = remedy(&plan, &facts);
    let rows = rows(&facts, &plan);
    log.report_read_errors(&roots);
    let text = if json { render_json(&facts, &plan, &rows) } else { render_text(&facts, &plan, &rows) };
    // A closed pipe is not a failure.
    let _ = std::io::stdout().write_all(system::printable(&text).as_bytes());
    roots.abandon_hung_reads();
    ExitCode::SUCCESS
}

/// Returns the steps that enable cloud-init if it is disabled: undo the switch, set a policy under which it runs, or both.
fn remedy(plan: &Plan, facts: &Facts<'_>) -> Option<String> {
    let given = facts.settings().policy;
    let off_by_policy = given.mode == Mode::Disabled;
    if plan.enablement == Enablement::Enabled || (plan.enablement == Enablement::Disabled && !off_by_policy) {
        return plan.remedy.clone();
    }
    let policy = if off_by_policy { policy::DEFAULT } else { given };
    let search = off_by_policy.then(|| plan::policy_hint("search", facts));
    let line = plan::plan_with_policy(&policy, facts).remedy.or(search);
    let steps: Vec<String> = plan.remedy.iter().cloned().chain(line).collect();
    Some(steps.join("; then "))
}

fn usage() -> ExitCode {
    const USAGE: u8 = 2;
    eprintln!("usage: ds-identify --explain [--root DIR] [--format text|json]");
    ExitCode::from(USAGE)
}

/// Returns a line for each candidate in their order, then for all other datasources.
fn rows(facts: &Facts<'_>, plan: &Plan) -> Vec<Row> {
    let candidates = &facts.candidates().names;
    let known =
        |name: &str| plan.verdicts.iter().find(|(n, _)| n == name).map(|(_, verdict)| verdict.clone());
    let named = facts.settings().datasource.as_deref().map(list_items).unwrap_or_default();
    let is_named = |name: &str| named.iter().any(|entry| clouds::is_name(entry, name));
    let check = |name: &str| match is_named(name) {
        true => Some(verdict::found("named explicitly; no datasource is checked")),
        false => known(name).or_else(|| checks::check(name, facts)),
    };
    let mut lines: Vec<Row> = candidates
        .iter()
        .map(|name| Row { name: name.clone(), is_candidate: true, verdict: check(name) })
        .collect();
    let mut others: Vec<&str> = clouds::CLOUDS.iter().map(|cloud| cloud.name).collect();
    others.retain(|other| !candidates.iter().any(|name| name == other));
    sort::sort_by_key(&mut others, |name| name.to_ascii_lowercase());
    lines.extend(others.into_iter().map(|name| Row {
        name: name.into(),
        is_candidate: false,
        verdict: check(name),
    }));
    lines
}

impl Row {
    fn verdict(&self) -> &'static str {
        self.verdict.as_ref().map_or("no check", |verdict| verdict.answer.as_str())
    }

    fn reason(&self) -> &str {
        let is_known = || clouds::CLOUDS.iter().any(|cloud| clouds::is_name(&self.name, cloud.name));
        match &self.verdict {
            Some(verdict) => &verdict.reason,
            None if is_known() => "used only if named explicitly, or alone in the list",
            // The packages' installation looks for these words.
            None => "no datasource has this name",
        }
    }
}

fn describe(enablement: Enablement) -> &'static str {
    match enablement {
        Enablement::Enabled => "enabled",
        Enablement::Disabled => "disabled",
        Enablement::SwitchedOff => "switched off",
    }
}

fn render_text(facts: &Facts<'_>, plan: &Plan, rows: &[Row]) -> String {
    let width = rows.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).max(10);
    let mut text = format!("{:width$}  {:9}  EVIDENCE\n", "DATASOURCE", "VERDICT");
    let mut others = false;
    for line in rows {
        if !line.is_candidate && !others {
            others = true;
            text += &format!("\nNot among the candidates from {}:\n", facts.candidates().origin);
        }
        text += &format!("{:width$}  {:9}  {}\n", line.name, line.verdict(), line.reason());
    }
    text += &format!("\ncloud-init is {}: {}\n", describe(plan.enablement), plan.reason);
    if let Some(config) = &plan.config {
        text += &format!("{} would be:\n", facts.paths.result_config);
        text.extend(config.lines().map(|line| format!("    {line}\n")));
    }
    text += &format!("virtualization: {}\n", facts.virt());
    text.extend(facts.log.warnings().iter().map(|warning| format!("{warning}\n")));
    if let Some(line) = &plan.remedy {
        text += &format!("To enable it: {line}\n");
    }
    text
}

fn render_json(facts: &Facts<'_>, plan: &Plan, rows: &[Row]) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let datasources = rows.iter().map(|line| {
        format!(
            "\n    {{\"name\": {}, \"candidate\": {}, \"verdict\": {}, \"evidence\": {}, \"found_by\": {}}}",
            json_string(&line.name),
            line.is_candidate,
            json_string(line.verdict()),
            json_string(line.reason()),
            clouds::cloud(&line.name).map_or("null".into(), |cloud| json_string(&cloud.identified_by()))
        )
    });
    let or_null = |text: &Option<String>| text.as_deref().map_or("null".to_string(), json_string);
    let fields = [
        ("decision", json_string(describe(plan.enablement))),
        ("exit_status", plan.enablement.exit_code().to_string()),
        ("reason", json_string(&plan.reason)),
        ("virtualization", json_string(facts.virt())),
        ("policy", json_string(&facts.settings().policy.to_string())),
        ("candidates_from", json_string(facts.candidates().origin)),
        ("config", or_null(&plan.config)),
        ("enable_with", or_null(&plan.remedy)),
        ("warnings", list(facts.log.warnings().iter().map(|warning| json_string(warning)).collect())),
        ("datasources", list(datasources.collect())),
    ];
    let fields = fields.map(|(name, value)| format!("  \"{name}\": {value}"));
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

/// Returns the text as a JSON string (RFC 8259, section 7).
fn json_string(text: &str) -> String {
    let mut json = String::new();
    encoding::python::put_json(text, &mut json);
    json
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_escaped_in_json() {
        assert_eq!(super::json_string("a\"\\\n\té\u{1}"), r#""a\"\\\n\t\u00e9\u0001""#);
    }
}
