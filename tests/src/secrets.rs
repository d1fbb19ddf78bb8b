//! Plants secrets in documents and searches for them after a boot.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{Boot, STAGES, Sandbox};

/// Every planted secret consists of this prefix and a number.
pub const SECRET_PREFIX: &str = "zQ7-planted-";

/// Replaces each `S` that is a word of its own with a secret.
pub fn plant_secrets(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut number = 0;
    while let Some(at) = rest.find('S') {
        let (before, after) = rest.split_at(at);
        let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        out.push_str(before);
        if alone(before.chars().last()) && alone(after.chars().nth(1).filter(|c| *c != '_')) {
            number += 1;
            out.push_str(&format!("{SECRET_PREFIX}{number}"));
        } else {
            out.push('S');
        }
        rest = &after[1..];
    }
    assert!(number > 0);
    out + rest
}

/// Boots under strace, which records the arguments of every process.
fn traced(mut sandbox: Sandbox) -> (Sandbox, Boot, String) {
    let trace = sandbox.root.with_file_name("started");
    for stage in STAGES {
        let to = format!("{}.{stage}", trace.display());
        let words = format!("strace -f -qq -v -s 65536 -e signal=none -e trace=execve,execveat -o {to}");
        sandbox = sandbox.wrap(stage, &words).limit(120);
    }
    let boot = sandbox.boot();
    let read = |stage| std::fs::read(format!("{}.{stage}", trace.display())).unwrap_or_default();
    let started: String = STAGES.map(|stage| String::from_utf8_lossy(&read(stage)).into_owned()).concat();
    assert!(started.contains("execve("), "nothing was traced: {}", boot.output);
    (sandbox, boot, started)
}

/// Returns the lines of a string that contain a secret, at most 400 bytes of each.
pub fn lines_with_secrets(text: &str) -> Vec<&str> {
    text.lines().filter(|l| l.contains(SECRET_PREFIX)).map(|l| l.get(..400).unwrap_or(l)).collect()
}

/// Finds files with a secret that another user can read.
fn readable(dir: &Path, root: &Path, found: &mut Vec<String>) {
    // The seed of the test, and directories of the host.
    let inside = dir.strip_prefix(root).unwrap_or(dir);
    if ["var/lib/cloud/seed", "proc", "sys", "dev", "usr"].iter().any(|d| inside == Path::new(d)) {
        return;
    }
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        let others = meta.permissions().mode() & 0o007;
        if meta.is_dir() {
            // Others cannot enter a directory without x.
            if others & 0o001 != 0 {
                readable(&path, root, found);
            }
        } else if meta.is_file() && others & 0o004 != 0 {
            let text = std::fs::read(&path).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains(SECRET_PREFIX) {
                found.push(path.display().to_string());
            }
        }
    }
}

/// Boots and checks that no planted secret is visible to other users.
pub fn assert_no_leaks(sandbox: Sandbox) -> Sandbox {
    let (sandbox, boot, started) = traced(sandbox);
    assert!(boot.ended_normally(), "{:?}\n{}", boot.codes, boot.output);
    // The secrets reached the machine.
    let data = ["user-data.txt", "vendor-data.txt", "network-config.json"];
    let arrived = data.iter().filter_map(|name| sandbox.file(&format!("/var/lib/cloud/instance/{name}")));
    assert!(arrived.collect::<String>().contains(SECRET_PREFIX), "{}", boot.output);
    assert_eq!(lines_with_secrets(&started), Vec::<&str>::new(), "arguments of processes");
    assert_eq!(lines_with_secrets(&boot.output), Vec::<&str>::new(), "console and journal");
    for log in ["cloud-init.log", "cloud-init-output.log"] {
        let text = sandbox.file(&format!("/var/log/{log}")).unwrap_or_default();
        assert_eq!(lines_with_secrets(&text), Vec::<&str>::new(), "{log}");
    }
    assert_eq!(lines_with_secrets(&sandbox.status()), Vec::<&str>::new(), "status");
    let mut found = Vec::new();
    readable(&sandbox.root, &sandbox.root, &mut found);
    assert_eq!(found, Vec::<String>::new(), "world-readable files");
    sandbox
}
