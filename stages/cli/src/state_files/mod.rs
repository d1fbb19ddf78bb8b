//! `state check` reports damaged, incomplete and unreadable state of earlier boots, and state of another instance; `state
//! repair` applies the safe repairs. A repair is safe if another file of the state has the same information, or if only a
//! report of the past is lost. Everything else is left to the next boot, whose search decides.

mod checks;
mod json_files;
mod repair;
mod semaphores;

use std::process::ExitCode;

use serde_json::{Value, json};
use system::single_line;

use crate::arguments::Format;
use crate::finding::{Finding, Findings};
use crate::machine::Machine;
pub use repair::Repair;

/// The version of the JSON output.
const VERSION: u64 = 1;

/// Checks the state; changes nothing.
pub fn check(machine: &Machine) -> Findings {
    let mut checked = Findings::default();
    checks::instance(machine, &mut checked);
    json_files::check(machine, &mut checked);
    semaphores::check(machine, &mut checked);
    checks::markers(machine, &mut checked);
    checked
}

/// Prints the problems of the state.
pub fn show(machine: &Machine, format: Format) -> ExitCode {
    let checked = check(machine);
    if format == Format::Json {
        let of = |finding: &Finding| {
            let mut value = finding.json();
            value["repair"] = finding.repair.as_ref().map(|repair| repair.describe(&finding.place)).into();
            value
        };
        let findings: Vec<Value> = checked.all.iter().map(of).collect();
        let all = json!({ "version": VERSION, "findings": findings, "unread": checked.unread });
        print!("{}", state::json_text(&all, 2));
    } else {
        for finding in &checked.all {
            print!("{}", finding.text());
            if let Some(repair) = &finding.repair {
                println!("{:<8} -> state repair: {}", "", single_line(&repair.describe(&finding.place)));
            }
        }
        for what in &checked.unread {
            println!("{:<8} {}", "unread", single_line(what));
        }
        if checked.all.is_empty() && checked.unread.is_empty() {
            println!("the state is consistent");
        }
    }
    ExitCode::from(u8::from(checked.has_problem() || !checked.unread.is_empty()))
}

/// Applies the safe repairs, or prints them.
pub fn repair(machine: &Machine, is_plan: bool) -> ExitCode {
    if !is_plan && machine.sys.is_live() {
        if !Machine::is_root() {
            eprintln!("error: state repair must be run as root");
            return ExitCode::FAILURE;
        }
        if crate::status::Report::read(machine).state == crate::status::State::Running {
            eprintln!(
                "error: cloud-init is running and changes its state; repair it once the boot has ended: cloud-init status --wait"
            );
            return ExitCode::FAILURE;
        }
    }
    let checked = check(machine);
    let mut is_left = !checked.unread.is_empty();
    for finding in &checked.all {
        let Some(repair) = &finding.repair else {
            is_left |= finding.is_problem();
            print!("left     {}", &finding.text()[9..]);
            continue;
        };
        let what = repair.describe(&finding.place);
        let what = single_line(&what);
        match if is_plan { Ok(()) } else { repair.apply(machine, &finding.place) } {
            Ok(()) => {
                println!("{:<8} {what} ({})", if is_plan { "would" } else { "repaired" }, finding.problem)
            }
            Err(e) => {
                is_left = true;
                println!("{:<8} {what}: {e}", "failed");
            }
        }
    }
    for what in &checked.unread {
        println!("{:<8} {}", "unread", single_line(what));
    }
    if checked.all.is_empty() && !is_left {
        println!("nothing to repair");
    }
    ExitCode::from(u8::from(is_left))
}
