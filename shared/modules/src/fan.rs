//! fan: writes the configuration of Ubuntu's fan networking, installs its package and starts its service.

use distro::ServiceAction::{Enable, Start, Stop};
use system::{Error, Result, WriteOptions, debug};

use crate::accounts::user_keys::SingleLine;
use crate::packages::package_sources;
use crate::services::activation::{Activation, is_changed};
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module =
    Module::if_set::<Keys>("fan", Frequency::Instance, run).repeatable().on(&["ubuntu"]);

const SERVICE: &str = "ubuntu-fan";

config::keys! {
    pub struct Fan {
        /// The contents of the configuration file.
        config: String;
        /// The path of the configuration file.
        config_path: SingleLine = "/etc/network/fan";
    }
    pub struct Keys {
        /// Configure fan networking.
        fan: Option<Fan>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let (sys, distro) = (context.sys, context.distro);
    let wanted = context.fully_valid_key(|k: Keys| k.fan)?;
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
            let done = distro.manage_service(sys, action, SERVICE);
            is_started &= or_warn!(sys, done, "failed to {verb} {SERVICE}").is_some();
        }
        distro.manage_service(sys, Enable, SERVICE).map(|()| is_started)
    })
}
