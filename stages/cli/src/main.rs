//! The commands of an operator: `cloud-init`, and by their names `cloud-id` and `cloud-init-per`. Stages are separate
//! programs, which this one starts.

#[macro_use]
mod terminal;

mod analyze;
mod arguments;
mod book;
mod clean;
mod cloud_id;
mod collect_logs;
mod devel;
mod doctor;
mod exit;
mod explain;
mod finding;
mod json;
mod machine;
mod net_convert;
mod per;
mod plan;
mod query;
mod report;
mod schema;
mod stage_processes;
mod stage_table;
mod stages;
mod state_files;
mod status;
mod trial;
mod units;

use std::process::ExitCode;

use arguments::{Argument, Arguments, Choice, GlobalOptions, Matches, Parsed, USAGE};
use machine::Machine;

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory::empty();

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default().to_string_lossy().into_owned();
    let name = called.rsplit('/').next().unwrap_or_default();
    let words: Vec<String> = match words.map(std::ffi::OsString::into_string).collect() {
        Ok(words) => words,
        Err(word) => {
            eprintln!("error: argument {}: not valid UTF-8", word.to_string_lossy());
            return ExitCode::from(USAGE);
        }
    };
    if name == "cloud-init-per" || name == "cloud-init-run-module" {
        return per::run(&words);
    }
    system::restore_default_sigpipe();
    system::prepare_signals();
    match arguments::parse(&called, words) {
        Parsed::Run { global, command, warnings } => {
            for warning in warnings {
                eprintln!("warning: {warning}");
            }
            run(&global, &command.path(), command.last()).unwrap_or(ExitCode::from(USAGE))
        }
        Parsed::Print(text) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Parsed::UsageError(message, help) => {
            eprintln!("error: {message}\n\n{}", help.trim_end());
            ExitCode::from(USAGE)
        }
    }
}

/// Runs the command of this path in the option table. `None` for one that only the table has.
fn run(global: &GlobalOptions, path: &[&str], args: &Matches) -> Option<ExitCode> {
    let machine = &Machine::open(global);
    // For commands that only use the settings. The stages, `doctor`, `schema`, `plan` and the like report what is wrong with them.
    let with_warnings = || {
        machine.report_ignored_files();
        machine
    };
    Some(match path {
        ["init"] => stages::init(global, &Arguments::read(args)?),
        ["modules"] => stages::modules(global, &Arguments::read(args)?),
        ["single"] => stages::single(global, &Arguments::read(args)?),
        ["status"] => status::run(with_warnings(), &Arguments::read(args)?),
        ["query"] if args.flag("identify") => stages::identify(global, args.value("format").as_deref()),
        ["query"] if args.flag("explain") => explain::run(machine, args.value("explain").as_deref()),
        ["query"] => query::run(with_warnings(), &Arguments::read(args)?),
        ["analyze", what] => {
            let format = if *what == "show" { args.value("format") } else { None };
            let analysis = Choice::from_word(what)?;
            analyze::run(machine, analysis, &Arguments::read(args)?, format.as_deref())
        }
        ["collect-logs"] => collect_logs::run(with_warnings(), &Arguments::read(args)?),
        ["clean"] => clean::run(with_warnings(), global, &Arguments::read(args)?),
        ["plan"] => plan::run(machine, global, &Arguments::read(args)?),
        ["doctor"] => doctor::run(machine, global, &Arguments::read(args)?),
        ["report"] => report::run(machine, global, &Arguments::read(args)?),
        ["state", "check"] => state_files::show(machine, Argument::read(args, "format")?),
        ["state", "repair"] => state_files::repair(machine, args.flag("plan")),
        ["apply"] => plan::apply(machine, global, &Arguments::read(args)?),
        ["cloud-id"] => cloud_id::run(with_warnings(), &Arguments::read(args)?),
        ["schema"] | ["devel", "schema"] => {
            let args = Arguments::read(args)?;
            explain::of_schema(machine, &args).unwrap_or_else(|| schema::run(machine, &args))
        }
        ["explain"] => explain::key(machine, &Arguments::read(args)?),
        ["try"] => trial::run(machine, global, &Arguments::read(args)?),
        ["features"] => {
            println!("NETWORK_CONFIG_V1\nNETWORK_CONFIG_V2");
            ExitCode::SUCCESS
        }
        ["devel", "make-mime"] => devel::make_mime(machine, &Arguments::read(args)?),
        ["devel", "net-convert"] => net_convert::run(machine, &Arguments::read(args)?),
        ["devel", "render"] => devel::render(machine, &Arguments::read(args)?),
        ["devel", "hotplug-hook", "handle"] => stages::handle_hotplug(global, &Arguments::read(args)?),
        ["devel", "hotplug-hook", task] => stages::hotplug(global, &[&format!("--hotplug-{task}")]),
        // Removed upstream in 22.x; old DHCP hooks still call it.
        ["dhclient-hook"] => ExitCode::SUCCESS,
        _ => return None,
    })
}
