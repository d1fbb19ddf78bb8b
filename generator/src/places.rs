//! Where things are: each place has a default below the root, and an environment variable that replaces it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use system::System;

/// The environment, taken once, so that tests can give another.
pub type Env = HashMap<String, String>;

/// A path, and the door that it is reached through: below the root, or (named by a variable) as it stands.
#[derive(Debug, Clone)]
pub struct Place {
    pub path: String,
    replaced: bool,
}

impl Place {
    /// A path of this process, whatever the root: a relative one is meant from its working directory.
    pub fn host(path: &str) -> Place {
        let absolute = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned());
        Place { path: absolute.unwrap_or_else(|_| path.into()), replaced: true }
    }

    /// A path below the root that no variable replaces.
    pub fn fixed(path: &str) -> Place {
        Place { path: path.into(), replaced: false }
    }

    /// A path below this one.
    pub fn join(&self, name: &str) -> Place {
        Place { path: format!("{}/{name}", self.path), replaced: self.replaced }
    }
}

/// The places that can be replaced. Each is derived from the one that it stands in, so that moving a
/// directory moves what is in it.
#[derive(Debug)]
pub struct Places {
    pub dmi: Place,
    pub hypervisor: Place,
    pub block: Place,
    pub disk: Place,
    pub cloud: Place,
    pub settings: Place,
    pub command_line: Place,
    pub first_process_command_line: Place,
    pub first_process_environment: Place,
    pub config: Place,
    pub config_directory: Place,
    pub run: Place,
    pub result_config: Place,
    pub result: Place,
    /// The note from the generator to the local stage, as long as nothing is decided.
    pub note: Place,
}

impl Places {
    pub fn new(env: &Env) -> Places {
        let named = |variable: &str, default: Place| match env.get(variable) {
            Some(path) if !path.is_empty() => Place::host(path),
            _ => default,
        };
        let etc = named("PATH_ETC_CLOUD", Place::fixed("/etc/cloud"));
        let config = named("PATH_ETC_CI_CFG", etc.join("cloud.cfg"));
        let mut config_directory = config.clone();
        config_directory.path.push_str(".d");
        let run = named("PATH_RUN_CI", named("PATH_RUN", Place::fixed("/run")).join("cloud-init"));
        Places {
            dmi: named("PATH_SYS_CLASS_DMI_ID", Place::fixed("/sys/class/dmi/id")),
            hypervisor: named("PATH_SYS_HYPERVISOR", Place::fixed("/sys/hypervisor")),
            block: named("PATH_SYS_CLASS_BLOCK", Place::fixed("/sys/class/block")),
            disk: named("PATH_DEV_DISK", Place::fixed("/dev/disk")),
            cloud: named("PATH_VAR_LIB_CLOUD", Place::fixed("/var/lib/cloud")),
            settings: named("PATH_DI_CONFIG", Place::fixed("/etc/cloud/ds-identify.cfg")),
            command_line: named("PATH_PROC_CMDLINE", Place::fixed("/proc/cmdline")),
            first_process_command_line: named("PATH_PROC_1_CMDLINE", Place::fixed("/proc/1/cmdline")),
            first_process_environment: named("PATH_PROC_1_ENVIRON", Place::fixed("/proc/1/environ")),
            config_directory: named("PATH_ETC_CI_CFG_D", config_directory),
            config,
            result_config: named("PATH_RUN_CI_CFG", run.join("cloud.cfg")),
            result: named("PATH_RUN_DI_RESULT", run.join(".ds-identify.result")),
            note: run.join("undecided"),
            run,
        }
    }
}

/// The machine below its root, and this process's own view of files for places that were replaced.
pub struct Doors {
    pub root: System,
    host: System,
    /// A device did not answer, and a thread is still with it.
    pub hung: Cell<bool>,
    /// Small files that are there and could not be read, and why, for the log.
    pub problems: RefCell<Vec<String>>,
}

impl Doors {
    pub fn new(root: &str) -> Doors {
        Doors {
            root: System::new(root),
            host: System::new("/"),
            hung: false.into(),
            problems: RefCell::default(),
        }
    }

    /// The machine that this process runs on: helper programs are its own, whatever the root.
    pub fn host(&self) -> &System {
        &self.host
    }

    pub fn to(&self, place: &Place) -> &System {
        if place.replaced { &self.host } else { &self.root }
    }

    pub fn is_file(&self, place: &Place) -> bool {
        self.to(place).is_file(&place.path)
    }

    /// Removes a file; `false` when there was none.
    pub fn remove(&self, place: &Place) -> system::Result<bool> {
        self.to(place).remove(&place.path)
    }

    /// The text of a small file; `None` when there is none or it cannot be read.
    pub fn text(&self, place: &Place) -> Option<String> {
        const MOST: u64 = 1 << 20;
        match self.to(place).read_at_most(&place.path, MOST) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => {
                if !e.is_not_found() {
                    self.problems.borrow_mut().push(e.to_string());
                }
                None
            }
        }
    }

    /// The first line of a one-line file, trimmed, a backslash quoting the next character.
    pub fn line(&self, place: &Place) -> Option<String> {
        self.text(place).map(|text| first_line(&text))
    }
}

/// The text of a one-line file, as [`Doors::line`] has it.
pub fn first_line(text: &str) -> String {
    unquote_backslashes(text.split('\n').next().unwrap_or_default().trim_matches([' ', '\t']))
}

/// Takes off single backslashes, as the shell's `read` does.
pub fn unquote_backslashes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_along() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        let places = Places::new(&env(&[]));
        assert_eq!(places.config_directory.path, "/etc/cloud/cloud.cfg.d");
        assert_eq!(places.result.path, "/run/cloud-init/.ds-identify.result");
        let places =
            Places::new(&env(&[("PATH_ETC_CI_CFG", "/x/c"), ("PATH_RUN", "/r"), ("PATH_DI_CONFIG", "")]));
        assert_eq!(places.config_directory.path, "/x/c.d");
        assert!(places.config_directory.replaced);
        assert_eq!(places.result_config.path, "/r/cloud-init/cloud.cfg");
        assert_eq!(places.note.path, "/r/cloud-init/undecided");
        assert_eq!(places.settings.path, "/etc/cloud/ds-identify.cfg");
        let places = Places::new(&env(&[("PATH_ETC_CLOUD", "/usr/local/etc/cloud")]));
        assert_eq!(places.config.path, "/usr/local/etc/cloud/cloud.cfg");
        // The settings do not move with the directory: FreeBSD's service script names both.
        assert_eq!(places.settings.path, "/etc/cloud/ds-identify.cfg");
    }

    #[test]
    fn backslashes() {
        assert_eq!(unquote_backslashes(r"a\b\\c\"), r"ab\c");
    }
}
