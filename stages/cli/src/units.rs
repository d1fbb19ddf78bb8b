//! Units, as systemd reports them.

use std::time::Duration;

use system::Command;

use crate::machine::Machine;
use crate::stage_table::STAGES;

/// What is asked of each unit.
const PROPERTIES: &str = "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts,ExecMainStatus,Job,ConditionResult,AssertResult,\
                          ConditionTimestampMonotonic,FragmentPath,DropInPaths,ExecStart,After,Wants,Requires,Requisite,BindsTo,PartOf,StopPropagatedFrom,\
                          Conflicts,ConflictedBy,Environment,Listen";

/// The exit status of a process whose program systemd could not execute: EXIT_EXEC of systemd.exec(5).
pub const NOT_EXECUTED: &str = "203";

/// A unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// The output of `systemctl show`: `NAME=VALUE` lines.
    properties: String,
}

impl Unit {
    /// Returns a property; empty if systemd does not report it.
    pub fn get(&self, name: &str) -> &str {
        system::assigned(&self.properties, name).unwrap_or_default()
    }

    /// Returns the path of the program; empty if there is none.
    pub fn program(&self) -> &str {
        let first = self.get("ExecStart").split(';').next().unwrap_or_default();
        first.split_once("path=").map_or("", |(_, path)| path.trim())
    }

    /// Returns the values of a property that is reported once for each value.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let of =
            move |line: &'a str| line.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value);
        self.properties.lines().filter_map(of)
    }

    #[cfg(test)]
    pub fn from_text(properties: &str) -> Unit {
        Unit { properties: properties.to_string() }
    }

    /// Returns whether a job for it is queued or runs.
    pub fn has_job(&self) -> bool {
        !matches!(self.get("Job"), "" | "0")
    }

    /// Returns whether it runs, or will.
    pub fn is_pending(&self) -> bool {
        let is_changing = matches!(self.get("ActiveState"), "activating" | "reloading" | "deactivating");
        self.has_job() || (is_changing && self.get("SubState") != "auto-restart")
    }

    /// Returns whether systemd has checked its conditions in this boot, the first step of a start.
    pub fn was_checked(&self) -> bool {
        !matches!(self.get("ConditionTimestampMonotonic"), "" | "0")
    }

    pub fn is_failed(&self) -> bool {
        self.get("ActiveState") == "failed" || self.get("SubState") == "failed"
    }

    /// Returns whether something may start it.
    pub fn is_enabled(&self) -> bool {
        let states = ["enabled", "enabled-runtime", "static", "alias", "linked", "indirect", "generated"];
        states.contains(&self.get("UnitFileState"))
    }
}

/// Returns these units, with one call. Empty in a chroot, where systemctl succeeds and prints nothing.
///
/// # Errors
/// Fails if systemd does not answer.
pub fn show(machine: &Machine, names: &[&str]) -> system::Result<Vec<Unit>> {
    // Wait: status, doctor | systemctl, for the state of units | -
    let command = Command::new(["systemctl", "show", PROPERTIES]).timeout(Duration::from_secs(5));
    // A unit's name may begin with a hyphen: "-.mount".
    let command = names.iter().fold(command.arg("--"), |command, name| command.arg(*name));
    Ok(parse(&machine.sys.run(&command.read_only())?.text()))
}

fn parse(answer: &str) -> Vec<Unit> {
    let blocks = answer.split("\n\n").filter(|block| block.contains("Id="));
    blocks.map(|block| Unit { properties: block.to_string() }).collect()
}

/// What systemd will do about stages that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A stage runs or is queued, or systemd does not say.
    Pending,
    /// This unit failed.
    Failed(&'static str),
    /// This unit is not enabled, or masked.
    NotEnabled(&'static str),
    /// No stage runs or is queued, and this is the first one that did not run.
    NotQueued(&'static str),
}

/// Returns what systemd will do.
///
/// # Errors
/// Fails if systemd does not answer.
pub fn verdict(machine: &Machine) -> system::Result<Verdict> {
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.unit).chain(["cloud-init.target"]).collect();
    Ok(verdict_of(&show(machine, &names)?))
}

/// Decides by the units of the stages, in boot order, and the target.
fn verdict_of(units: &[Unit]) -> Verdict {
    if units.len() <= STAGES.len() {
        return Verdict::Pending;
    }
    // The last one that runs or has failed determines the status.
    for (unit, stage) in units.iter().zip(&STAGES).rev() {
        if !unit.is_enabled() {
            return Verdict::NotEnabled(stage.unit);
        }
        if unit.is_failed() {
            return Verdict::Failed(stage.unit);
        }
        if (unit.get("ActiveState"), unit.get("SubState")) != ("active", "exited") {
            break;
        }
    }
    if units.iter().any(Unit::is_pending) {
        return Verdict::Pending;
    }
    let idle = units.iter().zip(&STAGES).find(|(unit, _)| unit.get("ActiveState") == "inactive");
    idle.map_or(Verdict::Pending, |(_, stage)| Verdict::NotQueued(stage.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_systemd_will_not_start_end_the_wait() {
        let unit = |active: &str, more: &str| {
            format!("Id=x\nUnitFileState=enabled\nActiveState={active}\nSubState=exited\nJob=0\n{more}\n\n")
        };
        let (done, dead, target) = (unit("active", ""), unit("inactive", ""), unit("inactive", ""));
        let failed = unit("failed", "");
        let disabled = dead.replace("=enabled", "=masked");
        let queued = dead.replace("Job=0", "Job=17");
        for (units, expected) in [
            ([&done, &done, &done, &queued], Verdict::Pending),
            ([&done, &done, &unit("activating", ""), &dead], Verdict::Pending),
            ([&done, &done, &done, &dead], Verdict::NotQueued("cloud-final.service")),
            ([&dead, &dead, &dead, &dead], Verdict::NotQueued("cloud-init-local.service")),
            ([&failed, &dead, &dead, &queued], Verdict::Pending),
            ([&done, &done, &done, &failed], Verdict::Failed("cloud-final.service")),
            ([&done, &done, &done, &disabled], Verdict::NotEnabled("cloud-final.service")),
            ([&done, &failed, &done, &done], Verdict::Failed("cloud-init-network.service")),
        ] {
            let answer = units.map(String::as_str).concat() + &target;
            assert_eq!(verdict_of(&parse(&answer)), expected, "{answer}");
        }
        assert_eq!(verdict_of(&parse("")), Verdict::Pending);
        assert_eq!(verdict_of(&parse(&unit("inactive", "").repeat(4))), Verdict::Pending);
    }
}
