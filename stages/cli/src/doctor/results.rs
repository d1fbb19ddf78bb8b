//! The recorded results of the stages: errors, warnings and findings of the configuration, each with place and remedy.

use std::io::ErrorKind;

use serde_json::Value;
use state::StageStatus;

use super::boot::Boot;
use super::boot_log::BootLog;
use super::cause::Cause;
use super::output::Output;
use super::page::Page;
use crate::finding::{Layer, Severity, remedy_at, split_position};
use crate::json;
use crate::machine::Machine;

/// The sentence that refers to the findings of the configuration, which are shown themselves.
const SCHEMA_SENTENCE: &str = "cloud-config failed schema validation!";
/// The maximum number of findings of each kind; the log is complete.
const MAX_FINDINGS: usize = 100;

/// The remedy for a part of the user-data or vendor-data that was skipped.
const SKIPPED: &str =
    "nothing of this part was applied: correct it; check it with: cloud-init schema --system";

/// Remedies, by a part of the error's text.
const REMEDIES: [(&str, &str); 10] = [
    (
        "a map cannot be a key",
        "nothing of this part was applied: a template with {{ … }} needs '## template: jinja' as its first line, other braces quotes",
    ),
    ("skipping cloud-config", SKIPPED),
    ("no handler for part", SKIPPED),
    ("timed out", "check the network and the service that did not answer"),
    ("no metadata could be read", "check the metadata service and the network to it"),
    ("not every datasource could be read", "check the metadata service and the network to it"),
    ("no NIC of the network configuration exists", super::network::NICS_REMEDY),
    // Messages of Python's cloud-init.
    ("Getting data from", "check the metadata service and the network to it"),
    ("could not verify instance", "check the metadata service; the cached instance was used"),
    ("Failed loading yaml blob", SKIPPED),
];

/// The failure of a module, or a message of a stage: what its messages say, the most important one first.
struct Failure {
    stage: String,
    module: Option<String>,
    severity: Severity,
    texts: Vec<String>,
}

pub fn find(machine: &Machine, log: &BootLog, boot: &Boot, page: &mut Page) {
    page.findings.layer = Layer::Work;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let paths = [layout.status(), layout.stored_status()];
    let path = paths.iter().find(|path| sys.exists(path.as_str()));
    let status = path.and_then(|path| match state::read_json(sys, path) {
        Ok(status) => Some(status),
        Err(e) if e.kind() == Some(ErrorKind::InvalidData) => None,
        Err(e) => {
            page.findings.unread.push(e.to_string());
            None
        }
    });
    let mut failures = match status.as_ref().and_then(|status| status.get("v1")) {
        Some(stages) => {
            config_findings(stages, page);
            stages_without_end(stages, boot, page);
            // On a running machine it may still be due.
            if !sys.is_live() && !stages["modules-final"]["start"].is_number() {
                let remedy =
                    "journalctl --directory shows the machine's own journal, if it is kept on the disk";
                page.findings.error("modules-final", "did not run in the last boot", remedy);
            }
            of_status(stages, log, boot)
        }
        // The state check reports a damaged file.
        None => of_log(log),
    };
    for (stage, module) in super::history::failed_modules(log) {
        if !failures.iter().any(|failure| failure.module.as_deref() == Some(module)) {
            let texts = vec![format!("module {module} failed")];
            let (stage, module) = (stage.to_string(), Some(module.to_string()));
            failures.push(Failure { stage, module, severity: Severity::Error, texts });
        }
    }
    let output = Output::read(machine);
    for (stage, script, lines) in output.script_errors(&[layout.cloud(""), layout.run("")]) {
        let is_known = |text: &String| text.contains(script.as_str());
        if !failures.iter().any(|failure| failure.texts.iter().any(is_known)) {
            let problem = format!("a command of {script} failed, although the script went on and succeeded");
            let remedy = "correct the command; with `set -e` a script ends at the first error";
            page.findings.warning(stage, problem, remedy).details = lines;
        }
    }
    for failure in failures {
        report(machine, failure, &output, &log.path, page);
    }
    if log.last.is_none() && path.is_none() && !boot.is_disabled && boot.explained.is_empty() {
        page.findings.layer = Layer::State;
        let problem = "no boot with cloud-init is recorded, neither as status nor in the log";
        let remedy = "systemctl status cloud-init-local.service; cloud-init query --identify";
        page.findings.warning("stages", problem, remedy);
    }
}

/// Adds the recorded problems of configurations.
fn config_findings(v1: &Value, page: &mut Page) {
    for (kind, is_deprecated) in [("wrong", false), ("unknown", false), ("deprecated", true)] {
        for text in json::texts(&v1["config_findings"], kind).take(MAX_FINDINGS) {
            page.findings.add_of_config(is_deprecated, text);
        }
    }
}

/// Reports stages that did not run or end, unless they run now or their unit explains it.
fn stages_without_end(v1: &Value, boot: &Boot, page: &mut Page) {
    let mut has_later = false;
    for stage in state::STAGES.iter().rev() {
        let record = StageStatus::from_json(&v1[stage]);
        let (start, end) = (record.start.is_some(), record.finished.is_some());
        let problem = match (start, end, has_later) {
            _ if boot.explained.contains(stage) || (boot.is_running && !has_later) => "",
            (true, false, false) if v1["stage"] == *stage => {
                "began and did not end: it was killed, or the machine stopped"
            }
            (true, false, _) => "began and did not end",
            (false, _, true) => "did not run, although a later stage did",
            _ => "",
        };
        if !problem.is_empty() {
            let remedy = format!("journalctl -b shows how the unit of {stage} ended");
            page.findings.error(*stage, problem, remedy);
        }
        has_later |= start;
    }
}

/// Returns the failures that the status records, the messages of one module as one.
fn of_status(v1: &Value, log: &BootLog, boot: &Boot) -> Vec<Failure> {
    let kinds = &v1["config_findings"];
    let has_details = ["wrong", "unknown"].iter().any(|kind| json::texts(kinds, kind).next().is_some());
    let is_explained = |text: &str| {
        boot.explained.iter().any(|stage| text == format!("stage {stage} did not complete in this boot"))
    };
    let mut failures = Vec::new();
    for stage in state::STAGES {
        let record = StageStatus::from_json(&v1[stage]);
        let errors = record.errors.into_iter().map(|text| (Severity::Error, text));
        let others = record.recoverable_errors.into_iter().flat_map(|(level, texts)| {
            let severity = match level.as_str() {
                "ERROR" | "CRITICAL" => Severity::Error,
                "DEPRECATED" => Severity::Note,
                _ => Severity::Warning,
            };
            texts.into_iter().map(move |text| (severity, text))
        });
        for (severity, text) in errors.chain(others).take(MAX_FINDINGS) {
            let is_shown = has_details && text.starts_with(SCHEMA_SENTENCE);
            if !is_shown && !is_explained(&text) {
                add(&mut failures, stage, severity, text, log);
            }
        }
    }
    failures
}

/// Returns the failures that the log records.
fn of_log(log: &BootLog) -> Vec<Failure> {
    let mut failures = Vec::new();
    for problem in log.last.iter().flat_map(|boot| &boot.problems).take(MAX_FINDINGS) {
        let severity = if problem.is_error { Severity::Error } else { Severity::Warning };
        add(
            &mut failures,
            &format!("{}, line {}", log.path, problem.line),
            severity,
            problem.text.clone(),
            log,
        );
    }
    failures
}

/// Adds a message: to the failure of its module, if there is one.
fn add(failures: &mut Vec<Failure>, stage: &str, severity: Severity, text: String, log: &BootLog) {
    let problems = || log.last.iter().flat_map(|boot| &boot.problems);
    // `Running module NAME (<module 'cc_NAME'>) failed: TEXT`, `NAME: TEXT`
    let running = text.strip_prefix("Running module ").and_then(|rest| rest.split_once(" (<module"));
    let named =
        text.split_once(": ").filter(|(name, _)| problems().any(|p| p.module.as_deref() == Some(*name)));
    let (module, text) = match (running, named) {
        (Some((name, rest)), _) => {
            let text = rest.split_once(") failed: ").map_or(text.as_str(), |(_, text)| text);
            (Some(name.to_string()), text.to_string())
        }
        (None, Some((name, rest))) => (Some(name.to_string()), rest.to_string()),
        (None, None) => (problems().find(|p| p.text == text).and_then(|p| p.module.clone()), text),
    };
    // Several stages may say the same, as of a file that each of them reads.
    let is_same = |failure: &Failure| module.is_some() || failure.texts.contains(&text);
    let known = failures.iter_mut().find(|failure| failure.module == module && is_same(failure));
    match known {
        Some(failure) if failure.texts.contains(&text) => failure.severity = failure.severity.min(severity),
        Some(failure) if severity < failure.severity => {
            failure.severity = severity;
            failure.texts.insert(0, text);
        }
        Some(failure) => failure.texts.push(text),
        None => failures.push(Failure { stage: stage.to_string(), module, severity, texts: vec![text] }),
    }
}

/// Adds a finding for a failure, or adds it to the finding of its cause.
fn report(machine: &Machine, failure: Failure, output: &Output, log: &str, page: &mut Page) {
    let Failure { stage, module, mut severity, mut texts } = failure;
    let is_known = |text: &str| {
        split_position(text).is_some_and(|(place, problem)| {
            page.findings.all.iter().any(|finding| finding.place == place && finding.problem == problem)
        })
    };
    texts.retain(|text| !is_known(text));
    if texts.is_empty() {
        return;
    }
    // What follows from user-data that could not be fetched belongs to that finding.
    if texts[0].contains("not consumed; modules deferred")
        && let Some(finding) =
            page.findings.all.iter_mut().find(|finding| finding.shows("modules are deferred"))
    {
        finding.details.extend(texts);
        return;
    }
    let script = texts[0].split_once("scripts failed: ").map_or("", |(_, names)| names);
    let is_command = !script.is_empty()
        || texts.iter().any(|text| text.starts_with("running ") || text.contains("install"));
    let mut shown =
        if is_command && module.is_some() { output.reasons(&stage, script, &texts) } else { Vec::new() };
    // The index of packages may have been updated in the stage before.
    if shown.is_empty() && texts.iter().any(|text| text.contains("failed to install")) {
        shown = output.reasons("modules-config", "", &[]);
    }
    let place = module.as_ref().map_or(stage.clone(), |module| format!("{stage}: {module}"));
    let problem = texts.remove(0);
    let evidence: Vec<String> =
        std::iter::once(problem.clone()).chain(texts.clone()).chain(shown.clone()).collect();
    if evidence.iter().any(|text| text.contains("Permission denied"))
        && let Some(mount) = without_execution(machine)
    {
        page.findings.layer = Layer::Machine;
        let remedy = "remove noexec from the options of the mount (/etc/fstab), then reboot";
        let finding = page.findings.error(mount, "mounted noexec, so scripts cannot be executed", remedy);
        finding.details.extend([vec![format!("{place}: {problem}")], texts].concat());
        return;
    }
    if let Some((file, problem, remedy)) = missing_interpreter(machine, &evidence) {
        page.findings.layer = Layer::Work;
        page.findings.error(file, problem, remedy).details = evidence;
        return;
    }
    // A collector of events does not affect the boot: its failure is no cause, and has none of the machine's.
    if let Some((handler, why)) = problem.split_once(": ")
        && why.contains("events were not sent")
    {
        page.findings.layer = Layer::State;
        let remedy = "check the endpoint of this handler of reporting, and whether its server answers";
        let finding = page.findings.add(severity, handler, "its server did not get all events", remedy);
        finding.details.push(format!("{stage}: {why}"));
        return;
    }
    if severity != Severity::Note && fold(severity, &format!("{place}: {problem}"), &evidence, page) {
        return;
    }
    // A value of the configuration that the module reports.
    if let Some((place, problem)) = split_position(&problem) {
        page.findings.layer = Layer::Configuration;
        let remedy = remedy_at(&place);
        page.findings.add(severity, place, problem, remedy).details = [texts, shown].concat();
        return;
    }
    page.findings.layer = match problem.split(':').next() {
        // What the datasource gives, before what follows from its lack.
        Some("network configuration ignored" | "metadata ignored") => Layer::Datasource,
        _ => Layer::Work,
    };
    let remedy = match (REMEDIES.iter().find(|(part, _)| problem.contains(part)), &module) {
        (Some((_, remedy)), _) => (*remedy).to_string(),
        (None, Some(module)) => {
            let again = format!("cloud-init single --name {module} --frequency always");
            format!("see {log} and the output beside it; repeat it with: {again}")
        }
        (None, None) => String::new(),
    };
    if problem.starts_with("Could not render") {
        page.findings.layer = Layer::Configuration;
    }
    // What the datasource gives, before what follows from its lack.
    if remedy.starts_with("nothing of this part") {
        (severity, page.findings.layer) = (Severity::Error, Layer::Datasource);
    }
    texts.retain(|text| !problem.contains(text.as_str()));
    texts.extend(shown);
    page.findings.add(severity, place, problem, remedy).details = texts;
}

/// Returns the mount with the scripts, if its option noexec forbids their execution.
fn without_execution(machine: &Machine) -> Option<String> {
    let scripts = machine.layout.user_scripts();
    let mounts = machine.sys.mounts().unwrap_or_default();
    let is_above = |point: &str| point == "/" || scripts.starts_with(&format!("{point}/"));
    let mount = mounts
        .into_iter()
        .filter(|mount| is_above(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.len())?;
    mount.options.split(',').any(|option| option == "noexec").then_some(mount.mount_point)
}

/// Returns the script that a message names as not found although it exists, because its interpreter does not, with problem and remedy.
fn missing_interpreter(machine: &Machine, evidence: &[String]) -> Option<(String, String, &'static str)> {
    const ENDS: [&str; 4] = [": not found", ": No such file", ": bad interpreter", ": cannot execute"];
    let sys = &machine.sys;
    let named = |line: &String| {
        let end = ENDS.iter().filter_map(|end| line.find(end)).min()?;
        // `PATH: not found`, or `PATH: INTERPRETER: bad interpreter`
        let words = line[..end].split_whitespace().map(|word| word.trim_matches([':', '\'', '"']));
        words.filter(|word| word.starts_with('/')).map(str::to_string).collect::<Vec<_>>().into()
    };
    let paths: Vec<String> =
        evidence.iter().filter_map(|line| -> Option<Vec<String>> { named(line) }).flatten().collect();
    paths.into_iter().rev().find_map(|path| {
        let start = sys.read_head(&path, 256).ok()?;
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next()?;
        let (problem, remedy) = match (line.ends_with('\r'), sys.exists(interpreter)) {
            (true, _) => (
                "has the line ends of Windows (CR LF), so its interpreter is not found".to_string(),
                "save it with the line ends of Unix (LF); on this machine: sed -i 's/\\r$//' FILE",
            ),
            (false, false) => (
                format!("its interpreter {interpreter} does not exist"),
                "install it (packages:), or correct the first line",
            ),
            (false, true) => return None,
        };
        Some((path, problem, remedy))
    })
}

/// Adds a failure to the finding of its cause. Returns `false` if its messages show none.
pub fn fold(severity: Severity, failure: &str, evidence: &[String], page: &mut Page) -> bool {
    let Some((cause, line)) = Cause::of(evidence) else { return false };
    page.findings.layer = cause.layer;
    let known = page.findings.all.iter().position(|finding| cause.is_of(finding));
    let finding = match known {
        Some(at) => &mut page.findings.all[at],
        None => page.findings.error(cause.place, cause.problem, cause.remedy),
    };
    finding.severity = finding.severity.min(severity);
    for detail in [failure, line.trim()] {
        if !finding.details.iter().any(|known| known.contains(detail)) {
            finding.details.push(detail.to_string());
        }
    }
    true
}
