//! A summary of the plan of the next boot.

use std::time::Duration;

use serde_json::json;
use state::{Cached, Instance};

use super::page::Page;
use super::results::fold;
use crate::arguments::GlobalOptions;
use crate::finding::{Layer, Severity};
use crate::json;
use crate::machine::Machine;
use crate::plan::{Request, all_effects, plan_stages};

/// The limit for each stage, which queries no server.
// Wait: doctor | the plan of each stage | `--no-plan`
const TIMEOUT: Duration = Duration::from_secs(5);
/// The limit for each stage, which may query a metadata service.
// Wait: doctor --network | the plan of each stage | `--no-plan`
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);

/// Adds the plan: of the cached instance or, if the network may be used, of what the search for a datasource finds.
pub fn section(machine: &Machine, global: &GlobalOptions, may_search: bool, page: &mut Page) {
    const TITLE: &str = "Would run at the next boot";
    if !Machine::is_root() {
        // Without the files that only root may read the plan would be wrong.
        return page.findings.unread.push("the plan of the next boot: needs root".into());
    }
    let timeout = if may_search { NETWORK_TIMEOUT } else { TIMEOUT };
    let request = match Instance::load_without_raw_data(&machine.sys, &machine.layout) {
        _ if may_search => Request::default(),
        // A search finds the seed, or that it is another instance's, without the network.
        Cached::Instance(instance) if has_local_seed(&instance.description) => Request::default(),
        Cached::Instance(instance) => Request { instance_id: Some(instance.id), ..Request::default() },
        _ => {
            let why = "it begins with a search, which may use the network: --network";
            return page.findings.unread.push(format!("the plan of the next boot: {why}"));
        }
    };
    let planned = plan_stages(machine, global, &request, (timeout, false), |view, reports| {
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
        // Each stage repeats what it reads.
        let is_new = |warning: &&str| !lines.iter().any(|line| line.ends_with(warning));
        let new: Vec<&str> = json::texts(report, "warnings").filter(is_new).collect();
        lines.extend(new.into_iter().map(|warning| format!("{stage}: warning: {warning}")));
    }
    let value = json!({ "effects": text.lines().collect::<Vec<_>>() });
    page.section("next_boot", TITLE, lines, value);
}

/// Returns whether a datasource, by its description, is a directory or a disk.
fn has_local_seed(description: &str) -> bool {
    ["[seed=/", "[source=/"].iter().any(|part| description.contains(part)) && !description.contains("http")
}
