//! fan: writes the configuration of Ubuntu's fan networking, installs its package and starts its service.

use distro::ServiceAction::{Enable, Start, Stop};
use state::Frequency;
use system::{Error, Result, WriteOptions, debug, warning};

use crate::accounts::user_keys::SingleLine;
use crate::packages::package_sources;
use crate::schema::Section;
use crate::services::activation::{Activation, is_changed};
use crate::{Context, Distros, Module, ModuleFlag, fully_valid_key};

pub const MODULE: Module = Module {
    distros: Distros::Named(&["ubuntu"]),
    flags: &[ModuleFlag::Repeatable],
    activation: &["fan"],
    keys: &[Keys::KEYS],
    ..Module::new("fan", Frequency::Instance, run)
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

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;
    use system::WriteOptions;

    #[test]
    fn the_service_is_restarted_with_its_file() {
        for systemctl in ["", "[ $1 != stop ]"] {
            let sandbox = Sandbox::new("fan: {config: '10.0.0.0/8 eth0/16 dhcp'}");
            sandbox.sys.create_dir_all("/run/systemd/system", 0o755).unwrap();
            sandbox.stub("fanctl", "");
            sandbox.stub("systemctl", systemctl);
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.file("/etc/network/fan"), ("10.0.0.0/8 eth0/16 dhcp\n".into(), 0o644));
            let calls =
                "systemctl stop ubuntu-fan\nsystemctl start ubuntu-fan\nsystemctl enable ubuntu-fan\n";
            assert_eq!(sandbox.calls(), calls);
            assert_eq!(sandbox.logged_warnings().len(), !systemctl.is_empty() as usize);
            sandbox.run(&MODULE).unwrap();
            let again = if systemctl.is_empty() { "" } else { calls };
            assert_eq!(sandbox.calls(), format!("{calls}{again}"), "repeated only after a failure");
            sandbox.sys.write("/etc/network/fan", "edited", WriteOptions::default()).unwrap();
            sandbox.run(&MODULE).unwrap();
            assert_eq!(sandbox.calls(), format!("{calls}{again}{calls}"));
        }
    }

    #[test]
    fn invalid_values_write_nothing() {
        for (config, fails) in [
            ("{config: ''}", false),
            ("{}", true),
            ("{config: [x]}", true),
            ("{config: x, config_path: \"/etc/a\\nb\"}", true),
            ("7", true),
        ] {
            let sandbox = Sandbox::new(&format!("fan: {config}"));
            assert_eq!(sandbox.run(&MODULE).is_err(), fails, "{config}");
            assert!(sandbox.sys.effects().is_empty(), "{config}");
        }
    }
}
