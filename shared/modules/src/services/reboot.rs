//! A reboot in the middle of a stage, for modules whose changes need one.

use std::time::Duration;

use system::{Command, Error, Result};

use crate::{Context, Module, or_debug};

/// Requests a reboot and waits for it: the remaining steps of the stage belong to the next boot.
///
/// # Errors
/// Fails if the command fails, or if the system is still running a minute later.
pub fn reboot(context: &Context<'_>, module: &Module, command: &[&str]) -> Result<()> {
    let sys = context.sys;
    // The module is complete; the reboot must not make it run again.
    let name = format!("config-{}", module.name);
    let finished = state::mark_finished(sys, context.layout, &name, module.frequency);
    or_debug!(sys, finished.and_then(|()| state::confirm(sys, context.layout)));
    sys.run(&Command::new(command))?;
    // A dry run and another root do not reboot.
    if sys.is_dry_run() || !sys.is_live() {
        return Ok(());
    }
    let _wait = sys.begin_wait("the reboot");
    // Wait: modules | a reboot that one has requested, in steps | -
    for seconds in [1, 2, 4, 8, 16, 32] {
        sys.clock().sleep(Duration::from_secs(seconds));
    }
    Err(Error::new("rebooting: the system is still running a minute after the request"))
}
