//! `cloud-init apply --root DIR`: a boot's work done now, on an image's tree. Programs run chrooted in it; what only a
//! running machine has (its hostname in the kernel, links, mounts, growing disks) is left to the first boot.

use std::process::ExitCode;
use std::time::Duration;

use system::{Command, Output, Result};

use super::{STAGES, choose, here, identify, seed};
use crate::arguments::{Apply, Top};
use crate::machine::Machine;
use system::libexec;

/// For one stage: packages are installed, and each of a user's scripts has an hour.
const STAGE_TIME: Duration = Duration::from_secs(6 * 3600);

pub fn run(machine: &Machine, top: &Top, args: &Apply) -> ExitCode {
    if machine.sys.is_live() {
        eprintln!(
            "error: apply works on an image's tree: give --root DIR; this machine's boot is systemd's to start"
        );
        return ExitCode::from(crate::USAGE);
    }
    match apply(machine, top, args) {
        Ok(failed) => ExitCode::from(u8::from(failed)),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a stage failed.
fn apply(machine: &Machine, top: &Top, args: &Apply) -> Result<bool> {
    let sys = &machine.sys;
    if !sys.is_dir("/etc") {
        return Err(system::Error::new(format!("{}: there is no /etc below it", top.root)));
    }
    let place = machine.layout.cloud(super::SEED);
    if args.user_data.is_some() && sys.exists(&place) {
        // It is taken away again below: what the image has must not go with it.
        return Err(system::Error::new(format!(
            "{place} is there already: remove it, or leave out --user-data"
        )));
    }
    if let Some(file) = &args.user_data {
        seed(sys, machine, file, "i-apply")?;
    }
    match args.datasource.clone().or(args.user_data.as_ref().map(|_| "NoCloud".to_string())) {
        Some(name) => choose(sys, machine, &name)?,
        None if !identify(top, &sys.root().host("/run")) => {
            println!("no datasource was found: nothing to do (query --identify says why)");
            return Ok(false);
        }
        None => {}
    }
    let mut failed = false;
    for (program, stage) in STAGES {
        let path = libexec::find(program)
            .ok_or_else(|| system::Error::new(format!("{program} is not installed")))?;
        let command = Command::new([path.as_os_str()]).arg("--root").arg(&top.root);
        let command = command.output(Output::Stage).timeout(STAGE_TIME).accept_all().ends_with_us();
        let begun = sys.clock().elapsed();
        let ended = here().run(&command).map(|ended| ended.code == 0);
        let took = (sys.clock().elapsed() - begun).as_secs_f64();
        let done = ended.unwrap_or_else(|e| {
            eprintln!("error: {e}");
            false
        });
        println!("{stage:<15} {took:.3} s  {}", if done { "done" } else { "failed" });
        failed |= !done;
    }
    if args.user_data.is_some() {
        // The image must not come up as this instance, nor with this seed before its cloud's own.
        sys.remove_tree(&place)?;
    }
    Ok(failed)
}
