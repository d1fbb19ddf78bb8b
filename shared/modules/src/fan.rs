//! fan: writes the configuration of Ubuntu's fan networking, installs its package and starts its service.

use distro::ServiceAction::{Enable, Start, Stop};
use system::{Error, Result, WriteOptions, debug, warning};

use crate::accounts::user_keys::SingleLine;
use crate::packages::package_sources;
use crate::services::activation::{Activation, is_changed};
use crate::{Context, Distros, Frequency, Module, ModuleFlag, Section, fully_valid_key};

pub const MODULE: Module = Module {
    distros: Distros::Named(&["ubuntu"]),
    flags: &[ModuleFlag::Repeatable],
    activation: &["fan"],
    ..Module::of::<Keys>("fan", Frequency::Instance, run)
};

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

const SERVICE: &str = "ubuntu-fan";

config::keys! {
    struct Fan {
        /// The contents of the configuration file.
        config: String;
        /// The path of the configuration file.
        config_path: SingleLine = "/etc/network/fan";
    }
    struct Keys {
        /// Configure fan networking.
        fan: Option<Fan>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let (sys, distro) = (context.sys, context.distro);
    let wanted = fully_valid_key(context, &["fan"], Keys::read_known, |k| k.fan)?;
    let Some(Fan { config: mut text, config_path }) = wanted.filter(|fan| !fan.config.is_empty()) else {
        debug!(sys, "fan.config is not set; skipping");
        return Ok(());
    };
    if !config_path.0.starts_with('/') {
        return Err(Error::new("fan.config_path: expected an absolute path; module skipped"));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let activation = Activation::begin(context, "fan", &[&config_path.0]);
    // The package's service starts during the installation and needs the file.
    let change = sys.write(&config_path.0, &text, WriteOptions::default())?;
    if sys.which("fanctl").is_none() {
        package_sources::install_names(context, &[SERVICE.into()])?;
    }
    // A restart interrupts the fan's connections.
    activation.finish(is_changed(change), || {
        let mut is_started = true;
        for (action, verb) in [(Stop, "stop"), (Start, "start")] {
            if let Err(e) = distro.manage_service(sys, action, SERVICE) {
                warning!(sys, "failed to {verb} {SERVICE}: {e}");
                is_started = false;
            }
        }
        distro.manage_service(sys, Enable, SERVICE).map(|()| is_started)
    })
}
