//! What is in the place of the state's directories and files and would fail every boot: it is moved aside.

use std::os::unix::fs::FileTypeExt;

use system::{Result, System, WriteOptions, warning};

use crate::Layout;

/// The ends of directories that record nothing: what users, images and clouds put there.
const WITHOUT_RECORDS: [&str; 7] =
    ["/handlers", "/per-boot", "/per-instance", "/per-once", "/scripts", "/seed", "/vendor"];

/// Moves a path aside, to a name with the time.
pub(crate) fn move_aside(sys: &System, path: &str) -> Result<()> {
    let saved = format!("{path}.{}.saved", sys.clock().wall().as_secs());
    sys.rename(path, &saved)?;
    warning!(sys, "{path} was in the way of the state of cloud-init; moved to {saved}");
    Ok(())
}

/// Moves a state file aside that is neither a regular file nor a link to one, as every write to it would fail. Devices stay:
/// a link to /dev/null discards a file on purpose.
pub(crate) fn move_special_file_aside(sys: &System, path: &str) -> Result<()> {
    let is_in_the_way = match sys.metadata(path) {
        Ok(meta) => !meta.is_file() && !meta.file_type().is_char_device(),
        // A link to itself. The target of another link is created.
        Err(e) => !e.is_not_found() && sys.is_link(path),
    };
    if is_in_the_way { move_aside(sys, path) } else { Ok(()) }
}

/// Removes a state file. A directory in its place is moved aside.
///
/// # Errors
/// Fails if it cannot be removed or moved.
pub fn remove_file(sys: &System, path: &str) -> Result<()> {
    match sys.is_dir(path) && !sys.is_link(path) {
        true => move_aside(sys, path),
        false => sys.remove(path).map(drop),
    }
}

/// Creates a directory of the state. A file in its place is moved aside; the missing target of a link is created. In either case
/// it is recorded that a directory with semaphores or IDs was lost, because the work that they recorded runs again.
///
/// # Errors
/// Fails if the file cannot be moved or the directory cannot be created.
pub fn create_directory(sys: &System, layout: &Layout, path: &str) -> Result<()> {
    let is_link = sys.is_link(path);
    if sys.is_dir(path) || !is_link && !sys.exists(path) {
        return sys.create_dir_all(path, 0o755);
    }
    if !WITHOUT_RECORDS.iter().any(|name| path.ends_with(name)) {
        sys.write(layout.lost_state(), "", WriteOptions::default())?;
    }
    // A later boot may find the target again: the disk was not mounted. A link to itself has none.
    if is_link && !sys.exists(path) && sys.create_dir_all(path, 0o755).is_ok() {
        warning!(sys, "{path} is a link to a directory that did not exist; created an empty one");
        return Ok(());
    }
    move_aside(sys, path)?;
    sys.create_dir_all(path, 0o755)
}
