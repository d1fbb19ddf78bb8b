//! What the messages of a failure name: files that cannot be executed or changed, mounts, proxies, apt's preferences.

use std::time::Duration;

use system::{Command, Deadline, System};

use super::cause::Cause;
use super::disk;
use crate::finding::Layer;
use crate::machine::Machine;
use crate::units::{NOT_EXECUTED, Unit};

/// The end of a message about a program that may not be executed.
pub const DENIED: &str = ": Permission denied";

/// Parts of messages about files that even root may not write, separated by bars.
const REFUSED: &str = "cannot open|cannot lock|peration not permitted|os error 1)";

/// The maximum number of files of one failure whose attributes lsattr shows.
const MAX_PATHS: usize = 32;
// Wait: doctor | lsattr, for the attributes of all files that could not be written | -
pub const ATTRIBUTES_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the files that messages of shells name: `PATH: not found`, or `PATH: INTERPRETER: bad interpreter`.
pub fn named_files(evidence: &[String]) -> Vec<String> {
    const ENDS: [&str; 5] = [
        ": not found",
        ": No such file",
        ": bad interpreter",
        ": cannot execute",
        ": interpreter or working directory not found",
    ];
    let before = |line: &&String| ENDS.iter().filter_map(|end| line.find(end)).min();
    let lines = evidence.iter().filter_map(|line| line.get(..before(&line)?));
    let words = lines.flat_map(str::split_whitespace).map(|word| word.trim_matches([':', '\'', '"']));
    let words = words.filter(|word| word.starts_with('/'));
    let of_systemd = evidence.iter().filter_map(|line| line.split_once(" spawning ")?.1.split(": ").next());
    let denied = evidence.iter().filter_map(|line| denied_program(line));
    words.chain(of_systemd).chain(denied).map(str::to_string).collect()
}

/// Returns `; FILE PROBLEM` for a script that systemd could not begin, by the units' states and systemd's messages, and a remedy.
pub fn unusable_program(sys: &System, units: &[Unit], messages: &[String]) -> Option<(String, &'static str)> {
    let mut is_denied = messages.iter().any(|line| line.contains(DENIED));
    let mut files = named_files(messages);
    // The journal may lack a message of a process that ended at once.
    for unit in units.iter().filter(|unit| unit.get("ExecMainStatus") == NOT_EXECUTED) {
        files.push(unit.program().to_string());
        is_denied = true;
    }
    let (file, problem, remedy) = unusable_script(sys, &files, is_denied)?;
    Some((format!("; {file}: {problem}"), remedy))
}

/// Returns the file that a shell may not execute: `SCRIPT: 3: PATH: Permission denied`, `sh: PATH: …`. Other programs and
/// redirections have such messages about files that they may not read or write.
fn denied_program(line: &str) -> Option<&str> {
    let mut parts = line[..line.find(DENIED)?].rsplit(": ");
    let (path, before) = (parts.next()?, parts.next()?);
    let is_number = before.trim_start_matches("line ").parse::<u32>().is_ok();
    let is_shell = ["sh", "bash", "dash"].contains(&before.rsplit('/').next().unwrap_or_default());
    (path.starts_with('/') && !path.contains(' ') && (is_number || is_shell)).then_some(path)
}

/// Returns the mount with one of these files or with the user's scripts, if its option noexec forbids their execution.
pub fn without_execution(machine: &Machine, files: &[String]) -> Option<String> {
    let mounts = machine.sys.mounts().unwrap_or_default();
    let scripts = machine.layout.user_scripts();
    let is_file = |path: &&String| machine.sys.metadata(path.as_str()).is_ok_and(|meta| meta.is_file());
    let mut all = files.iter().rev().filter(is_file).chain([&scripts]);
    all.find_map(|file| disk::mount_with(&mounts, file, "noexec"))
}

/// Returns a file that could not be written, or its directory, if chattr(1) made it immutable or append-only.
pub fn immutable(machine: &Machine, evidence: &[String], deadline: Deadline) -> Option<String> {
    let refused = evidence.iter().filter(|line| REFUSED.split('|').any(|part| line.contains(part)));
    let words = refused.flat_map(|line| line.split_whitespace());
    let paths = words.map(|word| word.trim_matches(|c: char| "():;,'\"‘’".contains(c)));
    let paths: Vec<&str> = paths.filter(|path| path.starts_with('/')).take(MAX_PATHS).collect();
    if paths.is_empty() || deadline.is_expired() {
        return None;
    }
    let command = paths.iter().fold(Command::new(["lsattr", "-d"]), |command, path| {
        command.arg(*path).arg(path.rsplit_once('/').map_or("/", |(directory, _)| directory))
    });
    let answer =
        machine.sys.run(&command.timeout(deadline.remaining()).accept_all().read_only()).ok()?.text();
    let mut rows = answer.lines().filter_map(|row| row.split_once(' '));
    rows.find(|(attributes, _)| attributes.contains(['i', 'a'])).map(|(_, path)| path.trim().to_string())
}

/// Returns a script that exists and cannot be executed, with problem and remedy: its interpreter does not exist, or its mode forbids it.
pub fn unusable_script(
    sys: &System,
    files: &[String],
    is_denied: bool,
) -> Option<(String, String, &'static str)> {
    files.iter().rev().find_map(|path| {
        let start = sys.read_head(path, 256).ok()?;
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next()?;
        let mode = sys.mode(path).unwrap_or_default();
        let (problem, remedy) = match (line.ends_with('\r'), sys.exists(interpreter)) {
            (true, _) => (
                "has the line ends of Windows (CR LF), so its interpreter is not found".to_string(),
                "save it with the line ends of Unix (LF); on this machine: sed -i 's/\\r$//' FILE",
            ),
            (false, false) => (
                format!("its interpreter {interpreter} does not exist"),
                "install it (packages:), or correct the first line",
            ),
            (false, true) if is_denied && mode & 0o111 == 0 => (
                format!("not executable (mode {mode:04o})"),
                "set permissions: '0755' for it in write_files, or run it with its interpreter: sh FILE",
            ),
            (false, true) => return None,
        };
        Some((path.clone(), problem, remedy))
    })
}

/// Returns place and problem of what excludes packages if apt could not choose a version: a line of its preferences, or a hold.
pub fn excluded_package(sys: &System, evidence: &[String]) -> Option<(String, String)> {
    const TOP: &str = "/etc/apt/preferences";
    let is_shown = |text: &str| evidence.iter().any(|line| line.contains(text));
    let is_held = is_shown("held broken packages");
    if !is_held && !is_shown("no installation candidate") {
        return None;
    }
    let names = sys.list(format!("{TOP}.d")).unwrap_or_default().into_iter();
    let found = names.map(|name| format!("{TOP}.d/{name}")).chain([TOP.to_string()]).find_map(|file| {
        let text = sys.read_text(&file).ok()?;
        let mut is_named = false;
        let (number, _) = (1..).zip(text.lines()).find(|(_, line)| {
            let value = |key: &str| line.trim().strip_prefix(key).map(str::trim);
            if let Some(names) = value("Package:") {
                is_named = names.split_whitespace().any(|name| is_shown(name.trim_matches('*')));
            }
            is_named && value("Pin-Priority:").is_some_and(|priority| priority.starts_with('-'))
        })?;
        let problem = "its negative Pin-Priority forbids to install packages that it fits".to_string();
        Some((format!("{file}, line {number}"), problem))
    });
    found.or_else(|| {
        let status = sys.read_text("/var/lib/dpkg/status").ok().filter(|_| is_held)?;
        let held = status.split("\n\n").filter(|package| package.contains("\nStatus: hold "));
        let names: Vec<&str> = held
            .filter_map(|package| package.trim_start().strip_prefix("Package: ")?.lines().next())
            .collect();
        let problem =
            format!("on hold, so what needs other versions cannot be installed: {}", names.join(", "));
        (!names.is_empty()).then(|| ("packages".into(), problem))
    })
}

/// Returns the line of /etc/hosts, and the name with its address, if messages about a connection name a host that it has.
pub fn named_host(sys: &System, evidence: &[String]) -> Option<(String, String)> {
    if Cause::of(evidence).is_none_or(|(cause, _)| cause.layer != Layer::Network) {
        return None;
    }
    let ends = |c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c);
    let is_named = |name: &&str| {
        name.contains('.') && evidence.iter().any(|line| line.split(ends).any(|word| word == *name))
    };
    (1..).zip(sys.read_text("/etc/hosts").ok()?.lines()).find_map(|(number, line)| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?;
        let name = words.find(is_named)?;
        Some((format!("/etc/hosts, line {number}"), format!("{name} has the address {address}")))
    })
}

/// Returns the file with its line that sets a proxy, and the proxy's host, if messages about a connection name it.
pub fn named_proxy(machine: &Machine, evidence: &[String]) -> Option<(String, String)> {
    const DIRECTORIES: [&str; 5] = [
        "/etc/apt/apt.conf.d",
        "/etc/systemd/system/cloud-init-network.service.d",
        "/etc/systemd/system/cloud-config.service.d",
        "/etc/systemd/system/cloud-final.service.d",
        "/etc/systemd/system.conf.d",
    ];
    if Cause::of(evidence).is_none_or(|(cause, _)| cause.layer != Layer::Network) {
        return None;
    }
    let files = DIRECTORIES.iter().flat_map(|directory| {
        let names = machine.sys.list(directory).unwrap_or_default();
        names.into_iter().map(move |name| format!("{directory}/{name}"))
    });
    files.chain(["/etc/apt/apt.conf", "/etc/environment"].map(str::to_string)).find_map(|file| {
        let text = machine.sys.read_text(&file).ok()?;
        (1..).zip(text.lines()).find_map(|(number, line)| {
            // `Acquire::http::Proxy "http://USER:PASSWORD@HOST:PORT/";`, `https_proxy=http://HOST`, also in `Environment=`
            let is_comment = line.trim_start().starts_with(['#', '/']);
            let is_proxy = !is_comment && line.to_ascii_lowercase().contains("proxy");
            let host = is_proxy.then(|| line.split_once("://"))??.1;
            let host = host.split(['/', '"', ';', ' ']).next()?.rsplit('@').next()?;
            // An IPv6 address has brackets, and colons in them.
            let end = host.find(']').map_or_else(|| host.find(':').unwrap_or(host.len()), |end| end + 1);
            let host = &host[..end];
            // Not a part of another name or address.
            let is_part = |c: char| c.is_alphanumeric() || c == '-';
            let is_whole = |text: &String| {
                text.match_indices(host).any(|(at, _)| {
                    let after = text[at + host.len()..].trim_start_matches('.');
                    !text[..at].ends_with(|c| is_part(c) || c == '.') && !after.starts_with(is_part)
                })
            };
            let is_named = !host.is_empty() && evidence.iter().any(is_whole);
            is_named.then(|| (format!("{file}, line {number}"), host.to_string()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_excludes_a_package_is_named() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        let [held, none] = [
            "E: Unable to correct problems, you have held broken packages.",
            "E: Package 'x' has no installation candidate",
        ]
        .map(|line| vec![line.to_string()]);
        assert_eq!(excluded_package(&sys, &none), None);
        root.put(
            "var/lib/dpkg/status",
            "Package: a\nStatus: install ok\n\nPackage: b\nStatus: hold ok installed\n",
        );
        assert!(
            excluded_package(&sys, &held)
                .is_some_and(|(at, problem)| at == "packages" && problem.ends_with(": b"))
        );
        assert_eq!(excluded_package(&sys, &none), None);
        root.put("etc/apt/preferences.d/own", "Package: snapd\nPin: release *\nPin-Priority: -1\n\nPackage: *\nPin: origin x\nPin-Priority: -1\n");
        for lines in [&held, &none] {
            let found = excluded_package(&sys, lines);
            assert_eq!(found.map(|(at, _)| at).as_deref(), Some("/etc/apt/preferences.d/own, line 7"));
        }
        assert_eq!(excluded_package(&sys, &["x".to_string()]), None);
    }

    #[test]
    fn line_of_the_hosts_file_is_named_for_a_failed_connection() {
        let root = scratch::TempDir::new();
        root.put("etc/hosts", "127.0.0.1 localhost\n# 10.0.0.1 b.test\n127.0.1.1 a mirror.test\n");
        for (line, expected) in [
            ("curl: (7) Failed to connect to mirror.test port 80: Connection refused", true),
            ("curl: (7) Failed to connect to x.mirror.test port 80: Connection refused", false),
            ("curl: (7) Failed to connect to b.test port 80: Connection refused", false),
            ("localhost: Connection refused", false),
            ("mirror.test", false),
        ] {
            let found = named_host(&System::new(&root), &[line.to_string()]);
            let wanted =
                ("/etc/hosts, line 3".to_string(), "mirror.test has the address 127.0.1.1".to_string());
            assert_eq!(found, expected.then_some(wanted), "{line}");
        }
    }

    #[test]
    fn program_that_could_not_be_executed_is_named_without_a_message() {
        let root = scratch::TempDir::new();
        root.put("bin/sh", "");
        root.put("opt/own", "#!/bin/sh\n");
        let unit = |status: &str| {
            [Unit::from_text(&format!(
                "ExecMainStatus={status}\nExecStart={{ path=/opt/own ; argv[]=/opt/own }}\n"
            ))]
        };
        let found = |status| unusable_program(&System::new(&root), &unit(status), &[]);
        assert!(found("203").is_some_and(|(what, _)| what == "; /opt/own: not executable (mode 0644)"));
        assert_eq!(found("1"), None);
    }
}
