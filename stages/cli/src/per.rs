//! `cloud-init-per FREQUENCY NAME COMMAND…`: runs a command at most once, from bootcmd and the like.

use std::process::ExitCode;
use std::time::Duration;

use state::Layout;
use system::{Command, OutputMode, Result, System, WriteOptions};

const USAGE: &str = "usage: cloud-init-per [--root DIR] FREQUENCY NAME COMMAND [ARGUMENT...]

Run COMMAND unless it already ran under NAME. FREQUENCY is once (on this system),
instance (for this instance) or always. With --root, run it in the image in DIR.";

/// One day, as the caller has a deadline of its own.
// Wait: cloud-init-per | its command | -
const TIMEOUT: Duration = Duration::from_secs(86400);

pub fn run(words: &[String]) -> ExitCode {
    if words.first().is_some_and(|w| w == "-h" || w == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let (root, words) = match words {
        [option, root, rest @ ..] if option == "--root" => (root.as_str(), rest),
        words => ("/", words),
    };
    let [frequency, name, rest @ ..] = words else { return usage() };
    // cloud-init-run-module had a word between name and command.
    let command = match rest {
        [execute, rest @ ..] if execute == "execute" && !rest.is_empty() => rest,
        rest => rest,
    };
    if command.is_empty() {
        return usage();
    }
    if !matches!(frequency.as_str(), "once" | "instance" | "always") {
        usage();
        return fail(&format!("invalid frequency: {frequency}"));
    }
    if name.contains('/') {
        return fail("name cannot contain a /");
    }
    if !crate::machine::Machine::is_root() {
        return fail("must be root");
    }
    match crate::arguments::resolve_root(root)
        .and_then(|root| run_once(&System::new(root), frequency, name, command).map_err(|e| e.to_string()))
    {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(message) => fail(&message),
    }
}

/// Runs a command unless its semaphore exists. Returns its exit code.
fn run_once(sys: &System, frequency: &str, name: &str, command: &[String]) -> Result<i32> {
    let layout = Layout::default();
    let directory =
        if frequency == "instance" { layout.instance_semaphores() } else { layout.machine_semaphores() };
    let semaphore = |name: &str| format!("{directory}/bootper.{name}.{frequency}");
    let marker = semaphore(&name.replace('-', "_"));
    // Older releases kept the dashes of the name, and a caller may write the same name either way.
    for legacy in [semaphore(name), semaphore(&name.replace('_', "-"))] {
        if legacy != marker && sys.exists(&legacy) && !sys.exists(&marker) {
            sys.rename(&legacy, &marker)?;
        }
    }
    if frequency != "always" && sys.exists(&marker) {
        return Ok(0);
    }
    let mut run = shell_command(command);
    // The caller's working directory does not exist in an image.
    if sys.is_live()
        && let Ok(here) = std::env::current_dir()
    {
        run = run.current_dir(&here.to_string_lossy());
    }
    let code = match sys.run(&run) {
        Ok(output) => output.code,
        Err(e) => {
            eprintln!("{e}");
            127
        }
    };
    // The command is not repeated once the semaphore exists.
    if let Err(e) = sys.flush_file_systems(&directory) {
        eprintln!("{e}");
    }
    let text = format!("{code}\t{}\n", sys.clock().wall().as_secs());
    sys.write(&marker, text, WriteOptions::default())?;
    Ok(code)
}

/// Returns the command as a shell runs it: it may be a builtin (`.`, `eval`) or a script without `#!`, and a program that is
/// missing or not executable gives 127 or 126. It reads the caller's input, and stays in the caller's process group, so that
/// it reads a terminal and ends with the caller.
fn shell_command(words: &[String]) -> Command {
    let shell = ["sh", "-c", "\"$@\"", "cloud-init-per"];
    let words = shell.into_iter().chain(words.iter().map(String::as_str));
    Command::new(words)
        .output(OutputMode::Inherit)
        .inherit_stdin()
        .kill_on_exit()
        .accept_all()
        .timeout(TIMEOUT)
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::FAILURE
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
