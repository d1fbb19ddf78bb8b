//! "Undecided": nothing was found, but devices may still turn up. The generator leaves a note, enables the
//! target and sets neither flag; the local stage calls `decide`, which waits for udev with a deadline and
//! identifies again by the same checks, so never on the network and never looser. Later stages look only at
//! what came of it (`disabled_reason`).

use std::time::Duration;

use system::{Deadline, System};

use crate::generator;
use crate::identify::{self, Decision};
use crate::log::Log;
use crate::paths::{Env, Paths, Roots};
use crate::verdict::Enablement;
use crate::{pending, settings};

/// Its text is the reason; empty when the generator itself decided.
pub const DISABLED_FLAG: &str = "/run/cloud-init/disabled";

/// As long as udev gets anywhere it is waited for; so many times the patience with it is the end all the same.
const MAX_EXTENSIONS: u32 = 15;

/// What the generator knew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndecidedState {
    /// `SYSTEMD_VIRTUALIZATION`, which the manager gives to generators alone.
    pub virtualization: Option<String>,
    pub wait: Duration,
    /// What makes the target wanted. Other units look for it too (Fedora's sshd makes its host keys only without).
    pub link: Option<String>,
    pub reasons: Vec<String>,
}

impl UndecidedState {
    pub fn to_text(&self) -> String {
        let mut text =
            String::from("# Nothing was found, but devices may still turn up: the local stage decides.\n");
        if let Some(kind) = &self.virtualization {
            text += &format!("virtualization={}\n", one_line(kind));
        }
        text += &format!("wait={}\n", self.wait.as_secs_f64());
        if let Some(link) = &self.link {
            text += &format!("link={}\n", one_line(link));
        }
        text.extend(self.reasons.iter().map(|reason| format!("because={}\n", one_line(reason))));
        text
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Reads a note; what is not understood is left out.
pub fn parse(text: &str) -> UndecidedState {
    let mut state = UndecidedState::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match key {
            "virtualization" => state.virtualization = Some(value.into()),
            "wait" => state.wait = settings::seconds(value).unwrap_or_default(),
            "link" => state.link = Some(value.into()),
            "because" => state.reasons.push(value.into()),
            _ => {}
        }
    }
    state
}

/// What the local stage does first: `None` when the generator had decided, else whether cloud-init is to go
/// on, and the reason. Everything is written by then: flags, cloud.cfg, result.
pub fn decide(sys: &System) -> Option<(Enablement, String)> {
    decide_with(sys, environment_for(sys))
}

/// The variables are those of the machine that we run on, not of one below another root.
fn environment_for(sys: &System) -> Env {
    if sys.is_live() { crate::environment() } else { Env::default() }
}

fn decide_with(sys: &System, mut env: Env) -> Option<(Enablement, String)> {
    let roots = Roots::new(&sys.root().as_path().to_string_lossy());
    let path = Paths::new(&env).undecided;
    if !roots.system_for(&path).exists(&path.path) {
        return None;
    }
    let state = parse(&roots.text(&path).unwrap_or_default());
    let waited = settle_within(sys, state.wait);
    let log = Log::new(&env, &Paths::new(&env).run);
    log.line(0, waited);
    log.flush(&roots);
    env.extend(state.virtualization.map(|kind| ("SYSTEMD_VIRTUALIZATION".to_string(), kind)));
    let arguments = ["--force".to_string()];
    let decision = identify::run(true, &arguments, &env, &roots).unwrap_or_else(|e| Decision {
        // Not looser than the generator, which had found nothing.
        enablement: Enablement::Disabled,
        reason: format!("identification failed: {e}"),
    });
    for error in generator::set_flags(decision.enablement, &roots, &path, &format!("{}\n", decision.reason)) {
        eprintln!("{error}");
    }
    if decision.enablement != Enablement::Enabled
        && let Some(link) = state.link.filter(|link| link.ends_with(&generator::target_link("")))
        // The manager's directories are the machine's own whatever the root is.
        && let Err(e) = System::new("/").remove(link)
    {
        eprintln!("{e}");
    }
    Some((decision.enablement, decision.reason))
}

/// As the local stage waits, for whoever knows that a device is to come.
pub fn settle(sys: &System) -> String {
    settle_within(sys, settings::DEFAULT_SETTLE)
}

/// Waits until nothing more is coming, or udev got nowhere for `timeout`: a machine that is slow is not one that
/// hangs. Says how it went.
fn settle_within(sys: &System, timeout: Duration) -> String {
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
        Some(reason) => format!("looking again after {took:.2} s, although {reason}"),
        None => format!("looking again after {took:.2} s: nothing more is coming"),
    }
}

/// Whether nobody has decided yet.
pub fn is_undecided(sys: &System) -> bool {
    let roots = Roots::new(&sys.root().as_path().to_string_lossy());
    let path = Paths::new(&environment_for(sys)).undecided;
    roots.system_for(&path).exists(&path.path)
}

/// Why a stage after the local one is to end at once, if it is.
pub fn disabled_reason(sys: &System) -> Option<String> {
    if is_undecided(sys) {
        return Some("whether cloud-init has anything to do here was never decided".into());
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

    #[test]
    fn state_round_trip() {
        let state = UndecidedState {
            virtualization: Some("vm:kvm".into()),
            wait: Duration::from_millis(1500),
            link: Some("/run/early/multi-user.target.wants/cloud-init.target".into()),
            reasons: vec!["udev is at work".into(), "a=b\nc".into()],
        };
        let mut expected = state.clone();
        expected.reasons[1] = "a=b c".into();
        assert_eq!(parse(&state.to_text()), expected);
        assert_eq!(parse("wait=never\n=\nx\nwait=-1\0"), UndecidedState::default());
    }
}
