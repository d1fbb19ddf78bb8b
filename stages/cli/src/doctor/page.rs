//! The page of `doctor`: its parts and findings, as text and as JSON.

use serde_json::{Map, Value, json};
use system::single_line;

use crate::finding::{Finding, Findings};

/// The version of the JSON output; a field is only added within a version.
const VERSION: u64 = 1;
/// The maximum number of lines of a section; the JSON output is complete.
const MAX_LINES: usize = 40;
/// The maximum number of findings of a layer and severity in the text.
const MAX_ALIKE: usize = 10;

/// One part of the page.
pub struct Section {
    /// Its key in the JSON output.
    key: &'static str,
    pub title: &'static str,
    pub lines: Vec<String>,
    value: Value,
}

/// The page while it is filled.
#[derive(Default)]
pub struct Page {
    /// What the boot is doing, or how it ended.
    pub headline: String,
    pub sections: Vec<Section>,
    pub findings: Findings,
}

impl Page {
    pub fn section(&mut self, key: &'static str, title: &'static str, lines: Vec<String>, value: Value) {
        self.sections.push(Section { key, title, lines, value });
    }

    pub fn json(&self) -> Value {
        let sections = self.sections.iter().map(|section| (section.key.to_string(), section.value.clone()));
        let mut all: Map<String, Value> = sort::collect(sections);
        all.insert("version".into(), VERSION.into());
        all.insert("healthy".into(), (!self.findings.has_problem()).into());
        all.insert("headline".into(), self.headline.clone().into());
        all.insert("findings".into(), self.findings.all.iter().map(Finding::json).collect());
        all.insert("unread".into(), json!(self.findings.unread));
        Value::Object(all)
    }

    pub fn text(&self) -> String {
        let mut text = format!("{}\n\nFINDINGS\n", single_line(&self.headline));
        if self.findings.all.is_empty() {
            text += "  none\n";
        }
        let kind = |finding: &Finding| (finding.layer, finding.severity);
        for alike in self.findings.all.chunk_by(|a, b| kind(a) == kind(b)) {
            for finding in alike.iter().take(MAX_ALIKE) {
                text.extend(finding.text().lines().map(|line| format!("  {line}\n")));
            }
            if alike.len() > MAX_ALIKE {
                text += &format!("  and {} more like this (--format json)\n", alike.len() - MAX_ALIKE);
            }
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
        if !self.findings.unread.is_empty() {
            text += "\nNOT READ\n";
            text.extend(self.findings.unread.iter().map(|what| format!("  {}\n", single_line(what))));
        }
        text
    }
}
