//! The program cloud-init-generator, which is also ds-identify; all of it is in the library.

fn main() -> std::process::ExitCode {
    generator::main()
}
