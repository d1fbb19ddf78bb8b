//! `cloud-init try FILE...`: boots a throwaway container of this machine or of another root with the user's files as its seed, and
//! shows what the boot did. Mounts, network and processes are in namespaces that end with the script; changes go to a temporary
//! layer above the root.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use system::{Command, Error, OutputMode, PlanDir, Result, System, WriteOptions};

use crate::arguments::{GlobalOptions, Try};
use crate::devel::{Attached, message};
use crate::machine::Machine;

const SCRIPT: &str = include_str!("trial.sh");
/// The limit for the boot, which may install packages.
// Wait: try | the boot of the container | -
const BOOT_TIMEOUT: Duration = Duration::from_secs(3600);
/// The limit with `--shell`, and for what follows the boot.
// Wait: try | the container with its shell | -
const TOTAL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The files of a NoCloud seed beside user-data.
const SEED_FILES: [&str; 3] = ["meta-data", "network-config", "vendor-data"];

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Try) -> ExitCode {
    attempt(machine, global, args).unwrap_or_else(|e| crate::exit::exit_code("error: ", Err(e)))
}

fn attempt(machine: &Machine, global: &GlobalOptions, args: &Try) -> Result<ExitCode> {
    let host = System::new("/");
    let refuse = |message: String| Err(Error::new(message));
    if args.file.is_empty() {
        return refuse("try needs a FILE: user-data, or a file of a seed".into());
    }
    if !Machine::is_root() {
        return refuse("try needs root: it boots a container".into());
    }
    // Python's is a script.
    let is_program = machine.sys.read_head("/usr/bin/cloud-init", 4).is_ok_and(|head| head == b"\x7fELF");
    if !is_program {
        let has = if machine.sys.exists("/usr/bin/cloud-init") { "Python's" } else { "no" };
        return refuse(format!(
            "{}: has {has} cloud-init; name a root directory that has this one: cloud-init --root DIR try FILE",
            global.root
        ));
    }
    if global.root.contains([',', ':', '\\']) {
        return refuse(format!("{}: expected a path without ',', ':' and '\\'", global.root));
    }
    if host.which("systemd-nspawn").is_none() {
        return refuse("try boots a container: install systemd-nspawn (package systemd-container)".into());
    }
    let keep = args.keep.as_deref().map(crate::machine::output_path).unwrap_or_default();
    if host.exists(&keep) && !keep.is_empty() {
        return refuse(format!("argument --keep: {keep} exists"));
    }
    // An interrupt ends the script; this process then removes the directory.
    let _guard = system::block_interrupts();
    let dir = PlanDir::new(&machine.sys)?;
    write_seed(&host, &dir.path().join("seed"), &args.file)?;
    let script = dir.path().join("script");
    host.write(&script, SCRIPT, WriteOptions::default())?;
    // A control group of its own, which is removed with the scope.
    let scope: &[&str] = match host.is_dir("/run/systemd/system") {
        true => &["systemd-run", "--scope", "--quiet", "--property=Delegate=yes", "--"],
        false => &[],
    };
    let unshare = "unshare --mount --net --uts --pid --fork --kill-child --mount-proc /bin/sh";
    let command = Command::new(scope.iter().copied().chain(unshare.split(' ')))
        .arg(&script)
        .arg(&global.root)
        .arg(dir.path())
        .arg(keep)
        .arg(if args.shell { "shell" } else { "" })
        .arg(BOOT_TIMEOUT.as_secs().to_string());
    let command = command.output(OutputMode::Inherit).timeout(TOTAL_TIMEOUT).accept_all().kill_on_exit();
    let ended = host.run(&if args.shell { command.inherit_stdin() } else { command })?;
    let report = host.read(dir.path().join("report")).unwrap_or_default();
    print!("{}", String::from_utf8_lossy(&report));
    Ok(ExitCode::from(u8::try_from(ended.code).unwrap_or(1)))
}

/// Writes a seed of NoCloud: files by their names, the others as user-data, in a MIME message if there are several.
fn write_seed(host: &System, seed: &Path, files: &[String]) -> Result<()> {
    let mut parts = Vec::new();
    host.write(seed.join("meta-data"), "instance-id: i-try\n", WriteOptions::default())?;
    for file in files {
        let content = crate::schema::read_input(file)?;
        let name = file.rsplit('/').next().unwrap_or_default();
        match SEED_FILES.iter().find(|known| name.starts_with(*known)) {
            Some(known) => drop(host.write(seed.join(known), content, WriteOptions::secret())?),
            None => parts.push(Attached { name: name.to_string(), content_type: String::new(), content }),
        }
    }
    let several = parts.len() > 1;
    for part in parts.iter_mut().filter(|_| several) {
        let kind = userdata::detect(&part.content);
        part.content_type = kind.unwrap_or("text/plain").to_string();
    }
    let user_data = match several {
        true => message(&parts).into_bytes(),
        false => parts.pop().map(|part| part.content).unwrap_or_default(),
    };
    host.write(seed.join("user-data"), user_data, WriteOptions::secret()).map(drop)
}
