//! `init`, `modules`, `single`, `devel hotplug-hook` and `query --identify`: this process becomes the stage's, or the
//! generator's.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use system::libexec;

use crate::arguments::{Init, Modules, Single, Top};

pub fn init(top: &Top, args: &Init) -> ExitCode {
    become_stage(top, if args.local { "local" } else { "network" }, &args.file, &[])
}

pub fn modules(top: &Top, args: &Modules) -> ExitCode {
    match args.mode.as_str() {
        "final" => become_stage(top, "final", &args.file, &[]),
        "init" => become_stage(top, "config", &args.file, &["--mode", "init"]),
        _ => become_stage(top, "config", &args.file, &[]),
    }
}

pub fn single(top: &Top, args: &Single) -> ExitCode {
    let mut more = vec!["--single", &args.name];
    if let Some(frequency) = &args.frequency {
        more.extend(["--frequency", frequency]);
    }
    if !args.argument.is_empty() {
        more.push("--");
        more.extend(args.argument.iter().map(String::as_str));
    }
    become_stage(top, "config", &args.file, &more)
}

/// ds-identify is the generator by another name, and has it explain itself.
pub fn identify(top: &Top, format: Option<&str>) -> ExitCode {
    const NAME: &str = "ds-identify";
    // In a build's directory the program has its own name only.
    let Some(program) = libexec::find(NAME).or_else(|| libexec::find("cloud-init-generator")) else {
        return not_there(NAME);
    };
    let mut command = std::process::Command::new(&program);
    command.arg("--explain");
    if top.root != "/" {
        command.args(["--root", &top.root]);
    }
    if let Some(format) = format {
        command.args(["--format", format]);
    }
    become_program(&program, command)
}

fn not_there(name: &str) -> ExitCode {
    eprintln!(
        "error: {name} is neither in {} nor beside this program",
        libexec::DIRECTORIES.join(" nor in ")
    );
    ExitCode::FAILURE
}

fn become_program(program: &std::path::Path, mut command: std::process::Command) -> ExitCode {
    let e = command.exec();
    eprintln!("error: starting {}: {e}", program.display());
    ExitCode::FAILURE
}

/// The network stage with a question of its own.
pub fn network(top: &Top, more: &[&str]) -> ExitCode {
    become_stage(top, "network", &[], more)
}

fn become_stage(top: &Top, stage: &str, files: &[String], more: &[&str]) -> ExitCode {
    let name = format!("cloud-init-{stage}");
    let Some(program) = libexec::find(&name) else {
        return not_there(&name);
    };
    let mut command = std::process::Command::new(&program);
    command.args(["--root", &top.root]);
    for file in files {
        // The stage runs elsewhere: a relative name is meant from here.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.into());
        command.arg("--file").arg(path);
    }
    if top.debug {
        command.arg("--debug");
    }
    if top.force {
        command.arg("--force");
    }
    command.args(more);
    become_program(&program, command)
}
