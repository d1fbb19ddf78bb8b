//! A summary of the plan of the next boot.

use std::time::Duration;

use serde_json::json;

use super::page::Page;
use super::results::fold;
use crate::arguments::GlobalOptions;
use crate::finding::{Layer, Severity};
use crate::json;
use crate::machine::Machine;
use crate::plan::{Request, all_effects, plan_stages};

/// The limit for each stage: a metadata service that does not answer must not hold up this page.
// Wait: doctor | the plan of each stage | `--no-plan`
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn section(machine: &Machine, global: &GlobalOptions, page: &mut Page) {
    const TITLE: &str = "Would run at the next boot";
    if !Machine::is_root() {
        // Without the files that only root may read the plan would be wrong.
        return page.findings.unread.push("the plan of the next boot: needs root".into());
    }
    let planned = plan_stages(machine, global, &Request::default(), (TIMEOUT, false), |view, reports| {
        let shown = all_effects(reports).filter(|effect| !view.is_state(json::text(effect, "path")));
        shown.map(|effect| format!("{}: {}\n", json::text(effect, "step"), view.line(effect))).collect()
    });
    let (text, reports) = match planned {
        Ok(planned) => planned,
        Err(e) => return page.findings.unread.push(format!("the plan of the next boot: {e}")),
    };
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    if lines.is_empty() {
        lines.push("nothing but cloud-init's own state".into());
    }
    for report in &reports {
        let stage = json::text(report, "stage");
        for error in json::texts(report, "errors") {
            let place = format!("next boot, {stage}");
            if !fold(Severity::Error, &format!("{place}: {error}"), &[error.to_string()], page) {
                page.findings.layer = Layer::State;
                page.findings.error(place, error, "cloud-init plan shows the whole plan");
            }
        }
        lines.extend(json::texts(report, "warnings").map(|warning| format!("{stage}: warning: {warning}")));
    }
    let value = json!({ "effects": text.lines().collect::<Vec<_>>() });
    page.section("next_boot", TITLE, lines, value);
}
