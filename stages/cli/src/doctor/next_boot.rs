//! A summary of the plan of the next boot.

use std::time::Duration;

use serde_json::{Value, json};

use super::page::Page;
use crate::arguments::GlobalOptions;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::plan::{Request, plan_stages};

/// The limit for each stage: a metadata service that does not answer must not hold up this page.
// Wait: doctor | the plan of each stage | `--no-plan`
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn section(machine: &Machine, global: &GlobalOptions, page: &mut Page) {
    const TITLE: &str = "Would run at the next boot";
    if !Machine::is_root() {
        // Without the files that only root may read the plan would be wrong.
        return page.unread.push("the plan of the next boot: needs root".into());
    }
    let planned = plan_stages(machine, global, &Request::default(), (TIMEOUT, false), |view, reports| {
        let effects = reports.iter().filter_map(|report| report["effects"].as_array()).flatten();
        let shown = effects.filter(|effect| !view.is_state(effect["path"].as_str().unwrap_or_default()));
        shown
            .map(|effect| format!("{}: {}\n", effect["step"].as_str().unwrap_or_default(), view.line(effect)))
            .collect()
    });
    let (text, reports) = match planned {
        Ok(planned) => planned,
        Err(e) => {
            page.unread.push(format!("the plan of the next boot: {e}"));
            return;
        }
    };
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    if lines.is_empty() {
        lines.push("nothing but cloud-init's own state".into());
    }
    for report in &reports {
        let stage = report["stage"].as_str().unwrap_or_default();
        for error in report["errors"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            page.find(
                Finding::error(format!("next boot, {stage}"), error)
                    .remedy("cloud-init plan shows the whole plan"),
            );
        }
        for warning in report["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            lines.push(format!("{stage}: warning: {warning}"));
        }
    }
    let value = json!({ "effects": text.lines().collect::<Vec<_>>() });
    page.section("next_boot", TITLE, lines, value);
}
