//! The page of `doctor`: its parts and findings, as text and as JSON.

use serde_json::{Map, Value, json};
use system::single_line;

use crate::finding::{Finding, has_problem};

/// The version of the JSON output; a field is only added within a version.
const VERSION: u64 = 1;
/// The maximum number of lines of a section; the JSON output is complete.
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
pub struct Page {
    sections: Vec<Section>,
    pub findings: Vec<Finding>,
    /// Files and facts that could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Page {
    pub fn section(&mut self, key: &'static str, title: &'static str, lines: Vec<String>, value: Value) {
        self.sections.push(Section { key, title, lines, value });
    }

    /// Adds a finding, unless another part of the page has it.
    pub fn find(&mut self, finding: Finding) {
        let is_known = |other: &Finding| other.place == finding.place && other.problem == finding.problem;
        if !self.findings.iter().any(is_known) {
            self.findings.push(finding);
        }
    }

    pub fn json(&self) -> Value {
        let sections = self.sections.iter().map(|section| (section.key.to_string(), section.value.clone()));
        let mut all: Map<String, Value> = sort::collect(sections);
        all.insert("version".into(), VERSION.into());
        all.insert("healthy".into(), (!has_problem(&self.findings)).into());
        all.insert("findings".into(), self.findings.iter().map(Finding::json).collect());
        all.insert("unread".into(), json!(self.unread));
        Value::Object(all)
    }

    pub fn text(&self) -> String {
        let mut text = String::from("FINDINGS\n");
        if self.findings.is_empty() {
            text += "  none\n";
        }
        for finding in &self.findings {
            text.extend(finding.text().lines().map(|line| format!("  {line}\n")));
        }
        for section in &self.sections {
            text += &format!("\n{}\n", section.title.to_uppercase());
            text.extend(
                section.lines.iter().take(MAX_LINES).map(|line| format!("  {}\n", single_line(line))),
            );
            if section.lines.len() > MAX_LINES {
                text += &format!("  and {} more (--format json)\n", section.lines.len() - MAX_LINES);
            }
        }
        if !self.unread.is_empty() {
            text += "\nNOT READ\n";
            text.extend(self.unread.iter().map(|what| format!("  {}\n", single_line(what))));
        }
        text
    }
}
