//! What is in the place of the state's directories and files and would fail every boot: it is moved aside.

use std::os::unix::fs::FileTypeExt;

use system::{Level, Result, System, WriteOptions, warning};

use crate::Layout;

/// The ends of directories that record nothing: what users, images and clouds put there.
const WITHOUT_RECORDS: [&str; 7] =
    ["/handlers", "/per-boot", "/per-instance", "/per-once", "/scripts", "/seed", "/vendor"];

/// The number of names that are tried.
const MAX_SAVED: usize = 1000;

/// Moves a path aside, to a name with the time: from a directory whose files run, to its parent. A link to itself would run what
/// replaces it a second time.
pub(crate) fn move_aside(sys: &System, path: &str) -> Result<()> {
    let name = path.rsplit_once("/scripts/").filter(|(_, rest)| match rest.split_once('/') {
        Some((kind, name)) => WITHOUT_RECORDS.contains(&&*format!("/{kind}")) && !name.contains('/'),
        None => true,
    });
    let name = name.map(|(top, rest)| format!("{top}/scripts-{}", rest.replace('/', "-")));
    let name = name.as_deref().unwrap_or(path);
    // Without a battery the clock begins again at each boot.
    let free = (sys.clock().wall().as_secs()..).map(|number| format!("{name}.{number}.saved"));
    let is_free = |saved: &String| !sys.exists(saved) && !sys.is_link(saved);
    let saved = free.take(MAX_SAVED).find(is_free).unwrap_or_else(|| format!("{name}.saved"));
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

/// Moves aside what would fail a write of a file in an instance's directory: in the file's place, or in that of its directory.
///
/// # Errors
/// Fails if it cannot be moved.
pub fn clear_path(sys: &System, path: &str) -> Result<()> {
    if let Some((directory, _)) = path.rsplit_once('/') {
        clear_directory(sys, directory)?;
    }
    move_special_file_aside(sys, path)
}

/// Moves aside what is in the place of a directory without records, which its first file creates.
///
/// # Errors
/// Fails if it cannot be moved.
pub fn clear_directory(sys: &System, path: &str) -> Result<()> {
    let is_in_the_way = match sys.metadata(path) {
        Ok(meta) => !meta.is_dir(),
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

/// Creates the directories in /run, and moves aside what is in the place of files there.
pub fn prepare_run_directory(sys: &System, layout: &Layout) {
    for path in layout.run_directories() {
        sys.log_error(Level::Warning, create_directory(sys, layout, &path));
    }
    for path in layout.run_files() {
        sys.log_error(Level::Warning, move_special_file_aside(sys, &path));
    }
}

/// Creates a directory of the state. A file in its place is moved aside; the missing target of a link is created. In either case
/// it is recorded that a directory with semaphores or IDs was lost, because the work that they recorded runs again. Those in /run
/// may be lost: no more than the next boot loses.
///
/// # Errors
/// Fails if the file cannot be moved or the directory cannot be created.
pub fn create_directory(sys: &System, layout: &Layout, path: &str) -> Result<()> {
    let is_link = sys.is_link(path);
    if sys.is_dir(path) || !is_link && !sys.exists(path) {
        return sys.create_dir_all(path, 0o755);
    }
    let is_in_run = layout.run_directories().iter().any(|run| run == path);
    if !is_in_run && !WITHOUT_RECORDS.iter().any(|name| path.ends_with(name)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    /// Two boots of a machine without a clock move it to the same second.
    #[test]
    fn what_is_moved_aside_again_replaces_nothing() {
        let top = TempDir::new();
        let sys = System::new(&top);
        for content in ["one", "two", "three"] {
            sys.create_dir_all("/state", 0o755).unwrap();
            sys.write("/state/file/x", content, WriteOptions::default()).unwrap();
            clear_path(&sys, "/state/file").unwrap();
        }
        let mut saved = sys.list("/state").unwrap();
        saved.sort();
        let contents: Vec<_> =
            saved.iter().map(|name| sys.read_text(format!("/state/{name}/x")).unwrap()).collect();
        assert_eq!(contents, ["one", "two", "three"], "{saved:?}");
    }

    /// No more is lost than by a reboot, so that it does not count as lost state.
    #[test]
    fn things_in_the_place_of_the_run_directory_and_its_files_are_moved_aside() {
        let layout = Layout::default();
        let directories = layout.run_directories();
        for path in directories.iter().cloned().chain(layout.run_files()) {
            let is_directory = directories.contains(&path);
            for make_link in [true, false] {
                let top = TempDir::new();
                let sys = System::new(&top);
                match (make_link, is_directory) {
                    (true, _) => drop(sys.link(&path, &path).unwrap()),
                    (false, true) => drop(sys.write(&path, "x", WriteOptions::default()).unwrap()),
                    (false, false) => sys.create_dir_all(&path, 0o755).unwrap(),
                }
                for _ in 0..2 {
                    prepare_run_directory(&sys, &layout);
                }
                let warnings = sys.log().logged_warnings();
                let [(_, text)] = &warnings[..] else { panic!("{path}: {warnings:?}") };
                assert!(text.starts_with(&format!("{path} was in the way of the state")), "{text}");
                let saved = text.rsplit(' ').next().unwrap();
                assert!(sys.is_link(saved) == make_link && (make_link || sys.exists(saved)), "{text}");
                assert!(directories.iter().all(|path| sys.is_dir(path) && !sys.is_link(path)), "{path}");
                assert!(is_directory || !sys.exists(&path) && !sys.is_link(&path), "{path}");
                assert!(!sys.exists(layout.lost_state()), "{path}");
            }
        }
    }
}
