//! The program cloud-init-generator, which is also ds-identify; all of it is in the library.

#[global_allocator]
static MEMORY: heap::Heap = heap::Heap::new();

fn main() -> std::process::ExitCode {
    generator::main()
}
