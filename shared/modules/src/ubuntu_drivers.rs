//! ubuntu_drivers: NVIDIA's drivers, once their licence is accepted.

use config::schema::{BOOL, STR};
use system::{Command, Error, Result, WriteOptions, debug, warning};

use crate::packages::package_sources;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("ubuntu_drivers", Frequency::Instance, run).repeatable().on(&["ubuntu"]);

/// The debconf question whose answer makes linux-restricted-modules link NVIDIA's modules.
const TEMPLATE: &str = "Template: linux/nvidia/latelink\nType: boolean\nDefault: true\n\
    Description: Link NVIDIA's kernel modules?\n Whether the kernel modules of NVIDIA are linked on this machine.\n";
/// How long a driver may take to download and build.
// Wait: ubuntu_drivers | the installation of the drivers | -
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3600);

config::keys! {
    pub struct Nvidia {
        /// Accept NVIDIA's license. Nothing is installed otherwise.
        license_accepted as "license-accepted": bool, types [BOOL];
        /// The version. The default is the newest that fits.
        version: Option<String>, types [STR];
    }
    pub struct Drivers {
        /// NVIDIA drivers.
        nvidia: Option<Nvidia>;
    }
    pub struct Keys {
        /// Third-party drivers to install.
        drivers: Option<Drivers>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let drivers = context.fully_valid_key(|k: Keys| k.drivers)?;
    let Some(nvidia) = drivers.and_then(|d| d.nvidia).filter(|n| n.license_accepted) else {
        debug!(sys, "drivers.nvidia.license-accepted is not true; skipping");
        return Ok(());
    };
    let driver = match nvidia.version.filter(|v| !v.is_empty()) {
        Some(version) if version.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            return Err(Error::new("drivers.nvidia.version: expected a version, such as 550"));
        }
        Some(version) => format!("nvidia:{version}"),
        None => "nvidia".to_string(),
    };
    if sys.which("ubuntu-drivers").is_none() {
        package_sources::install_names(context, &["ubuntu-drivers-common".into()])?;
    }
    register_template(context)?;
    let command =
        Command::new(["ubuntu-drivers", "install", "--gpgpu", &driver]).timeout(TIMEOUT).accept_all();
    let output = sys.run(&command)?;
    if output.code == 0 {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("argument <command>: invalid choice: 'install'") {
        warning!(
            sys,
            "the available version of ubuntu-drivers is too old to perform requested driver installation"
        );
    } else if output.text().contains("No drivers found for installation.") {
        warning!(sys, "ubuntu-drivers found no drivers for installation");
    }
    let last = stderr.trim_end().lines().last().unwrap_or_default().to_string();
    Err(Error::new(format!("ubuntu-drivers install {driver}: exit code {}: {last}", output.code)))
}

/// Registers the question with debconf. Its default is the answer.
fn register_template(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let path = context.layout.run("nvidia.template");
    sys.write(&path, TEMPLATE, WriteOptions::default())?;
    let command = Command::new(["debconf-communicate", "-fnoninteractive", "cloud-init"])
        .stdin(format!("X_LOADTEMPLATEFILE {path}\n"));
    let result = sys.run(&command);
    sys.remove(&path)?;
    let answer = result?.text();
    // debconf-devel(7): a reply begins with 0 if the command succeeded.
    if !answer.starts_with('0') && !sys.is_dry_run() {
        return Err(Error::new(format!("debconf-communicate: loading a template failed: {}", answer.trim())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn missing_drivers_and_invalid_versions_are_reported() {
        for (version, message) in [("550", "exit code 1"), ("a b", "expected a version")] {
            let config = format!("drivers: {{nvidia: {{license-accepted: true, version: '{version}'}}}}");
            let sandbox = Sandbox::new(&config);
            sandbox.stub("debconf-communicate", "echo 0");
            sandbox.stub("ubuntu-drivers", "echo No drivers found for installation.; exit 1");
            let error = sandbox.run(&MODULE).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(!sandbox.sys.exists("/run/cloud-init/nvidia.template"));
            let expected = ["ubuntu-drivers found no drivers for installation"];
            assert_eq!(
                sandbox.logged_warnings() == expected,
                version == "550",
                "{:?}",
                sandbox.logged_warnings()
            );
        }
    }
}
