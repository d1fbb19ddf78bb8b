//! A reboot in the middle of a stage, for modules whose changes need one.

use std::time::Duration;

use system::{Command, Error, Result};

use crate::{Context, Module};

/// Asks for a reboot and waits for its arrival: what follows in the stage belongs to the next boot.
///
/// # Errors
/// Fails if the command fails, or if the system is still running a minute later.
pub fn reboot(context: &Context<'_>, module: &Module, command: &[&str]) -> Result<()> {
    let sys = context.sys;
    // The module has done its work: that it is interrupted now is no reason to do it again.
    let name = format!("config-{}", module.name);
    if let Err(e) = state::mark_finished(sys, context.layout, &name, module.frequency) {
        system::debug!(sys, "{e}");
    }
    sys.run(&Command::new(command))?;
    // Neither a plan nor another root is rebooted.
    if sys.is_dry_run() || !sys.is_live() {
        return Ok(());
    }
    let _wait = sys.begin_wait("the reboot");
    for seconds in [1, 2, 4, 8, 16, 32] {
        sys.clock().sleep(Duration::from_secs(seconds));
    }
    Err(Error::new("rebooting: the system is still running a minute after the request"))
}
