//! Variables that files of the system set for logins: a PATH without the system's programs, and what scripts of the boot do not get.

use system::System;

use super::page::Page;
use crate::finding::Layer;

const ENVIRONMENT: &str = "/etc/environment";
const PROFILES: &str = "/etc/profile.d";
const FILES: [&str; 5] = [ENVIRONMENT, "/etc/profile", "/etc/bash.bashrc", "/root/.profile", "/root/.bashrc"];
const MAX_FILE: u64 = 64 << 10;
/// Ends of messages of shells about a variable that is not set, and about a program that is not in a directory of PATH.
const UNSET: [&str; 2] = [": unbound variable", ": parameter not set"];
const ABSENT: [&str; 2] = [": command not found", ": not found"];

struct Assignment {
    place: String,
    name: String,
    value: String,
    /// Neither in a block nor with a value that a shell expands.
    is_plain: bool,
}

/// Reports a PATH of logins that lacks the system's programs.
pub fn section(sys: &System, page: &mut Page) {
    page.findings.layer = Layer::Configuration;
    // Every system has this program, but /usr of a disk may be on another one.
    let has_program = |top: &str| sys.exists(format!("{top}/ls"));
    if !["/usr/bin", "/bin"].into_iter().any(has_program) {
        return;
    }
    for file in files(sys) {
        let all = assignments(sys, &file);
        let Some(last) = all.iter().rfind(|one| one.name == "PATH").filter(|last| last.is_plain) else {
            continue;
        };
        if !last.value.split(':').any(has_program) {
            let mut problem =
                "PATH does not have the system's programs, so logins do not find them".to_string();
            if last.value.contains('$') {
                problem += ": variables are not expanded in this file";
            }
            let remedy = "add /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
            page.findings.warning(&last.place, problem, remedy);
        }
    }
}

/// Returns the line, and why scripts of the boot lack a variable or a program of their messages that it sets.
pub fn not_read(sys: &System, evidence: &[String]) -> Option<(String, String)> {
    let named = |ends: [&str; 2]| -> Vec<&str> {
        let before = |line: &'_ String| ends.iter().find_map(|end| line.find(end));
        let names = evidence.iter().filter_map(|line| line[..before(line)?].rsplit([' ', ':']).next());
        names.filter(|name| !name.is_empty() && !name.contains('/')).collect()
    };
    let (variables, programs) = (named(UNSET), named(ABSENT));
    if variables.is_empty() && programs.is_empty() {
        return None;
    }
    const UNREAD: &str = "scripts of cloud-init do not read this file, which";
    files(sys).iter().flat_map(|file| assignments(sys, file)).find_map(|one| {
        if variables.contains(&one.name.as_str()) {
            return Some((one.place, format!("{UNREAD} sets {}", one.name)));
        }
        let mut tops = one.value.split(':').filter(|top| one.name == "PATH" && top.starts_with('/'));
        let (top, name) = tops.find_map(|top| {
            Some((top, programs.iter().find(|name| sys.is_file(format!("{top}/{name}")))?))
        })?;
        Some((one.place, format!("{UNREAD} adds {top}, the directory of {name}, to PATH")))
    })
}

/// Returns a program that a command of the boot did not find, and that exists now.
pub fn came_later(sys: &System, evidence: &[String]) -> Option<String> {
    let tops = ["", "/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/"];
    let before = |line: &'_ String| ABSENT.iter().find_map(|end| line.find(end));
    let mut names = evidence.iter().filter_map(|line| line[..before(line)?].rsplit([' ', ':']).next());
    let exists = |name: &&str| tops.iter().any(|top| name.len() > 1 && sys.is_file(format!("{top}{name}")));
    names.find(exists).map(str::to_string)
}

fn files(sys: &System) -> Vec<String> {
    let names = sys.list(PROFILES).unwrap_or_default().into_iter().filter(|name| name.ends_with(".sh"));
    let profiles = names.map(|name| format!("{PROFILES}/{name}"));
    FILES.iter().map(|file| file.to_string()).chain(profiles).collect()
}

fn assignments(sys: &System, file: &str) -> Vec<Assignment> {
    let text = sys.read_head(file, MAX_FILE).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let parsed = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let inner = line.trim();
        let (name, value) = inner.strip_prefix("export ").unwrap_or(inner).split_once('=')?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // pam_env(8) expands nothing.
        let is_plain = file == ENVIRONMENT
            || !line.starts_with([' ', '\t']) && !value.contains(['$', '`', ';', '&', '\\', ' ']);
        is_name.then(|| Assignment {
            place: format!("{file}, line {number}"),
            name: name.into(),
            value: value.trim().trim_matches(['"', '\'']).into(),
            is_plain,
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_programs_is_found() {
        let root = scratch::TempDir::new();
        root.put("usr/bin/ls", "");
        let sys = System::new(root.display().to_string());
        for (file, text, expected) in [
            ("etc/environment", "A=1\nPATH=\"/opt/a\"\n", Some("/etc/environment, line 2")),
            ("etc/environment", "PATH=$PATH:/opt/a\n", Some("/etc/environment, line 1")),
            ("etc/environment", "PATH=\"/opt/a:/usr/bin\"\n", None),
            ("etc/environment", "# PATH=/opt/a\n", None),
            ("etc/profile.d/a.sh", "export PATH=/opt/a\n", Some("/etc/profile.d/a.sh, line 1")),
            ("etc/profile.d/a.sh", "PATH=/opt/a\nPATH=/opt/a:/usr/bin\n", None),
            ("etc/profile.d/a.sh", "export PATH=$PATH:/opt/a\n", None),
            ("etc/profile.d/a.sh", "if x; then\n  PATH=/opt/a\nfi\n", None),
            ("etc/profile.d/a.sh", "PATH=/opt/a tool\nMANPATH=/opt/a\n", None),
            ("etc/profile.d/a.csh", "PATH=/opt/a\n", None),
        ] {
            root.put(file, text);
            let mut page = Page::default();
            section(&sys, &mut page);
            let found = page.findings.all.first().map(|finding| finding.place.as_str());
            assert_eq!(found, expected, "{file}: {text}");
            root.put(file, "");
        }
    }

    #[test]
    fn variables_that_scripts_lack_are_found() {
        let root = scratch::TempDir::new();
        root.put("etc/environment", "APP=s3cret\n");
        root.put("etc/profile.d/go.sh", "  export PATH=\"$PATH:/opt/go/bin\"\n");
        root.put("opt/go/bin/go", "");
        let sys = System::new(root.display().to_string());
        for (line, expected) in [
            ("/x/runcmd: line 3: APP: unbound variable", Some("/etc/environment, line 1")),
            ("/x/runcmd: 3: APP: parameter not set", Some("/etc/environment, line 1")),
            ("/x/runcmd: line 3: OTHER: unbound variable", None),
            ("/x/runcmd: 2: go: not found", Some("/etc/profile.d/go.sh, line 1")),
            ("/x/runcmd: line 2: go: command not found", Some("/etc/profile.d/go.sh, line 1")),
            ("/x/runcmd: 2: gone: not found", None),
            ("/x/runcmd: 2: /opt/go/bin/go: not found", None),
            ("APP", None),
        ] {
            let found = not_read(&sys, &[line.to_string()]);
            assert!(found.iter().all(|(_, problem)| !problem.contains("s3cret")));
            assert_eq!(found.map(|(place, _)| place).as_deref(), expected, "{line}");
        }
    }
}
