//! The program cloud-init-generator, which is also ds-identify. Everything but the choice between them is in the crate
//! `identify`.

use std::process::ExitCode;

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory::empty();

const USAGE: &str = "\
usage: cloud-init-generator DIRECTORY [DIRECTORY DIRECTORY]    as systemd starts it: enables or disables cloud-init
       ds-identify [--force] [COMMAND-LINE-WORD...]            identifies the cloud, writes the result to /run/cloud-init
       cloud-init-generator --explain [--root DIR] [--json]    explains the decision, writes nothing";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    match name.rsplit('/').next() {
        _ if arguments.iter().any(|word| word == "-h" || word == "--help") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ if arguments.first().is_some_and(|first| first == "--explain") => {
            identify::explain(&arguments[1..])
        }
        Some("ds-identify") => identify::ds_identify(&arguments),
        _ => identify::generate(&arguments),
    }
}
