//! The output of a stage. The default configuration sends it through `tee` to cloud-init-output.log. Most stages print a
//! line or two and start no program, so `tee` is started only when a program's output has to go through it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::communicate::communicate;
use crate::{Deadline, Effect, Result, ResultExt, System, warning};

/// The destination of the output of the stage and of its programs.
#[derive(Debug, Default)]
pub(crate) enum StageOutput {
    /// The standard streams that the process was started with.
    #[default]
    Inherited,
    /// The standard streams, and the end of a file.
    Tee { path: String, file: File, running: Option<(Option<Child>, OwnedFd)> },
}

impl System {
    /// Sends output, and the log's lines for standard error, to the end of `file` as well, which is that of `path`. Like
    /// tee(1) with both streams, it writes to standard output.
    pub(crate) fn tee_into(&self, path: &str, file: File) {
        self.log().tee_stderr(file.try_clone().ok());
        *self.stage_output().borrow_mut() = StageOutput::Tee { path: path.into(), file, running: None };
    }

    /// Redirects the standard streams of the process to the running `tee`, so that they can then be redirected again.
    ///
    /// # Errors
    /// Fails if `tee` cannot be started or a stream cannot be redirected.
    pub fn redirect_to_tee(&self) -> Result<()> {
        self.stage_stream().context("starting tee")?;
        let before = std::mem::take(&mut *self.stage_output().borrow_mut());
        self.log().tee_stderr(None);
        // tee(1) exits when its last writer has closed the pipe.
        if let StageOutput::Tee { running: Some((_, pipe)), .. } = before {
            nix::unistd::dup2_stdout(&pipe).context("redirecting")?;
            nix::unistd::dup2_stderr(&pipe).context("redirecting")?;
        }
        Ok(())
    }

    /// Prints a line for the user: on standard error or, with a tee, on standard output and in its file.
    pub fn print(&self, line: &str) {
        if self.is_dry_run() {
            return;
        }
        // If neither stream can be written, there is none left to report that on.
        if let StageOutput::Tee { file, .. } = &mut *self.stage_output().borrow_mut() {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            let _ = file.write_all(format!("{line}\n").as_bytes());
        } else {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    /// Prints the output of a program for the user: on standard output, and in the output file.
    pub fn print_output(&self, text: &[u8]) {
        if self.is_dry_run() {
            return;
        }
        // As above.
        let _ = std::io::stdout().lock().write_all(text);
        if let StageOutput::Tee { file, .. } = &mut *self.stage_output().borrow_mut() {
            let _ = file.write_all(text);
        }
    }

    /// Prints text on /dev/console or, if that cannot be written, on standard output; never to a file. For text that only the
    /// machine's owner may see.
    pub fn print_on_console(&self, text: &str) {
        if self.is_dry_run() {
            return;
        }
        if !self.is_live() || !self.print_console(text) {
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        }
    }

    /// Prints to /dev/console. Returns `false` if it cannot be written. Secrets (new random passwords) are printed here and
    /// nowhere else, so the recorded effect does not contain the text.
    pub fn print_console(&self, text: &str) -> bool {
        self.record(Effect::Other { what: "print to the console".into() });
        if self.is_dry_run() {
            return true;
        }
        let printed = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root().host_followed("/dev/console"))
            .and_then(|mut console| console.write_all(text.as_bytes()));
        printed.is_ok()
    }

    /// Returns a standard stream for a program whose output is the stage's. Starts `tee` if necessary.
    pub(crate) fn stage_stream(&self) -> std::io::Result<Stdio> {
        let mut output = self.stage_output().borrow_mut();
        let StageOutput::Tee { path, file, running } = &mut *output else { return Ok(Stdio::inherit()) };
        if running.is_none() {
            // The open file, even if its path leads elsewhere by now.
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            let exists = Path::new(&open).exists();
            let host = if exists { open.into() } else { self.root().host_followed(&*path) };
            fcntl(&*file, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let child = std::process::Command::new("tee").arg("-a").arg(host).stdin(Stdio::piped()).spawn();
            fcntl(&*file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
            *running = match child {
                Ok(mut child) => child.stdin.take().map(|pipe| (Some(child), OwnedFd::from(pipe))),
                Err(e) => {
                    warning!(self, "starting tee: {e}; the output of programs goes to {path} only");
                    Some((None, file.try_clone()?.into()))
                }
            };
        }
        match running {
            Some((_, pipe)) => Ok(Stdio::from(pipe.try_clone()?)),
            None => Ok(Stdio::inherit()),
        }
    }

    /// Closes the pipe to `tee` and waits for it to exit, for at most one second: a program in the background may keep the
    /// pipe open. Reports other programs that ended before.
    ///
    /// # Errors
    /// Fails if the process cannot be waited for.
    pub fn flush_output(&self) -> Result<()> {
        self.report_ended_output_programs();
        let StageOutput::Tee { running, .. } = &mut *self.stage_output().borrow_mut() else { return Ok(()) };
        let Some((Some(mut child), pipe)) = running.take() else { return Ok(()) };
        drop(pipe);
        // Wait: every stage | the program that gets its output (`output:`) to end | -
        let deadline = Deadline::after(Duration::from_secs(1));
        communicate(&mut child, &[], deadline).context("waiting for tee").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Command, OutputMode, System, WriteOptions};
    use scratch::TempDir;

    #[test]
    fn without_tee_programs_run_and_their_output_is_in_the_file() {
        let in_child = std::env::var_os("OUTPUT_FILE");
        let Some(path) = in_child else {
            let top = TempDir::new();
            let name = "output::tests::without_tee_programs_run_and_their_output_is_in_the_file";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child =
                child.args([name, "--exact"]).env("OUTPUT_FILE", top.join("log")).env("PATH", "/none");
            assert!(child.status().unwrap().success());
            assert_eq!(std::fs::read_to_string(top.join("log")).unwrap(), "a\nb\n");
            return;
        };
        let sys = System::new("/");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        sys.tee_into(&path.to_string_lossy(), file);
        for word in ["a", "b"] {
            sys.run(&Command::new(["/bin/echo", word]).output(OutputMode::Inherit)).unwrap();
        }
        sys.flush_output().unwrap();
        assert_eq!(sys.log().logged_warnings().len(), 1);
    }

    #[test]
    fn the_console_is_appended_to_and_its_text_is_not_recorded() {
        let top = TempDir::new();
        let sys = System::new(&top);
        assert!(!sys.print_console("x"));
        sys.write("/dev/console", "", WriteOptions::default()).unwrap();
        assert!(sys.print_console("a\n") && sys.print_console("b\n"));
        assert_eq!(sys.read_text("/dev/console").unwrap(), "a\nb\n");
        assert!(!format!("{:?}", sys.effects()).contains("a\\n"));
    }
}
