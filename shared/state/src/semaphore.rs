//! At most once: a semaphore is a file that is written before the work begins, and stays when it fails.

use std::os::unix::ffi::OsStrExt;

use system::{Result, System, Write};

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
    pub fn named(word: &str) -> Option<Frequency> {
        Some(match word {
            "once-per-instance" | "instance" => Frequency::Instance,
            "always" => Frequency::Always,
            "once" => Frequency::Once,
            _ => return None,
        })
    }

    /// The word that configurations and the log have for it.
    pub fn word(self) -> &'static str {
        match self {
            Frequency::Instance => "once-per-instance",
            Frequency::Always => "always",
            Frequency::Once => "once",
        }
    }
}

/// Where the semaphore of `name` is; `None` for what always runs.
fn path(layout: &Layout, name: &str, frequency: Frequency) -> Option<String> {
    let name = name.replace('-', "_");
    match frequency {
        Frequency::Always => None,
        Frequency::Instance => Some(layout.instance(&format!("sem/{name}"))),
        Frequency::Once => Some(layout.cloud(&format!("sem/{name}.once"))),
    }
}

/// Whether it ran (or began to) already. Older releases left `-` in names; both spellings count.
pub fn has_run(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> bool {
    let Some(path) = path(layout, name, frequency) else { return false };
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
    let Some(path) = path(layout, name, frequency) else { return Ok(()) };
    let text = format!("{}: {}\n", std::process::id(), sys.clock().wall().as_secs_f64());
    sys.write(path, text, Write::default()).map(drop)
}

/// Takes the mark away, for work that is to be tried again.
pub fn release(sys: &System, layout: &Layout, name: &str, frequency: Frequency) -> Result<()> {
    match path(layout, name, frequency) {
        Some(path) => sys.remove(path).map(drop),
        None => Ok(()),
    }
}
