//! `doctor`: one page for a machine that did not come up as expected. It only reads, works on another root too, and reports
//! what it could not read.

mod boot_log;
mod clock;
mod configuration;
mod disk;
mod history;
mod identification;
mod next_boot;
mod results;

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::arguments::{Doctor, GlobalOptions};
use crate::finding::{Finding, has_problem, printable};
use crate::machine::Machine;
use boot_log::BootLog;

/// The version of the JSON output; a field is only added within a version.
const VERSION: u64 = 1;
/// Lines of a section's text; JSON has all of them.
const MAX_LINES: usize = 40;

/// One part of the page.
struct Section {
    /// Its key in the JSON output.
    key: &'static str,
    title: &'static str,
    lines: Vec<String>,
    value: Value,
}

/// The page while it is filled.
#[derive(Default)]
struct Page {
    sections: Vec<Section>,
    findings: Vec<Finding>,
    /// What could not be read, with the reason.
    unread: Vec<String>,
}

impl Page {
    fn section(&mut self, key: &'static str, title: &'static str, lines: Vec<String>, value: Value) {
        self.sections.push(Section { key, title, lines, value });
    }

    /// Adds a finding, unless another part of the page has it.
    fn find(&mut self, finding: Finding) {
        let is_known = |other: &Finding| other.place == finding.place && other.problem == finding.problem;
        if !self.findings.iter().any(is_known) {
            self.findings.push(finding);
        }
    }

    fn json(&self) -> Value {
        let sections = self.sections.iter().map(|section| (section.key.to_string(), section.value.clone()));
        let mut all: Map<String, Value> = sort::collect(sections);
        all.insert("version".into(), VERSION.into());
        all.insert("healthy".into(), (!has_problem(&self.findings)).into());
        all.insert("findings".into(), self.findings.iter().map(Finding::json).collect());
        all.insert("unread".into(), json!(self.unread));
        Value::Object(all)
    }

    fn text(&self) -> String {
        let mut text = String::from("FINDINGS\n");
        if self.findings.is_empty() {
            text += "  none\n";
        }
        for finding in &self.findings {
            text.extend(finding.text().lines().map(|line| format!("  {line}\n")));
        }
        for section in &self.sections {
            text += &format!("\n{}\n", section.title.to_uppercase());
            text.extend(section.lines.iter().take(MAX_LINES).map(|line| format!("  {}\n", printable(line))));
            if section.lines.len() > MAX_LINES {
                text += &format!("  and {} more (--format json)\n", section.lines.len() - MAX_LINES);
            }
        }
        if !self.unread.is_empty() {
            text += "\nNOT READ\n";
            text.extend(self.unread.iter().map(|what| format!("  {}\n", printable(what))));
        }
        text
    }
}

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Doctor) -> ExitCode {
    let mut page = Page::default();
    let log = BootLog::read(machine, &mut page.unread);
    identification::section(machine, global, &mut page);
    history::datasources(&log, &mut page);
    configuration::section(machine, &mut page);
    history::applied(&log, &mut page);
    results::find(machine, &log, &mut page);
    let state = crate::state_files::check(machine);
    for (finding, repair) in state.findings {
        page.find(match repair {
            Some(_) => finding.remedy("cloud-init state repair"),
            None => finding,
        });
    }
    page.unread.extend(state.unread);
    disk::section(machine, &mut page);
    clock::section(machine, &log, &mut page);
    history::changes(machine, &log, &mut page);
    if !args.no_plan {
        next_boot::section(machine, global, &mut page);
    }
    sort::sort(&mut page.unread);
    page.unread.dedup();
    sort::sort_by_key(&mut page.findings, |finding| finding.severity);
    if args.format == "json" {
        print!("{}", state::json_text(&page.json(), 2));
    } else {
        print!("{}", page.text());
    }
    ExitCode::from(u8::from(has_problem(&page.findings)))
}
