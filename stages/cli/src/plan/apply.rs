//! `cloud-init apply --root DIR`: runs the stages on an image. Programs run chrooted in the image; work that needs a running
//! machine (the kernel's hostname, links, mounts, growing disks) is left to the first boot.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use system::{Command, OutputMode, Result, Subreaper};

use super::boot::{
    INTERRUPTED_CODES, SEED_DIR, host, identify, select_datasource, wanted_datasource, write_seed,
};
use super::dry_run::{Request, STAGE_TIMEOUT as PLAN_TIMEOUT, has_errors, plan_stages};
use super::exit_code;
use crate::arguments::{Apply, GlobalOptions};
use crate::machine::Machine;
use crate::stage_table::{STAGES, StageRow};
use crate::stages::own_program;

/// The limit for one stage, which may install packages and give each script an hour.
// Wait: apply | one stage | -
const STAGE_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Apply) -> ExitCode {
    if machine.sys.is_live() {
        eprintln!("error: apply needs --root DIR: it changes an image, not the running machine");
        return ExitCode::from(crate::arguments::USAGE);
    }
    if args.diff {
        return exit_code(diff(machine, global, args));
    }
    // An interrupt stops the stage; this process then removes what it wrote into the image.
    let _guard = system::block_interrupts();
    exit_code(apply(machine, global, args))
}

/// Prints what `apply` would change. Returns whether a stage would end with errors.
fn diff(machine: &Machine, global: &GlobalOptions, args: &Apply) -> Result<bool> {
    check_image(machine, global, args)?;
    let request = Request {
        user_data: args.user_data.clone(),
        id: "i-apply",
        datasource: args.datasource.clone(),
        fresh: false,
        instance_id: None,
    };
    let (text, reports) =
        plan_stages(machine, global, &request, (PLAN_TIMEOUT, false), |view, reports| view.unified(reports))?;
    // patch(1) reads the contents of files as they are.
    if std::io::stdout().is_terminal() {
        print!("{text}")
    } else {
        std::print!("{text}")
    }
    Ok(has_errors(&reports))
}

/// Checks that the root is an image without a seed that the given user-data would replace.
fn check_image(machine: &Machine, global: &GlobalOptions, args: &Apply) -> Result<()> {
    let sys = &machine.sys;
    if !sys.is_dir("/etc") {
        return Err(system::Error::new(format!("{}: not a root file system (no /etc)", global.root)));
    }
    let seed_dir = machine.layout.cloud(SEED_DIR);
    if args.user_data.is_some() && sys.exists(&seed_dir) {
        // The seed is removed afterwards: one of the image must not be lost.
        return Err(system::Error::new(format!("{seed_dir} exists: remove it, or omit --user-data")));
    }
    Ok(())
}

/// Exit codes above this mean a signal.
const SIGNALLED: i32 = 128;

/// Runs the stages. Returns whether one of them failed.
fn apply(machine: &Machine, global: &GlobalOptions, args: &Apply) -> Result<bool> {
    let sys = &machine.sys;
    let wanted = wanted_datasource(args.datasource.as_deref(), args.user_data.as_deref())?;
    check_image(machine, global, args)?;
    let seed_dir = machine.layout.cloud(SEED_DIR);
    if let Some(file) = &args.user_data {
        write_seed(sys, machine, file, "i-apply")?;
    }
    match wanted {
        Some(name) => select_datasource(sys, machine, &name)?,
        None if !identify(global, &sys.root().host("/run")) => {
            println!("no datasource found: nothing to do (see query --identify)");
            return Ok(false);
        }
        None => {}
    }
    let done = stages(machine, global);
    if args.user_data.is_some() {
        // The image must not boot with this seed instead of its cloud's metadata.
        sys.remove_dir_all(&seed_dir)?;
    }
    done
}

/// Runs the stages in order and stops the processes that an interrupted one leaves. Returns whether one failed.
fn stages(machine: &Machine, global: &GlobalOptions) -> Result<bool> {
    let subreaper = Subreaper::enable();
    let mut failed = false;
    for StageRow { program, key: stage, .. } in &STAGES {
        let path = own_program(program)?;
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
