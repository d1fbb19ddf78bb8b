//! cloud-init-generator, which is also ds-identify: decides at early boot, from what is on the machine alone,
//! whether cloud-init has anything to do, and for which datasources. Facts (`facts`, lazily) are judged by
//! `checks` (one row of `table` each), weighed under a policy (`verdict`) and written (`identify`);
//! `generator` tells systemd.

mod checks;
mod dmi;
mod facts;
mod generator;
mod helper;
mod identify;
mod log;
mod lookup;
mod places;
mod policy;
mod presets;
mod settings;
mod table;
mod verdict;
mod virt;

use std::process::ExitCode;

use places::{Doors, Env};

/// The decision could not be made or applied.
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let called = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    let env: Env = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let root = env.get("PATH_ROOT").filter(|root| !root.is_empty()).map_or("/", String::as_str);
    let doors = Doors::new(root);
    if called.rsplit('/').next() == Some("ds-identify") {
        let decision = identify::run(&arguments, &env, &doors);
        return ExitCode::from(decision.map_or(FAILED, verdict::Decision::code));
    }
    generate(&arguments, &env, &doors)
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
    let mut lines = vec![format!("cloud-init-generator {}", directories.join(" "))];
    let done = identify::run(&[], env, doors).and_then(|decision| {
        lines.push(format!("ds-identify: {}", decision.code()));
        generator::apply(decision, &doors.root, early)
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
