//! The commands of an operator: `cloud-init`, and by their names `cloud-id` and `cloud-init-per`. Stages are separate
//! programs, which this one starts.

mod analyze;
mod ancestors;
mod arguments;
mod clean;
mod cloud_id;
mod collect_logs;
mod devel;
mod doctor;
mod explain;
mod finding;
mod machine;
mod net_convert;
mod per;
mod plan;
mod query;
mod schema;
mod stage_table;
mod stages;
mod state_files;
mod status;
mod units;

use std::process::ExitCode;

use arguments::{Command, Parsed, USAGE};
use machine::Machine;

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

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
    system::block_file_size_signal();
    match arguments::parse(&called, words) {
        Parsed::Run { global, command, warnings } => {
            for warning in warnings {
                eprintln!("warning: {warning}");
            }
            let machine = Machine::open(&global);
            if depends_on_settings(&command) {
                machine.report_ignored_files();
            }
            match command {
                Command::Init(args) => stages::init(&global, &args),
                Command::Modules(args) => stages::modules(&global, &args),
                Command::Single(args) => stages::single(&global, &args),
                Command::Status(args) => status::run(&machine, &args),
                Command::Query(args) if args.identify => stages::identify(&global, args.format.as_deref()),
                Command::Query(args) if args.explain.is_some() => {
                    explain::run(&machine, args.explain.as_deref())
                }
                Command::Query(args) => query::run(&machine, &args),
                Command::Analyze(command, files) => analyze::run(&machine, &command, &files),
                Command::CollectLogs(args) => collect_logs::run(&machine, &args),
                Command::Clean(args) => clean::run(&machine, &global, &args),
                Command::Plan(args) => plan::run(&machine, &global, &args),
                Command::Doctor(args) => doctor::run(&machine, &global, &args),
                Command::StateCheck(format) => state_files::show(&machine, format),
                Command::StateRepair { plan } => state_files::repair(&machine, plan),
                Command::Apply(args) => plan::apply(&machine, &global, &args),
                Command::CloudId(args) => cloud_id::run(&machine, &args),
                Command::Schema(args) => schema::run(&machine, &args),
                Command::Features => {
                    println!("NETWORK_CONFIG_V1\nNETWORK_CONFIG_V2");
                    ExitCode::SUCCESS
                }
                Command::MakeMime(args) => devel::make_mime(&machine, &args),
                Command::NetConvert(args) => net_convert::run(&machine, &args),
                Command::Render(args) => devel::render(&machine, &args),
                Command::Hotplug(task) => stages::hotplug(&global, &task),
                // Removed upstream in 22.x; old DHCP hooks still call it.
                Command::DhclientHook => ExitCode::SUCCESS,
            }
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

/// Returns whether a command only uses the settings. The stages, `doctor`, `schema`, `plan` and the like report what is wrong
/// with them.
fn depends_on_settings(command: &Command) -> bool {
    match command {
        Command::Query(args) => !args.identify && args.explain.is_none(),
        Command::Status(_) | Command::CollectLogs(_) | Command::Clean(_) | Command::CloudId(_) => true,
        _ => false,
    }
}

/// Returns the exit code of a command; an error is printed behind `prefix`.
fn exit_code<E: std::fmt::Display>(prefix: &str, done: Result<(), E>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{prefix}{e}");
            ExitCode::FAILURE
        }
    }
}
