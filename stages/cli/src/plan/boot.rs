//! Shared by plans and `apply`: the stages, the seed with the user's data, and the generator.

use std::path::Path;
use std::time::Duration;

use system::{Command, OutputMode, Result, System, WriteOptions};

use crate::arguments::GlobalOptions;
use crate::machine::Machine;
use crate::stages::identify_program;

/// Exit codes after SIGHUP, SIGINT and SIGQUIT.
pub const INTERRUPTED_CODES: [i32; 3] = [129, 130, 131];

/// The exit code of ds-identify if cloud-init is to be disabled.
const NOT_FOUND: i32 = 1;

/// The limit for ds-identify, which needs a fraction of a second.
// Wait: plan | ds-identify | -
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The directory from which a plan or an image reads user-data.
pub const SEED_DIR: &str = "seed/nocloud";

/// Returns the machine that this command runs on, with its programs and the files that the command line names.
pub fn host() -> System {
    System::new("/")
}

/// Writes user-data as a seed of NoCloud with this instance id.
pub fn write_seed(sys: &System, machine: &Machine, file: &str, id: &str) -> Result<()> {
    // Relative to the working directory of this process, not to the image.
    let bytes = crate::schema::read_input(file)?;
    let at = |name: &str| machine.layout.cloud(&format!("{SEED_DIR}/{name}"));
    sys.write(at("meta-data"), format!("instance-id: {id}\n"), WriteOptions::default())?;
    sys.write(at("user-data"), bytes, WriteOptions::secret())?;
    Ok(())
}

/// Returns the datasource to use instead of the detected one. Fails if its name is unknown, or if it would not read the
/// given user-data, which is a seed of NoCloud.
pub fn wanted_datasource(name: Option<&str>, user_data: Option<&str>) -> Result<Option<String>> {
    const SEEDED: &str = "NoCloud";
    let Some(name) = name else { return Ok(user_data.map(|_| SEEDED.to_string())) };
    let known = || clouds::CLOUDS.iter().map(|cloud| cloud.name);
    if !known().any(|cloud| cloud == name) {
        let near = config::suggestion(name, known());
        return Err(system::Error::new(format!("argument --datasource: unknown datasource '{name}'{near}")));
    }
    if user_data.is_some() && name != SEEDED {
        return Err(system::Error::new(format!(
            "argument --datasource: {name} does not read --user-data, which only {SEEDED} does: omit one of them"
        )));
    }
    Ok(Some(name.to_string()))
}

/// Writes the configuration that the generator writes for one datasource.
pub fn select_datasource(sys: &System, machine: &Machine, name: &str) -> Result<()> {
    let text = format!("datasource_list: [ {name}, None ]\n");
    sys.write(machine.layout.run("cloud.cfg"), text, WriteOptions::default()).map(drop)
}

/// Runs the generator with its files written to `run`. Returns whether cloud-init is to run.
pub fn identify(global: &GlobalOptions, run: &Path) -> bool {
    let Some(program) = identify_program() else { return true };
    let command =
        Command::new(["ds-identify"]).program(program.to_string_lossy()).env("PATH_ROOT", &global.root);
    let command = command.env("PATH_RUN", run).output(OutputMode::Null).timeout(IDENTIFY_TIMEOUT);
    // If it fails, the stages try every datasource of the configuration, as at a boot.
    host().run(&command.accept_all().kill_on_exit()).map_or(true, |ended| ended.code != NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::wanted_datasource;

    #[test]
    fn datasource_must_read_the_given_user_data() {
        let wanted = |name, data| wanted_datasource(name, data).map_err(|e| e.to_string());
        assert_eq!(wanted(None, None), Ok(None));
        assert_eq!(wanted(None, Some("f")), Ok(Some("NoCloud".into())));
        assert_eq!(wanted(Some("NoCloud"), Some("f")), Ok(Some("NoCloud".into())));
        assert_eq!(wanted(Some("None"), None), Ok(Some("None".into())));
        for (name, data, part) in [
            ("None", Some("f"), "None does not read --user-data"),
            ("Ec2", Some("f"), "Ec2 does not read --user-data"),
            ("nocloud", None, "unknown datasource 'nocloud'; did you mean 'NoCloud'?"),
            ("Ec2, None", None, "unknown datasource 'Ec2, None'"),
        ] {
            assert!(wanted(Some(name), data).is_err_and(|e| e.contains(part)), "{name}");
        }
    }
}
