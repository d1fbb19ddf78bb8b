//! Runs scripts again that requested it by their exit code at an earlier boot.

use system::{Error, Result, info, warning};

use crate::user_scripts::exit_codes;
use crate::user_scripts::run_parts::run_script;
use crate::{Context, scripts_vendor};

/// Runs the scripts of a module again that requested it.
///
/// # Errors
/// Fails if a script fails, or if it cannot be recorded that it runs: it does not run then.
pub fn run(context: &Context<'_>, module: &str, scripts: &[String]) -> Result<()> {
    let Some((path, frequency)) = exit_codes::directory(context, module) else { return Ok(()) };
    let prefix = if module == "scripts_vendor" { scripts_vendor::prefix(context)? } else { Vec::new() };
    let mut failed = Vec::new();
    for script in scripts {
        info!(context.sys, "running {path}/{script} again");
        // First: a script that is interrupted must not run twice.
        let ran =
            state::release(context.sys, context.layout, &exit_codes::semaphore(module, script), frequency)
                .and_then(|()| run_script(context, &path, script, &prefix));
        if let Err(e) = ran {
            warning!(context.sys, "{e}");
            failed.push(script.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!("{} of {} scripts failed: {}", failed.len(), scripts.len(), failed.join(", "))))
}
