//! The program cloud-init-generator, which is also ds-identify. Everything but the choice between them is in the crate
//! `identify`.

use std::process::ExitCode;

/// Replaces musl's allocator, which returns memory to the kernel and requests it again for every few hundred values: a
/// third of the run time of a program that lives for milliseconds.
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    match name.rsplit('/').next() {
        _ if arguments.first().is_some_and(|first| first == "--explain") => {
            identify::explain(&arguments[1..])
        }
        Some("ds-identify") => identify::ds_identify(&arguments),
        _ => identify::generate(&arguments),
    }
}
