//! Variables that files of the system set for logins: a PATH without the system's programs, and what scripts of the boot do not get.

use system::System;

use super::page::Page;
use crate::finding::{Layer, Severity};

const ENVIRONMENT: &str = "/etc/environment";
const PROFILES: &str = "/etc/profile.d";
const FILES: &str = "/etc/environment /etc/profile /etc/bash.bashrc /root/.profile /root/.bashrc";
/// Ends of messages of shells about a variable that is not set, and about a program that is not in a directory of PATH.
const ENDS: &str = ": unbound variable|: parameter not set|: command not found|: not found";
const NOT_FOUND: &str = "not found";
/// How many messages are looked at: for each, all files are read.
const MAX_LINES: usize = 20;
/// The beginnings of the paths of a program.
const TOPS: &str = "|/usr/local/sbin/|/usr/local/bin/|/usr/sbin/|/usr/bin/";

/// Reports a PATH of logins that lacks the system's programs.
pub fn section(sys: &System, page: &mut Page) {
    // Every system has this program, but /usr of a disk may be on another one.
    let has_program = |path: &str| path.split(':').any(|top| sys.exists(format!("{top}/ls")));
    if !has_program("/usr/bin:/bin") {
        return;
    }
    let mut broken: Option<String> = None;
    assignments(sys, &mut |place, name, value, is_plain| {
        if name != "PATH" {
            return;
        }
        let is_same = broken.as_ref().is_some_and(|known| known.split(',').next() == place.split(',').next());
        if is_plain && !has_program(value) {
            broken = Some(place.to_string());
        } else if is_plain || is_same {
            broken = None;
        }
    });
    if let Some(place) = broken {
        page.findings.layer = Layer::Configuration;
        let problem = "PATH does not have the system's programs (/etc/environment expands no variables)";
        let remedy = "add /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        page.findings.warning(place, problem, remedy);
    }
}

/// Reports why a script of the boot lacks a variable or a program of its messages: a file that only logins read sets it, or bootcmd ran too
/// early. Returns `false` if they show neither.
pub fn report(sys: &System, place: &str, severity: Severity, evidence: &[String], page: &mut Page) -> bool {
    for line in evidence.iter().take(MAX_LINES) {
        let Some(at) = ENDS.split('|').find_map(|end| line.find(end)) else { continue };
        let name = line[..at].rsplit([' ', ':']).next().unwrap_or_default();
        let is_program = line[at..].contains(NOT_FOUND);
        if name.is_empty() {
            continue;
        }
        let mut found = None;
        if is_program
            && place.contains("bootcmd")
            && TOPS.split('|').any(|top| sys.is_file(format!("{top}{name}")))
        {
            let problem =
                format!("{name} did not exist yet: bootcmd runs before write_files, users and packages");
            let remedy = "move the command to runcmd, or install the program in the image";
            found = Some((place.to_string(), problem, remedy));
        } else if !name.contains('/') {
            assignments(sys, &mut |place, variable, value, _| {
                let is_top = |top: &str| top.starts_with('/') && sys.is_file(format!("{top}/{name}"));
                let is_set = match is_program {
                    true => variable == "PATH" && value.split(':').any(is_top),
                    false => variable == name,
                };
                if is_set && found.is_none() {
                    let what = if is_program { "adds to PATH the directory of" } else { "sets" };
                    let problem = format!("scripts of cloud-init do not read this file, which {what} {name}");
                    let remedy = "read the file in the script (. FILE), or set the variable there";
                    found = Some((place.to_string(), problem, remedy));
                }
            });
        }
        if let Some((place, problem, remedy)) = found {
            page.findings.layer = Layer::Work;
            page.findings.add(severity, place, problem, remedy).details = evidence.to_vec();
            return true;
        }
    }
    false
}

/// Calls a function with the place, the name and the value of each assignment, and whether it is neither in a block nor expanded by a shell.
fn assignments(sys: &System, act: &mut dyn FnMut(&str, &str, &str, bool)) {
    let mut files: Vec<String> = FILES.split(' ').map(str::to_string).collect();
    for name in sys.list(PROFILES).unwrap_or_default() {
        if name.ends_with(".sh") {
            files.push(format!("{PROFILES}/{name}"));
        }
    }
    for file in &files {
        for (number, line) in (1..).zip(sys.read_text(file).unwrap_or_default().lines()) {
            let inner = line.trim();
            let Some((name, value)) = inner.strip_prefix("export ").unwrap_or(inner).split_once('=') else {
                continue;
            };
            // pam_env(8) expands nothing.
            let is_plain = file == ENVIRONMENT
                || !line.starts_with([' ', '\t']) && !value.contains(['$', '`', ';', '&', '\\', ' ']);
            let value = value.trim().trim_matches(['"', '\'']);
            act(&format!("{file}, line {number}"), name, value, is_plain);
        }
    }
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
            ("/run/cloud-init/bootcmd-1.sh: 2: /opt/go/bin/go: not found", Some("init: bootcmd")),
            ("APP", None),
        ] {
            let mut page = Page::default();
            let place =
                if line.contains("bootcmd") { "init: bootcmd" } else { "modules-final: scripts_user" };
            let is_found = report(&sys, place, Severity::Error, &[line.to_string()], &mut page);
            let found = page.findings.all.first();
            assert!(found.is_none_or(|finding| !finding.problem.contains("s3cret")));
            assert_eq!(found.map(|finding| finding.place.as_str()), expected, "{line}");
            assert_eq!(is_found, expected.is_some());
        }
    }
}
