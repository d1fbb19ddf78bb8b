//! The syntax of shell scripts: the shell reads them without running a command.

use std::time::{Duration, Instant};

use config::{Finding, Findings, Node};
use system::{Command, System};

/// The time that the shells have for all scripts of the user-data.
// Wait: schema | shells, which read all scripts | -
pub const TIMEOUT: Duration = Duration::from_secs(5);
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/dash"];

/// Returns the line of a script and what its shell does not accept, if the machine has that shell. What follows `exit`, or `exec` of
/// another program, need not be of its language.
pub fn problem(script: &[u8], left: &mut Duration) -> Option<(u32, String)> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let name = match words.next()? {
        "/usr/bin/env" => words.next()?,
        path => path.strip_prefix("/usr").unwrap_or(path).strip_prefix("/bin/")?,
    };
    // Never another program that the data names.
    let shell = SHELLS.into_iter().find(|path| path.ends_with(&format!("/{name}")))?;
    // Patterns that a script may enable (shopt) are no error.
    let options: &[&str] = if name == "bash" { &["-O", "extglob", "-n"] } else { &["-n"] };
    let command = Command::new([shell].iter().chain(options));
    let check = command.stdin_file(script).env("LC_ALL", "C").timeout(*left).accept_all().read_only();
    let (sys, begin) = (System::new("/"), Instant::now());
    let done = if left.is_zero() { None } else { sys.run(&check).ok() };
    *left = left.saturating_sub(begin.elapsed());
    let done = done.filter(|done| done.code != 0)?;
    // `sh: NUMBER: Syntax error: TEXT`, `bash: line NUMBER: syntax error near unexpected token `TOKEN'`
    let text = String::from_utf8_lossy(&done.stderr);
    let (_, rest) = text.lines().next()?.split_once(": ")?;
    let (number, problem) = rest.trim_start_matches("line ").split_once(": ")?;
    let number: u32 = number.parse().ok()?;
    let text = String::from_utf8_lossy(script);
    let is_end = |line: &str| {
        ["exit", "exec"].contains(&line.split([' ', '\t', ';']).next().unwrap_or_default())
            || ["\"exec\"", "exec bash", "exec /bin/bash", "expand_aliases"]
                .iter()
                .any(|words| line.contains(words))
    };
    if text.lines().take(number as usize).any(is_end) {
        return None;
    }
    // A token may be a secret.
    let problem = problem.split(" `").next().unwrap_or_default();
    Some((number, format!("{shell} of this machine does not accept the script: {problem}")))
}

/// Returns what is wrong in the script that a list of commands becomes.
pub fn problem_of_list(key: &str, list: &Node, left: &mut Duration) -> Option<Finding> {
    let (mut script, mut places, mut starts) = ("#!/bin/sh\n".to_string(), vec![0], Vec::new());
    let items = list.as_seq()?;
    for (i, item) in items.iter().enumerate() {
        let text = item.as_str().unwrap_or(":");
        starts.push(script.len());
        script += &format!("{text}\n");
        places.extend(text.split('\n').map(|_| i));
    }
    let (line, message) = problem(script.as_bytes(), left)?;
    let at = (line as usize).checked_sub(1).and_then(|at| places.get(at));
    let reported = at.copied().unwrap_or(items.len().saturating_sub(1));
    // What an item begins, such as a quotation, may be missed at the end of the script only: the error is in the item before which
    // the script is valid.
    let mut is_before = |item: &usize| problem(&script.as_bytes()[..starts[*item]], left).is_some();
    let first = (0..=reported).rev().find(|item| !is_before(item)).unwrap_or_default();
    let item = if left.is_zero() { reported } else { first };
    let mut found = Findings::default();
    found.invalid(&items.get(item)?.at, format!("{key}[{item}]"), message);
    found.iter().next().cloned()
}

/// Returns what is wrong in the scripts of `write_files`, of those whose content is not encoded.
pub fn problems_of_files(config: &Node, left: &mut Duration) -> Vec<Finding> {
    let mut found = Findings::default();
    let files = config.get("write_files").and_then(Node::as_seq).unwrap_or_default();
    for (i, file) in files.iter().enumerate().filter(|(_, file)| file.get("encoding").is_none()) {
        let Some(content) = file.get("content") else { continue };
        if let Some((line, message)) = content.as_str().and_then(|text| problem(text.as_bytes(), left)) {
            let message = format!("line {line}: {message}");
            found.invalid(&content.at, format!("write_files[{i}].content"), message);
        }
    }
    found.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_item_with_the_error_is_named() {
        for (list, wanted) in [
            ("[\"echo 'a\", b, c, d]", 0),
            ("[a, \"if b; then\", [c, d], e]", 1),
            ("[\"if a; then\", b, fi, \"c )\", d]", 3),
            ("[\"if a; then\", b, fi, \"echo `c\", d]", 3),
            ("[\"echo 'a\", \"if b; then\", c, fi]", 0),
        ] {
            let list = config::yaml::parse("t", list).unwrap().root;
            let found = super::problem_of_list("runcmd", &list, &mut super::TIMEOUT.clone()).unwrap();
            assert_eq!(found.key, format!("runcmd[{wanted}]"), "{found}");
        }
    }

    #[test]
    fn only_the_machines_shells_read_a_script() {
        let problem = |script: &[u8]| super::problem(script, &mut super::TIMEOUT.clone());
        let top = scratch::TempDir::new();
        let (program, mark) = (top.join("sh"), top.join("mark"));
        std::fs::write(&program, format!("#!/bin/sh\n: >{}\nexit 1\n", mark.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = format!("#!{}\nif true; then\n", program.display());
        assert_eq!(problem(script.as_bytes()), None);
        assert!(!mark.exists());
        for script in
            ["#!/bin/sh\necho\nexit 0\n(payload(\n", "#!/bin/sh\n\"exec\" \"python3\" \"$0\"\ndef f(:\n"]
        {
            assert_eq!(problem(script.as_bytes()), None, "{script}");
        }
        assert_eq!(problem(b"#!/bin/bash\nshopt -s extglob\nrm -f /x/!(keep)\n"), None);
        for line in ["#!/bin/sh", "#! /usr/bin/sh -e", "#!/usr/bin/env sh"] {
            let found = problem(format!("{line}\nif true; then\n").as_bytes());
            assert!(
                found.is_some_and(|(_, text)| text.starts_with("/bin/sh of this machine does not accept")),
                "{line}"
            );
        }
    }
}
