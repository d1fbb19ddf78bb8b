//! Enables or disables cloud-init in systemd: a link that makes cloud-init.target wanted, the order of the local stage, the
//! drivers that it wants, and a flag that `cloud-init status` reads. As systemd.generator(7) requires: no fork, no network, the
//! same output each time.

use std::io::Write as _;

use system::{Result, System, WriteOptions};

use crate::nic_drivers;
use crate::paths::{RootedPath, Roots};
use crate::run::Outcome;
use crate::verdict::Enablement;

const TARGET: &str = "cloud-init.target";
const RUN: &str = "/run/cloud-init";
/// What a masked unit is a link to.
const MASK: &str = "/dev/null";
/// Units of cloud-init that are other names here, and the stages that do not run if one is masked. The network stage had the first
/// name before 24.3, and guides mask it; the second is the process of cloud-init's own stages.
const OTHER_NAMES: [(&str, &[&str]); 2] = [
    ("cloud-init.service", &["cloud-init-network.service"]),
    (
        "cloud-init-main.service",
        &[
            "cloud-init-local.service",
            "cloud-init-network.service",
            "cloud-config.service",
            "cloud-final.service",
        ],
    ),
];
/// The generator's log; ds-identify has its own.
const LOG: &str = "/run/cloud-init/cloud-init-generator.log";

/// The order of the local stage where udev runs: once udev was triggered, its queue tells whether more NICs and disks may come.
/// Dependencies cannot be removed from a unit, so the unit itself does not have these: a container, whose udev does not run,
/// would wait for all that comes before it.
const AFTER_UDEV: &str = "[Unit]\nAfter=systemd-udevd.service systemd-udev-trigger.service\n";

/// Applies the outcome below `early`, one of the manager's directories. Returns the changes as lines of the log. Fails if a
/// file there cannot be written or removed.
pub fn apply(outcome: &Outcome, roots: &Roots, undecided: &RootedPath, early: &str) -> Result<Vec<String>> {
    let sys = &roots.target;
    let link = target_link(early);
    // The manager's directories are not below the root.
    let outside = System::new("/");
    let mut lines = Vec::new();
    let runs = !matches!(outcome, Outcome::Decided(d) if d.enablement != Enablement::Enabled);
    if runs {
        let target = unit_path(sys);
        let change = outside.link(&target, &link)?;
        lines.push(format!("{link} -> {target} ({change:?})"));
        for (name, stages) in OTHER_NAMES {
            let paths = ["/etc", "/run"].map(|dir| format!("{dir}/systemd/system/{name}"));
            let is_masked = paths.iter().any(|path| sys.read_link(path).is_ok_and(|target| target == MASK));
            for stage in stages.iter().filter(|_| is_masked) {
                let link = format!("{early}/{stage}");
                let change = outside.link(MASK, &link)?;
                lines.push(format!("{name} is masked: {link} -> {MASK} ({change:?})"));
            }
        }
        if has_udev(sys) {
            let order = format!("{early}/cloud-init-local.service.d/after-udev.conf");
            let change = outside.write(&order, AFTER_UDEV, WriteOptions::default().in_place())?;
            lines.push(format!("{order} ({change:?})"));
            let (template, units) = nic_drivers::units(sys);
            for unit in units {
                let link = format!("{early}/cloud-init-local.service.wants/{unit}");
                let change = outside.link(&template, &link)?;
                lines.push(format!("{link} -> {template} ({change:?})"));
            }
        }
    } else {
        let removed = outside.remove(&link)?;
        lines.push(format!("{link}: {}", if removed { "removed" } else { "did not exist" }));
    }
    match outcome {
        Outcome::Decided(decision) => {
            let text = sys.read_text(format!("{RUN}/disabled")).unwrap_or_default();
            // A reload keeps the local stage's reason.
            let text = if runs { String::new() } else { text };
            lines.extend(set_flags(decision.enablement, roots, undecided, &text));
            lines.push(format!("cloud-init is {}", if runs { "enabled" } else { "disabled" }));
        }
        Outcome::Undecided(_) => {
            for flag in ["enabled", "disabled"] {
                if let Err(e) = sys.remove(format!("{RUN}/{flag}")) {
                    lines.push(format!("ERROR: {e}"));
                }
            }
            lines.push("cloud-init is undecided: the local stage identifies again".into());
        }
    }
    Ok(lines)
}

/// Sets the flags for `cloud-init status`; `text` is the reason if cloud-init is disabled. Returns the errors, as lines: a
/// machine without a writable /run boots nevertheless.
pub fn set_flags(enablement: Enablement, roots: &Roots, undecided: &RootedPath, text: &str) -> Vec<String> {
    let sys = &roots.target;
    let (set, removed, text) = match enablement {
        Enablement::Enabled => ("enabled", "disabled", ""),
        Enablement::Disabled | Enablement::SwitchedOff => ("disabled", "enabled", text),
    };
    let results = [
        sys.remove(format!("{RUN}/{removed}")).map(drop),
        sys.write(format!("{RUN}/{set}"), text, WriteOptions::default().in_place()).map(drop),
        roots.of(undecided).remove(undecided).map(drop),
    ];
    results.into_iter().filter_map(Result::err).map(|e| format!("ERROR: {e}")).collect()
}

/// Returns whether udev may run: the condition of its units is that /sys is not read-only.
fn has_udev(sys: &System) -> bool {
    !sys.file_system_use("/sys").is_ok_and(|sysfs| sysfs.is_read_only)
}

/// Returns the path of the link that makes the target wanted, below one of the manager's directories.
pub fn target_link(early: &str) -> String {
    format!("{early}/multi-user.target.wants/{TARGET}")
}

/// Returns the path of the unit. Distributions without a merged /usr have it in either directory.
fn unit_path(sys: &System) -> String {
    let [lib, usr_lib] = ["/lib", "/usr/lib"].map(|dir| format!("{dir}/systemd/system/{TARGET}"));
    if !sys.exists(&lib) && sys.exists(&usr_lib) { usr_lib } else { lib }
}

/// Replaces the log file; if /run is not writable, writes the main lines to the kernel's log.
pub fn write_log(sys: &System, lines: &[String]) {
    let text = lines.join("\n") + "\n";
    if let Err(e) = sys.write(LOG, &text, WriteOptions::default().in_place()) {
        write_kmsg(&e.to_string());
        lines.iter().filter(|line| line.contains("ERROR") || line.contains("cloud-init is")).for_each(
            |line| {
                write_kmsg(line);
            },
        );
    }
}

/// Writes one record to /dev/kmsg (the kernel's Documentation/ABI/testing/dev-kmsg), with level and name.
fn write_kmsg(line: &str) {
    let record = format!("<27>cloud-init-generator[{}]: {line}\n", std::process::id());
    let kmsg = std::fs::OpenOptions::new().write(true).open("/dev/kmsg");
    // An error here cannot be logged anywhere.
    let _ = kmsg.and_then(|mut file| file.write_all(record.as_bytes()));
}
