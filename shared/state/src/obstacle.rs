//! What is in the place of the state's directories and files and would fail every boot: it is moved aside.

use system::{Result, System, WriteOptions, warning};

use crate::Layout;

/// Moves a path aside, to a name with the time.
pub(crate) fn move_aside(sys: &System, path: &str) -> Result<()> {
    let saved = format!("{path}.{}.saved", sys.clock().wall().as_secs());
    sys.rename(path, &saved)?;
    warning!(sys, "{path} was in the way of the state of cloud-init; moved to {saved}");
    Ok(())
}

/// Creates a directory of the state. A file in its place is moved aside; that the directory was lost is recorded, because
/// work that its semaphores recorded runs again.
///
/// # Errors
/// Fails if the file cannot be moved or the directory cannot be created.
pub fn create_directory(sys: &System, layout: &Layout, path: &str) -> Result<()> {
    if sys.exists(path) && !sys.is_dir(path) {
        sys.write(layout.lost_state(), "", WriteOptions::default())?;
        move_aside(sys, path)?;
    }
    sys.create_dir_all(path, 0o755)
}
