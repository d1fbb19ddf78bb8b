//! Termination of the programs that this process has started. Scripts have process groups of their own, which a signal to a
//! stage's group does not reach; a subreaper also adopts the processes that outlive their parent.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};

use crate::Deadline;

/// How long a killed process is waited for. It exits within milliseconds, unless a disk does not respond.
// Wait: everything | a killed process to end | -
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes this process the subreaper of its descendants while the value exists: orphans among them become its children
/// (PR_SET_CHILD_SUBREAPER in prctl(2)).
#[derive(Debug)]
pub struct Subreaper(());

impl Subreaper {
    /// Makes this process a subreaper.
    pub fn enable() -> Subreaper {
        // Available since Linux 3.4; without it orphans become children of init.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        Subreaper(())
    }

    /// Kills all children of this process with their process groups, and their orphans. Waits at most five seconds.
    pub fn kill_all(&self) {
        let deadline = Deadline::after(KILL_TIMEOUT);
        loop {
            children().into_iter().for_each(|(child, _)| kill_child(child));
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::EINTR) => {}
                Err(_) => return,
                Ok(WaitStatus::StillAlive) if deadline.is_expired() => return,
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(2)),
                Ok(_) => {}
            }
        }
    }
}

/// Terminates the programs that this process has started, each with its process group: by SIGTERM and, after `grace_period`, by
/// SIGKILL. Programs in a session of their own are meant to outlive this process, and those in its own group (`tee`) exit by
/// themselves. Returns the names of the terminated ones.
pub fn terminate_programs(grace_period: Duration) -> Vec<String> {
    let ours = nix::unistd::getsid(None);
    let mut left: Vec<(Pid, String)> = children()
        .into_iter()
        .filter(|(child, _)| nix::unistd::getsid(Some(*child)) == ours)
        .filter(|(child, _)| getpgid(Some(*child)).is_ok_and(|group| group != getpgrp()))
        .collect();
    let names = left.iter().map(|(child, name)| format!("{name} (process {child})")).collect();
    let deadline = Deadline::after(grace_period);
    for (child, _) in &left {
        let _ = killpg(*child, Signal::SIGTERM);
    }
    while !left.is_empty() && !deadline.is_expired() {
        left.retain(|(child, _)| {
            matches!(
                waitpid(*child, Some(WaitPidFlag::WNOHANG)),
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
            )
        });
        if !left.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    for (child, _) in left {
        let _ = killpg(child, Signal::SIGKILL);
        let _ = waitpid(child, None);
    }
    names
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        let _ = nix::sys::prctl::set_child_subreaper(false);
    }
}

fn kill_child(child: Pid) {
    // This process's own group also contains its parent.
    match getpgid(Some(child)) {
        Ok(group) if group != getpgrp() => drop(killpg(group, Signal::SIGKILL)),
        _ => {}
    }
    let _ = kill(child, Signal::SIGKILL);
}

/// Returns the children of this process with their names, by /proc/PID/status.
fn children() -> Vec<(Pid, String)> {
    // /proc may belong to an outer PID namespace, which has other process IDs.
    let Ok(ours) = std::fs::read_link("/proc/self") else { return Vec::new() };
    let ours = ours.to_string_lossy();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses =
        all.filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)).filter_map(|entry| {
            let status = std::fs::read(entry.path().join("status")).ok()?;
            child_of(&ours, &String::from_utf8_lossy(&status))
        });
    statuses.collect()
}

/// Returns the process ID (in this namespace) and the name in a process's status, if its parent is `parent`.
fn child_of(parent: &str, status: &str) -> Option<(Pid, String)> {
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    if field("PPid:")? != parent {
        return None;
    }
    // The innermost namespace is the last one.
    let pid = field("NSpid:")?.split_whitespace().last()?.parse().ok()?;
    Some((Pid::from_raw(pid), field("Name:")?.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_of_reads_proc_status() {
        let status = |rest: &str| format!("Name:\ta PPid:\t9\nState:\tS (sleeping)\nPid:\t12\n{rest}");
        for (rest, pid) in [
            ("PPid:\t7\nNSpid:\t12\n", Some(12)),
            ("PPid:\t7\nNSpid:\t12\t3\n", Some(3)),
            ("PPid:\t70\nNSpid:\t12\n", None),
            ("PPid:\t7\n", None),
            ("", None),
        ] {
            let child = pid.map(|pid| (Pid::from_raw(pid), "a PPid:\t9".to_string()));
            assert_eq!(child_of("7", &status(rest)), child, "{rest}");
        }
    }
}
