//! Output and exit codes of `analyze` on many kinds of logs, as recorded of Debian's cloud-init 26.2 (`analyze/record`), or a
//! difference with its reason.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{CommandResult, run_to_end};

/// The commands and the log, or the line of `more`, with the reason for the difference.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "show blame",
        "first-line-lost",
        "upstream ends in a traceback: a stage ends whose beginning is not in the log",
    ),
    ("show blame", "finish-only", "likewise"),
    ("show blame", "stage-without-parts", "upstream ends in a traceback"),
    ("show blame dump", "modules-init", "likewise"),
    ("show blame dump", "no-time", "likewise; ours reports it and skips it"),
    ("show blame dump", "half-lines", "likewise"),
    ("show blame dump", "not-utf8", "likewise"),
    ("show blame", "dump-partial.json", "likewise"),
    ("show", "part-cut-off", "upstream loses the stage around a part that never ended"),
    ("show", "interleaved", "upstream loses what does not end in reverse order"),
    ("show blame dump", "words-in-text", "upstream takes other lines with these words for events"),
    (
        "show blame dump",
        "journal-of-output",
        "upstream cannot read what the journal caught of a stage's output",
    ),
    ("show blame dump", "iso-point", "upstream takes the date for the time: all events are at midnight"),
    ("dump", "old-single", "a description of our own"),
    ("", "show -f %l -i deep", "upstream ends in a traceback"),
    ("", "show -f %T -i deep", "likewise"),
    ("", "show -f {name} -i deep", "a name of upstream's own: only codes with % are replaced"),
];

/// Timestamps of syslog have no year: the recorded dump has the year of the recording.
const WITHOUT_YEAR: [&str; 3] = ["syslog", "journal", "journal-microseconds"];

fn here() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analyze")
}

fn analyze(words: &[&str]) -> CommandResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    run_to_end(
        command
            .arg("analyze")
            .args(words)
            .current_dir(here().join("logs"))
            .stdin(std::process::Stdio::null()),
    )
}

fn is_different(line: &str) -> bool {
    DIFFERENCES.iter().any(|(commands, log, _)| match *commands {
        "" => *log == line,
        some => some.split(' ').any(|command| line == format!("{command} -i {log}")),
    })
}

#[test]
fn output_matches_upstream() {
    let recorded = std::fs::read_to_string(here().join("recorded.json")).unwrap();
    let recorded: BTreeMap<String, (i32, String)> = serde_json::from_str(&recorded).unwrap();
    let more = std::fs::read_to_string(here().join("more")).unwrap();
    let logs = std::fs::read_dir(here().join("logs")).unwrap().count();
    assert_eq!(recorded.len(), logs * 3 + more.lines().count(), "run analyze/record");
    let mut wrong = Vec::new();
    for (line, theirs) in &recorded {
        // Tests do not read the log of the machine that runs them.
        if line == "show" {
            continue;
        }
        let log = line.rsplit(' ').next().unwrap_or_default();
        if line.starts_with("dump ") && WITHOUT_YEAR.contains(&log) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (code, out, err) = analyze(&words);
        let out: String =
            out.split_inclusive('\n').filter(|l| !l.starts_with("@ is") && !l.starts_with("+ is")).collect();
        let same = code == theirs.0 && out == theirs.1;
        if same == is_different(line) {
            wrong.push(format!("{line}: {code} {err}\n{out}\n    upstream {}\n{}", theirs.0, theirs.1));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
