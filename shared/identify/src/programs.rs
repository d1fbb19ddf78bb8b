//! The three ways to start the program: as ds-identify, as a systemd generator, and with `--explain`.

use std::process::ExitCode;

use crate::paths::{Env, Paths, Roots};
use crate::run::{self, Outcome};
use crate::{enable, explain as explanation, paths};

/// The exit status when the decision could not be made or applied.
const FAILED: u8 = 3;

/// Runs ds-identify with these arguments; the exit status is the decision's.
pub fn ds_identify(arguments: &[String]) -> ExitCode {
    let env = paths::environment();
    let roots = Roots::from_environment(&env);
    let force = arguments.first().is_some_and(|first| first == "--force");
    let decision = run::run(force, arguments, &env, &roots);
    roots.abandon_hung_reads();
    ExitCode::from(decision.map_or(FAILED, |decision| decision.enablement.exit_code()))
}

/// Runs `--explain` with the arguments after it.
pub fn explain(arguments: &[String]) -> ExitCode {
    let env = paths::environment();
    let root = paths::root_of(&env).to_string();
    explanation::run(arguments, &env, &root)
}

/// Runs the generator with the manager's three directories, normal, early and late; by hand, one directory is enough.
pub fn generate(directories: &[String]) -> ExitCode {
    let early = match directories {
        [only] => only,
        [_, early, _] => early,
        _ => {
            eprintln!("usage: cloud-init-generator NORMAL_DIR EARLY_DIR LATE_DIR");
            return ExitCode::from(FAILED);
        }
    };
    let env = paths::environment();
    let roots = Roots::from_environment(&env);
    // A directory given by hand may be relative.
    let absolute = std::path::absolute(early).map(|path| path.to_string_lossy().into_owned());
    let early = absolute.as_ref().unwrap_or(early);
    let mut lines = vec![format!("cloud-init-generator {}", directories.join(" "))];
    let code = match identify_and_apply(early, &env, &roots, &mut lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            lines.push(format!("ERROR: {e}; nothing else was changed"));
            ExitCode::from(FAILED)
        }
    };
    enable::write_log(&roots.target, &lines);
    roots.abandon_hung_reads();
    code
}

fn identify_and_apply(early: &str, env: &Env, roots: &Roots, lines: &mut Vec<String>) -> system::Result<()> {
    let outcome = run::run_early(&enable::target_link(early), env, roots)?;
    match &outcome {
        Outcome::Decided(decision) => {
            lines.push(format!("ds-identify: {}", decision.enablement.exit_code()));
            lines.push(decision.reason.clone());
        }
        Outcome::Undecided(reasons) => {
            lines.push("ds-identify: nothing found, but devices may still appear".into());
            lines.extend(reasons.iter().cloned());
        }
    }
    lines.extend(enable::apply(&outcome, roots, &Paths::new(env).undecided, early)?);
    Ok(())
}
