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

const LOCAL: Row = Row {
    status_key: "init-local",
    event: "init-local",
    description: "searching for local datasources",
    action: "init-local",
    mode: Mode::Init,
};
const NETWORK: Row = Row {
    status_key: "init",
    event: "init-network",
    description: "searching for network datasources",
    action: "init",
    mode: Mode::Init,
};
const CONFIG: Row = Row {
    status_key: "modules-config",
    event: "modules-config",
    description: "running modules for config",
    action: "modules:config",
    mode: Mode::Config,
};
const FINAL: Row = Row {
    status_key: "modules-final",
    event: "modules-final",
    description: "running modules for final",
    action: "modules:final",
    mode: Mode::Final,
};

impl StageName {
    fn row(self) -> &'static Row {
        match self {
            StageName::Local => &LOCAL,
            StageName::Network => &NETWORK,
            StageName::Config => &CONFIG,
            StageName::Final => &FINAL,
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
