//! Semaphores make work run at most once: the file is written before the work begins, and remains if the work fails.
//!
//! Names, places and the first line are upstream's. The file has a second line until the result of the work is on the disk:
//! the end of the work is recorded in /run, and [`confirm`] flushes the file systems before it removes the lines. A power
//! failure loses /run, so that what the disk may have lost counts as interrupted at the next boot.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use system::{Deadline, Error, Level, Result, System, WriteGroup, WriteOptions, debug};

use crate::Layout;
use crate::instance::is_pickle;
use crate::obstacle::{create_directory, move_special_file_aside, remove_file};

encoding::words! {
    /// The frequency of a module or script, by its name in the configuration and the log.
    pub enum Frequency {
        /// Once per instance.
        Instance = "once-per-instance",
        /// At every boot.
        Always = "always",
        /// Once in the life of the machine.
        Once = "once",
    }
}

impl Frequency {
    /// Parses the names used in the configuration and on the command line (`instance`).
    pub fn parse(name: &str) -> Option<Frequency> {
        Frequency::from_word(if name == "instance" { "once-per-instance" } else { name })
    }
}

/// The second line of a semaphore until the work is confirmed.
const STARTED: &str = "started\n";

/// The file of an instance that exists until its network configuration is confirmed to be on the disk.
const NETWORK_IS_DUE: &str = "network-is-due";

/// The record of a flush that failed in this boot.
const FLUSH_FAILED: &str = "flush-failed";

/// The time for the flush of another process of this boot, which the config stage leaves behind.
// Wait: config and final stage | a flush of the disks that the config stage began | -
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// The progress of some work, by its semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is no semaphore: the work is due.
    Due,
    /// The work began and did not end, or an earlier boot did not confirm that its result is on the disk.
    Started,
    /// The work ended, successfully or not. A semaphore of Python's cloud-init, or one that cannot be read, counts as finished.
    Finished,
}

/// Returns the path of a semaphore; `None` for work that always runs.
fn semaphore_path(layout: &Layout, name: &str, frequency: Frequency) -> Option<String> {
    let name = name.replace('-', "_");
    match frequency {
        Frequency::Always => None,
        Frequency::Instance => Some(layout.instance(&format!("sem/{name}"))),
        Frequency::Once => Some(layout.cloud(&format!("sem/{name}.once"))),
    }
}

/// Returns whether the work began before. Older releases wrote `-` in names; both spellings count.
pub fn has_run(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> bool {
    let Some(path) = semaphore_path(layout, name, frequency) else { return false };
    if sys.exists(&path) {
        return true;
    }
    let Some((directory, wanted)) = path.rsplit_once('/') else { return false };
    if !wanted.contains('_') {
        return false;
    }
    let wanted = wanted.as_bytes();
    sys.list(directory).is_ok_and(|names| {
        names.iter().any(|n| {
            let name = std::ffi::OsStr::new(n).as_bytes();
            name.len() == wanted.len()
                && name.iter().zip(wanted).all(|(a, b)| a == b || (*a == b'-' && *b == b'_'))
        })
    })
}

/// Returns the path of the record in /run that the work of a semaphore ended in this boot.
fn end_record(layout: &Layout, semaphore: &str) -> String {
    let name = semaphore.rsplit('/').next().unwrap_or_default();
    format!("{}/{name}", layout.unconfirmed())
}

/// Records work that is complete, or that another boot shall do (see [`has_run`]).
///
/// # Errors
/// Fails if the semaphore cannot be written.
pub fn acquire(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    mark_started(sys, layout, name, frequency)?;
    mark_finished(sys, layout, name, frequency)
}

/// Returns the progress of the work `name`.
pub fn progress(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Progress {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Progress::Due };
    match sys.read_head(&path, 256) {
        Ok(text) if text.ends_with(STARTED.as_bytes()) || is_torn(sys, layout, &text) => {
            if sys.exists(end_record(layout, &path)) { Progress::Finished } else { Progress::Started }
        }
        // Perhaps under the older spelling, which this program never wrote.
        Err(e) if e.is_not_found() && !has_run(sys, layout, name, frequency) => Progress::Due,
        _ => Progress::Finished,
    }
}

/// Records that the network configuration of a new instance is to be written, so that a later stage or the next boot does it if
/// this one is interrupted. It belongs to the group of files that make the instance known, and is written before them.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn mark_network_due(files: &mut WriteGroup<'_>, layout: &Layout, id: &str) -> Result<()> {
    let (sys, directory) = (files.system(), layout.instance_dir(id));
    let record = end_record(layout, NETWORK_IS_DUE);
    // Also below a file.
    if sys.exists(&record) {
        remove_file(sys, &record)?;
    }
    let path = format!("{directory}/{NETWORK_IS_DUE}");
    create_directory(sys, layout, &directory)?;
    move_special_file_aside(sys, &path)?;
    // An empty file would not be flushed.
    files.write(path, &b"due\n"[..], WriteOptions::default().durable())
}

/// Returns whether the network configuration of a new instance is still to be written.
pub fn is_network_due(sys: &System, layout: &Layout, id: &str) -> bool {
    sys.exists(format!("{}/{NETWORK_IS_DUE}", layout.instance_dir(id)))
        && !sys.exists(end_record(layout, NETWORK_IS_DUE))
}

/// Records that the network configuration is written, until [`confirm`] does so on the disk.
///
/// # Errors
/// Fails if it cannot be recorded.
pub fn mark_network_written(sys: &System, layout: &Layout) -> Result<()> {
    sys.write(end_record(layout, NETWORK_IS_DUE), "", WriteOptions::default()).map(drop)
}

/// Returns whether a semaphore lost its text in a power failure, which may have taken the work as well. Those of Python's
/// cloud-init count as they are: it set up the machine, and must not do it again.
fn is_torn(sys: &System, layout: &Layout, text: &[u8]) -> bool {
    (text.is_empty() || text.contains(&0)) && !is_pickle(sys, layout)
}

/// Writes the semaphore (`PID: TIME`) before the work begins.
///
/// # Errors
/// Fails if the file cannot be written: the work must not begin then.
pub fn mark_started(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    if layout.is_cleaned(sys) {
        return Ok(());
    }
    let _ = sys.remove(end_record(layout, &path));
    let text = format!("{}: {}\n{STARTED}", std::process::id(), sys.clock().wall().as_secs_f64());
    sys.write(path, text, WriteOptions::default()).map(drop)
}

/// Records the end of the work that [`mark_started`] recorded, until [`confirm`] does so on the disk.
///
/// # Errors
/// Fails if the end cannot be recorded.
pub fn mark_finished(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    let recorded = sys.write(end_record(layout, &path), "", WriteOptions::default());
    if recorded.is_ok() || sys.is_dry_run() {
        return recorded.map(drop);
    }
    sys.flush_file_systems(&layout.cloud(""))?;
    write_end(sys, &path)
}

/// Removes the second line of a semaphore. Needs no space on the disk.
fn write_end(sys: &System, path: &str) -> Result<()> {
    match sys.read_head(path, 256)?.strip_suffix(STARTED.as_bytes()) {
        Some(rest) => sys.truncate_file(path, rest.len() as u64),
        None => Ok(()),
    }
}

/// Flushes the file systems and then confirms, in their semaphores, all work that ended in this boot before the flush. After a
/// flush of this boot that failed it confirms nothing: the kernel reports data that it could not write once.
///
/// # Errors
/// Fails if the file systems cannot be flushed or a semaphore cannot be changed: the next boot repeats the work or reports it.
pub fn confirm(sys: &System, layout: &Layout) -> Result<()> {
    // Without the lock, which a security policy may deny, only the report of another process' failed flush may come too late.
    let lock = sys.lock_directory(&layout.unconfirmed(), Deadline::after(LOCK_TIMEOUT));
    let _lock = lock.inspect_err(|e| debug!(sys, "{e}"));
    let ended = sys.list(layout.unconfirmed())?;
    if let Err(e) = sys.flush_file_systems(&layout.cloud("")) {
        let recorded = sys.write(end_record(layout, FLUSH_FAILED), e.to_string(), WriteOptions::default());
        sys.log_error(Level::Warning, recorded);
        return Err(e);
    }
    if ended.iter().any(|name| name == FLUSH_FAILED) {
        return Ok(());
    }
    let mut failed = Ok(());
    for name in ended {
        let record = end_record(layout, &name);
        if sys.is_dir(&record) {
            // Moved aside.
            continue;
        }
        let confirmed = match &*name {
            NETWORK_IS_DUE => sys.remove(layout.instance(NETWORK_IS_DUE)).map(drop),
            _ if name.ends_with(".once") => {
                write_end(sys, &format!("{}/{name}", layout.machine_semaphores()))
            }
            _ => write_end(sys, &format!("{}/{name}", layout.instance_semaphores())),
        };
        let confirmed = match confirmed {
            Err(e) if !e.is_not_found() => Err(e),
            _ => sys.remove(record).map(drop),
        };
        failed = failed.and(confirmed);
    }
    failed
}

/// Returns whether work ended in this boot that [`confirm`] has not confirmed.
pub fn has_unconfirmed(sys: &System, layout: &Layout) -> bool {
    sys.list(layout.unconfirmed()).is_ok_and(|ended| !ended.is_empty())
}

/// Does the same as [`confirm`] if any work ended in this boot. At the end of the boot the semaphores are flushed as well, before the
/// boot is reported as done.
///
/// # Errors
/// As for [`confirm`]; also if an earlier flush of this boot failed.
pub fn confirm_ended(sys: &System, layout: &Layout, is_last: bool) -> Result<()> {
    if sys.list(layout.unconfirmed())?.is_empty() {
        return Ok(());
    }
    confirm(sys, layout)?;
    if let Ok(failure) = sys.read_text(end_record(layout, FLUSH_FAILED)) {
        return Err(Error::new(failure));
    }
    if is_last { sys.flush_file_systems(&layout.cloud("")) } else { Ok(()) }
}

/// Returns the name (as in the file's name) and frequency of all work that began and did not end.
pub fn unfinished(sys: &System, layout: &Layout) -> Vec<(String, Frequency)> {
    let all =
        [(layout.instance_semaphores(), Frequency::Instance), (layout.machine_semaphores(), Frequency::Once)];
    let mut found = Vec::new();
    for (directory, frequency) in all {
        for file in sys.list(&directory).unwrap_or_default() {
            let name = match frequency {
                Frequency::Once => file.strip_suffix(".once"),
                _ => Some(file.as_str()),
            };
            let Some(name) = name else { continue };
            if progress(sys, layout, name, frequency) == Progress::Started {
                found.push((name.to_string(), frequency));
            }
        }
    }
    found
}

/// Removes a semaphore, so that the work runs again.
///
/// # Errors
/// Fails if the file cannot be removed.
pub fn release(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    match semaphore_path(layout, name, frequency) {
        Some(path) => sys.remove(path).map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn progress_distinguishes_due_started_and_finished() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let at = |name| progress(&sys, &layout, name, Frequency::Instance);
        assert_eq!(at("config-a_b"), Progress::Due);
        mark_started(&sys, &layout, "config-a_b", Frequency::Instance).unwrap();
        mark_started(&sys, &layout, "c", Frequency::Once).unwrap();
        assert_eq!(at("config-a_b"), Progress::Started);
        let names = || unfinished(&sys, &layout).into_iter().map(|(n, f)| format!("{n} {}", f.as_str()));
        assert_eq!(names().collect::<Vec<_>>(), ["config_a_b once-per-instance", "c once"]);
        mark_finished(&sys, &layout, "config-a_b", Frequency::Instance).unwrap();
        mark_finished(&sys, &layout, "c", Frequency::Once).unwrap();
        assert_eq!(at("config-a_b"), Progress::Finished);
        assert_eq!(unfinished(&sys, &layout), []);
        // What the disk has if the power fails now.
        let lines = || sys.read_text("/var/lib/cloud/instance/sem/config_a_b").unwrap().lines().count();
        assert_eq!(lines(), 2);
        // The kernel does not report the failure of an earlier flush again.
        let failed = end_record(&layout, FLUSH_FAILED);
        sys.write(&failed, "not stored", WriteOptions::default()).unwrap();
        assert_eq!(confirm_ended(&sys, &layout, true).unwrap_err().to_string(), "not stored");
        assert_eq!(lines(), 2);
        sys.remove(&failed).unwrap();
        confirm_ended(&sys, &layout, true).unwrap();
        // As upstream writes it.
        let text = sys.read_text("/var/lib/cloud/instance/sem/config_a_b").unwrap();
        assert!(text.starts_with(&format!("{}: ", std::process::id())) && lines() == 1, "{text}");
        assert!(sys.list(layout.unconfirmed()).unwrap().is_empty());
        assert_eq!(at("config-a_b"), Progress::Finished);
        let write = |name: &str, text: &str| {
            sys.write(layout.instance(&format!("sem/{name}")), text, WriteOptions::default()).unwrap();
            progress(&sys, &layout, name, Frequency::Instance)
        };
        for (name, text) in
            [("python", "12: 1700000000.1\n"), ("touched", "x"), ("config-old_name", "1: 2\n")]
        {
            assert_eq!(write(name, text), Progress::Finished, "{name}");
        }
        for torn in ["", "\0\0\0"] {
            assert_eq!(write("torn", torn), Progress::Started);
        }
        sys.write(layout.cache(), [0x80], WriteOptions::default()).unwrap();
        assert_eq!(at("torn"), Progress::Finished, "a machine of Python's cloud-init");
        assert_eq!(at("config-old-name"), Progress::Finished);
        assert_eq!(progress(&sys, &layout, "x", Frequency::Always), Progress::Due);
    }
}
