//! `state check` reports damaged, incomplete and unreadable state of earlier boots, and state of another instance; `state
//! repair` applies the safe repairs. A repair is safe if another file of the state has the same information, or if only a
//! report of the past is lost. Everything else is left to the next boot, whose search decides.

mod checked;
mod checks;
mod json_files;
mod semaphores;

use std::process::ExitCode;

use system::single_line;

use crate::arguments::Format;
use crate::finding::has_problem;
use crate::machine::Machine;
use checked::Checked;

/// Checks the state; changes nothing.
pub fn check(machine: &Machine) -> Checked {
    let mut checked = Checked::default();
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
        print!("{}", state::json_text(&checked.json(), 2));
    } else {
        for (finding, repair) in &checked.findings {
            print!("{}", finding.text());
            if let Some(repair) = repair {
                println!("{:<8} -> state repair: {}", "", single_line(&repair.describe()));
            }
        }
        for what in &checked.unread {
            println!("{:<8} {}", "unread", single_line(what));
        }
        if checked.findings.is_empty() && checked.unread.is_empty() {
            println!("the state is consistent");
        }
    }
    let is_bad =
        has_problem(checked.findings.iter().map(|(finding, _)| finding)) || !checked.unread.is_empty();
    ExitCode::from(u8::from(is_bad))
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
                "error: cloud-init is running and changes its state; wait with: cloud-init status --wait"
            );
            return ExitCode::FAILURE;
        }
    }
    let checked = check(machine);
    let mut is_left = !checked.unread.is_empty();
    for (finding, repair) in &checked.findings {
        let Some(repair) = repair else {
            is_left |= has_problem([finding]);
            print!("left     {}", &finding.text()[9..]);
            continue;
        };
        let what = repair.describe();
        let what = single_line(&what);
        match if is_plan { Ok(()) } else { repair.apply(machine) } {
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
    if checked.findings.is_empty() && !is_left {
        println!("nothing to repair");
    }
    ExitCode::from(u8::from(is_left))
}
