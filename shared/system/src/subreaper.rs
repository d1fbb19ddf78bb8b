//! Programs whose parent was ended before them: they become children of this process, so that they can be ended too.
//! Scripts have process groups of their own, which a signal to a stage's group does not reach.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};

use crate::Deadline;

/// A process that was killed is gone within milliseconds, unless a disk holds it up: then it is not waited for.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// While this lives, orphans among this process' descendants are its children.
#[derive(Debug)]
pub struct Subreaper(());

impl Subreaper {
    pub fn enable() -> Subreaper {
        // Kernels since 3.4 have it; without it they are init's.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        Subreaper(())
    }

    /// Ends all children of this process, with their process groups, and those that they leave: for when what was
    /// started here was ended, and what it started was not.
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

/// Asks the programs that this process has started, each with its process group, to end, and ends those that have not done
/// so after `patience`. Programs in a session of their own are meant to outlive this process, and those in its own group
/// (a tee) end by themselves. Returns their names.
pub fn terminate_programs(patience: Duration) -> Vec<String> {
    let ours = nix::unistd::getsid(None);
    let mut left: Vec<(Pid, String)> = children()
        .into_iter()
        .filter(|(child, _)| nix::unistd::getsid(Some(*child)) == ours)
        .filter(|(child, _)| getpgid(Some(*child)).is_ok_and(|group| group != getpgrp()))
        .collect();
    let names = left.iter().map(|(child, name)| format!("{name} (process {child})")).collect();
    let deadline = Deadline::after(patience);
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
        std::thread::sleep(Duration::from_millis(if left.is_empty() { 0 } else { 5 }));
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
    // In our own group are this process, and who started it.
    match getpgid(Some(child)) {
        Ok(group) if group != getpgrp() => drop(killpg(group, Signal::SIGKILL)),
        _ => {}
    }
    let _ = kill(child, Signal::SIGKILL);
}

/// Those whose /proc/PID/status names this process as the parent, with their names.
fn children() -> Vec<(Pid, String)> {
    // /proc may be that of a namespace around ours, and have other numbers for all of us.
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

/// What this process calls the one that a status is of, if that is a child of `parent`, and its name, which has no line
/// breaks.
fn child_of(parent: &str, status: &str) -> Option<(Pid, String)> {
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    if field("PPid:")? != parent {
        return None;
    }
    // The innermost namespace last.
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
