//! The program cloud-init-generator, which is also ds-identify; all of it is in the library.

/// Not the C library's: musl's maps and unmaps pages for every few hundred values, a third of what a program costs that
/// lives for milliseconds.
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> std::process::ExitCode {
    generator::main()
}
