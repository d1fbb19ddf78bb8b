//! `init`, `modules`, `single`, `devel hotplug-hook` and `query --identify`: replaces this process by a stage's program
//! or by the generator.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use system::{Error, Result, libexec};

use crate::arguments::{GlobalOptions, HotplugEvent, Init, Mode, Modules, Single};

pub fn init(global: &GlobalOptions, args: &Init) -> ExitCode {
    become_stage(global, if args.local { "local" } else { "network" }, &args.file, &[])
}

pub fn modules(global: &GlobalOptions, args: &Modules) -> ExitCode {
    match args.mode {
        Mode::Final => become_stage(global, "final", &args.file, &[]),
        Mode::Init => become_stage(global, "config", &args.file, &["--mode", "init"]),
        Mode::Config => become_stage(global, "config", &args.file, &[]),
    }
}

pub fn single(global: &GlobalOptions, args: &Single) -> ExitCode {
    let mut extra = vec!["--single", &args.name];
    if let Some(frequency) = args.frequency {
        extra.extend(["--frequency", frequency.word()]);
    }
    if args.report {
        extra.push("--report");
    }
    if !args.argument.is_empty() {
        extra.push("--");
        extra.extend(args.argument.iter().map(String::as_str));
    }
    become_stage(global, "config", &args.file, &extra)
}

const IDENTIFY: &str = "ds-identify";

/// Returns the path of ds-identify, or of the generator: a build directory has no link of the other name.
pub fn identify_program() -> Option<PathBuf> {
    libexec::find(IDENTIFY).or_else(|| libexec::find("cloud-init-generator"))
}

/// Runs the generator as `ds-identify --explain`.
pub fn identify(global: &GlobalOptions, format: Option<&str>) -> ExitCode {
    let program = match identify_program().map_or_else(|| own_program(IDENTIFY), Ok) {
        Ok(program) => program,
        Err(e) => return report(&e),
    };
    let mut command = std::process::Command::new(&program);
    command.arg("--explain");
    if global.root != "/" {
        command.args(["--root", &global.root]);
    }
    if let Some(format) = format {
        command.args(["--format", format]);
    }
    become_program(&program, command)
}

/// Returns the path of another program of the package.
///
/// # Errors
/// Fails if there is none: this one was copied alone, or the package is incomplete.
pub fn own_program(name: &str) -> Result<PathBuf> {
    libexec::find(name).ok_or_else(|| {
        let searched = libexec::DIRECTORIES.join(", ");
        Error::new(format!(
            "{name} not found (searched {searched} and the directory of this program): it is in the package"
        ))
    })
}

fn report(e: &Error) -> ExitCode {
    eprintln!("error: {e}");
    ExitCode::FAILURE
}

fn become_program(program: &std::path::Path, mut command: std::process::Command) -> ExitCode {
    let e = command.exec();
    eprintln!("error: starting {}: {e}", program.display());
    ExitCode::FAILURE
}

/// Runs `devel hotplug-hook`: only the network stage reads datasources, also after the boot.
pub fn hotplug(global: &GlobalOptions, options: &[&str]) -> ExitCode {
    become_stage(global, "network", &[], options)
}

pub fn handle_hotplug(global: &GlobalOptions, event: &HotplugEvent) -> ExitCode {
    hotplug(global, &["--hotplug-handle", &format!("{}:{}", event.udevaction.word(), event.devpath)])
}

fn become_stage(global: &GlobalOptions, stage: &str, files: &[String], extra: &[&str]) -> ExitCode {
    let name = format!("cloud-init-{stage}");
    let program = match own_program(&name) {
        Ok(program) => program,
        Err(e) => return report(&e),
    };
    let mut command = std::process::Command::new(&program);
    command.args(["--root", &global.root]);
    for file in files {
        // The stage has another working directory: relative names are resolved here.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.into());
        command.arg("--file").arg(path);
    }
    if global.debug {
        command.arg("--debug");
    }
    if global.force {
        command.arg("--force");
    }
    command.args(extra);
    become_program(&program, command)
}
