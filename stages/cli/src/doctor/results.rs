//! The recorded results of the stages: errors, warnings and findings of the configuration, each with place and remedy.

use std::io::ErrorKind;

use serde::Deserialize;
use serde_json::Value;
use state::StageStatus;

use super::boot_log::BootLog;
use super::page::Page;
use crate::finding::Severity;
use crate::json;
use crate::machine::Machine;

/// The sentence that refers to the findings of the configuration, which are shown themselves.
const SCHEMA_SENTENCE: &str = "cloud-config failed schema validation!";
/// The maximum number of findings of each kind; the log is complete.
const MAX_FINDINGS: usize = 100;

/// Remedies, by a part of the error's text.
const REMEDIES: [(&str, &str); 15] = [
    ("o instance datasource found. Failed: ", "check the metadata service and the network to it"),
    ("o instance datasource found", "cloud-init query --identify shows what each datasource was missing"),
    ("no datasource found", "cloud-init query --identify shows what each datasource was missing"),
    ("No space left", "free space on the disk, then reboot"),
    ("os error 28", "free space on the disk, then reboot"),
    ("Read-only file system", "find out why the disk is read-only: dmesg, fsck"),
    ("os error 30", "find out why the disk is read-only: dmesg, fsck"),
    ("useradd", "repeat it by hand: cloud-init single --name users_groups --frequency always"),
    ("timed out", "check the network and the service that did not answer"),
    ("no metadata could be read", "check the metadata service and the network to it"),
    ("not every datasource could be read", "check the metadata service and the network to it"),
    (
        "no NIC of the network configuration exists",
        "update the network configuration at its source for the NICs of this machine, then reboot",
    ),
    // Messages of Python's cloud-init.
    ("Getting data from", "check the metadata service and the network to it"),
    ("could not verify instance", "check the metadata service; the cached instance was used"),
    ("runcmd", "the output of the script is in /var/log/cloud-init-output.log"),
];

pub fn find(machine: &Machine, log: &BootLog, page: &mut Page) {
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
    match status.as_ref().and_then(|status| status.get("v1")) {
        Some(stages) => {
            of_status(stages, page);
            // On a running machine it may still be due.
            if !sys.is_live() && !stages["modules-final"]["start"].is_number() {
                let remedy =
                    "journalctl --directory shows the machine's own journal, if it is kept on the disk";
                page.findings.error("modules-final", "did not run in the last boot", remedy);
            }
        }
        // The state check reports a damaged file.
        None => of_log(log, page),
    }
    if log.last.is_none() && path.is_none() {
        let problem = "no boot with cloud-init is recorded, neither as status nor in the log";
        let remedy = "systemctl status cloud-init-local.service; cloud-init query --identify";
        page.findings.warning("stages", problem, remedy);
    }
}

fn of_status(v1: &Value, page: &mut Page) {
    let kinds = &v1["config_findings"];
    for (kind, is_deprecated) in [("wrong", false), ("unknown", false), ("deprecated", true)] {
        for text in json::texts(kinds, kind).take(MAX_FINDINGS) {
            add_config_finding(page, is_deprecated, text);
        }
    }
    let has_details = ["wrong", "unknown"].iter().any(|kind| json::texts(kinds, kind).next().is_some());
    let mut has_later = false;
    for stage in state::STAGES.iter().rev() {
        let record = StageStatus::deserialize(&v1[stage]).unwrap_or_default();
        for text in record.errors.into_iter().take(MAX_FINDINGS) {
            page.findings.error(*stage, &text, remedy(&text));
        }
        for (level, texts) in record.recoverable_errors {
            for text in texts.into_iter().take(MAX_FINDINGS) {
                if has_details && text.starts_with(SCHEMA_SENTENCE) {
                    continue;
                }
                match level.as_str() {
                    "ERROR" | "CRITICAL" => page.findings.error(*stage, &text, remedy(&text)),
                    "DEPRECATED" => page.findings.note(*stage, text),
                    _ => page.findings.warning(*stage, &text, remedy(&text)),
                };
            }
        }
        let (start, end) = (record.start.is_some(), record.finished.is_some());
        let problem = match (start, end, has_later) {
            (true, false, _) if v1["stage"] == *stage && !has_later => {
                "began and has not ended: running, killed, or the machine stopped"
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
    if v1["datasource"].as_str().is_some_and(|text| text.starts_with("DataSourceNone")) {
        let problem = "no datasource was found; the fallback None has neither keys nor user-data";
        let remedy = "cloud-init query --identify shows what each datasource was missing";
        page.findings.error("datasource", problem, remedy);
    }
}

fn of_log(log: &BootLog, page: &mut Page) {
    for problem in log.last.iter().flat_map(|boot| &boot.problems).take(MAX_FINDINGS) {
        let place = format!("{}, line {}", log.path, problem.line);
        let severity = if problem.is_error { Severity::Error } else { Severity::Warning };
        page.findings.add(severity, place, &problem.text, remedy(&problem.text));
    }
}

pub fn remedy(text: &str) -> &'static str {
    REMEDIES.iter().find(|(part, _)| text.contains(part)).map_or("", |(_, remedy)| *remedy)
}

/// Adds a finding of the configuration, `SOURCE:LINE:COLUMN: KEY: PROBLEM`.
pub fn add_config_finding(page: &mut Page, is_deprecated: bool, text: &str) {
    let (place, problem) = split_position(text).unwrap_or_else(|| ("configuration".into(), text.to_string()));
    if is_deprecated {
        page.findings.note(place, problem);
        return;
    }
    let remedy = match place.split([' ', ',']).next() {
        Some(source @ ("user-data" | "vendor-data" | "vendor-data2")) => {
            format!(
                "correct the {source} at the cloud, then boot a new instance, or: cloud-init clean && reboot"
            )
        }
        _ => "correct the file; check it with: cloud-init schema --config-file FILE".into(),
    };
    page.findings.error(place, problem, remedy);
}

/// Returns `SOURCE, line LINE` and the rest of a string that begins with a position.
pub fn split_position(text: &str) -> Option<(String, String)> {
    let (position, rest) = text.split_once(": ")?;
    let (position, column) = position.rsplit_once(':')?;
    let (source, line) = position.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(line) && is_number(column)).then(|| (format!("{source}, line {line}"), rest.to_string()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn position_is_split_from_the_message() {
        let read = |text| {
            super::split_position(text).map(|(place, rest)| format!("{place}|{rest}")).unwrap_or_default()
        };
        assert_eq!(
            read("vendor-data part-001:4:3: users[1].nmae: unknown key"),
            "vendor-data part-001, line 4|users[1].nmae: unknown key"
        );
        assert_eq!(read("/etc/cloud/cloud.cfg:2:1: a: b"), "/etc/cloud/cloud.cfg, line 2|a: b");
        assert_eq!(read("no position: here"), "");
    }
}
