//! The identification of the machine with its reason: as recorded by the generator at boot, and repeated now.

use std::time::Duration;

use serde_json::{Value, json};
use system::{Command, System};

use super::page::Page;
use crate::arguments::GlobalOptions;
use crate::json;
use crate::machine::Machine;
use crate::stages::identify_program;
use crate::status::{Report, State};

// Wait: doctor | ds-identify | -
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_LOG: u64 = 1 << 20;

pub fn section(machine: &Machine, global: &GlobalOptions, page: &mut Page) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let mut lines = Vec::new();
    let recorded = sys.read_at_most(layout.run("ds-identify.log"), MAX_LOG).ok();
    let reason = recorded.as_deref().and_then(|log| reason(&String::from_utf8_lossy(log)));
    let decision = ["enabled", "disabled"].into_iter().find(|name| sys.exists(layout.run(name)));
    lines.push(match (decision, &reason) {
        (Some(decision), Some(reason)) => format!("at boot: {decision}: {reason}"),
        (Some(decision), None) => format!("at boot: {decision}"),
        (None, _) => {
            let run = layout.run("");
            format!("at boot: no record in {} (a disk does not keep /run)", run.trim_end_matches('/'))
        }
    });
    let now = explain(global);
    if let Some(now) = &now {
        let text = |key| json::text(now, key);
        lines.push(format!("now: {}: {}", text("decision"), text("reason")));
        for row in json::items(now, "datasources") {
            let of = |key| json::text(row, key);
            if row["candidate"] == true || of("verdict") == "found" || of("verdict") == "maybe" {
                lines.push(format!("  {}: {} ({})", of("name"), of("verdict"), of("evidence")));
            }
        }
        if !text("enable_with").is_empty() {
            lines.push(format!("  to enable it: {}", text("enable_with")));
        }
    } else {
        page.findings.unread.push("ds-identify: not installed, or it did not end in time".into());
    }
    let status = Report::read(machine);
    match status.state {
        State::Disabled => {
            let remedy = "cloud-init query --identify shows the evidence and what enables it";
            page.findings.error("generator", status.detail, remedy);
        }
        State::Running if sys.is_live() => lines.push("cloud-init is still running".into()),
        State::Running | State::NotStarted | State::Done => {}
    }
    let value = json!({ "decision": decision, "reason": reason, "now": now });
    page.section("identification", "Identified", lines, value);
}

/// Returns the reason in ds-identify.log: the line before the last one, which has the exit code.
fn reason(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let at = lines.iter().rposition(|line| line.contains("] returning "))?;
    lines.get(at.checked_sub(1)?).map(ToString::to_string)
}

/// Runs `ds-identify --explain`, which writes nothing.
fn explain(global: &GlobalOptions) -> Option<Value> {
    let program = identify_program()?;
    let command = Command::new(["ds-identify", "--explain", "--format", "json"])
        .program(program.to_string_lossy())
        .arg("--root")
        .arg(&global.root);
    let done = System::new("/").run(&command.timeout(TIMEOUT).accept_all().kill_on_exit()).ok()?;
    config::json::value(&done.stdout).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reason_is_the_line_before_the_result() {
        let log = "[up 1s] ds-identify\nDSLIST=None\nno check matched\n[up 2s] returning 1\n";
        assert_eq!(super::reason(log).as_deref(), Some("no check matched"));
        assert_eq!(super::reason("torn"), None);
    }
}
