//! The paths that identification reads and writes: each has a default below the root, and an environment variable that
//! replaces it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use system::{Result, System, WriteOptions};

use crate::text::first_line;

/// The environment, read once; tests pass their own.
pub type Env = HashMap<String, String>;

/// Returns the environment of this process.
pub fn environment() -> Env {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Returns the root that the variable `PATH_ROOT` names, else `/`.
pub fn root_of(env: &Env) -> &str {
    env.get("PATH_ROOT").filter(|root| !root.is_empty()).map_or("/", String::as_str)
}

/// A path below the root, or, if a variable named it, of the file system of this process.
#[derive(Debug, Clone)]
pub struct RootedPath {
    path: String,
    on_host: bool,
}

impl fmt::Display for RootedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl AsRef<Path> for RootedPath {
    fn as_ref(&self) -> &Path {
        self.path.as_ref()
    }
}

impl RootedPath {
    /// Returns a path of this process, whatever the root. A relative path starts at the working directory.
    pub fn on_host(path: &str) -> RootedPath {
        let absolute = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned());
        RootedPath { path: absolute.unwrap_or_else(|_| path.into()), on_host: true }
    }

    /// Returns a path below the root that no variable replaces.
    pub fn in_root(path: &str) -> RootedPath {
        RootedPath { path: path.into(), on_host: false }
    }

    /// Returns a path below this one.
    pub fn join(&self, name: &str) -> RootedPath {
        RootedPath { path: format!("{}/{name}", self.path), on_host: self.on_host }
    }
}

/// The paths that variables can replace. Each is derived from its directory, so that moving a directory moves its
/// contents.
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
    /// The state that the generator leaves for the local stage while nothing is decided.
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

/// The machine below its root, and the file system of this process for paths that a variable replaced.
pub struct Roots {
    /// The machine to identify.
    pub target: System,
    host: System,
    /// Whether a device did not answer and a thread is still blocked on it.
    pub device_hung: Cell<bool>,
    /// Errors of reading small files that exist, for the log.
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

    /// Returns the roots for the variable `PATH_ROOT`.
    pub fn from_environment(env: &Env) -> Roots {
        Roots::new(root_of(env))
    }

    /// Returns the machine that this process runs on: helper programs are its own, whatever the root.
    pub fn host(&self) -> &System {
        &self.host
    }

    /// Detaches the threads that are blocked on a device, so that the program can exit without waiting for it.
    pub fn abandon_hung_reads(&self) {
        if self.device_hung.get() {
            blockdev::abandon_hung_reads();
        }
    }

    /// Returns the system whose path this is.
    pub fn of(&self, path: &RootedPath) -> &System {
        if path.on_host { &self.host } else { &self.target }
    }

    pub fn exists(&self, path: &RootedPath) -> bool {
        self.of(path).exists(path)
    }

    pub fn is_file(&self, path: &RootedPath) -> bool {
        self.of(path).is_file(path)
    }

    /// Replaces the content of a file. Fails if the directory is not writable.
    pub fn write(&self, path: &RootedPath, text: &str) -> Result<()> {
        self.of(path).write(path, text, WriteOptions::default().in_place()).map(drop)
    }

    /// Returns the text of a small file; `None` if it does not exist or cannot be read.
    pub fn text(&self, path: &RootedPath) -> Option<String> {
        const MAX_SIZE: u64 = 1 << 20;
        match self.of(path).read_at_most(path, MAX_SIZE) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => {
                if !e.is_not_found() {
                    self.read_errors.borrow_mut().push(e.to_string());
                }
                None
            }
        }
    }

    /// Returns the first line of a small file, as [`first_line`] cleans it.
    pub fn line(&self, path: &RootedPath) -> Option<String> {
        self.text(path).map(|text| first_line(&text))
    }
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
        assert_eq!(paths.config_directory.to_string(), "/etc/cloud/cloud.cfg.d");
        assert_eq!(paths.result.to_string(), "/run/cloud-init/.ds-identify.result");
        let paths =
            Paths::new(&env(&[("PATH_ETC_CI_CFG", "/x/c"), ("PATH_RUN", "/r"), ("PATH_DI_CONFIG", "")]));
        assert_eq!(paths.config_directory.to_string(), "/x/c.d");
        assert!(paths.config_directory.on_host);
        assert_eq!(paths.result_config.to_string(), "/r/cloud-init/cloud.cfg");
        assert_eq!(paths.undecided.to_string(), "/r/cloud-init/undecided");
        assert_eq!(paths.settings.to_string(), "/etc/cloud/ds-identify.cfg");
        let paths = Paths::new(&env(&[("PATH_ETC_CLOUD", "/usr/local/etc/cloud")]));
        assert_eq!(paths.config.to_string(), "/usr/local/etc/cloud/cloud.cfg");
        // The settings do not move with the directory: FreeBSD's service script names both.
        assert_eq!(paths.settings.to_string(), "/etc/cloud/ds-identify.cfg");
    }
}
