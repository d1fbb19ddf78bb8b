//! What a stage does before everything else when the generator could not decide yet: the local stage looks
//! again and decides, and every later one ends at once when it decided against cloud-init. Status then says
//! "disabled", with the reason, so nothing here touches status.json.

use std::process::ExitCode;

use generator::{Decision, undecided};
use system::System;

use crate::Args;

/// Whether a stage is to end before it begins; the line says why.
pub type Gate = fn(&System) -> Option<String>;

/// The local stage's: decides where the generator could not.
pub fn decide(sys: &System) -> Option<String> {
    let (decision, why) = undecided::decide(sys)?;
    (decision != Decision::Enable).then_some(why)
}

/// Of the stages after it.
pub fn ended(sys: &System) -> Option<String> {
    undecided::ended(sys)
}

/// Asks the gate, unless one module or list is run by hand, or all in spite of everything.
pub(crate) fn closed(args: &Args, gate: Gate) -> Option<ExitCode> {
    if args.single.is_some() || args.mode.is_some() || args.force {
        return None;
    }
    let why = gate(&crate::plan::door(&args.root, args.plan.as_deref()))?;
    println!("cloud-init is disabled: {why}");
    Some(ExitCode::SUCCESS)
}
