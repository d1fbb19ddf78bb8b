//! The time zone: a link to the zone's file, and a text file for distributions that have one.

use system::{Error, Result, System, WriteOptions};

use crate::{Distro, Family, InitSystem, TimezoneMethod, set_variable};

const ZONES: &str = "/usr/share/zoneinfo";

/// Returns the file of a time zone.
///
/// # Errors
/// Fails if the machine's zone database has no zone of this name.
pub fn zone_file(sys: &System, zone: &str) -> Result<String> {
    let inside = !zone.is_empty()
        && !zone.starts_with('/')
        && zone.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let file = format!("{ZONES}/{zone}");
    match inside && sys.is_file(&file) {
        true => Ok(file),
        false => Err(Error::new(format!("no zone of this name below {ZONES}"))),
    }
}

/// Returns whether the machine has a database of time zones.
pub fn has_zones(sys: &System) -> bool {
    sys.is_dir(ZONES)
}

impl Distro {
    /// Sets the time zone.
    ///
    /// # Errors
    /// Fails if the machine's zone database has no zone of this name, or if a file or link cannot be written.
    pub fn set_timezone(&self, sys: &System, zone: &str) -> Result<()> {
        let target = zone_file(sys, zone)?;
        if self.timezone == TimezoneMethod::Link
            && self.init_system(sys) == InitSystem::Other
            && sys.is_dir("/etc/sysconfig")
        {
            let (path, key) = match self.family {
                Family::Suse => ("/etc/sysconfig/clock", "TIMEZONE"),
                _ => ("/etc/sysconfig/clock", "ZONE"),
            };
            // The link is also created on a machine without an init system (an image), because systemd may run it later.
            if sys.exists(path) {
                let old = sys.read_text(path)?;
                sys.write(path, set_variable(&old, key, &format!("\"{zone}\"")), WriteOptions::default())?;
            }
        }
        if self.timezone == TimezoneMethod::FileAndLink {
            sys.write("/etc/timezone", format!("{zone}\n"), WriteOptions::default())?;
        }
        if self.timezone == TimezoneMethod::FileAndLink
            && !sys.is_link("/etc/localtime")
            && sys.is_file("/etc/localtime")
        {
            // An administrator may have replaced the link by a copy, for example if /usr is a file system of its own.
            return sys.write("/etc/localtime", sys.read(&target)?, WriteOptions::default()).map(drop);
        }
        sys.link(&target, "/etc/localtime").map(drop)
    }
}
