//! The systemd generator's part: the decision becomes a link that makes cloud-init.target wanted (or not), and
//! a flag that `cloud-init status` reads. systemd.generator(7): no fork, no network, same output each time.

use std::io::Write as _;

use system::{Result, System, WriteOptions};

use crate::identify::Ended;
use crate::places::{Doors, Place};
use crate::verdict::Decision;

const TARGET: &str = "cloud-init.target";
const RUN: &str = "/run/cloud-init";
/// The log of this part; ds-identify's own lines are in its log beside it.
const LOG: &str = "/run/cloud-init/cloud-init-generator.log";

/// Applies what was decided below `early`, one of the manager's directories. The lines are what was done.
pub fn apply(ended: &Ended, doors: &Doors, note: &Place, early: &str) -> Result<Vec<String>> {
    let sys = &doors.root;
    let link = link(early);
    // The manager's directories are the machine's own whatever the root is: it is given as it stands.
    let outside = System::new("/");
    let mut lines = Vec::new();
    let runs = !matches!(ended, Ended::Decided(d) if d.decision != Decision::Enable);
    if runs {
        let target = target(sys);
        let change = outside.link(&target, &link)?;
        lines.push(format!("{link} -> {target} ({change:?})"));
    } else {
        let removed = outside.remove(&link)?;
        lines.push(format!("{link}: {}", if removed { "removed" } else { "was not there" }));
    }
    match ended {
        Ended::Decided(decided) => {
            let text = sys.read_text(format!("{RUN}/disabled")).unwrap_or_default();
            // The reason that the local stage gave is kept on a reload.
            let text = if runs { String::new() } else { text };
            lines.extend(set_flags(decided.decision, doors, note, &text));
            lines.push(format!("cloud-init is {}", if runs { "enabled" } else { "disabled" }));
        }
        Ended::Undecided(_) => {
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
pub fn set_flags(decision: Decision, doors: &Doors, note: &Place, text: &str) -> Vec<String> {
    let sys = &doors.root;
    let (set, gone, text) = match decision {
        Decision::Enable => ("enabled", "disabled", ""),
        Decision::Disable | Decision::SwitchedOff => ("disabled", "enabled", text),
    };
    let results = [
        sys.remove(format!("{RUN}/{gone}")).map(drop),
        sys.write(format!("{RUN}/{set}"), text, WriteOptions::default()).map(drop),
        doors.remove(note).map(drop),
    ];
    results.into_iter().filter_map(Result::err).map(|e| format!("ERROR: {e}")).collect()
}

/// The link below that directory that makes the target wanted.
pub fn link(early: &str) -> String {
    format!("{early}/multi-user.target.wants/{TARGET}")
}

/// Where the unit is: distributions without a merged /usr have it in either place.
fn target(sys: &System) -> String {
    let [lib, usr_lib] = ["/lib", "/usr/lib"].map(|dir| format!("{dir}/systemd/system/{TARGET}"));
    if !sys.exists(&lib) && sys.exists(&usr_lib) { usr_lib } else { lib }
}

/// Writes the log anew; to the kernel's where /run takes nothing.
pub fn write_log(sys: &System, lines: &[String]) {
    let text = lines.join("\n") + "\n";
    if let Err(e) = sys.write(LOG, &text, WriteOptions::default()) {
        to_kernel_log(&e.to_string());
        lines.iter().filter(|line| line.contains("ERROR") || line.contains("cloud-init is")).for_each(
            |line| {
                to_kernel_log(line);
            },
        );
    }
}

/// One record of /dev/kmsg (kernel's Documentation/ABI/testing/dev-kmsg), with level and name.
fn to_kernel_log(line: &str) {
    let record = format!("<27>cloud-init-generator[{}]: {line}\n", std::process::id());
    let kmsg = std::fs::OpenOptions::new().write(true).open("/dev/kmsg");
    // There is no further place to complain to.
    let _ = kmsg.and_then(|mut file| file.write_all(record.as_bytes()));
}
