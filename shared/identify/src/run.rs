//! One run of ds-identify, step by step. Returns whether cloud-init is to run, and writes cloud.cfg for the stages, the
//! result for later runs in this boot, and the log.

use system::{Error, Result};

use crate::facts::{self, Facts, TimeLimits};
use crate::log::Log;
use crate::paths::{Env, Paths, RootedPath, Roots};
use crate::pending;
use crate::plan::plan;
use crate::undecided::UndecidedState;
use crate::verdict::{Answer, Enablement};

/// A decision, and its reason in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub enablement: Enablement,
    pub reason: String,
}

/// The outcome of a run before udev has settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Decided(Decision),
    /// Nothing was found, but devices may still appear or respond, or programs still answer, for these reasons.
    Undecided(Vec<String>),
}

/// Decides for the machine below the root. `force` ignores an earlier result of this boot. Fails if the decision cannot be
/// written.
pub fn run(force: bool, arguments: &[String], env: &Env, roots: &Roots) -> Result<Decision> {
    decided(with_log(facts::EARLY, arguments, env, roots, |facts| decide_once(force, None, facts))?)
}

/// Decides after udev has settled, with more time than [`run`], and ignores an earlier result. Fails as [`run`].
pub fn run_late(env: &Env, roots: &Roots) -> Result<Decision> {
    let arguments = ["--force".to_string()];
    decided(with_log(facts::LATE, &arguments, env, roots, |facts| decide_once(true, None, facts))?)
}

fn decided(outcome: Outcome) -> Result<Decision> {
    match outcome {
        Outcome::Decided(decision) => Ok(decision),
        Outcome::Undecided(_) => Err(Error::new("unexpected outcome: undecided")),
    }
}

/// Decides in the generator, when "undecided" is a possible outcome. `link` is the link that makes the target wanted. Fails
/// as [`run`].
pub fn run_early(link: &str, env: &Env, roots: &Roots) -> Result<Outcome> {
    with_log(facts::EARLY, &[], env, roots, |facts| decide_once(false, Some(link), facts))
}

fn with_log(
    limits: TimeLimits,
    arguments: &[String],
    env: &Env,
    roots: &Roots,
    decide: impl FnOnce(&Facts<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let paths = Paths::new(env);
    let log = Log::new(env, &paths.run);
    log.line(1, format!("[up {:.2}s] ds-identify {}", roots.target.clock().uptime(), arguments.join(" ")));
    let facts = Facts::new(limits, env, roots, &paths, &log);
    let result = if env.get("DI_MAIN").is_some_and(|word| word == "print_info") {
        print_info(&facts)
    } else {
        decide(&facts)
    };
    log.report_read_errors(roots);
    let message = match &result {
        Ok(Outcome::Decided(decision)) => format!("returning {}", decision.enablement.exit_code()),
        Ok(Outcome::Undecided(_)) => "returning undecided".to_string(),
        Err(e) => {
            log.error(e.to_string());
            "returning 3".to_string()
        }
    };
    log.line(1, format!("[up {:.2}s] {message}", roots.target.clock().uptime()));
    log.flush(roots);
    result
}

fn print_info(facts: &Facts<'_>) -> Result<Outcome> {
    use std::io::Write as _;
    facts.collect_all();
    let _ = writeln!(std::io::stdout(), "{}", facts.dump());
    let reason = "DI_MAIN=print_info: no decision".to_string();
    Ok(Outcome::Decided(Decision { enablement: Enablement::Enabled, reason }))
}

/// Keeps an earlier result of this boot unless `force` is set: reloads of the manager are cheap and always have the same
/// result.
fn decide_once(force: bool, undecided_link: Option<&str>, facts: &Facts<'_>) -> Result<Outcome> {
    let paths = facts.paths;
    if !force
        && facts.roots.is_file(&paths.result_config)
        && let Some(line) = facts.roots.line(&paths.result)
        && let Some(enablement) = Enablement::from_exit_code(&line)
    {
        let reason = format!("keeping the earlier result of this boot ({})", paths.result);
        facts.log.line(1, &reason);
        return Ok(Outcome::Decided(Decision { enablement, reason }));
    }
    // A full /run must not keep the boot from its metadata.
    let write = |path: &RootedPath, text: &str| {
        let written = facts.roots.write(path, text);
        written.inspect_err(|e| facts.log.error(format!("{e}; the decision is used without it"))).is_ok()
    };
    let plan = plan(facts);
    if plan.enablement != Enablement::SwitchedOff {
        facts.log.line(0, facts.dump());
    }
    facts.log.line(0, &plan.reason);
    if let Some(link) = undecided_link
        && plan.may_change
    {
        let silent = plan.verdicts.iter().filter(|(_, verdict)| verdict.answer == Answer::Unknown);
        let silent = silent.map(|(name, verdict)| format!("{name}: {}", verdict.reason));
        let reasons = pending_reasons(facts, silent.collect());
        if !reasons.is_empty() {
            let state = UndecidedState {
                virtualization: facts.env.get("SYSTEMD_VIRTUALIZATION").cloned(),
                wait: facts.settings().settle,
                link: Some(link.to_string()),
                reasons,
            };
            state.reasons.iter().for_each(|reason| facts.log.line(0, format!("undecided: {reason}")));
            if write(&paths.undecided, &state.to_text()) {
                return Ok(Outcome::Undecided(state.reasons));
            }
        }
    }
    if let Some(text) = &plan.config {
        write(&paths.result_config, text);
    }
    write(&paths.result, &format!("{}\n", plan.enablement.exit_code()));
    Ok(Outcome::Decided(Decision { enablement: plan.enablement, reason: plan.reason }))
}

/// Returns why a device that identifies a candidate may still appear or respond, after the reasons of programs that did not
/// answer.
/// Empty where identification is not repeated: in containers, in the initrd, and if `settle` is 0.
fn pending_reasons(facts: &Facts<'_>, mut reasons: Vec<String>) -> Vec<String> {
    let in_initrd = facts.env.get("SYSTEMD_IN_INITRD").is_some_and(|value| value == "1");
    let mut candidates = facts.candidates().names.iter().filter_map(|name| clouds::cloud(name));
    let needs_devices = candidates.any(clouds::Cloud::needs_devices);
    if facts.is_container() || in_initrd || facts.settings().settle.is_zero() {
        return Vec::new();
    }
    if needs_devices {
        let late = &facts.file_systems().late;
        if !late.is_empty() {
            reasons.push(format!("not read in time: {}", late.join(", ")));
        }
        reasons.extend(pending::reasons(&facts.roots.target));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_systems::FileSystems;

    /// If devices were not read in time because the host was slow, "not found" is not a decision.
    #[test]
    fn late_devices_leave_the_early_decision_open() {
        let top = scratch::TempDir::new();
        top.put("etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive, None ]\n");
        std::fs::create_dir_all(top.join("sys/class/dmi/id")).unwrap();
        let env = Env::new();
        let (roots, paths, log) = (Roots::new(&top.to_string_lossy()), Paths::new(&env), Log::silent());
        let decide = |late: &[&str], link| {
            let facts = Facts::new(facts::EARLY, &env, &roots, &paths, &log);
            facts.virt.set("kvm".into()).unwrap();
            let late = late.iter().map(|device| device.to_string()).collect();
            facts.file_systems.set(FileSystems { late, ..FileSystems::default() }).unwrap();
            decide_once(true, link, &facts).unwrap()
        };
        let undecided = Outcome::Undecided(vec!["not read in time: /dev/vda1, /dev/vdb".into()]);
        assert_eq!(decide(&["/dev/vda1", "/dev/vdb"], Some("/early/link")), undecided);
        assert!(
            roots.text(&paths.undecided).unwrap().contains("because=not read in time: /dev/vda1, /dev/vdb\n")
        );
        for (late, link) in [(&[][..], Some("/early/link")), (&["/dev/vdb"], None)] {
            let Outcome::Decided(decision) = decide(late, link) else {
                panic!("{late:?} {link:?}: undecided")
            };
            assert_eq!(decision.enablement, Enablement::Disabled);
        }
    }
}
