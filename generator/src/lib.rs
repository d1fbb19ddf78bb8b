//! cloud-init-generator, which is also ds-identify: decides at early boot, from what is on the machine alone,
//! whether cloud-init has anything to do, and for which datasources. Facts (`facts`, lazily) are judged by
//! `checks` (one row of `table` each), weighed under a policy (`verdict`) and written (`identify`);
//! `generator` tells systemd, `undecided` looks again in the local stage, `explain` shows it all to people.

mod checks;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod cpuid;
mod dmi;
mod explain;
mod facts;
mod generator;
mod helper;
mod identify;
mod log;
mod lookup;
pub mod parsers;
mod pending;
mod places;
mod policy;
mod presets;
mod settings;
mod table;
pub mod undecided;
mod verdict;
mod virt;

use std::process::ExitCode;

use identify::Ended;
use places::{Doors, Env, Places};
pub use verdict::Decision;

/// The decision could not be made or applied.
const FAILED: u8 = 3;

/// The whole program, by the name that it was called by.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let called = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let env = environment();
    let root = env.get("PATH_ROOT").filter(|root| !root.is_empty()).map_or("/", String::as_str);
    let first = arguments.first().map(String::as_str);
    if first == Some("--explain") {
        return explain::run(&arguments[1..], &env, root);
    }
    let doors = Doors::new(root);
    if called.rsplit('/').next() == Some("ds-identify") {
        let decision = identify::run(first == Some("--force"), &arguments, &env, &doors);
        let_go(&doors);
        return ExitCode::from(decision.map_or(FAILED, |d| d.decision.code()));
    }
    let code = generate(&arguments, &env, &doors);
    let_go(&doors);
    code
}

/// Whoever waits for this program does not wait for a device that does not answer.
fn let_go(doors: &Doors) {
    if doors.hung.get() {
        blockdev::abandon_hung_reads();
    }
}

fn environment() -> Env {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Called with the manager's three directories, normal, early and late; or, by hand, with one for all.
fn generate(directories: &[String], env: &Env, doors: &Doors) -> ExitCode {
    let early = match directories {
        [only] => only,
        [_, early, _] => early,
        _ => {
            eprintln!("usage: cloud-init-generator NORMAL_DIR EARLY_DIR LATE_DIR");
            return ExitCode::from(FAILED);
        }
    };
    // Given by hand it may be relative.
    let absolute = std::path::absolute(early).map(|path| path.to_string_lossy().into_owned());
    let early = absolute.as_ref().unwrap_or(early);
    let mut lines = vec![format!("cloud-init-generator {}", directories.join(" "))];
    let done = identify::run_early(&generator::link(early), env, doors).and_then(|ended| {
        match &ended {
            Ended::Decided(decided) => {
                lines.push(format!("ds-identify: {}", decided.decision.code()));
                lines.push(decided.why.clone());
            }
            Ended::Undecided(reasons) => {
                lines.push("ds-identify: nothing found, but devices may still turn up".into());
                lines.extend(reasons.iter().cloned());
            }
        }
        generator::apply(&ended, doors, &Places::new(env).note, early)
    });
    let code = match done {
        Ok(did) => {
            lines.extend(did);
            ExitCode::SUCCESS
        }
        Err(e) => {
            lines.push(format!("ERROR: {e}; nothing else is changed"));
            ExitCode::from(FAILED)
        }
    };
    generator::write_log(&doors.root, &lines);
    code
}
