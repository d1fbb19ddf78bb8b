//! The stages by name: one row each, in the words of status.json, of the log's events and of the configuration.

use crate::Task;

/// A stage of the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageName {
    /// Before networking (`cloud-init init --local`).
    Local,
    /// With networking (`cloud-init init`).
    Network,
    /// `cloud-init modules --mode config`.
    Config,
    /// `cloud-init modules --mode final`.
    Final,
}

/// A list of modules, and a setting of `output:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `cloud_init_modules`.
    Init,
    /// `cloud_config_modules`.
    Config,
    /// `cloud_final_modules`.
    Final,
}

impl Mode {
    /// Returns the mode of this name.
    pub fn named(name: &str) -> Option<Mode> {
        [Mode::Init, Mode::Config, Mode::Final].into_iter().find(|mode| mode.as_str() == name)
    }

    /// Returns the mode's name in configurations and on command lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Init => "init",
            Mode::Config => "config",
            Mode::Final => "final",
        }
    }
}

/// The names of one stage.
struct Row {
    status_key: &'static str,
    event: &'static str,
    description: &'static str,
    action: &'static str,
    mode: Mode,
}

const fn row(
    status_key: &'static str,
    event: &'static str,
    description: &'static str,
    action: &'static str,
    mode: Mode,
) -> Row {
    Row { status_key, event, description, action, mode }
}

impl StageName {
    fn row(self) -> Row {
        match self {
            StageName::Local => {
                row("init-local", "init-local", "searching for local datasources", "init-local", Mode::Init)
            }
            StageName::Network => {
                row("init", "init-network", "searching for network datasources", "init", Mode::Init)
            }
            StageName::Config => row(
                "modules-config",
                "modules-config",
                "running modules for config",
                "modules:config",
                Mode::Config,
            ),
            StageName::Final => row(
                "modules-final",
                "modules-final",
                "running modules for final",
                "modules:final",
                Mode::Final,
            ),
        }
    }

    /// Returns the stage's key in status.json.
    pub fn status_key(self) -> &'static str {
        self.row().status_key
    }

    /// Returns the stage's name in the log's events, which `cloud-init analyze` reads.
    pub fn event_name(self) -> &'static str {
        self.row().event
    }

    /// Returns what the stage does, as the same events describe it.
    pub(crate) fn description(self) -> &'static str {
        self.row().description
    }

    /// Returns the word for the task in the first line of the log.
    pub(crate) fn action(self, task: &Task) -> &'static str {
        match task {
            Task::Single(_) => "single",
            Task::Mode(Mode::Init) => "modules:init",
            _ => self.row().action,
        }
    }

    /// Returns the mode whose `output:` and module list the stage uses.
    pub fn mode(self) -> Mode {
        self.row().mode
    }
}
