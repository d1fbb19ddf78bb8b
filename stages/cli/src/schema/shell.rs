//! The syntax of shell scripts: the shell reads them without running a command.

use std::time::Duration;

use config::{Finding, Findings, Node};
use system::{Command, System};

// Wait: schema | a shell, which reads one script | -
const TIMEOUT: Duration = Duration::from_secs(5);
const SHELLS: [&str; 3] = ["sh", "bash", "dash"];

/// Returns the line of a script and what its shell does not accept, if the machine has that shell.
pub fn problem(script: &[u8]) -> Option<(u32, String)> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let shell = line
        .split_whitespace()
        .next()
        .filter(|path| SHELLS.iter().any(|name| path.ends_with(&format!("/{name}"))))?;
    let check = Command::new([shell, "-n"]).stdin_file(script).timeout(TIMEOUT).accept_all().read_only();
    let done = System::new("/").run(&check).ok().filter(|done| done.code != 0)?;
    // `sh: NUMBER: Syntax error: TEXT`, `bash: line NUMBER: syntax error near unexpected token `TOKEN'`
    let text = String::from_utf8_lossy(&done.stderr);
    let (_, rest) = text.lines().next()?.split_once(": ")?;
    let (number, problem) = rest.trim_start_matches("line ").split_once(": ")?;
    // A token may be a secret.
    let problem = problem.split(" `").next().unwrap_or_default();
    Some((number.parse().ok()?, format!("{shell} does not accept the script: {problem}")))
}

/// Returns what is wrong in the script that a list of commands becomes.
pub fn problem_of_list(key: &str, list: &Node) -> Option<Finding> {
    let (mut script, mut places) = ("#!/bin/sh\n".to_string(), vec![0]);
    let items = list.as_seq()?;
    for (i, item) in items.iter().enumerate() {
        let text = item.as_str().unwrap_or(":");
        script += &format!("{text}\n");
        places.extend(text.split('\n').map(|_| i));
    }
    let (line, message) = problem(script.as_bytes())?;
    let item = places.get(line as usize - 1).map_or(items.len() - 1, |at| *at);
    let mut found = Findings::default();
    found.invalid(&items.get(item)?.at, format!("{key}[{item}]"), message);
    found.iter().next().cloned()
}
