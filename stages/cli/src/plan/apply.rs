//! `cloud-init apply --root DIR`: a boot's work done now, on an image's tree. Programs run chrooted in it; what only a
//! running machine has (its hostname in the kernel, links, mounts, growing disks) is left to the first boot.

use std::process::ExitCode;
use std::time::Duration;

use system::{Command, OutputMode, Result, Subreaper};

use super::{INTERRUPTED_CODES, STAGES, host, identify, select_datasource, write_seed};
use crate::arguments::{Apply, GlobalOptions};
use crate::machine::Machine;
use system::libexec;

/// For one stage: packages are installed, and each of a user's scripts has an hour.
const STAGE_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Apply) -> ExitCode {
    if machine.sys.is_live() {
        eprintln!(
            "error: apply works on an image's tree: give --root DIR; this machine's boot is systemd's to start"
        );
        return ExitCode::from(crate::USAGE);
    }
    // What is typed ends the stage, and this process when it has put away what it laid into the image.
    let _guard = system::block_interrupts();
    match apply(machine, global, args) {
        Ok(failed) => ExitCode::from(u8::from(failed)),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Exit codes above this tell a signal.
const SIGNALLED: i32 = 128;

/// Whether a stage failed.
fn apply(machine: &Machine, global: &GlobalOptions, args: &Apply) -> Result<bool> {
    let sys = &machine.sys;
    if !sys.is_dir("/etc") {
        return Err(system::Error::new(format!("{}: there is no /etc below it", global.root)));
    }
    let seed_dir = machine.layout.cloud(super::SEED_DIR);
    if args.user_data.is_some() && sys.exists(&seed_dir) {
        // It is taken away again below: what the image has must not go with it.
        return Err(system::Error::new(format!(
            "{seed_dir} is there already: remove it, or leave out --user-data"
        )));
    }
    if let Some(file) = &args.user_data {
        write_seed(sys, machine, file, "i-apply")?;
    }
    match args.datasource.clone().or(args.user_data.as_ref().map(|_| "NoCloud".to_string())) {
        Some(name) => select_datasource(sys, machine, &name)?,
        None if !identify(global, &sys.root().host("/run")) => {
            println!("no datasource was found: nothing to do (query --identify says why)");
            return Ok(false);
        }
        None => {}
    }
    let done = stages(machine, global);
    if args.user_data.is_some() {
        // The image must not come up as this instance, nor with this seed before its cloud's own.
        sys.remove_dir_all(&seed_dir)?;
    }
    done
}

/// Whether one of them failed. However one ends, nothing that it started in the image goes on without it.
fn stages(machine: &Machine, global: &GlobalOptions) -> Result<bool> {
    let subreaper = Subreaper::enable();
    let mut failed = false;
    for (program, stage) in STAGES {
        let path = libexec::find(program)
            .ok_or_else(|| system::Error::new(format!("{program} is not installed")))?;
        let command = Command::new([path.as_os_str()]).arg("--root").arg(&global.root);
        let command = command.output(OutputMode::Inherit).timeout(STAGE_TIMEOUT).accept_all().kill_on_exit();
        let begun = machine.sys.clock().elapsed();
        let ended = host().run(&command).map(|ended| ended.code);
        let took = (machine.sys.clock().elapsed() - begun).as_secs_f64();
        // Its deadline, or a signal: 128 and the signal's number.
        if ended.as_ref().map_or(true, |code| *code > SIGNALLED) {
            subreaper.kill_all();
        }
        if ended.as_ref().is_ok_and(|code| INTERRUPTED_CODES.contains(code)) {
            return Err(system::Error::new(format!("{stage}: interrupted")));
        }
        let done = ended.map(|code| code == 0).unwrap_or_else(|e| {
            eprintln!("error: {e}");
            false
        });
        println!("{stage:<15} {took:.3} s  {}", if done { "done" } else { "failed" });
        failed |= !done;
    }
    Ok(failed)
}
