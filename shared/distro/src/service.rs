//! Services of systemd, OpenRC or another init system, whichever runs the machine.

use system::{Command, Result, System};

use crate::{Distro, Family};

/// An operation on a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceAction {
    /// Start the service.
    Start,
    /// Stop the service.
    Stop,
    /// Restart the service.
    Restart,
    /// Start the service at boot.
    Enable,
    /// Do not start the service at boot.
    Disable,
    /// Reload the service, or restart it if it cannot reload.
    Reload,
    /// Reload or restart the service if it is running.
    TryReload,
    /// Query the state of the service.
    Status,
}

/// The init system of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitSystem {
    /// systemd.
    Systemd,
    /// OpenRC.
    OpenRc,
    /// System V init or another one with service(8).
    Other,
}

impl Distro {
    /// Returns the init system that runs the machine (sd_booted(3) for systemd).
    pub fn init_system(&self, sys: &System) -> InitSystem {
        if sys.is_dir("/run/systemd/system") {
            InitSystem::Systemd
        } else if self.family == Family::Alpine || sys.exists("/run/openrc") {
            InitSystem::OpenRc
        } else {
            InitSystem::Other
        }
    }

    /// Performs an operation on a service and waits until it is complete.
    ///
    /// # Errors
    /// Fails if the init system's program fails or exceeds its deadline.
    pub fn manage_service(&self, sys: &System, action: ServiceAction, name: &str) -> Result<()> {
        self.manage_service_with(sys, action, name, &[])
    }

    /// Does the same with additional arguments for systemctl (`--job-mode=ignore-dependencies`).
    ///
    /// # Errors
    /// Fails as [`Distro::manage_service`] does.
    pub fn manage_service_with(
        &self,
        sys: &System,
        action: ServiceAction,
        name: &str,
        more: &[&str],
    ) -> Result<()> {
        sys.run(&Command::new(service_argv(self.init_system(sys), action, name, more))).map(drop)
    }

    /// Returns whether systemd reports the unit as active or activating.
    pub fn is_service_active(&self, sys: &System, name: &str) -> bool {
        let argv = ["systemctl", "show", "--property", "ActiveState", "--value", name];
        sys.run(&Command::new(argv))
            .is_ok_and(|f| matches!(f.text().trim(), "active" | "activating" | "reloading"))
    }
}

/// Returns the command line of an operation.
pub fn service_argv(init: InitSystem, action: ServiceAction, name: &str, more: &[&str]) -> Vec<String> {
    use ServiceAction::*;
    let words: Vec<&str> = match init {
        InitSystem::Systemd => {
            let verb = match action {
                Start => "start",
                Stop => "stop",
                Restart => "restart",
                Enable => "enable",
                Disable => "disable",
                Reload => "reload-or-restart",
                TryReload => "try-reload-or-restart",
                Status => "status",
            };
            [&["systemctl", verb, name], more].concat()
        }
        InitSystem::OpenRc => match action {
            Enable => vec!["rc-update", "--nocolor", "add", name],
            Disable => vec!["rc-update", "--nocolor", "del", name],
            Start => vec!["rc-service", "--nocolor", name, "start"],
            Stop => vec!["rc-service", "--nocolor", name, "stop"],
            Status => vec!["rc-service", "--nocolor", name, "status"],
            Restart | Reload | TryReload => vec!["rc-service", "--nocolor", name, "restart"],
        },
        InitSystem::Other => {
            let verb = match action {
                Start | Enable => "start",
                Stop | Disable => "stop",
                Restart | Reload | TryReload => "restart",
                Status => "status",
            };
            vec!["service", name, verb]
        }
    };
    words.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_depend_on_the_init_system() {
        for (init, action, line) in [
            (InitSystem::Systemd, ServiceAction::Reload, "systemctl reload-or-restart x"),
            (InitSystem::OpenRc, ServiceAction::Enable, "rc-update --nocolor add x"),
            (InitSystem::OpenRc, ServiceAction::TryReload, "rc-service --nocolor x restart"),
            (InitSystem::Other, ServiceAction::Disable, "service x stop"),
        ] {
            assert_eq!(service_argv(init, action, "x", &[]).join(" "), line);
        }
        let more = service_argv(
            InitSystem::Systemd,
            ServiceAction::Restart,
            "ssh",
            &["--job-mode=ignore-dependencies"],
        );
        assert_eq!(more.join(" "), "systemctl restart ssh --job-mode=ignore-dependencies");
    }
}
