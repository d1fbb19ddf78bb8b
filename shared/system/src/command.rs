//! Other programs: started with an argument vector, never through a shell unless a user wrote a shell
//! line; bounded in time and output; logged as one would type them, without their secrets.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use encoding::python::put_repr;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Deadline, Effect, Error, Result, System, debug};

/// For what is not a user's script: longer means broken.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Of each captured stream; the rest is read and dropped.
const MAX_OUTPUT: usize = 16 << 20;
/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a program's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Returned in [`Output`].
    Capture,
    /// To wherever the stage's own output goes (journal, console, cloud-init-output.log).
    Inherit,
    Null,
}

/// A program to run: argument vector, and what is not the default.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<OsString>,
    env: Vec<(String, OsString)>,
    stdin: Vec<u8>,
    directory: Option<String>,
    timeout: Duration,
    output: OutputMode,
    accepted: Vec<i32>,
    read_only: bool,
    redacted: Option<String>,
    program: Option<String>,
    kill_on_exit: bool,
}

/// How a program ended, and what it printed when that was captured.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// The exit code; 128 + N when signal N ended it, as shells count.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Output {
    /// The captured standard output; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Command {
    /// `argv[0]` with a slash is a path, else it is looked for on PATH.
    pub fn new<I, S>(argv: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        Command {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            stdin: Vec::new(),
            directory: None,
            timeout: DEFAULT_TIMEOUT,
            output: OutputMode::Capture,
            accepted: vec![0],
            read_only: false,
            redacted: None,
            program: None,
            kill_on_exit: false,
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Command {
        self.argv.push(arg.into());
        self
    }

    /// A variable that is added to the environment, which is otherwise this program's own. NUL bytes, which an environment
    /// cannot hold, are left out of its value.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Command {
        let mut value = value.into().into_vec();
        value.retain(|byte| *byte != 0);
        self.env.push((name.to_string(), OsString::from_vec(value)));
        self
    }

    /// Given on standard input (which is empty otherwise): the place for secrets.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Command {
        self.stdin = bytes.into();
        self
    }

    /// The working directory, a path below the root; `/` without it.
    pub fn current_dir(mut self, path: &str) -> Command {
        self.directory = Some(path.to_string());
        self
    }

    /// How long it may take; five minutes without it.
    pub fn timeout(mut self, time: Duration) -> Command {
        self.timeout = time;
        self
    }

    /// Where its output goes; captured without it.
    pub fn output(mut self, output: OutputMode) -> Command {
        self.output = output;
        self
    }

    /// Exit codes that are no error, 0 among them only if it is named.
    pub fn accept(mut self, codes: &[i32]) -> Command {
        self.accepted = codes.to_vec();
        self
    }

    /// Any exit code is an answer.
    pub fn accept_all(mut self) -> Command {
        self.accepted.clear();
        self
    }

    /// It changes nothing: a plan runs it, too.
    pub fn read_only(mut self) -> Command {
        self.read_only = true;
        self
    }

    /// What is started, where `argv[0]` is only the name that it is called by.
    pub fn program(mut self, path: impl Into<String>) -> Command {
        self.program = Some(path.into());
        self
    }

    /// It ends when this process does, and when somebody presses Ctrl-C: it is of this process' group, not of its own.
    pub fn kill_on_exit(mut self) -> Command {
        self.kill_on_exit = true;
        self
    }

    /// What logs and errors show instead of the arguments, for a command line that holds a secret. The
    /// program's error output is then kept out of messages too.
    pub fn redacted(mut self, text: impl Into<String>) -> Command {
        self.redacted = Some(text.into());
        self
    }

    /// The argument vector as upstream logs it, which logs are searched for: `['ls', '-l']`.
    fn logged(&self) -> String {
        if let Some(redacted) = &self.redacted {
            return redacted.clone();
        }
        let mut text = String::from("[");
        for (i, word) in self.argv.iter().enumerate() {
            text.push_str(if i > 0 { ", " } else { "" });
            put_repr(&word.to_string_lossy(), &mut text);
        }
        text + "]"
    }

    /// What upstream logs behind the command.
    fn log_suffix(&self) -> String {
        let codes = match &self.accepted[..] {
            [] => "any".to_string(),
            codes => format!("{codes:?}"),
        };
        let capture = if self.output == OutputMode::Capture { "True" } else { "False" };
        format!("allowed return codes {codes} (shell=False, capture={capture})")
    }

    /// As one would type it.
    pub fn command_line(&self) -> String {
        if let Some(redacted) = &self.redacted {
            return redacted.clone();
        }
        let words = self.argv.iter().map(|a| shell_quote(&a.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl System {
    /// Where a program is on the machine, as a path below its root.
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
        // Units may start us with a short PATH; the administrator's programs are looked for all the same.
        path.split(':')
            .chain(DEFAULT_PATH.split(':'))
            .filter(|dir| dir.starts_with('/'))
            .map(|dir| format!("{dir}/{name}"))
            .find(|p| runs(p))
    }

    /// Runs a program to its end. An error when it is not there, when it ran out of time (its whole process
    /// group is then ended) and when its exit code is not accepted; the message has the end of its error
    /// output. Below a root of its own the program runs chrooted there, which takes privileges.
    pub fn run(&self, command: &Command) -> Result<Output> {
        let line = command.command_line();
        let Some(name) = command.argv.first() else { return Err(Error::new("running nothing")) };
        let name = name.to_string_lossy();
        let Some(program) = self.which(command.program.as_deref().unwrap_or(&name)) else {
            let missing = std::io::Error::from(ErrorKind::NotFound);
            return Err(Error::io(format_args!("running {line}: {name}"), &missing));
        };
        if self.is_dry_run() && !command.read_only {
            self.record(Effect::Run { command: line, code: None });
            return Ok(Output::default());
        }
        let begun = self.clock().elapsed();
        let logged = command.logged();
        debug!(self, "Running command {logged} with {}", command.log_suffix());
        let mut child = self.spawn(command, &program).map_err(|e| match e.kind() {
            // The program itself was found above.
            ErrorKind::NotFound => {
                Error::new(format!("running {line}: the interpreter or directory that it needs is not there"))
            }
            _ => Error::io(format_args!("running {line}"), &e),
        })?;
        let deadline = Deadline::after(command.timeout);
        let finished = communicate(&mut child, &command.stdin, deadline)
            .map_err(|e| Error::io(format_args!("running {line}"), &e))?;
        let took = self.clock().elapsed() - begun;
        let Some(finished) = finished else {
            if command.kill_on_exit {
                let _ = child.kill().and_then(|()| child.wait());
            } else {
                kill_group(&mut child);
            }
            self.record(Effect::Run { command: line.clone(), code: None });
            let limit = command.timeout.as_secs_f32();
            return Err(Error::new(format!("running {line}: not finished after {limit} s, ended")));
        };
        debug!(self, "Running {logged} took {:.3} seconds, exit code {}", took.as_secs_f64(), finished.code);
        self.record(Effect::Run { command: line.clone(), code: Some(finished.code) });
        if !command.accepted.is_empty() && !command.accepted.contains(&finished.code) {
            let mut message = format!("running {line}: exit code {}", finished.code);
            if command.redacted.is_none() {
                message.push_str(&last_line(&finished.stderr));
            }
            return Err(Error::new(message));
        }
        Ok(finished)
    }

    /// Starts a program that outlives this process: in a session of its own, with this process' own output,
    /// not waited for. Only on the running machine; elsewhere it is noted and nothing is started.
    #[allow(unsafe_code)]
    pub fn spawn_detached(&self, command: &Command) -> Result<()> {
        let line = command.command_line();
        let Some(name) = command.argv.first() else { return Err(Error::new("running nothing")) };
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
        run.arg0(name).args(&command.argv[1..]).current_dir("/").stdin(Stdio::null());
        run.envs(command.env.iter().map(|(k, v)| (k, v)));
        if std::env::var_os("PATH").is_none() {
            run.env("PATH", DEFAULT_PATH);
        }
        // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe.
        unsafe {
            run.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
        }
        run.spawn().map(drop).map_err(|e| Error::io(what, &e))
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
        run.arg0(&command.argv[0])
            .args(&command.argv[1..])
            .stdin(if command.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
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
        run.spawn()
    }
}

/// The command is ended when the thread that starts it is gone (this process has one only), and hears of signals that
/// are held back here.
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

/// The command runs with `root` as its root directory.
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

/// Feeds and reads a child until it ended or time is up (`None`). Pipes that a background grandchild keeps
/// open are not waited for once the child itself has ended.
fn communicate(child: &mut Child, input: &[u8], deadline: Deadline) -> std::io::Result<Option<Output>> {
    let end = pidfd_open(child.id());
    let mut stdin = child.stdin.take();
    let mut streams = [
        CapturedStream { pipe: child.stdout.take().map(OwnedFd::from), bytes: Vec::new() },
        CapturedStream { pipe: child.stderr.take().map(OwnedFd::from), bytes: Vec::new() },
    ];
    for fd in stdin.iter().map(AsFd::as_fd).chain(streams.iter().filter_map(CapturedStream::fd)) {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut buffer = [0_u8; 16384];
    let mut sent = 0;
    let mut pause = Duration::from_micros(200);
    let status = loop {
        if sent == input.len() {
            stdin = None;
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if deadline.is_expired() {
            return Ok(None);
        }
        let mut waits: Vec<PollFd<'_>> = Vec::with_capacity(4);
        waits.extend(end.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        waits.extend(stdin.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLOUT)));
        waits.extend(
            streams.iter().filter_map(CapturedStream::fd).map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        let limit = if end.is_some() {
            deadline.remaining()
        } else {
            // A kernel before 5.3: look again soon, then less often.
            pause = (pause * 2).min(Duration::from_millis(20));
            pause.min(deadline.remaining())
        };
        let timeout = PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut waits, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        if let Some(pipe) = &mut stdin {
            match pipe.write(&input[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // It closed its input; what it makes of that is its exit code's business.
                Err(_) => stdin = None,
            }
        }
        streams.iter_mut().for_each(|stream| stream.drain(&mut buffer));
    };
    streams.iter_mut().for_each(|stream| stream.drain(&mut buffer));
    let [stdout, stderr] = streams.map(|s| s.bytes);
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(Some(Output { code, stdout, stderr }))
}

/// One captured output of a child: its pipe until it ended, and what came through it.
struct CapturedStream {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl CapturedStream {
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there without waiting.
    fn drain(&mut self, buffer: &mut [u8]) {
        while let Some(fd) = &self.pipe {
            match nix::unistd::read(fd, buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..n.min(room)]);
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// A descriptor that is readable once the child has ended (pidfd_open(2), Linux 5.3).
#[allow(unsafe_code)]
fn pidfd_open(pid: u32) -> Option<OwnedFd> {
    // SAFETY: the call takes two integers and returns a new descriptor, which is owned at once, or -1.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
    }
}

fn kill_group(child: &mut Child) {
    let group = nix::unistd::Pid::from_raw(child.id() as i32);
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let _ = child.wait();
}

/// ` (its last line: …)` of a program's error output, cut to what helps.
fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(1024)..]).into_owned();
    match text.lines().rev().map(str::trim).find(|l| !l.is_empty()) {
        Some(line) => format!(" ({line})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_format_matches_upstream() {
        for (command, logged) in [
            (
                Command::new(["systemctl", "daemon-reload"]),
                "['systemctl', 'daemon-reload'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["blkid", "-tTYPE=vfat"]).accept(&[0, 2]).output(OutputMode::Inherit),
                "['blkid', '-tTYPE=vfat'] with allowed return codes [0, 2] (shell=False, capture=False)",
            ),
            (
                Command::new(["chpasswd", "-e"]).redacted("chpasswd -e for a"),
                "chpasswd -e for a with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["sh", "-c", "it's", "a\\\"'b", "\n\u{1}ä", ""]).accept_all(),
                "['sh', '-c', \"it's\", 'a\\\\\"\\'b', '\\n\\x01ä', ''] with allowed return codes any (shell=False, capture=True)",
            ),
        ] {
            assert_eq!(format!("{} with {}", command.logged(), command.log_suffix()), logged);
        }
    }
}
