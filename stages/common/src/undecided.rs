//! What a stage does before everything else when the generator could not decide yet: the local stage looks
//! again and decides, and every later one ends at once when it decided against cloud-init. Status then says
//! "disabled", with the reason, so nothing here touches status.json.
//!
//! A local stage that was killed leaves the note: the network stage decides then. With both killed the others begin
//! all the same, and fail for want of an instance: an operator has to see that something went wrong, and must never
//! be told "disabled" because nobody looked.

use std::process::ExitCode;

use identify::{Enablement, second_look};
use system::System;

use crate::Args;

/// Whether a stage is to end before it begins; the line says why.
pub type Guard = fn(&System) -> Option<String>;

/// The local stage's, and the network stage's after a local stage that was killed: decides where the generator
/// could not.
pub fn decide(sys: &System) -> Option<String> {
    match second_look::decide(sys) {
        Some((Enablement::Enabled, _)) => None,
        Some((_, why)) => Some(why),
        None => disabled_reason(sys),
    }
}

/// Of the stages after them.
pub(crate) fn disabled_reason(sys: &System) -> Option<String> {
    if second_look::is_undecided(sys) { None } else { second_look::disabled_reason(sys) }
}

/// Asks the guard, unless one module or list is run by hand, or all in spite of everything. A plan has asked the
/// generator itself.
pub(crate) fn run_guard(args: &Args, guard: Guard) -> Option<ExitCode> {
    let by_hand = args.single.is_some() || args.mode.is_some() || args.hotplug.is_some();
    if by_hand || args.force || args.plan.is_some() {
        return None;
    }
    let why = guard(&System::new(&args.root))?;
    println!("cloud-init is disabled: {why}");
    Some(ExitCode::SUCCESS)
}
