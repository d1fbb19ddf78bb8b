//! The program cloud-init-generator, which is also ds-identify; all of it is in the library.

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> std::process::ExitCode {
    generator::main()
}
