//! The last boot in the log: which datasource answered, which modules ran, and what differs from the boot before.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::boot_log::{Boot, BootLog};
use super::page::Page;
use crate::analyze::event::Kind;
use crate::finding::Layer;
use crate::machine::Machine;

/// A part of the result of a module that ran in an earlier boot.
const RAN_EARLIER: &str = " previously ran";

/// The outcome of a part of a boot: a search for a datasource, or a module.
struct Outcome<'a> {
    stage: &'a str,
    name: &'a str,
    result: &'a str,
    description: &'a str,
    seconds: f64,
}

/// Returns the finished parts of a boot, in order.
fn outcomes(boot: &Boot) -> Vec<Outcome<'_>> {
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (place, event) in boot.events.iter().enumerate() {
        if event.kind == Kind::Start {
            starts.insert(event.name.clone(), place);
        } else if let (Some(start), Some((stage, name))) =
            (starts.remove(event.name.as_str()), event.name.split_once('/'))
        {
            let seconds = (event.at - boot.events[start].at) as f64 / 1e6;
            let (result, description) = (&*event.result, &*event.description);
            found.push(Outcome { stage, name, result, description, seconds });
        }
    }
    found
}

/// Shows which datasource answered, which did not, and how long it took.
pub fn datasources(log: &BootLog, page: &mut Page) {
    page.findings.layer = Layer::Datasource;
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for step in log.last.iter().flat_map(outcomes) {
        let answer = match (step.name, step.name.strip_prefix("search-")) {
            ("check-cache", _) if step.description.starts_with("restored") => ("cache", "answered"),
            (_, Some(name)) if step.result == "FAIL" => (name, "did not answer"),
            (_, Some(name)) if step.description.starts_with("found ") => (name, "answered"),
            (_, Some(name)) => (name, "not present"),
            _ => continue,
        };
        let (name, answer) = answer;
        lines.push(format!("{}: {name} {answer} ({:.3} s)", step.stage, step.seconds));
        rows.push(json!({"stage": step.stage, "name": name, "answer": answer, "seconds": step.seconds}));
        if answer == "did not answer" {
            let problem = format!("{name} did not answer ({:.3} s)", step.seconds);
            let remedy = "check the metadata service and the network to it; datasource_list names the datasources that are tried";
            page.findings.warning(step.stage, problem, remedy);
        }
    }
    if lines.is_empty() {
        lines.push(format!("nothing in {}", log.path));
    }
    page.section("datasources", "Datasources", lines, rows.into());
}

/// Returns the stages and names of the modules that failed.
pub fn failed_modules(log: &BootLog) -> Vec<(&str, &str)> {
    let steps = log.last.iter().flat_map(outcomes).filter(|step| step.result != "SUCCESS");
    steps.filter_map(|step| Some((step.stage, step.name.strip_prefix("config-")?))).collect()
}

/// Returns whether a module did not run in the last boot, because it had run in an earlier one.
pub fn ran_earlier(log: &BootLog, module: &str) -> bool {
    let of_module = |step: &Outcome<'_>| {
        step.name.strip_prefix("config-").is_some_and(|name| name.replace('-', "_") == module)
    };
    let mut steps = log.last.iter().flat_map(outcomes).filter(of_module);
    steps.next().is_some_and(|step| step.description.contains(RAN_EARLIER))
}

/// Returns the modules that had run before the last boot, if that found nothing stored of its instance.
pub fn ran_before_the_first_boot(log: &BootLog) -> Vec<&str> {
    let steps: Vec<_> = log.last.iter().flat_map(outcomes).collect();
    let is_first =
        |step: &Outcome<'_>| step.stage == "init-local" && step.description.starts_with("no cache found");
    let earlier = steps.iter().filter(|step| step.description.contains(RAN_EARLIER));
    match steps.iter().any(is_first) {
        true => earlier.filter_map(|step| step.name.strip_prefix("config-")).collect(),
        false => Vec::new(),
    }
}

/// Returns whether `cloud-init single` repeated a module with success after the last boot.
pub fn is_repeated(log: &BootLog, module: &str) -> bool {
    let of_module = |step: &Outcome<'_>| {
        let name = step.name.rsplit_once("/config-").map_or("", |(_, name)| name);
        step.stage == "single" && name.replace('-', "_") == module
    };
    let last = log.last.iter().flat_map(outcomes).rfind(of_module);
    last.is_some_and(|step| step.result == "SUCCESS" && !step.description.contains(RAN_EARLIER))
}

/// Shows which modules ran and failed.
pub fn applied(log: &BootLog, page: &mut Page) {
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    let mut well: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let steps = log.last.iter().flat_map(outcomes).collect::<Vec<_>>();
    for step in &steps {
        let Some(module) = step.name.strip_prefix("config-") else { continue };
        rows.push(
            json!({"stage": step.stage, "module": module, "result": step.result, "seconds": step.seconds}),
        );
        if step.result == "SUCCESS" {
            let earlier = if step.description.contains(RAN_EARLIER) { " (previously ran)" } else { "" };
            well.entry(format!("{}{earlier}", step.stage)).or_default().push(module.to_string());
        } else {
            lines.push(format!("{}: {module}: {} ({:.3} s)", step.stage, step.result, step.seconds));
        }
    }
    lines.extend(well.iter().map(|(stage, modules)| format!("{stage}: {}", modules.join(", "))));
    if lines.is_empty() {
        lines.push(format!("nothing in {}", log.path));
    }
    page.section("applied", "Applied", lines, rows.into());
}

/// Shows what differs from the boot before.
pub fn changes(machine: &Machine, log: &BootLog, page: &mut Page) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let mut compare = |what: String, before: String, now: String| {
        if before != now && !before.is_empty() && !now.is_empty() {
            rows.push((what, before, now));
        }
    };
    let line = |path: String| {
        sys.read_head(path, 4096)
            .map(|text| String::from_utf8_lossy(&text).trim().to_string())
            .unwrap_or_default()
    };
    let previous = line(layout.previous_instance_id());
    if previous != state::NO_PREVIOUS_ID {
        compare("instance-id".into(), previous, line(layout.instance_id()));
    }
    compare("datasource".into(), line(layout.previous_datasource()), line(layout.datasource()));
    if let (Some(before), Some(last)) = (&log.before, &log.last) {
        compare("version of cloud-init".into(), before.version.clone(), last.version.clone());
        let results = |boot: &Boot| -> BTreeMap<String, String> {
            let of_step = |step: Outcome<'_>| {
                let name = match step.name.strip_prefix("config-") {
                    // Python's cloud-init logs the name as cloud.cfg spells it.
                    Some(module) => format!("config-{}", module.replace('-', "_")),
                    None => step.name.to_string(),
                };
                (format!("{}/{name}", step.stage), step.result.to_string())
            };
            // Python's cloud-init does not log this step in every stage.
            let steps = outcomes(boot).into_iter().filter(|step| step.name != "check-cache");
            sort::collect(steps.map(of_step))
        };
        let (old, new) = (results(before), results(last));
        let names: std::collections::BTreeSet<&str> =
            sort::collect(old.keys().chain(new.keys()).map(String::as_str));
        for name in names {
            let of = |all: &BTreeMap<String, String>| {
                all.get(name).cloned().unwrap_or_else(|| "did not run".into())
            };
            compare(name.to_string(), of(&old), of(&new));
        }
    }
    let value: Vec<Value> =
        rows.iter().map(|(what, before, now)| json!({"what": what, "before": before, "now": now})).collect();
    let mut lines: Vec<String> =
        rows.iter().map(|(what, before, now)| format!("{what}: {before} -> {now}")).collect();
    if lines.is_empty() {
        lines.push(if log.before.is_some() { "nothing" } else { "the log has no earlier boot" }.into());
    }
    page.section("changes", "Differs from the boot before", lines, value.into());
}
