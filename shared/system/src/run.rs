//! Running programs: with a time limit, bounded output, and log lines without secrets.

use std::fs::File;
use std::io::{ErrorKind, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::command::DEFAULT_TIMEOUT;
use crate::communicate::{CapturedOutput, MAX_OUTPUT, communicate, kill_group};
use crate::http::redacted_urls;
use crate::{Command, Deadline, Effect, Error, Output, OutputMode, Result, System, debug, warning};

/// The directories that are searched for programs besides those of PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The least limit of a program that exceeded its limit before, if its own is not shorter.
// Wait: everything | a program that exceeded its limit before in the stage: a tenth of its limit, then a hundredth, but at least | -
const LEAST_LIMIT: Duration = Duration::from_secs(5);

/// How often, and after which time, a program is started again that is still open for writing.
const BUSY_RETRIES: u32 = 20;
const BUSY_DELAY: Duration = Duration::from_millis(10);

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// When it was started, by the clock of the stage.
    started: Duration,
}

impl System {
    /// Returns the path of a program below the root: a name with a slash is a path, others are searched for in PATH and the
    /// standard directories. `None` if there is no such executable file.
    pub fn which(&self, name: &str) -> Option<String> {
        let runs = |path: &str| {
            use std::os::unix::fs::PermissionsExt;
            self.metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        if name.contains('/') {
            return runs(name).then(|| name.to_string());
        }
        let from_env = if self.is_live() { std::env::var("PATH").ok() } else { None };
        let path = from_env.unwrap_or_else(|| DEFAULT_PATH.to_string());
        // A unit may set a short PATH; the standard directories are searched anyway.
        path.split(':')
            .chain(DEFAULT_PATH.split(':'))
            .filter(|dir| dir.starts_with('/'))
            .map(|dir| format!("{dir}/{name}"))
            .find(|p| runs(p))
    }

    /// Runs a program and waits for it. Below a root other than `/` it runs in a chroot(2), which requires privileges. In a
    /// dry run it is recorded, not run, unless it is [`Command::read_only`]. Captured output beyond 16 MiB is discarded,
    /// with a warning.
    ///
    /// # Errors
    /// Fails if the program does not exist or cannot be started, if it exceeds its time limit (its process group is then
    /// killed), or if its exit code is not accepted; the message then ends with the last line of its standard error, and the
    /// first one if there are many.
    pub fn run(&self, command: &Command) -> Result<Output> {
        let line = command.command_line();
        let mut ahead = self.started_ahead().borrow_mut();
        let at = ahead.iter().position(|(started, _)| *started == line);
        let running = at.map(|at| ahead.swap_remove(at).1);
        drop(ahead);
        let running = match running {
            Some(running) => running,
            None => match self.start(command, &line)? {
                Some(running) => running,
                None => {
                    self.record(Effect::Run { command: line, code: None });
                    return Ok(Output::default());
                }
            },
        };
        let Running { mut child, started } = running;
        let logged = command.logged();
        let (program, times) = self.times_hung(command);
        let limit = shortened(command.timeout, times);
        let deadline = Deadline::after(limit);
        let _activity = self.begin_activity(format!("running {}", command.short_name()));
        let captured = communicate(&mut child, &command.stdin, deadline)
            .map_err(|e| Error::io(format_args!("running {line}"), &e))?;
        let took = self.clock().elapsed() - started;
        let Some(CapturedOutput { output, is_truncated }) = captured else {
            if command.kill_on_exit {
                let _ = child.kill().and_then(|()| child.wait());
            } else {
                kill_group(&mut child);
            }
            self.record(Effect::Run { command: line.clone(), code: None });
            let mut hung = self.hung.borrow_mut();
            hung.retain(|(other, _)| *other != program);
            hung.push((program, times + 1));
            let again =
                if limit < command.timeout { "; the limit is shorter after an earlier time-out" } else { "" };
            let message = format!("running {line}: timed out after {} s{again}", limit.as_secs_f32());
            return Err(Error::with_kind(ErrorKind::TimedOut, message));
        };
        self.hung.borrow_mut().retain(|(other, _)| *other != program);
        debug!(self, "Running {logged} took {:.3} seconds, exit code {}", took.as_secs_f64(), output.code);
        if is_truncated {
            warning!(self, "running {line}: output exceeds {MAX_OUTPUT} bytes; the rest is discarded");
        }
        self.record(Effect::Run { command: line.clone(), code: Some(output.code) });
        if !command.accepted.is_empty() && !command.accepted.contains(&output.code) {
            let mut message = format!("running {line}: exit code {}", output.code);
            if !command.has_secret() {
                message.push_str(&redacted_urls(&quoted(&output.stderr)));
            }
            return Err(Error::new(message));
        }
        Ok(output)
    }

    /// Returns the program of a command and how often it exceeded its limit since it last ended. A program that hangs, such as useradd(8)
    /// for each user, would otherwise cost its whole limit each time. Programs whose output goes to the stage's do a user's work, of which
    /// each piece has the whole limit, as have scripts and programs with a long limit, such as mkfs(8).
    fn times_hung(&self, command: &Command) -> (String, u32) {
        let program = command.shown_program().into_owned();
        let times =
            self.hung.borrow().iter().find(|(other, _)| *other == program).map_or(0, |(_, times)| *times);
        let is_short = command.timeout <= DEFAULT_TIMEOUT;
        let is_counted = is_short && command.output == OutputMode::Capture && !program.contains('/');
        (program, if is_counted { times } else { 0 })
    }

    /// Starts a program for which [`System::run`] will wait: the next call with the same command line. Its output may not be
    /// longer than the kernel buffers (64 KiB), and its input has to be empty. If it cannot be started, `run` starts it again
    /// and returns the error.
    pub fn start_ahead(&self, command: &Command) {
        let line = command.command_line();
        if let Ok(Some(running)) = self.start(command, &line) {
            self.started_ahead().borrow_mut().push((line, running));
        }
    }

    /// Returns whether [`System::start_ahead`] has started the program, and nothing has waited for it yet.
    pub fn is_started_ahead(&self, command: &Command) -> bool {
        let line = command.command_line();
        self.started_ahead().borrow().iter().any(|(started, _)| *started == line)
    }

    /// Starts a program; `None` in a dry run that must not run it.
    fn start(&self, command: &Command, line: &str) -> Result<Option<Running>> {
        let Some(name) = command.arguments().next() else { return Err(Error::new("empty command line")) };
        let name = name.to_string_lossy();
        let Some(program) = self.which(command.program.as_deref().unwrap_or(&name)) else {
            if self.has_new_packages.get() && !command.read_only {
                return Ok(None);
            }
            let missing = std::io::Error::from(ErrorKind::NotFound);
            return Err(Error::io(format_args!("running {line}: {}", command.shown_program()), &missing));
        };
        if self.is_dry_run() && !command.read_only {
            return Ok(None);
        }
        let started = self.clock().elapsed();
        debug!(self, "Running command {} with {}", command.logged(), command.log_suffix());
        let child = self.spawn(command, &program).map_err(|e| match e.kind() {
            // The program itself was found above.
            ErrorKind::NotFound => {
                Error::new(format!("running {line}: interpreter or working directory not found"))
            }
            _ => Error::io(format_args!("running {line}"), &e),
        })?;
        Ok(Some(Running { child, started }))
    }

    /// Starts a program that outlives this process, in a session of its own and with this process's output or none, and
    /// does not wait for it. Below a root other than `/`, and in a dry run, it is recorded and not started.
    ///
    /// # Errors
    /// Fails if the program does not exist or cannot be started.
    #[allow(unsafe_code)]
    pub fn spawn_detached(&self, command: &Command) -> Result<()> {
        let line = command.command_line();
        let Some(name) = command.arguments().next() else { return Err(Error::new("empty command line")) };
        self.record(Effect::Other { what: format!("start {line}") });
        if !self.may_set_kernel() {
            return Ok(());
        }
        let what = format!("starting {line}");
        let Some(program) = self.which(&name.to_string_lossy()) else {
            return Err(Error::io(what, &ErrorKind::NotFound.into()));
        };
        debug!(self, "Starting in the background: {line}");
        let mut run = std::process::Command::new(program);
        run.arg0(name).args(command.arguments().skip(1)).current_dir("/").stdin(Stdio::null());
        if matches!(command.output, OutputMode::Null) {
            run.stdout(Stdio::null()).stderr(Stdio::null());
        }
        run.envs(command.env.iter().map(|(k, v)| (k, v)));
        if std::env::var_os("PATH").is_none() {
            run.env("PATH", DEFAULT_PATH);
        }
        // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe.
        unsafe {
            run.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
        }
        spawn_written(&mut run).map(drop).map_err(|e| Error::io(what, &e))
    }

    fn spawn(&self, command: &Command, program: &str) -> std::io::Result<Child> {
        let output = || {
            Ok::<_, std::io::Error>(match command.output {
                OutputMode::Capture => Stdio::piped(),
                OutputMode::Inherit => self.stage_stream()?,
                OutputMode::Null => Stdio::null(),
            })
        };
        let mut run = std::process::Command::new(program);
        let mut arguments = command.arguments();
        arguments.next().map(|name| run.arg0(name));
        run.args(arguments)
            .stdin(match command {
                Command { inherit_stdin: true, .. } => Stdio::inherit(),
                Command { stdin_is_file: true, .. } => unnamed_file(&command.stdin)?.into(),
                _ if command.stdin.is_empty() => Stdio::null(),
                _ => Stdio::piped(),
            })
            .stdout(output()?)
            .stderr(output()?);
        if std::env::var_os("PATH").is_none() || !self.is_live() {
            run.env("PATH", DEFAULT_PATH);
        }
        run.envs(command.env.iter().map(|(k, v)| (k, v)));
        if command.kill_on_exit {
            kill_with_parent(&mut run);
        } else {
            run.process_group(0);
        }
        if self.is_live() {
            run.current_dir(command.directory.as_deref().unwrap_or("/"));
        } else {
            chroot_child(&mut run, self.root().as_path(), command.directory.as_deref().unwrap_or("/"));
        }
        spawn_written(&mut run)
    }
}

/// Returns the limit of a program that exceeded it so many times before.
fn shortened(limit: Duration, times: u32) -> Duration {
    (limit / 10_u32.saturating_pow(times)).max(LEAST_LIMIT.min(limit))
}

/// Returns a file in memory with this content.
fn unnamed_file(content: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// Starts a program. A script that was written a moment ago may still be open in a process that another one forked and that has
/// not called exec(2) yet; the kernel refuses to execute it until then.
fn spawn_written(run: &mut std::process::Command) -> std::io::Result<Child> {
    for _ in 0..BUSY_RETRIES {
        match run.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_DELAY),
            result => return result,
        }
    }
    run.spawn()
}

/// Has the kernel terminate the command when the thread that starts it (the only one of this process) exits, and unblocks
/// the signals that are blocked in this process.
#[allow(unsafe_code)]
fn kill_with_parent(run: &mut std::process::Command) {
    use nix::sys::signal::{SigSet, Signal};
    // SAFETY: between fork and exec only prctl(2) and pthread_sigmask(3) are called, both async-signal-safe.
    unsafe {
        run.pre_exec(|| {
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            Ok(SigSet::empty().thread_set_mask()?)
        });
    }
}

/// Runs the command with `root` as its root directory.
#[allow(unsafe_code)]
pub(crate) fn chroot_child(run: &mut std::process::Command, root: &Path, directory: &str) {
    let (root, directory) = (root.to_path_buf(), directory.to_string());
    // SAFETY: between fork and exec only chroot(2) and chdir(2) are called, both async-signal-safe; the
    // paths are owned by the closure, and turning them into C strings uses the stack (they are short).
    unsafe {
        run.pre_exec(move || {
            nix::unistd::chroot(&root)?;
            nix::unistd::chdir(directory.as_str())?;
            Ok(())
        });
    }
}

/// The bytes at the begin and at the end of standard error from which a line is quoted.
const QUOTED: usize = 1024;

/// Returns the last line of a program's standard error that names an error, else the last one with words, in brackets, after a space;
/// empty if there is none. The last line of mount(8) only refers to the kernel's log. Before it is the first line of a longer
/// output: what follows may repeat another problem without end.
fn quoted(stderr: &[u8]) -> String {
    let has_words = |line: &&str| line.contains(char::is_alphanumeric);
    let text = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(QUOTED)..]);
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.starts_with("dmesg(1) may have"));
    let last = lines().find(|l| l.contains("rror:")).or_else(|| lines().find(has_words));
    let begin = if stderr.len() > QUOTED * 2 { &stderr[..QUOTED] } else { &[] };
    let begin = String::from_utf8_lossy(begin);
    let first = begin.lines().map(str::trim).find(has_words);
    match (first, last) {
        (Some(first), Some(last)) if first != last => format!(" ({first} … {last})"),
        (Some(line), _) | (None, Some(line)) => format!(" ({line})"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_truncated_with_a_warning() {
        let sys = System::new("/");
        let head = |bytes: usize| Command::new(["head", "-c", &bytes.to_string(), "/dev/zero"]);
        assert_eq!(sys.run(&head(MAX_OUTPUT)).unwrap().stdout.len(), MAX_OUTPUT);
        assert!(sys.log().logged_warnings().is_empty());
        assert_eq!(sys.run(&head(MAX_OUTPUT + 1)).unwrap().stdout.len(), MAX_OUTPUT);
        let warnings = sys.log().logged_warnings();
        assert!(
            warnings.len() == 1 && warnings[0].1.contains("output exceeds 16777216 bytes"),
            "{warnings:?}"
        );
    }

    #[test]
    fn the_line_that_names_an_error_is_quoted() {
        for (text, expected) in [
            ("", ""),
            ("one\ntwo\n----\n\n", " (two)"),
            ("x: Error: no such locale\nANSI_X3.4-1968\n", " (x: Error: no such locale)"),
            (
                "mount: /m: bad option; need a helper program.\n       dmesg(1) may have more information after failed mount system call.\n",
                " (mount: /m: bad option; need a helper program.)",
            ),
        ] {
            assert_eq!(quoted(text.as_bytes()), expected);
        }
    }

    #[test]
    fn the_first_line_of_a_flood_is_quoted_with_the_last_one() {
        let sys = System::new("/");
        let error = |then: &str| {
            let script = format!("echo 'no space left' >&2; {then}; echo last >&2; exit 1");
            sys.run(&Command::new(["sh", "-c", &script])).unwrap_err().to_string()
        };
        // More than is captured, few lines, and a line without an end.
        let text = error("yes again and again | head -c 17000000 >&2");
        assert!(text.ends_with("exit code 1 (no space left … last)"), "{text}");
        let text = error("seq 100 >&2");
        assert!(text.ends_with("exit code 1 (last)"), "{text}");
        let text = error("head -c 20000000 /dev/zero | tr '\\0' x >&2");
        assert!(text.contains("(no space left … x") && text.len() < 1500, "{text}");
        let sentence = quoted(&[b'x'; 5000]);
        assert!(sentence.len() < 3 * QUOTED, "{sentence}");
    }

    #[test]
    fn a_program_that_hangs_has_a_shorter_limit_until_it_ends() {
        let second = Duration::from_secs(1);
        for (limit, times, expected) in
            [(60, 0, 60), (60, 1, 6), (60, 2, 5), (60, 99, 5), (300, 1, 30), (3, 1, 3)]
        {
            assert_eq!(shortened(second * limit, times), second * expected, "{limit} {times}");
        }
        let sys = System::new("/");
        let wait = |program: &str, seconds: &str| {
            let result = sys.run(&Command::new([program, seconds]).timeout(second / 10));
            result.map_err(|e| assert_eq!(e.kind(), Some(ErrorKind::TimedOut), "{e}")).is_ok()
        };
        let times = |program: &str| sys.times_hung(&Command::new([program, "1"])).1;
        assert!(!wait("sleep", "9") && !wait("sleep", "9"));
        assert_eq!((times("sleep"), times("sh")), (2, 0));
        // Each script of a user has its whole limit.
        let script = Command::new(["sleep", "1"]).output(OutputMode::Inherit);
        assert_eq!(sys.times_hung(&script).1, 0);
        assert!(!wait("/bin/sleep", "9"));
        assert_eq!(times("/bin/sleep"), 0);
        assert!(wait("sleep", "0"));
        assert_eq!(times("sleep"), 0);
    }

    #[test]
    fn a_program_that_is_still_open_for_writing() {
        use std::os::unix::fs::OpenOptionsExt;
        let dir = scratch::TempDir::new();
        let path = dir.join("program");
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"#!/bin/sh\necho done\n").unwrap();
        let command = Command::new([path.to_str().unwrap()]);
        let error = System::new("/").run(&command).unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::ExecutableFileBusy), "{error}");
        let closed_later = std::thread::spawn(move || {
            std::thread::sleep(BUSY_DELAY * 3);
            drop(file);
        });
        assert_eq!(System::new("/").run(&command).unwrap().stdout, b"done\n");
        closed_later.join().unwrap();
    }

    #[test]
    fn a_program_that_is_started_ahead_runs_once() {
        let dir = scratch::TempDir::new();
        let file = dir.join("ran");
        let sys = System::new("/");
        let command = Command::new(["sh", "-c", "echo ran >>$0; echo out", file.to_str().unwrap()]);
        sys.start_ahead(&command);
        assert!(sys.is_started_ahead(&command) && !sys.is_started_ahead(&Command::new(["sh"])));
        // It runs before anything waits for it.
        scratch::wait_until(|| file.exists());
        assert_eq!(sys.run(&command).unwrap().stdout, b"out\n");
        assert!(!sys.is_started_ahead(&command));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n");
        assert_eq!(sys.run(&command).unwrap().stdout, b"out\n");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\nran\n");
        // A program that fails, does not exist or is only planned.
        let failing = Command::new(["sh", "-c", "echo why >&2; exit 3"]);
        sys.start_ahead(&failing);
        let error = sys.run(&failing).unwrap_err().to_string();
        assert!(error.ends_with("exit code 3 (why)"), "{error}");
        let missing = Command::new(["no-such-program"]);
        sys.start_ahead(&missing);
        assert!(!sys.is_started_ahead(&missing));
        assert!(sys.run(&missing).unwrap_err().is_not_found());
        let planned = System::dry_run("/", &dir.join("overlay"));
        planned.start_ahead(&command);
        assert!(!planned.is_started_ahead(&command));
        planned.run(&command).unwrap();
        assert_eq!(planned.effects().len(), 1);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\nran\n");
    }

    #[test]
    fn an_empty_command_line_is_an_error() {
        let error = System::new("/").run(&Command::new([] as [&str; 0])).unwrap_err();
        assert_eq!(error.to_string(), "empty command line");
    }
}
