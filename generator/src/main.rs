//! The program cloud-init-generator, which is also ds-identify; all of it is in the library.

mod arena;

#[global_allocator]
static MEMORY: arena::Arena = arena::Arena::new();

fn main() -> std::process::ExitCode {
    generator::main()
}
