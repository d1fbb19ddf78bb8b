//! At most once: a semaphore is a file that is written before the work begins, and stays when it fails.
//!
//! Its names, places and first line are upstream's. While the work of a module is under way a second line says so; it is
//! cut off at the end, so that one that is still there at the next boot tells of work that was interrupted.

use std::os::unix::ffi::OsStrExt;

use system::{Result, System, WriteOptions};

use crate::Layout;

/// How often something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    Instance,
    Always,
    Once,
}

impl Frequency {
    /// The words of configurations (`once-per-instance`) and of the command line (`instance`).
    pub fn parse(word: &str) -> Option<Frequency> {
        Some(match word {
            "once-per-instance" | "instance" => Frequency::Instance,
            "always" => Frequency::Always,
            "once" => Frequency::Once,
            _ => return None,
        })
    }

    /// The word that configurations and the log have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Frequency::Instance => "once-per-instance",
            Frequency::Always => "always",
            Frequency::Once => "once",
        }
    }
}

/// The second line of a semaphore whose work has begun and not ended.
const STARTED: &str = "started\n";

/// What a semaphore says of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is no semaphore: the work is due.
    Due,
    /// The work began and did not end.
    Started,
    /// The work ended, successfully or not. Semaphores of Python's cloud-init and those that cannot be read count as that.
    Finished,
}

/// Where the semaphore of `name` is; `None` for what always runs.
fn semaphore_path(layout: &Layout, name: &str, frequency: Frequency) -> Option<String> {
    let name = name.replace('-', "_");
    match frequency {
        Frequency::Always => None,
        Frequency::Instance => Some(layout.instance(&format!("sem/{name}"))),
        Frequency::Once => Some(layout.cloud(&format!("sem/{name}.once"))),
    }
}

/// Whether it ran (or began to) already. Older releases left `-` in names; both spellings count.
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

/// Marks it as begun, before it begins: `PID: TIME`. Not synced: file systems keep the order of such changes, so
/// no effect of the work can outlive a power cut that the mark does not; and an empty mark still counts.
pub fn acquire(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    sys.write(path, first_line(sys), WriteOptions::default()).map(drop)
}

/// Returns how far the work of `name` came.
pub fn progress(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Progress {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Progress::Due };
    match sys.read_head(path, 256) {
        Ok(text) if text.ends_with(STARTED.as_bytes()) => Progress::Started,
        // Under an older spelling, perhaps, which this program never wrote.
        Err(e) if e.is_not_found() && !has_run(sys, layout, name, frequency) => Progress::Due,
        _ => Progress::Finished,
    }
}

/// As [`acquire`], for work whose end [`mark_finished`] records.
pub fn mark_started(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    let text = first_line(sys) + STARTED;
    sys.write(path, text, WriteOptions::default()).map(drop)
}

/// Records that the work which [`mark_started`] announced has ended. Needs no space on the disk.
pub fn mark_finished(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    let Some(path) = semaphore_path(layout, name, frequency) else { return Ok(()) };
    let text = sys.read_head(&path, 256)?;
    match text.strip_suffix(STARTED.as_bytes()) {
        Some(rest) => sys.truncate_file(path, rest.len() as u64),
        None => Ok(()),
    }
}

/// Returns the names (as in their files) of the work that has begun and not ended, with how often it runs.
pub fn unfinished(sys: &System, layout: &Layout) -> Vec<(String, Frequency)> {
    let all = [(layout.instance("sem"), Frequency::Instance), (layout.cloud("sem"), Frequency::Once)];
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

/// Takes the mark away, for work that is to be tried again.
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
    fn progress_of_work() {
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
