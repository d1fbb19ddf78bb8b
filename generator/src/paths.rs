//! Where things are: each place has a default below the root, and an environment variable that replaces it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use system::System;

/// The environment, taken once, so that tests can give another.
pub type Env = HashMap<String, String>;

/// A path, and the door that it is reached through: below the root, or (named by a variable) as it stands.
#[derive(Debug, Clone)]
pub struct RootedPath {
    pub path: String,
    on_host: bool,
}

impl RootedPath {
    /// A path of this process, whatever the root: a relative one is meant from its working directory.
    pub fn on_host(path: &str) -> RootedPath {
        let absolute = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned());
        RootedPath { path: absolute.unwrap_or_else(|_| path.into()), on_host: true }
    }

    /// A path below the root that no variable replaces.
    pub fn in_root(path: &str) -> RootedPath {
        RootedPath { path: path.into(), on_host: false }
    }

    /// A path below this one.
    pub fn join(&self, name: &str) -> RootedPath {
        RootedPath { path: format!("{}/{name}", self.path), on_host: self.on_host }
    }
}

/// The places that can be replaced. Each is derived from the one that it stands in, so that moving a
/// directory moves what is in it.
#[derive(Debug)]
pub struct Paths {
    pub dmi: RootedPath,
    pub hypervisor: RootedPath,
    pub block: RootedPath,
    pub disk: RootedPath,
    pub cloud: RootedPath,
    pub settings: RootedPath,
    pub command_line: RootedPath,
    pub pid1_command_line: RootedPath,
    pub pid1_environment: RootedPath,
    pub config: RootedPath,
    pub config_directory: RootedPath,
    pub run: RootedPath,
    pub result_config: RootedPath,
    pub result: RootedPath,
    /// The note from the generator to the local stage, as long as nothing is decided.
    pub undecided: RootedPath,
}

impl Paths {
    pub fn new(env: &Env) -> Paths {
        let named = |variable: &str, default: RootedPath| match env.get(variable) {
            Some(path) if !path.is_empty() => RootedPath::on_host(path),
            _ => default,
        };
        let etc = named("PATH_ETC_CLOUD", RootedPath::in_root("/etc/cloud"));
        let config = named("PATH_ETC_CI_CFG", etc.join("cloud.cfg"));
        let mut config_directory = config.clone();
        config_directory.path.push_str(".d");
        let run = named("PATH_RUN_CI", named("PATH_RUN", RootedPath::in_root("/run")).join("cloud-init"));
        Paths {
            dmi: named("PATH_SYS_CLASS_DMI_ID", RootedPath::in_root("/sys/class/dmi/id")),
            hypervisor: named("PATH_SYS_HYPERVISOR", RootedPath::in_root("/sys/hypervisor")),
            block: named("PATH_SYS_CLASS_BLOCK", RootedPath::in_root("/sys/class/block")),
            disk: named("PATH_DEV_DISK", RootedPath::in_root("/dev/disk")),
            cloud: named("PATH_VAR_LIB_CLOUD", RootedPath::in_root("/var/lib/cloud")),
            settings: named("PATH_DI_CONFIG", RootedPath::in_root("/etc/cloud/ds-identify.cfg")),
            command_line: named("PATH_PROC_CMDLINE", RootedPath::in_root("/proc/cmdline")),
            pid1_command_line: named("PATH_PROC_1_CMDLINE", RootedPath::in_root("/proc/1/cmdline")),
            pid1_environment: named("PATH_PROC_1_ENVIRON", RootedPath::in_root("/proc/1/environ")),
            config_directory: named("PATH_ETC_CI_CFG_D", config_directory),
            config,
            result_config: named("PATH_RUN_CI_CFG", run.join("cloud.cfg")),
            result: named("PATH_RUN_DI_RESULT", run.join(".ds-identify.result")),
            undecided: run.join("undecided"),
            run,
        }
    }
}

/// The machine below its root, and this process's own view of files for places that were replaced.
pub struct Roots {
    pub target: System,
    host: System,
    /// A device did not answer, and a thread is still with it.
    pub device_hung: Cell<bool>,
    /// Small files that are there and could not be read, and why, for the log.
    pub read_errors: RefCell<Vec<String>>,
}

impl Roots {
    pub fn new(root: &str) -> Roots {
        Roots {
            target: System::new(root),
            host: System::new("/"),
            device_hung: false.into(),
            read_errors: RefCell::default(),
        }
    }

    /// The machine that this process runs on: helper programs are its own, whatever the root.
    pub fn host(&self) -> &System {
        &self.host
    }

    pub fn system_for(&self, path: &RootedPath) -> &System {
        if path.on_host { &self.host } else { &self.target }
    }

    pub fn is_file(&self, path: &RootedPath) -> bool {
        self.system_for(path).is_file(&path.path)
    }

    /// Removes a file; `false` when there was none.
    pub fn remove(&self, path: &RootedPath) -> system::Result<bool> {
        self.system_for(path).remove(&path.path)
    }

    /// The text of a small file; `None` when there is none or it cannot be read.
    pub fn text(&self, path: &RootedPath) -> Option<String> {
        const MAX_SIZE: u64 = 1 << 20;
        match self.system_for(path).read_at_most(&path.path, MAX_SIZE) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => {
                if !e.is_not_found() {
                    self.read_errors.borrow_mut().push(e.to_string());
                }
                None
            }
        }
    }

    /// The first line of a one-line file, trimmed, a backslash quoting the next character.
    pub fn line(&self, path: &RootedPath) -> Option<String> {
        self.text(path).map(|text| first_line(&text))
    }
}

/// The text of a one-line file, as [`Roots::line`] has it.
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
    fn overridden_directories_move_their_contents() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        let paths = Paths::new(&env(&[]));
        assert_eq!(paths.config_directory.path, "/etc/cloud/cloud.cfg.d");
        assert_eq!(paths.result.path, "/run/cloud-init/.ds-identify.result");
        let paths =
            Paths::new(&env(&[("PATH_ETC_CI_CFG", "/x/c"), ("PATH_RUN", "/r"), ("PATH_DI_CONFIG", "")]));
        assert_eq!(paths.config_directory.path, "/x/c.d");
        assert!(paths.config_directory.on_host);
        assert_eq!(paths.result_config.path, "/r/cloud-init/cloud.cfg");
        assert_eq!(paths.undecided.path, "/r/cloud-init/undecided");
        assert_eq!(paths.settings.path, "/etc/cloud/ds-identify.cfg");
        let paths = Paths::new(&env(&[("PATH_ETC_CLOUD", "/usr/local/etc/cloud")]));
        assert_eq!(paths.config.path, "/usr/local/etc/cloud/cloud.cfg");
        // The settings do not move with the directory: FreeBSD's service script names both.
        assert_eq!(paths.settings.path, "/etc/cloud/ds-identify.cfg");
    }

    #[test]
    fn backslash_quoting() {
        assert_eq!(unquote_backslashes(r"a\b\\c\"), r"ab\c");
    }
}
