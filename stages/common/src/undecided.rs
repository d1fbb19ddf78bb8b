//! Stages where the generator could not decide whether cloud-init is enabled, because devices might still appear. The
//! local stage looks again and decides; if that disables cloud-init, every later stage ends at once. Status then shows
//! "disabled" with the reason, so status.json is not written here.
//!
//! If the local stage is killed before it decides, the network stage does. If both are killed, the later stages run and
//! fail because there is no instance: "disabled" must be the result of a decision, never of a failure.

use std::process::ExitCode;

use identify::{Enablement, second_look};
use system::System;

use crate::Args;

/// Returns why cloud-init is disabled, if it is: the stage then ends before its first step.
pub type Guard = fn(&System) -> Option<String>;

/// Decides, for the local and the network stage, if the generator could not.
pub fn decide(sys: &System) -> Option<String> {
    match second_look::decide(sys) {
        Some((Enablement::Enabled, _)) => None,
        Some((_, why)) => Some(why),
        None => disabled_reason(sys),
    }
}

/// Returns, for the later stages, the decision's reason if cloud-init is disabled.
pub(crate) fn disabled_reason(sys: &System) -> Option<String> {
    if second_look::is_undecided(sys) { None } else { second_look::disabled_reason(sys) }
}

/// Runs the guard, except for manual tasks, with `--force`, and for a plan, which has run the generator itself.
pub(crate) fn run_guard(args: &Args, guard: Guard) -> Option<ExitCode> {
    if args.task.is_manual() || args.force || args.plan.is_some() {
        return None;
    }
    let why = guard(&System::new(&args.root))?;
    println!("cloud-init is disabled: {why}");
    Some(ExitCode::SUCCESS)
}
