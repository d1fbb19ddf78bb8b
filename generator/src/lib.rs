//! cloud-init-generator, which is also ds-identify: decides at early boot, from what is on the machine alone,
//! whether cloud-init has anything to do, and for which datasources. Facts (`facts`, lazily) are judged by
//! `checks` (one row of `table` each), weighed under a policy (`verdict`) and written (`identify`);
//! `generator` tells systemd, `undecided` looks again in the local stage, `explain` shows it all to people.

mod checks;
mod command;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod cpuid;
mod dmi;
mod explain;
mod facts;
mod generator;
mod identify;
mod log;
mod lookup;
pub mod parsers;
mod paths;
mod pending;
mod policy;
mod presets;
mod settings;
mod table;
pub mod undecided;
mod verdict;
mod virt;

use std::process::ExitCode;

use identify::Outcome;
use paths::{Env, Paths, Roots};
pub use verdict::Enablement;

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
    let roots = Roots::new(root);
    if called.rsplit('/').next() == Some("ds-identify") {
        let decision = identify::run(first == Some("--force"), &arguments, &env, &roots);
        abandon_hung_devices(&roots);
        return ExitCode::from(decision.map_or(FAILED, |d| d.enablement.exit_code()));
    }
    let code = generate(&arguments, &env, &roots);
    abandon_hung_devices(&roots);
    code
}

/// Whoever waits for this program does not wait for a device that does not answer.
fn abandon_hung_devices(roots: &Roots) {
    if roots.device_hung.get() {
        blockdev::abandon_hung_reads();
    }
}

fn environment() -> Env {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Called with the manager's three directories, normal, early and late; or, by hand, with one for all.
fn generate(directories: &[String], env: &Env, roots: &Roots) -> ExitCode {
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
    let done = identify::run_early(&generator::target_link(early), env, roots).and_then(|outcome| {
        match &outcome {
            Outcome::Decided(decision) => {
                lines.push(format!("ds-identify: {}", decision.enablement.exit_code()));
                lines.push(decision.reason.clone());
            }
            Outcome::Undecided(reasons) => {
                lines.push("ds-identify: nothing found, but devices may still turn up".into());
                lines.extend(reasons.iter().cloned());
            }
        }
        generator::apply(&outcome, roots, &Paths::new(env).undecided, early)
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
    generator::write_log(&roots.target, &lines);
    code
}
