//! The frame of a stage: what comes before its first step and after its last one.

use std::process::ExitCode;

use system::{Level, System, debug, info, warning};

use crate::args::{self, Task};
use crate::status::{Record, confirm, is_unit_enabled, start_confirming};
use crate::{
    Boot, Mode, StageName, interrupted, journal, kernel_url, log_findings, logging, plan, undecided,
};

/// Runs one stage: reads the configuration, opens the log, takes the steps, and records the result. The exit code is the
/// number of errors, as upstream's is. Returns at once if cloud-init is disabled.
pub fn run(stage: StageName, steps: impl FnOnce(&mut Boot, &mut Record)) -> ExitCode {
    run_guarded(undecided::disabled_reason, stage, steps)
}

/// Does the same as [`run`] with another guard, which decides whether cloud-init is enabled.
pub fn run_guarded(
    guard: undecided::Guard,
    stage: StageName,
    steps: impl FnOnce(&mut Boot, &mut Record),
) -> ExitCode {
    system::prepare_signals();
    let args = match args::from_env() {
        Ok(args) => args,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let sys = match &args.plan {
        Some(overlay) => System::dry_run(&args.root, std::path::Path::new(overlay)),
        None => System::new(&args.root),
    };
    match &args.task {
        Task::UndoNetwork => return interrupted::undo_network(&Boot::open(stage, args, sys)),
        Task::Interrupted(signal) => {
            let signal = signal.clone();
            return interrupted::record(&Boot::open(stage, args, sys), &signal);
        }
        Task::Confirm => {
            let boot = Boot::open(stage, args, sys);
            logging::open_log(&boot.sys, &boot.settings, boot.args.debug);
            boot.sys.log().discard_early();
            confirm(&boot);
            return ExitCode::SUCCESS;
        }
        Task::Boot | Task::Mode(_) | Task::Single(_) | Task::Hotplug(_) | Task::CatchUp(_) => {}
    }
    let was_undecided = identify::second_look::is_undecided(&System::new(&args.root));
    if let Some(code) = undecided::run_guard(&args, guard) {
        return code;
    }
    kernel_url::fetch_and_store(&sys, stage, &sys.kernel_command_line());
    let mut boot = Boot::open(stage, args, sys);
    let mut record = Record::new();
    begin(&boot, &mut record, was_undecided);
    steps(&mut boot, &mut record);
    let code = finish(&boot, &mut record);
    // The process ends here: see docs/small-binaries.md, "Code".
    std::mem::forget((boot, record));
    code
}

fn begin(boot: &Boot, record: &mut Record, was_undecided: bool) {
    let sys = &boot.sys;
    if boot.is_recorded() && !boot.is_plan() {
        sys.show_activities(boot.stage.status_key(), boot.layout.run(state::ACTIVITY_FILE));
    }
    sys.redirect_stdin_to_null();
    match (boot.is_plan(), boot.args.debug) {
        (false, debug) => logging::open_log(sys, &boot.settings, debug),
        // The command that plans reads it.
        (true, true) => sys.log().to_stderr(system::Level::Debug),
        (true, false) => {}
    }
    if let Task::Hotplug(_) = boot.args.task {
        // Not part of the boot: nothing is recorded, and the output goes to the caller.
        sys.log().discard_early();
        return;
    }
    if !boot.is_plan() {
        logging::redirect_output(sys, &boot.settings.merged, boot.stage.mode().as_str());
    }
    sys.log().discard_early();
    let uptime = sys.clock().uptime();
    let now = system::rfc2822(sys.clock().wall());
    let action = action(boot);
    let version = system::CLOUD_INIT_VERSION;
    let welcome = format!("Cloud-init v. {version} running '{action}' at {now}. Up {uptime:.2} seconds.");
    sys.print(&welcome);
    debug!(sys, "{welcome}");
    debug!(sys, "version: {}", system::VERSION);
    info!(sys, "PID [{}] started cloud-init '{action}'.", std::process::id());
    if boot.args.task == Task::Mode(Mode::Init) {
        system::deprecated!(
            sys,
            "`--mode init` is deprecated in 24.1 and scheduled to be removed in 29.1. Use `cloud-init init` instead."
        );
    }
    if boot.is_recorded() {
        record.begin(boot, uptime, was_undecided);
    }
    record.report_settings(boot);
    record.report_once(boot, log_findings::findings(sys, &boot.settings.system));
    record.begin_reporting(boot);
}

/// Returns the word for the task in the first line of the log.
fn action(boot: &Boot) -> &'static str {
    match (&boot.args.task, boot.stage) {
        (Task::Single(_), _) => "single",
        (Task::Mode(Mode::Init), _) => "modules:init",
        (_, StageName::Config) => "modules:config",
        (_, StageName::Final) => "modules:final",
        (_, stage) => stage.status_key(),
    }
}

/// Returns whether systemd starts another stage after this one.
fn has_successor(boot: &Boot, record: &Record) -> bool {
    let unit = match boot.stage {
        StageName::Local => "cloud-init-network.service",
        StageName::Network => "cloud-config.service",
        StageName::Config => "cloud-final.service",
        StageName::Final => return false,
    };
    // systemd(1) sets it for units: a stage that is run by hand, also one after another, has no successor.
    let is_unit = std::env::var_os("INVOCATION_ID").is_some();
    let is_over = record.status.get(StageName::Final.status_key()).finished.is_some();
    is_unit && !is_over && is_unit_enabled(boot, unit)
}

fn finish(boot: &Boot, record: &mut Record) -> ExitCode {
    let sys = &boot.sys;
    if let Err(e) = sys.restore_selinux_labels() {
        warning!(sys, "SELinux labels: {e}");
    }
    if let Task::Hotplug(_) = boot.args.task {
        return record.exit_code();
    }
    match (has_successor(boot, record), boot.stage) {
        // Logins wait for these stages.
        (true, StageName::Local | StageName::Network) => {}
        (true, StageName::Config) if start_confirming(boot) => {}
        _ => confirm(boot),
    }
    sys.log_error(Level::Warning, boot.layout.remove_leftovers(sys));
    record.end_reporting(boot);
    sys.hide_activities();
    sys.log_error(Level::Warning, sys.flush_output());
    if boot.is_recorded() {
        record.finish(boot);
        journal::send_failures(boot, &record.own);
    }
    if let Some(overlay) = &boot.args.plan
        && let Err(e) = plan::write_report(boot, record, overlay)
    {
        eprintln!("error: {overlay}: {e}");
        return ExitCode::FAILURE;
    }
    record.exit_code()
}
