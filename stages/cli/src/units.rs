//! The units of the stages, as systemd reports them.

use std::time::Duration;

use system::Command;

use crate::machine::Machine;
use crate::stage_table::STAGES;

/// Returns the units of the stages, last first: the first one that runs or has failed determines the status.
fn units() -> impl Iterator<Item = &'static str> {
    STAGES.iter().rev().map(|stage| stage.unit)
}

/// Returns the unit that failed or is disabled while the status is "running", with one call for all units.
pub fn failed_unit(machine: &Machine) -> Option<&'static str> {
    let properties = "--property=Id,ActiveState,UnitFileState,SubState,MainPID";
    // Wait: status | systemctl, for the state of a unit | -
    let command = Command::new(["systemctl", "show", properties]).timeout(Duration::from_secs(5));
    let command = units().fold(command, Command::arg);
    let answer = match machine.sys.run(&command) {
        Ok(answer) => answer.text(),
        Err(e) => {
            // Unknown: the recorded status is "running". Logged once.
            static WARN_ONCE: std::sync::Once = std::sync::Once::new();
            WARN_ONCE.call_once(|| {
                eprintln!(
                    "Failed to get status from systemd. Cloud-init status may be inaccurate. Error from systemctl: {e}"
                );
            });
            return None;
        }
    };
    let blocks = answer.split("\n\n").zip(units());
    for (block, unit) in blocks {
        if !block.contains("UnitFileState=") {
            // In a chroot systemctl succeeds and prints nothing.
            return None;
        }
        let value = |key: &str| system::assigned(block, key).unwrap_or_default();
        if !matches!(value("UnitFileState"), "enabled" | "enabled-runtime" | "static" | "alias" | "linked") {
            return Some(unit);
        }
        match (value("ActiveState"), value("SubState")) {
            ("failed", _) | (_, "failed") => return Some(unit),
            ("active", "exited") => {}
            _ => return None,
        }
    }
    None
}

/// Returns whether the units of all stages are inactive without a job, `false` if systemd does not report it.
pub fn no_stage_is_pending(machine: &Machine) -> bool {
    // Wait: status | systemctl, for the state of all units | -
    let command =
        Command::new(["systemctl", "show", "--property=Id,ActiveState,Job"]).timeout(Duration::from_secs(5));
    let command = units().fold(command, Command::arg).arg("cloud-init.target");
    machine.sys.run(&command.read_only()).is_ok_and(|answer| all_units_are_idle(&answer.text()))
}

/// Parses the output of `systemctl show` for these units.
fn all_units_are_idle(answer: &str) -> bool {
    let mut states = answer.lines().filter_map(|line| line.strip_prefix("ActiveState=")).peekable();
    let has_job =
        answer.lines().any(|line| line.strip_prefix("Job=").is_some_and(|job| !matches!(job, "" | "0")));
    states.peek().is_some() && states.all(|state| state == "inactive") && !has_job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_idle_only_if_all_are_inactive() {
        let dead = "Id=cloud-final.service\nActiveState=inactive\n\n";
        for (answer, idle) in [
            (dead.repeat(5), true),
            (String::new(), false),
            (format!("{dead}Id=cloud-init-local.service\nActiveState=activating\n"), false),
            (format!("{dead}Id=cloud-init-local.service\nActiveState=active\n"), false),
            (format!("{dead}Id=cloud-init-local.service\nActiveState=failed\n"), false),
            (format!("{dead}Id=cloud-init-local.service\nActiveState=inactive\nJob=17\n"), false),
            (format!("{dead}Id=cloud-init-local.service\nActiveState=inactive\nJob=0\n"), true),
        ] {
            assert_eq!(all_units_are_idle(&answer), idle, "{answer}");
        }
    }
}
