//! Runs scripts again that requested it by their exit code at an earlier boot.

use system::{Error, Result, info, warning};

use crate::user_scripts::exit_codes;
use crate::user_scripts::run_parts::run_script;
use crate::{Context, Module};

/// Runs the scripts of a module again that requested it.
///
/// # Errors
/// Fails if a script fails, or if it cannot be recorded that it runs: it does not run then.
pub fn run(context: &Context<'_>, module: &Module, scripts: &[String]) -> Result<()> {
    let Some(directory) = module.scripts else { return Ok(()) };
    let (path, prefix) = ((directory.path)(context.layout), (directory.prefix)(context)?);
    let mut failed = Vec::new();
    for script in scripts {
        info!(context.sys, "running {path}/{script} again");
        // First: a script that is interrupted must not run twice.
        let semaphore = exit_codes::semaphore(module, script);
        let ran = state::release(context.sys, context.layout, &semaphore, module.frequency)
            .and_then(|()| state::confirm(context.sys, context.layout))
            .and_then(|()| run_script(context, module, script, &prefix));
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
