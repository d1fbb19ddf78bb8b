//! The systemd generator's part: the decision becomes a link that makes cloud-init.target wanted (or not), and
//! a flag that `cloud-init status` reads. systemd.generator(7): no fork, no network, same output each time.

use std::io::Write as _;

use system::{Result, System, WriteOptions};

use crate::identify::Outcome;
use crate::paths::{RootedPath, Roots};
use crate::verdict::Enablement;

const TARGET: &str = "cloud-init.target";
const RUN: &str = "/run/cloud-init";
/// The log of this part; ds-identify's own lines are in its log beside it.
const LOG: &str = "/run/cloud-init/cloud-init-generator.log";

/// Applies what was decided below `early`, one of the manager's directories. The lines are what was done.
pub fn apply(outcome: &Outcome, roots: &Roots, undecided: &RootedPath, early: &str) -> Result<Vec<String>> {
    let sys = &roots.target;
    let link = target_link(early);
    // The manager's directories are the machine's own whatever the root is: it is given as it stands.
    let outside = System::new("/");
    let mut lines = Vec::new();
    let runs = !matches!(outcome, Outcome::Decided(d) if d.enablement != Enablement::Enabled);
    if runs {
        let target = unit_path(sys);
        let change = outside.link(&target, &link)?;
        lines.push(format!("{link} -> {target} ({change:?})"));
    } else {
        let removed = outside.remove(&link)?;
        lines.push(format!("{link}: {}", if removed { "removed" } else { "was not there" }));
    }
    match outcome {
        Outcome::Decided(decision) => {
            let text = sys.read_text(format!("{RUN}/disabled")).unwrap_or_default();
            // The reason that the local stage gave is kept on a reload.
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
            lines.push("cloud-init is undecided: its local stage looks again".into());
        }
    }
    Ok(lines)
}

/// The flags are for status; a machine without a writable /run boots all the same. `text` is the reason when
/// it is disabled. Returns what went wrong.
pub fn set_flags(enablement: Enablement, roots: &Roots, undecided: &RootedPath, text: &str) -> Vec<String> {
    let sys = &roots.target;
    let (set, removed, text) = match enablement {
        Enablement::Enabled => ("enabled", "disabled", ""),
        Enablement::Disabled | Enablement::SwitchedOff => ("disabled", "enabled", text),
    };
    let results = [
        sys.remove(format!("{RUN}/{removed}")).map(drop),
        sys.write(format!("{RUN}/{set}"), text, WriteOptions::default()).map(drop),
        roots.remove(undecided).map(drop),
    ];
    results.into_iter().filter_map(Result::err).map(|e| format!("ERROR: {e}")).collect()
}

/// The link below that directory that makes the target wanted.
pub fn target_link(early: &str) -> String {
    format!("{early}/multi-user.target.wants/{TARGET}")
}

/// Where the unit is: distributions without a merged /usr have it in either place.
fn unit_path(sys: &System) -> String {
    let [lib, usr_lib] = ["/lib", "/usr/lib"].map(|dir| format!("{dir}/systemd/system/{TARGET}"));
    if !sys.exists(&lib) && sys.exists(&usr_lib) { usr_lib } else { lib }
}

/// Writes the log anew; to the kernel's where /run takes nothing.
pub fn write_log(sys: &System, lines: &[String]) {
    let text = lines.join("\n") + "\n";
    if let Err(e) = sys.write(LOG, &text, WriteOptions::default()) {
        write_kmsg(&e.to_string());
        lines.iter().filter(|line| line.contains("ERROR") || line.contains("cloud-init is")).for_each(
            |line| {
                write_kmsg(line);
            },
        );
    }
}

/// One record of /dev/kmsg (kernel's Documentation/ABI/testing/dev-kmsg), with level and name.
fn write_kmsg(line: &str) {
    let record = format!("<27>cloud-init-generator[{}]: {line}\n", std::process::id());
    let kmsg = std::fs::OpenOptions::new().write(true).open("/dev/kmsg");
    // There is no further place to complain to.
    let _ = kmsg.and_then(|mut file| file.write_all(record.as_bytes()));
}
