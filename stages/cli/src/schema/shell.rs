//! The syntax of shell scripts: the shell reads them without running a command.

use std::time::Duration;

use config::{Finding, Findings, Node};
use system::{Command, System};

// Wait: schema | a shell, which reads one script | -
const TIMEOUT: Duration = Duration::from_secs(5);
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/dash"];

/// Returns the line of a script and what its shell does not accept, if the machine has that shell.
pub fn problem(script: &[u8]) -> Option<(u32, String)> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let name = match words.next()? {
        "/usr/bin/env" => words.next()?,
        path => path.strip_prefix("/usr").unwrap_or(path).strip_prefix("/bin/")?,
    };
    // Never another program that the data names.
    let shell = SHELLS.into_iter().find(|path| path.ends_with(&format!("/{name}")))?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_machines_shells_read_a_script() {
        let top = scratch::TempDir::new();
        let (program, mark) = (top.join("sh"), top.join("mark"));
        std::fs::write(&program, format!("#!/bin/sh\n: >{}\nexit 1\n", mark.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = format!("#!{}\nif true; then\n", program.display());
        assert_eq!(super::problem(script.as_bytes()), None);
        assert!(!mark.exists());
        for line in ["#!/bin/sh", "#! /usr/bin/sh -e", "#!/usr/bin/env sh"] {
            let found = super::problem(format!("{line}\nif true; then\n").as_bytes());
            assert!(found.is_some_and(|(_, text)| text.starts_with("/bin/sh does not accept")), "{line}");
        }
    }
}
