//! Finds stages among the processes of this machine, first the one that waits for this process: if a user's script runs
//! `cloud-init status --wait`, the command would wait for the stage, and the stage for the script.

use system::System;

use crate::stage_table::STAGES;

/// The kernel truncates the names of processes to this length.
const MAX_COMM_LEN: usize = 15;

/// The limit for the number of ancestors.
const MAX_DEPTH: usize = 1000;

/// A process as /proc shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    arguments: Vec<String>,
}

/// Returns the stage that this process descends from. No stage waits for a process whose parent is init. If /proc hides
/// the ancestors (hidepid), the unit of the process decides.
pub fn calling_stage(sys: &System) -> Option<&'static str> {
    let read = |file: &str| sys.read_at_most(file, 1 << 16).ok();
    let process = |pid: u32| {
        let (name, parent) = parse_stat(&read(&format!("/proc/{pid}/stat"))?)?;
        let arguments = read(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments =
            arguments.split(|b| *b == 0).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        Some(Process { parent, name, arguments })
    };
    match ancestor(std::process::id(), process) {
        Ok(found) => found,
        Err(()) => stage_of_cgroup(&String::from_utf8_lossy(&read("/proc/self/cgroup")?)),
    }
}

/// Walks up from a process. Fails if /proc hides an ancestor.
fn ancestor(from: u32, process: impl Fn(u32) -> Option<Process>) -> Result<Option<&'static str>, ()> {
    let mut pid = from;
    for _ in 0..MAX_DEPTH {
        let found = process(pid).ok_or(())?;
        if let Some(stage) = stage_of(&found) {
            return Ok(Some(stage));
        }
        if found.parent <= 1 {
            return Ok(None);
        }
        pid = found.parent;
    }
    Ok(None)
}

/// Returns whether a process is a stage, by its name.
pub fn is_stage(sys: &System, pid: u32) -> bool {
    let stat = sys.read_at_most(format!("/proc/{pid}/stat"), 1 << 16).ok();
    stat.and_then(|stat| parse_stat(&stat)).is_some_and(|(name, _)| {
        STAGES.iter().any(|stage| name == stage.program[..stage.program.len().min(MAX_COMM_LEN)])
    })
}

/// Returns whether the process of a stage exists, or may: /proc hides the processes of others from some users (hidepid).
pub fn may_run(sys: &System) -> bool {
    let processes = sys.list("/proc").unwrap_or_default();
    let mut pids = processes.iter().filter_map(|name| name.parse().ok());
    !sys.exists("/proc/1/stat") || pids.any(|pid| is_stage(sys, pid))
}

/// Returns the stage of the boot that a process runs, `None` for `single` and `modules --mode init`.
fn stage_of(process: &Process) -> Option<&'static str> {
    let by_hand = process.arguments.iter().any(|a| a.starts_with("--single") || a.starts_with("--mode"));
    let is = |program: &str| process.name == program[..program.len().min(MAX_COMM_LEN)];
    STAGES.iter().find(|stage| is(stage.program) && !by_hand).map(|stage| stage.key)
}

/// Returns the name and the parent from /proc/PID/stat; the name may contain blanks and parentheses (proc_pid_stat(5)).
fn parse_stat(stat: &[u8]) -> Option<(String, u32)> {
    let text = String::from_utf8_lossy(stat);
    let (begin, rest) = text.rsplit_once(") ")?;
    let (_, name) = begin.split_once(" (")?;
    Some((name.to_string(), rest.split(' ').nth(1)?.parse().ok()?))
}

/// Returns the stage whose unit a process belongs to, from /proc/PID/cgroup.
fn stage_of_cgroup(cgroups: &str) -> Option<&'static str> {
    let mut words = cgroups.split(['/', '\n']);
    words.find_map(|word| STAGES.iter().find(|stage| stage.unit == word).map(|stage| stage.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_is_found_among_the_parents() {
        let of = |processes: &[(u32, u32, &str, &str)], from| {
            ancestor(from, |pid| {
                let (_, parent, name, arguments) = processes.iter().find(|(p, ..)| *p == pid)?;
                let arguments = arguments.split(' ').map(String::from).collect();
                Some(Process { parent: *parent, name: (*name).into(), arguments })
            })
        };
        let shell = (30, 20, "sh", "sh /var/lib/cloud/instance/scripts/runcmd");
        let own = (40, 30, "cloud-init", "cloud-init status --wait");
        for (stage, wanted) in [
            (
                (20, 1, "cloud-init-fina", "/usr/lib/cloud-init/cloud-init-final --root /"),
                Some("modules-final"),
            ),
            ((20, 10, "cloud-init-netw", "cloud-init-network"), Some("init")),
            ((20, 1, "cloud-init-conf", "cloud-init-config --root / --single runcmd"), None),
            ((20, 1, "cloud-init-conf", "cloud-init-config --mode init"), None),
            ((20, 1, "cloud-init-foo", "x"), None),
        ] {
            assert_eq!(of(&[stage, shell, own, (10, 1, "sshd", "")], 40), Ok(wanted), "{stage:?}");
        }
        // Adopted by init; hidden by the mount; a cycle.
        assert_eq!(of(&[(40, 1, "cloud-init", "")], 40), Ok(None));
        assert_eq!(of(&[own], 40), Err(()));
        assert_eq!(of(&[(40, 41, "a", ""), (41, 40, "b", "")], 40), Ok(None));
    }

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(parse_stat(b"7 (a (b) c) S 3 7 7"), Some(("a (b) c".into(), 3)));
        for text in ["", "7 (a S 3", "7 (a) S", "7 (a) S x 7"] {
            assert_eq!(parse_stat(text.as_bytes()), None, "{text}");
        }
        for (text, stage) in [
            ("0::/system.slice/cloud-final.service\n", Some("modules-final")),
            ("12:pids:/\n1:name=systemd:/system.slice/cloud-init-local.service\n0::/", Some("init-local")),
            ("0::/user.slice/session-1.scope", None),
            ("0::/x-cloud-final.service", None),
        ] {
            assert_eq!(stage_of_cgroup(text), stage, "{text}");
        }
    }
}
