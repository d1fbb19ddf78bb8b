//! Units by which systemd dropped the job of another unit or stopped it, and the administrator's files about a unit.

use super::journal::ask_journal;
use crate::machine::Machine;
use crate::stage_table::STAGES;
use crate::units::{self, Unit};

/// Where administrators put units.
pub const UNITS: &str = "/etc/systemd/system";
/// systemd's properties that name the units by which it drops the job of a unit or stops it, words about such a unit, and what follows.
const RELATIONS: [(&str, &str, &str); 7] = [
    ("Requires", ", which the unit requires,", "the unit did not run"),
    ("Requisite", ", which has to be active before the unit (Requisite=),", "the unit did not run"),
    ("BindsTo", ", to which the unit is bound (BindsTo=),", "the unit did not run or was stopped"),
    ("PartOf", ", of which the unit is a part (PartOf=),", "the unit was stopped"),
    ("StopPropagatedFrom", ", which stops the unit (PropagatesStopTo=),", "the unit was stopped"),
    ("Conflicts", " conflicts with the unit (Conflicts=)", "the unit did not run"),
    ("ConflictedBy", " conflicts with the unit (Conflicts=)", "the unit did not run"),
];

/// Why another unit keeps a unit from running.
pub struct Related {
    pub problem: String,
    pub remedy: String,
    pub details: Vec<String>,
    /// Whether it is a stage that failed, which has a finding of its own.
    pub is_failed_stage: bool,
}

/// Returns the unit by which systemd, in this boot, dropped the job of an inactive unit or stopped it. `is_stopped`: it failed because it was
/// stopped.
pub fn related(machine: &Machine, unit: &Unit, is_stopped: bool) -> Option<Related> {
    if unit.get("ActiveState") != "inactive" && !(is_stopped && unit.is_failed()) {
        return None;
    }
    RELATIONS.iter().find_map(|(key, words, end)| {
        let names: Vec<&str> = unit.get(key).split(' ').filter(|name| !name.is_empty()).collect();
        let others = if names.is_empty() { Vec::new() } else { units::show(machine, &names).ok()? };
        let other = others.iter().find(|other| keeps(key, unit, other))?;
        let name = other.get("Id");
        let (is_conflict, has_failed) = (key.starts_with("Conflict"), other.is_failed());
        let state = match other.get("LoadState") {
            _ if is_conflict => "",
            "masked" => " is masked",
            "loaded" if has_failed => " failed",
            "loaded" => " is not active",
            _ => " does not exist",
        };
        let remedy = match own_files(unit)[..] {
            _ if has_failed => format!("systemctl status {name}; correct it, then reboot"),
            [] => format!("systemctl cat {name}; correct it, then reboot"),
            _ if *key == "ConflictedBy" => format!("remove Conflicts= from {name}; then reboot"),
            ref files => format!("remove {key}= from {}, or correct {name}; then reboot", files.join(" or ")),
        };
        Some(Related {
            problem: format!("{name}{words}{state}, so {end}"),
            remedy,
            details: if has_failed { ask_journal(machine, &["-u", name]) } else { Vec::new() },
            is_failed_stage: has_failed && STAGES.iter().any(|stage| stage.unit == name),
        })
    })
}

/// Returns whether a unit is inactive because of another one, to which this property relates it.
fn keeps(key: &str, unit: &Unit, other: &Unit) -> bool {
    let (was_checked, is_active) = (unit.was_checked(), other.get("ActiveState") == "active");
    match key {
        "Requires" => !was_checked && !is_active && (other.is_failed() || !other.was_checked()),
        "Requisite" => !was_checked && !is_active,
        "BindsTo" => !is_active,
        "PartOf" | "StopPropagatedFrom" => was_checked && !is_active && other.was_checked(),
        _ => other.was_checked(),
    }
}

/// Returns the administrator's files about a unit of a package: drop-ins, and one in its place.
pub fn own_files(unit: &Unit) -> Vec<&str> {
    let mut files: Vec<&str> = unit.get("DropInPaths").split(' ').collect();
    files.insert(0, unit.get("FragmentPath"));
    files.retain(|path| path.starts_with("/etc/"));
    files
}

/// Returns ` (changed by FILE, …)` for the administrator's files about a unit; empty if there are none.
pub fn changed_by(unit: &Unit) -> String {
    let own = own_files(unit);
    if own.is_empty() { String::new() } else { format!(" (changed by {})", own.join(", ")) }
}

/// Returns the units of the administrator, not of packages, that order themselves against the stages.
pub fn own_orders(machine: &Machine) -> Vec<String> {
    let files =
        machine.sys.list(UNITS).unwrap_or_default().into_iter().filter(|file| !file.starts_with("cloud-"));
    let is_order = |line: &&str| {
        ["After=", "Before="].iter().any(|key| line.starts_with(key)) && line.contains("cloud-")
    };
    let of_file = |file: String| {
        let text = machine.sys.read_text(format!("{UNITS}/{file}")).ok()?;
        let orders: Vec<&str> = text.lines().map(str::trim).filter(is_order).collect();
        (!orders.is_empty())
            .then(|| format!("{UNITS}/{file} has {}, which may be a cycle", orders.join(" and ")))
    };
    files.filter_map(of_file).collect()
}
