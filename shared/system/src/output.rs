//! The stage's own output. Users configure a `tee` into cloud-init-output.log; most stages print a line or two and
//! start nothing, so the tee is started only when a program's output has to go through it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::{Deadline, Result, ResultExt, System};

/// Where the output of the stage and of its programs goes.
#[derive(Debug, Default)]
pub(crate) enum StageOutput {
    /// Wherever the process was started to.
    #[default]
    Inherited,
    /// There, and to the end of a file.
    Tee { path: String, file: File, running: Option<(Child, OwnedFd)> },
}

impl System {
    /// From now on output goes to the end of the file too, which is that of `path`, and so do the log's lines for standard
    /// error: a tee has both streams, and writes to standard output.
    pub(crate) fn tee_into(&self, path: &str, file: File) {
        self.log().tee_stderr(file.try_clone().ok());
        *self.stage_output().borrow_mut() = StageOutput::Tee { path: path.into(), file, running: None };
    }

    /// From now on the process's own streams go where its output goes, so that they can be sent elsewhere.
    pub fn redirect_to_tee(&self) -> Result<()> {
        self.stage_stream().context("starting tee")?;
        let before = std::mem::take(&mut *self.stage_output().borrow_mut());
        self.log().tee_stderr(None);
        // The tee ends when nobody writes to it any more.
        if let StageOutput::Tee { running: Some((_, pipe)), .. } = before {
            nix::unistd::dup2_stdout(&pipe).context("redirecting")?;
            nix::unistd::dup2_stderr(&pipe).context("redirecting")?;
        }
        Ok(())
    }

    /// Prints a line for people: on standard error, or through the tee on standard output and in its file.
    pub fn print(&self, line: &str) {
        if self.is_dry_run() {
            return;
        }
        // If neither stream can be written to, there is no third to report that on.
        if let StageOutput::Tee { file, .. } = &mut *self.stage_output().borrow_mut() {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            let _ = file.write_all(format!("{line}\n").as_bytes());
        } else {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    /// Prints what a program printed for people: on standard output, and in the output file.
    pub fn print_output(&self, text: &[u8]) {
        if self.is_dry_run() {
            return;
        }
        // If neither can be written to, there is no third to report that on.
        let _ = std::io::stdout().lock().write_all(text);
        if let StageOutput::Tee { file, .. } = &mut *self.stage_output().borrow_mut() {
            let _ = file.write_all(text);
        }
    }

    /// Prints lines on /dev/console, where it can be written to, else on standard output. Never to a file: the
    /// console is the place for what only the machine's owner may see.
    pub fn print_on_console(&self, text: &str) {
        if self.is_dry_run() {
            return;
        }
        if !self.is_live() || !self.print_console(text) {
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        }
    }

    /// A standard stream for a program whose output is the stage's.
    pub(crate) fn stage_stream(&self) -> std::io::Result<Stdio> {
        let mut output = self.stage_output().borrow_mut();
        let StageOutput::Tee { path, file, running } = &mut *output else { return Ok(Stdio::inherit()) };
        if running.is_none() {
            // The file that is open, whatever its path leads to by now.
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            let is_there = Path::new(&open).exists();
            let host = if is_there { open.into() } else { self.root().host_followed(&*path) };
            fcntl(&*file, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let child = std::process::Command::new("tee").arg("-a").arg(host).stdin(Stdio::piped()).spawn();
            fcntl(&*file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
            let mut child = child?;
            let pipe = child.stdin.take().map(OwnedFd::from);
            *running = pipe.map(|pipe| (child, pipe));
        }
        match running {
            Some((_, pipe)) => Ok(Stdio::from(pipe.try_clone()?)),
            None => Ok(Stdio::inherit()),
        }
    }

    /// Lets the tee write what it has. It is not waited for when a program in the background still writes.
    pub fn flush_output(&self) -> Result<()> {
        let StageOutput::Tee { running, .. } = &mut *self.stage_output().borrow_mut() else { return Ok(()) };
        let Some((mut child, pipe)) = running.take() else { return Ok(()) };
        drop(pipe);
        let deadline = Deadline::after(Duration::from_secs(1));
        while child.try_wait().context("waiting for tee")?.is_none() && !deadline.is_expired() {
            self.clock().sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
