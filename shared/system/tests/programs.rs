//! Programs that cannot be started, and the error messages.

use system::{Command, System, WriteOptions};

#[test]
fn a_missing_interpreter_is_reported() {
    let top = scratch::TempDir::new();
    let sys = System::new("/");
    let script = top.join("script").display().to_string();
    assert!(sys.write(&script, "#!/nowhere/shell\n", WriteOptions::mode(0o755)).is_ok());
    for (program, expected) in [
        (&*script, "interpreter or working directory not found"),
        ("/nowhere/program", "/nowhere/program: not found"),
        ("no-program-of-this-name", "no-program-of-this-name: not found"),
    ] {
        let error = sys.run(&Command::new([program])).map_err(|e| e.to_string()).err().unwrap_or_default();
        assert!(error.starts_with(&format!("running {program}")) && error.contains(expected), "{error}");
    }
}
