//! The recorded results of the stages: errors, warnings and findings of the configuration, each with place and remedy.

use serde_json::Value;
use state::StageStatus;
use std::io::ErrorKind;
use system::{Deadline, System};

use super::boot::Boot;
use super::boot_log::BootLog;
use super::cause::{self, Cause};
use super::evidence::{
    ATTRIBUTES_TIMEOUT, DENIED, excluded_package, immutable, named_files, named_host, named_proxy,
    unusable_script, without_execution,
};
use super::identification::NO_DATASOURCE;
use super::journal::ask_journal;
use super::output::{self, Output};
use super::page::Page;
use super::scripts::{own_files_with, texts};
use super::variables;
use crate::finding::{Finding, Layer, Severity, remedy_at, split_position};
use crate::json;
use crate::machine::Machine;
use crate::units;

/// The sentence that refers to the findings of the configuration, which are shown themselves.
const SCHEMA_SENTENCE: &str = "cloud-config failed schema validation!";
/// The beginning of the one that lists those about deprecated forms.
const DEPRECATED_SENTENCE: &str = "Deprecated cloud-config provided: ";
/// The maximum number of findings of each kind; the log is complete.
const MAX_FINDINGS: usize = 100;

/// The remedy for a part of the user-data or vendor-data that was skipped.
const SKIPPED: &str =
    "nothing of this part was applied: correct it; check it with: cloud-init schema --system";

/// The beginning of the message that no network configuration could be written.
const NO_RENDERER: &str = "Unable to render networking. Network config is likely broken";

/// Remedies, by a part of the error's text.
const REMEDIES: [(&str, &str); 17] = [
    (
        "a map cannot be a key",
        "nothing of this part was applied: a template with {{ … }} needs '## template: jinja' as its first line, other braces quotes",
    ),
    ("skipping cloud-config", SKIPPED),
    ("no handler for part", SKIPPED),
    ("MIME message has no parts", SKIPPED),
    (
        "network configuration ignored",
        "correct it at its source, then reboot; check it with: cloud-init schema -t network-config -c FILE",
    ),
    ("timed out", "check the network and the service that did not answer"),
    ("no metadata could be read", "check the metadata service and the network to it"),
    ("not every datasource could be read", "check the metadata service and the network to it"),
    (
        "Used fallback datasource",
        "no datasource was found, see: cloud-init query --identify; then boot again",
    ),
    ("is a public key of SSH", "correct the key in the user-data or at the cloud, for a new instance"),
    ("no NIC of the network configuration exists", super::network::NICS_REMEDY),
    ("Not all expected physical devices present", super::network::NICS_REMEDY),
    (NO_RENDERER, "install one of these, or correct renderers (system_info: network:)"),
    ("metadata of ", "correct it at the cloud, or in meta-data of the seed, for a new instance"),
    // Messages of Python's cloud-init.
    ("Getting data from", "check the metadata service and the network to it"),
    ("could not verify instance", "check the metadata service; the cached instance was used"),
    ("Failed loading yaml blob", SKIPPED),
];

/// Programs that send their input to the journal.
const LOGGERS: [&str; 2] = ["logger", "systemd-cat"];

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
    const WENT_ON: &str = "failed, although the script went on and succeeded";
    let has_failed =
        |script: &str| failures.iter().any(|failure| failure.texts.iter().any(|text| text.contains(script)));
    let own_texts = texts(machine);
    for (stage, script, lines) in output.script_errors(&[layout.cloud(""), layout.run("")]) {
        if has_failed(&script) {
            continue;
        }
        let (handled, others): (Vec<String>, Vec<String>) =
            lines.into_iter().partition(|line| is_handled(sys, line, &own_texts));
        if others.is_empty() {
            let problem = format!("a command of {script} failed, which the script handles");
            page.findings.note(stage, problem).details = handled;
        } else {
            let problem = format!("a command of {script} {WENT_ON}");
            let remedy = "correct the command; with `set -e` a script ends at the first error";
            let place = format!("{stage}: {script}");
            if !variables::report(sys, &place, Severity::Warning, &others, page) {
                page.findings.warning(stage, problem, remedy).details = others;
            }
        }
    }
    for (line, name) in output.absent() {
        let Some(script) = caller(sys, &layout.user_scripts(), name).filter(|script| !has_failed(script))
        else {
            continue;
        };
        let problem = format!("a command of {script} {WENT_ON}");
        let remedy =
            "correct the name, or install what has it; with `set -e` a script ends at the first error";
        let known = page.findings.all.iter().position(|finding| finding.problem == problem);
        let finding = match known {
            Some(at) => &mut page.findings.all[at],
            None => page.findings.warning("modules-final", problem, remedy),
        };
        finding.details.push(line.to_string());
    }
    // A note if a script may have tried again, as those that wait for a server do.
    let is_known = page.findings.all.iter().any(|finding| finding.problem.ends_with(WENT_ON));
    if !is_known
        && failures.iter().all(|failure| !failure.stage.contains("modules-final"))
        && let Some((cause, line)) = output
            .cause()
            .map(|(cause, line)| (cause, line.to_string()))
            .or_else(|| cause_elsewhere(machine))
            .filter(|(cause, _)| cause.problem != cause::NO_CONNECTION)
    {
        let problem = format!("the scripts succeeded, but their output shows: {}", cause.problem);
        let has_retry = texts(machine).iter().any(|text| text.lines().any(has_branch));
        let (severity, remedy) = match has_retry {
            true => (Severity::Note, ""),
            false => (Severity::Warning, cause.remedy),
        };
        page.findings.add(severity, "modules-final", problem, remedy).details.push(line);
    }
    let deadline = Deadline::after(ATTRIBUTES_TIMEOUT);
    for mut failure in failures {
        if let Some(module) =
            failure.module.as_ref().filter(|module| super::history::is_repeated(log, module))
        {
            let place = format!("{}: {module}", failure.stage);
            let problem = "it failed in the boot, and ran since without an error (cloud-init single)";
            page.findings.note(place, problem).details = std::mem::take(&mut failure.texts);
            continue;
        }
        report(machine, failure, &output, deadline, &log.path, page);
    }
    for finding in &mut page.findings.all {
        let (file, what) = match &*finding.problem {
            cause::FULL if machine.sys.is_live() => {
                if let Some(full) = super::disk::full(&machine.sys) {
                    finding.place = full;
                }
                continue;
            }
            cause::READ_ONLY => (boot.restricting.first(), "restricts what a stage may write"),
            cause::NO_NAMES | cause::UNREACHABLE => {
                (boot.isolating.first(), "restricts the network of a stage")
            }
            _ if finding.shows("peration not permitted") => {
                (boot.restricting.first(), "restricts what a stage may do")
            }
            _ => continue,
        };
        if let Some(file) = file {
            finding.details.insert(0, format!("{file} {what}"));
            finding.remedy = format!("remove the restriction from {file}, then reboot");
        }
    }
    if path.is_some() || boot.is_disabled || boot.is_running || !boot.explained.is_empty() {
        return;
    }
    page.findings.layer = Layer::State;
    let last = units::show(machine, &["cloud-final.service"]).unwrap_or_default();
    if sys.is_live() && last.iter().any(|unit| unit.get("ActiveState") == "active") {
        let problem =
            "the stages ran in this boot, and their records were removed since, as by cloud-init clean";
        const COMMAND: &str = "cloud-init clean";
        let files = own_files_with(machine, &[COMMAND]);
        // By hand, as before an image is made of the machine.
        let (severity, remedy) = match files.is_empty() {
            true => (Severity::Note, ""),
            false => (
                Severity::Warning,
                "remove the command if it is not to run at each boot; then: cloud-init clean --reboot",
            ),
        };
        page.findings.add(severity, "stages", problem, remedy).details =
            files.iter().map(|path| format!("{path} runs {COMMAND}")).collect();
    } else if log.last.is_none() {
        let problem = "no boot with cloud-init is recorded, neither as status nor in the log";
        let remedy = "systemctl status cloud-init-local.service; cloud-init query --identify";
        page.findings.warning("stages", problem, remedy);
    }
}

/// Returns the cause that an output shows which the scripts send elsewhere, and its line.
fn cause_elsewhere(machine: &Machine) -> Option<(&'static Cause, String)> {
    let (sys, top) = (&machine.sys, machine.layout.user_scripts());
    let texts =
        sys.list(&top).unwrap_or_default().into_iter().map(|name| sys.read_text(format!("{top}/{name}")));
    let lines: Vec<String> = texts.flatten().flat_map(|text| output::redirected(sys, &text)).collect();
    Cause::of(&lines).map(|(cause, line)| (cause, line.to_string()))
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
    let has = |kind: &str| json::texts(kinds, kind).next().is_some();
    let (has_details, has_deprecated) = (has("wrong") || has("unknown"), has("deprecated"));
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
            let is_shown = has_details && text.starts_with(SCHEMA_SENTENCE)
                || has_deprecated && text.starts_with(DEPRECATED_SENTENCE);
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

/// Returns whether a shell's message, `SCRIPT: [line] NUMBER: MESSAGE`, is about a line that has a branch for failures. Of a script that
/// is removed, such as that of bootcmd, the lines of the configuration that have the first word of the message count.
fn is_handled(sys: &System, message: &str, texts: &[String]) -> bool {
    let mut parts = message.split(": ");
    let (path, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = number.trim_start_matches("line ").parse::<usize>().unwrap_or_default();
    let Ok(text) = sys.read_text(path) else {
        let name = parts.next().unwrap_or_default();
        let mut lines = texts.iter().flat_map(|text| text.lines());
        return name.len() > 1 && lines.any(|line| line.contains(name) && has_branch(line));
    };
    has_branch(number.checked_sub(1).and_then(|at| text.lines().nth(at)).unwrap_or_default())
}

/// Returns whether a line of a script does something if its command fails.
fn has_branch(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.any(|word| matches!(word, "||" | "if" | "elif" | "while" | "until" | "!" | "for"))
}

/// Returns the script in a directory with a command that names something, and does nothing else by its result.
fn caller(sys: &System, directory: &str, name: &str) -> Option<String> {
    let name = name.strip_suffix(".service").unwrap_or(name);
    let is_end = |c: char| !c.is_alphanumeric() && !"_-./@:".contains(c);
    let is_name = |word: &str| word.strip_suffix(".service").unwrap_or(word) == name;
    let calls = |line: &str| {
        line.split(is_end).any(is_name)
            && !line.trim_start().starts_with('#')
            && !line.contains("&&")
            && !has_branch(line)
    };
    let mut scripts = sys.list(directory).unwrap_or_default().into_iter();
    scripts.find(|script| {
        sys.read_text(format!("{directory}/{script}")).is_ok_and(|text| text.lines().any(calls))
    })
}

/// Adds a finding for a failure, or adds it to the finding of its cause.
fn report(
    machine: &Machine,
    failure: Failure,
    output: &Output,
    deadline: Deadline,
    log: &str,
    page: &mut Page,
) {
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
    // What follows from user-data that could not be fetched belongs to that finding, and why a mount failed to the missing one.
    let is_deferred = texts[0].contains("not consumed; modules deferred");
    let owner = page.findings.all.iter_mut().find(|finding| {
        let point = finding.problem.strip_suffix(super::devices::NOT_MOUNTED);
        is_deferred && finding.shows("modules are deferred")
            || texts[0].starts_with("no metadata could be read") && finding.problem.starts_with(NO_DATASOURCE)
            || point.is_some_and(|point| texts[0].contains(&format!(" {point}:")))
    });
    if let Some(finding) = owner {
        finding.details.splice(0..0, texts);
        return;
    }
    let script = texts[0].split_once("scripts failed: ").map_or("", |(_, names)| names);
    let is_command = !script.is_empty()
        || texts.iter().any(|text| text.starts_with("running ") || text.contains("install"));
    let mut shown =
        if is_command && module.is_some() { output.reasons(&stage, script, &texts) } else { Vec::new() };
    // What a script sends elsewhere.
    for name in script.split(", ").filter(|name| !name.is_empty()) {
        let text =
            machine.sys.read_text(machine.layout.instance(&format!("scripts/{name}"))).unwrap_or_default();
        shown.extend(output::redirected(&machine.sys, &text));
        // `exec > >(logger -t NAME)`, `… | systemd-cat -t NAME`
        let mut words =
            text.split([' ', '\n', '(', ')', '|', '"']).skip_while(|word| !LOGGERS.contains(word));
        if shown.is_empty() && words.next().is_some() && words.next() == Some("-t") {
            shown.extend(words.next().into_iter().flat_map(|tag| ask_journal(machine, &["-t", tag])));
        }
    }
    // The index of packages may have been updated in the stage before.
    if shown.is_empty() && texts.iter().any(|text| text.contains("failed to install")) {
        shown = output.reasons("modules-config", "", &[]);
    }
    let place = module.as_ref().map_or(stage.clone(), |module| format!("{stage}: {module}"));
    let problem = texts.remove(0);
    let evidence: Vec<String> =
        std::iter::once(problem.clone()).chain(texts.clone()).chain(shown.clone()).collect();
    let (paths, is_denied) = (named_files(&evidence), evidence.iter().any(|text| text.contains(DENIED)));
    if is_denied && let Some(mount) = without_execution(machine, &paths) {
        page.findings.layer = Layer::Machine;
        let remedy = "remove noexec from the options of the mount (/etc/fstab), then reboot";
        let finding = page.findings.error(mount, "mounted noexec, so scripts cannot be executed", remedy);
        finding.details.extend([vec![format!("{place}: {problem}")], texts].concat());
        return;
    }
    if let Some(path) = immutable(machine, &evidence, deadline) {
        page.findings.layer = Layer::Machine;
        let remedy = format!(
            "chattr -i -a {}; cloud-init single --name {} --frequency always",
            encoding::shell::quote(&path),
            module.as_deref().unwrap_or("NAME")
        );
        let problem = "its attributes forbid every change (lsattr -d)";
        page.findings.error(path, problem, remedy).details.extend(evidence);
        return;
    }
    if let Some((place, problem)) = excluded_package(&machine.sys, &evidence) {
        page.findings.layer = Layer::Work;
        let remedy = "remove or narrow the pin, or: apt-mark unhold NAME; see: apt-cache policy NAME";
        page.findings.error(place, problem, remedy).details = evidence;
        return;
    }
    if variables::report(&machine.sys, &place, severity, &evidence, page) {
        return;
    }
    let (sys, file) = (&machine.sys, unusable_script(&machine.sys, &paths, is_denied));
    if file.is_none() {
        page.findings.layer = Layer::Network;
    }
    let proxy = |(file, host)| {
        let remedy = "correct the proxy (in user-data: apt: proxy), or check that it answers";
        (file, format!("the proxy {host}, which it sets, could not be reached"), remedy)
    };
    let host = |(line, what)| {
        let remedy = "correct or remove the line, so that the name server gives the address";
        (line, format!("{what}, which could not be connected to"), remedy)
    };
    let file = file.or_else(|| named_proxy(machine, &evidence).map(proxy));
    if let Some((file, problem, remedy)) = file.or_else(|| named_host(sys, &evidence).map(host)) {
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
        Some("network configuration ignored" | "metadata ignored" | NO_RENDERER) => Layer::Datasource,
        _ => Layer::Work,
    };
    let remedy = match (REMEDIES.iter().find(|(part, _)| problem.contains(part)), &module) {
        (Some((_, remedy)), _) => (*remedy).to_string(),
        (None, Some(module)) => {
            format!("see {log} and the output beside it; {}", repeat(module))
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

/// Returns how to repeat a module, which reads the configuration as it was stored.
pub fn repeat(module: &str) -> String {
    format!(
        "if the user-data is wrong, correct it for a new instance; otherwise repeat: \
         cloud-init single --name {module} --frequency always"
    )
}

/// Adds a failure to the finding of its cause. Returns `false` if its messages show none.
pub fn fold(severity: Severity, failure: &str, evidence: &[String], page: &mut Page) -> bool {
    let Some((cause, line)) = Cause::of(evidence) else { return false };
    page.findings.layer = cause.layer;
    // What the search for a datasource met belongs to its result.
    let is_search = line.contains("o instance datasource found");
    let is_of = |finding: &Finding| cause.is_of(finding) || is_search && finding.problem == NO_DATASOURCE;
    let known = page.findings.all.iter().position(is_of);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_whose_failure_a_script_handles_are_known() {
        let root = scratch::TempDir::new();
        root.put(
            "s/runcmd",
            "#!/bin/sh\ndocker ps || echo none\nif docker ps; then x; fi\ndocker ps\n! docker ps\n",
        );
        let sys = System::new(&root);
        root.put("t/x", "# usermod app\nid web && x\nusermod -aG docker amy\nsystemctl enable ntpd\n");
        for (name, is_called) in
            [("docker", true), ("ntpd.service", true), ("app", false), ("web", false), ("dock", false)]
        {
            assert_eq!(caller(&sys, "/t", name).is_some(), is_called, "{name}");
        }
        for (message, expected) in [
            ("/s/runcmd: 2: docker: not found", true),
            ("/s/runcmd: line 3: docker: command not found", true),
            ("/s/runcmd: 4: docker: not found", false),
            ("/s/runcmd: 5: docker: not found", true),
            ("/s/runcmd: 0: x", false),
            ("/s/runcmd: 99: x", false),
            ("/s/gone: 1: x", false),
            ("/s/gone: 2: mount-it: not found", true),
            ("/s/gone: 3: other: not found", false),
            ("", false),
        ] {
            let texts = ["bootcmd:\n- mount-it || true\n- other\n".to_string()];
            assert_eq!(is_handled(&sys, message, &texts), expected, "{message}");
        }
    }
}
