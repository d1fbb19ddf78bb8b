//! The second look: what the local stage does if the generator was undecided. It waits for udev, with a deadline, and
//! identifies again by the same checks, so never over the network. The later stages only ask for the result.

use std::time::Duration;

use system::{Deadline, System};

use crate::log::Log;
use crate::paths::{self, Env, Paths, Roots};
use crate::run::{self, Decision};
use crate::undecided;
use crate::verdict::Enablement;
use crate::{enable, pending, settings};

/// Its content is the reason; it is empty if the generator decided.
const DISABLED_FLAG: &str = "/run/cloud-init/disabled";

/// The limit of the wait, as a multiple of the time without progress: while udev makes progress, the wait goes on.
const MAX_EXTENSIONS: u32 = 15;

/// Identifies again if the generator was undecided, and writes the flags, cloud.cfg and the result. Returns whether
/// cloud-init is to run, and the reason; `None` if the generator decided.
pub fn decide(sys: &System) -> Option<(Enablement, String)> {
    decide_with(sys, environment_for(sys))
}

/// Returns the environment of this process, which does not count for a machine below another root.
fn environment_for(sys: &System) -> Env {
    if sys.is_live() { paths::environment() } else { Env::default() }
}

fn roots_of(sys: &System) -> Roots {
    Roots::new(&sys.root().as_path().to_string_lossy())
}

fn decide_with(sys: &System, mut env: Env) -> Option<(Enablement, String)> {
    let roots = roots_of(sys);
    let path = Paths::new(&env).undecided;
    if !roots.exists(&path) {
        return None;
    }
    let state = undecided::parse(&roots.text(&path).unwrap_or_default());
    let waited = settle_within(sys, state.wait);
    let log = Log::new(&env, &Paths::new(&env).run);
    log.line(0, waited);
    log.flush(&roots);
    env.extend(state.virtualization.map(|kind| ("SYSTEMD_VIRTUALIZATION".to_string(), kind)));
    let decision = run::run_late(&env, &roots).unwrap_or_else(|e| Decision {
        // As the generator decides if it finds nothing.
        enablement: Enablement::Disabled,
        reason: format!("identification failed: {e}"),
    });
    for error in enable::set_flags(decision.enablement, &roots, &path, &format!("{}\n", decision.reason)) {
        eprintln!("{error}");
    }
    if decision.enablement != Enablement::Enabled
        && let Some(link) = state.link.filter(|link| link.ends_with(&enable::target_link("")))
        // The manager's directories are not below the root.
        && let Err(e) = System::new("/").remove(link)
    {
        eprintln!("{e}");
    }
    Some((decision.enablement, decision.reason))
}

/// Waits for udev for the default time, for a caller that expects a device. Returns how the wait ended, for the log.
pub fn settle(sys: &System) -> String {
    settle_within(sys, settings::DEFAULT_SETTLE)
}

/// Waits until no more devices are expected, or udev made no progress for `timeout`: a slow machine gets more time than a
/// hung one. Returns how the wait ended, for the log.
fn settle_within(sys: &System, timeout: Duration) -> String {
    let _wait = sys.begin_wait("devices to appear");
    let begun = sys.clock().uptime();
    let end = Deadline::after((timeout * MAX_EXTENSIONS).min(settings::MAX_WAIT));
    let mut deadline = Deadline::after(timeout);
    let mut progress = sys.udev_progress();
    let mut pending = None;
    let mut quiet = 0;
    while quiet < pending::QUIET_POLLS && !deadline.is_expired() && !end.is_expired() {
        sys.clock().sleep(pending::POLL_INTERVAL.min(deadline.remaining()));
        pending = pending::first(sys);
        quiet = if pending.is_some() { 0 } else { quiet + 1 };
        let now = sys.udev_progress();
        if now != progress {
            deadline = Deadline::after(timeout);
            progress = now;
        }
    }
    let took = sys.clock().uptime() - begun;
    match pending {
        Some(reason) => format!("identifying again after {took:.2} s, although {reason}"),
        None => format!("identifying again after {took:.2} s: no more devices are expected"),
    }
}

/// Returns whether the decision is still to be made.
pub fn is_undecided(sys: &System) -> bool {
    roots_of(sys).exists(&Paths::new(&environment_for(sys)).undecided)
}

/// Returns why a stage after the local one must exit at once; `None` if it must not.
pub fn disabled_reason(sys: &System) -> Option<String> {
    if is_undecided(sys) {
        return Some("identification did not complete: neither enabled nor disabled".into());
    }
    let reason = sys.read_text(DISABLED_FLAG).ok()?;
    let reason = reason.trim();
    (!reason.is_empty()).then(|| reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_file_follows_path_run() {
        let top = std::env::temp_dir().join(format!("undecided-moved-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        let run = top.join("elsewhere");
        std::fs::create_dir_all(run.join("cloud-init")).unwrap();
        std::fs::write(run.join("cloud-init/undecided"), "wait=0\n").unwrap();
        let sys = System::new(top.join("root"));
        let env = Env::from([("PATH_RUN".to_string(), run.to_string_lossy().into_owned())]);
        assert_eq!(decide_with(&sys, Env::default()), None);
        assert!(decide_with(&sys, env).is_some());
        assert!(!run.join("cloud-init/undecided").exists());
        assert!(run.join("cloud-init/.ds-identify.result").exists());
        std::fs::remove_dir_all(top).unwrap();
    }
}
