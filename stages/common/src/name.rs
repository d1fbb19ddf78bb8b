//! The stages by name, in the words of status.json, of the log's events and of the configuration.

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

encoding::words! {
    /// A list of modules, and a setting of `output:`, by its name in configurations and on command lines.
    pub enum Mode {
        /// `cloud_init_modules`.
        Init = "init",
        /// `cloud_config_modules`.
        Config = "config",
        /// `cloud_final_modules`.
        Final = "final",
    }
}

impl StageName {
    /// Returns the stage's key in status.json.
    pub fn status_key(self) -> &'static str {
        match self {
            StageName::Local => "init-local",
            StageName::Network => "init",
            StageName::Config => "modules-config",
            StageName::Final => "modules-final",
        }
    }

    /// Returns the stage's name in the log's events, which `cloud-init analyze` reads.
    pub fn event_name(self) -> &'static str {
        if self == StageName::Network { "init-network" } else { self.status_key() }
    }

    /// Returns what the stage does, as the same events describe it.
    pub(crate) fn description(self) -> &'static str {
        match self {
            StageName::Local => "searching for local datasources",
            StageName::Network => "searching for network datasources",
            StageName::Config => "running modules for config",
            StageName::Final => "running modules for final",
        }
    }

    /// Returns the mode whose `output:` and module list the stage uses.
    pub fn mode(self) -> Mode {
        match self {
            StageName::Local | StageName::Network => Mode::Init,
            StageName::Config => Mode::Config,
            StageName::Final => Mode::Final,
        }
    }
}
