//! Semaphores make work run at most once: the file is written before the work begins, and remains if the work fails.
//!
//! Names, places and the first line are upstream's. While a module runs, the file has a second line, which is removed at the
//! end. If it still exists at the next boot, the work was interrupted.

use std::os::unix::ffi::OsStrExt;

use system::{Result, System, WriteOptions};

use crate::Layout;

/// The frequency of a module or script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    /// Once per instance.
    Instance,
    /// At every boot.
    Always,
    /// Once in the life of the machine.
    Once,
}

impl Frequency {
    /// Parses the names used in the configuration (`once-per-instance`) and on the command line (`instance`).
    pub fn parse(name: &str) -> Option<Frequency> {
        Some(match name {
            "once-per-instance" | "instance" => Frequency::Instance,
            "always" => Frequency::Always,
            "once" => Frequency::Once,
            _ => return None,
        })
    }

    /// Returns the name used in the configuration and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Frequency::Instance => "once-per-instance",
            Frequency::Always => "always",
            Frequency::Once => "once",
        }
    }
}

/// The second line of a semaphore while the work is under way.
const STARTED: &str = "started\n";

/// The progress of some work, by its semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is no semaphore: the work is due.
    Due,
    /// The work began and did not end, or its success was not recorded.
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

/// Writes the semaphore (`PID: TIME`), before the work begins. It is not synced: file systems keep the order of such
/// changes, so no effect of the work survives a power cut without its semaphore. An empty semaphore counts as well.
///
/// # Errors
/// Fails if the file cannot be written: the work must not begin then.
pub fn acquire(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    sys.write(path, first_line(sys), WriteOptions::default()).map(drop)
}

/// Returns the progress of the work `name`.
pub fn progress(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Progress {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Progress::Due };
    match sys.read_head(path, 256) {
        Ok(text) if text.ends_with(STARTED.as_bytes()) => Progress::Started,
        // Perhaps under the older spelling, which this program never wrote.
        Err(e) if e.is_not_found() && !has_run(sys, layout, name, frequency) => Progress::Due,
        _ => Progress::Finished,
    }
}

/// Does the same as [`acquire`] for work whose end [`mark_finished`] records.
///
/// # Errors
/// Fails if the file cannot be written: the work must not begin then.
pub fn mark_started(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    let text = first_line(sys) + STARTED;
    sys.write(path, text, WriteOptions::default()).map(drop)
}

/// Records the end of the work that [`mark_started`] recorded. Needs no space on the disk.
///
/// # Errors
/// Fails if the file cannot be changed.
pub fn mark_finished(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    let text = sys.read_head(&path, 256)?;
    match text.strip_suffix(STARTED.as_bytes()) {
        Some(rest) => sys.truncate_file(path, rest.len() as u64),
        None => Ok(()),
    }
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

fn first_line(sys: &System) -> String {
    format!("{}: {}\n", std::process::id(), sys.clock().wall().as_secs_f64())
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
        assert_eq!(at("config-a_b"), Progress::Finished);
        // As upstream writes it.
        let text = sys.read_text("/var/lib/cloud/instance/sem/config_a_b").unwrap();
        assert!(
            text.starts_with(&format!("{}: ", std::process::id())) && text.lines().count() == 1,
            "{text}"
        );
        for (name, text) in [("python", "12: 1700000000.1\n"), ("empty", ""), ("config-old_name", "1: 2\n")] {
            sys.write(layout.instance(&format!("sem/{name}")), text, WriteOptions::default()).unwrap();
            assert_eq!(at(name), Progress::Finished, "{name}");
            mark_finished(&sys, &layout, name, Frequency::Instance).ok();
        }
        assert_eq!(at("config-old-name"), Progress::Finished);
        assert_eq!(progress(&sys, &layout, "x", Frequency::Always), Progress::Due);
    }
}
