//! The snaps of the image, which snapd installs at the first boot.

use state::{Frequency, Progress, acquire, progress};
use system::{Command, Result, debug};

use crate::Context;

/// The semaphore of the wait. Modules share it; the name is upstream's.
const SEMAPHORE: &str = "snap_seeded";

/// Waits once until the snaps of the image are installed.
///
/// # Errors
/// Fails if the semaphore cannot be written or `snap wait` fails.
pub fn wait_until_seeded(context: &Context<'_>) -> Result<()> {
    let (sys, layout) = (context.sys, context.layout);
    if progress(sys, layout, SEMAPHORE, Frequency::Once) == Progress::Finished {
        return Ok(());
    }
    acquire(sys, layout, SEMAPHORE, Frequency::Once)?;
    if sys.which("snap").is_none() {
        debug!(sys, "not waiting for snaps: snap is not installed");
        return Ok(());
    }
    let wait = Command::new(["snap", "wait", "system", "seed.loaded"]);
    sys.run(&wait.timeout(context.script_timeout)).map(drop)
}
