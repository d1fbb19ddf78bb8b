//! The log files and standard streams of a stage, as the configuration sets them up. Later output goes through
//! [`crate::Log`] and [`System::print`].

use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::run::chroot_child;
use crate::syslog::Syslog;
use crate::{Change, Effect, Level, Result, ResultExt, System, warning};

/// The widest mode of a log: messages are for administrators only.
const LOG_MODE: u32 = 0o640;

/// Runs the program that receives the output. If it ends while there is output, the rest goes to the file `$2`, because programs
/// that write to a pipe which nothing reads are killed (SIGPIPE): user scripts, package managers. The shell then fails, which
/// [`System::flush_output`] reports. Files that the program makes are as private as the log.
const OUTPUT_PROGRAM: &str = r#"umask 037
/bin/sh -c "$1"
IFS= read -r line || [ -n "$line" ] || exit 0
exec 3<&0
{
    { printf '%s\n' "$line"; cat; } >>"$2"
    # Only if the file cannot be written.
    while read -r line; do :; done
} <&3 &
exit 1"#;
/// The file for output that has no other place, as packages configure it.
const OUTPUT_LOG: &str = "/var/log/cloud-init-output.log";

/// Standard streams of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// Both of them.
    Both,
}

impl System {
    /// Redirects standard input to /dev/null, unless it is a terminal: a program that reads from the console would block the
    /// boot.
    pub fn redirect_stdin_to_null(&self) {
        if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
            return;
        }
        // Without /dev/null, each program still gets an empty input.
        if let Ok(null) = File::open("/dev/null") {
            let _ = nix::unistd::dup2_stdin(&null);
        }
    }

    /// Appends log lines of `min_level` and above to a file. Missing parent directories are created, the mode is narrowed to
    /// `mode` and to 0640, and an empty file is given to the first of `owners` (in the syntax of chown(1)) that exists.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or its mode cannot be set.
    pub fn log_to_file(&self, min_level: Level, path: &str, mode: u32, owners: &[String]) -> Result<()> {
        let what = || format!("opening the log {path}");
        let (file, _) = self.open_log(path).context(what())?;
        let meta = file.metadata().context(what())?;
        let mut is_owned = true;
        if meta.is_file() {
            let (before, widest) = (meta.mode() & 0o7777, mode & LOG_MODE);
            if before & !widest != 0 {
                let narrow = Permissions::from_mode(before & widest);
                file.set_permissions(narrow).context(format_args!("chmod {path}"))?;
            }
            if meta.len() == 0 && !owners.is_empty() {
                is_owned = owners.iter().any(|owner| {
                    self.owner(owner).is_ok_and(|(uid, gid)| self.chown(&file, uid, gid).is_ok())
                });
            }
        }
        clear_nonblocking(&file, &meta).context(what())?;
        self.log().to_file(min_level, file);
        if !is_owned {
            // An image may be prepared without privileges, or before it has its accounts.
            let level = if self.is_live() { Level::Warning } else { Level::Info };
            let owners = owners.join(", ");
            let text = format_args!("{path}: none of these owners (syslog_fix_perms) could be set: {owners}");
            self.log().record(level, file!(), text);
        }
        Ok(())
    }

    /// Sends log lines of `min_level` and above to the system log.
    ///
    /// # Errors
    /// Fails if no daemon listens on /dev/log yet. The lines that are logged after it started are sent to it nevertheless.
    pub fn log_to_syslog(&self, min_level: Level) -> Result<()> {
        let what = "opening /dev/log";
        let syslog = Syslog::new(self.root().clone()).context(what)?;
        let connected = syslog.connect().context(what);
        self.log().to_syslog(min_level, syslog);
        connected
    }

    /// Appends output to a file as well, as tee(1) does. A new file has mode 0640 and group adm, like the log.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn tee_output(&self, path: &str) -> Result<()> {
        let what = || format!("opening {path}");
        let (file, is_new) = self.open_log(path).context(what())?;
        if is_new && let Some(group) = self.group("adm") {
            // Without privileges the group stays as it is.
            let _ = self.chown(&file, None, Some(group.gid));
        }
        self.tee_into(path, file);
        Ok(())
    }

    /// Redirects the streams to a file, which is truncated first unless `append` is set.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or a stream cannot be redirected.
    pub fn redirect_to_file(&self, streams: Streams, path: &str, append: bool) -> Result<()> {
        (|| {
            let (file, _) = self.open_log(path)?;
            let meta = file.metadata()?;
            if !append && meta.is_file() {
                file.set_len(0)?;
            }
            clear_nonblocking(&file, &meta)?;
            redirect(streams, &file.into())
        })()
        .context(format_args!("redirecting to {path}"))
    }

    /// Redirects the streams to the standard input of a shell command, which is the administrator's (`output:`) and runs
    /// below the root.
    ///
    /// # Errors
    /// Fails if the shell cannot be started or a stream cannot be redirected.
    pub fn redirect_to_shell(&self, streams: Streams, line: &str) -> Result<()> {
        let what = format!("redirecting to | {line}");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", OUTPUT_PROGRAM, "sh", line, OUTPUT_LOG]).stdin(Stdio::piped());
        if !self.is_live() {
            chroot_child(&mut shell, self.root().as_path(), "/");
        }
        let mut child = shell.spawn().context(&what)?;
        self.record(Effect::Run { command: format!("/bin/sh -c {line}"), code: None });
        let redirected = match child.stdin.take() {
            Some(pipe) => redirect(streams, &OwnedFd::from(pipe)).context(&what),
            None => Ok(()),
        };
        // Arguments may be secret.
        let name = line.split_whitespace().next().unwrap_or_default();
        self.output_programs().borrow_mut().push((name.into(), child));
        redirected
    }

    /// Reports the programs of [`System::redirect_to_shell`] that ended before the output did.
    pub(crate) fn report_ended_output_programs(&self) {
        for (name, child) in &mut *self.output_programs().borrow_mut() {
            if child.try_wait().is_ok_and(|ended| ended.is_some_and(|status| !status.success())) {
                warning!(self, "output: {name}, which receives it, has ended; the rest is in {OUTPUT_LOG}");
            }
        }
    }

    /// Opens a file for appending, creating it with the mode of logs. Returns whether it is new.
    fn open_log(&self, path: &str) -> std::io::Result<(File, bool)> {
        let (file, is_new) = self.open_append(path.as_ref(), LOG_MODE & 0o700)?;
        if is_new {
            file.set_permissions(Permissions::from_mode(LOG_MODE))?;
            // Recorded for its SELinux label.
            let change = Change::Created;
            self.record(Effect::Write { path: path.into(), mode: LOG_MODE, owner: (None, None), change });
        }
        Ok((file, is_new))
    }
}

/// Clears O_NONBLOCK, with which the file was opened, since programs expect blocking writes to a device.
fn clear_nonblocking(file: &File, meta: &std::fs::Metadata) -> std::io::Result<()> {
    if !meta.is_file() {
        let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
        fcntl(file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    }
    Ok(())
}

fn redirect(streams: Streams, to: &OwnedFd) -> std::io::Result<()> {
    if streams != Streams::Error {
        nix::unistd::dup2_stdout(to)?;
    }
    if streams != Streams::Output {
        nix::unistd::dup2_stderr(to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteOptions;
    use scratch::TempDir;

    #[test]
    fn mode_of_a_log_is_narrowed_but_never_widened() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mode = |path: &str| sys.metadata(path).unwrap().permissions().mode() & 0o7777;
        for (name, before, widest, after) in [
            ("new", None, 0o640, 0o640),
            ("wide", Some(0o664), 0o666, 0o640),
            ("own", Some(0o600), 0o640, 0o600),
            ("narrow", None, 0o600, 0o600),
            ("narrowed", Some(0o640), 0o600, 0o600),
        ] {
            let path = format!("/var/log/{name}");
            if let Some(before) = before {
                sys.write(&path, "old\n", WriteOptions::mode(before)).unwrap();
            }
            sys.log_to_file(Level::Info, &path, widest, &["nobody-at-all".into(), "-1:-1".into()]).unwrap();
            crate::info!(sys, "said");
            assert_eq!(mode(&path), after, "{name}");
            let text = sys.read_text(&path).unwrap();
            assert_eq!((text.starts_with("old\n"), text.contains("[INFO]: said")), (before.is_some(), true));
        }
        // Log lines on standard error are output, too.
        sys.log().to_stderr(Level::Warning);
        sys.tee_output("/var/log/deep/out").unwrap();
        sys.print("a line");
        assert_eq!(
            (mode("/var/log/deep/out"), &*sys.read_text("/var/log/deep/out").unwrap()),
            (0o640, "a line\n")
        );
        crate::info!(sys, "not this");
        crate::warning!(sys, "wrong");
        sys.print_output(b"art\n");
        let text = sys.read_text("/var/log/deep/out").unwrap();
        assert!(text.ends_with("[WARNING]: wrong\nart\n") && !text.contains("not this"), "{text}");
        let refused = sys.log_to_file(Level::Info, "/var/log/new/x", 0o640, &[]).unwrap_err();
        assert!(refused.to_string().starts_with("opening the log /var/log/new/x: "), "{refused}");
    }

    /// An image may not have the owners yet, so this is logged without a warning.
    #[test]
    fn owners_that_do_not_exist_are_logged() {
        let top = TempDir::new();
        let sys = System::new(&top);
        sys.log_to_file(Level::Info, "/log", 0o640, &["nobody-at-all".into(), "none-of:these".into()])
            .unwrap();
        let text = sys.read_text("/log").unwrap();
        let line = "[INFO]: /log: none of these owners (syslog_fix_perms) could be set: nobody-at-all, none-of:these\n";
        assert!(text.ends_with(line) && sys.log().logged_warnings().is_empty(), "{text}");
    }

    #[test]
    fn a_log_daemon_that_starts_late_gets_the_later_lines() {
        let top = TempDir::new();
        top.put("/dev/null", "");
        let sys = System::new(&top);
        sys.log().to_stderr(Level::Critical);
        let refused = sys.log_to_syslog(Level::Info).unwrap_err();
        assert!(refused.to_string().starts_with("opening /dev/log: "), "{refused}");
        crate::info!(sys, "before");
        let daemon = std::os::unix::net::UnixDatagram::bind(top.join("dev/log")).unwrap();
        daemon.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        crate::debug!(sys, "below the level");
        crate::info!(sys, "after");
        let mut line = [0; 64];
        let length = daemon.recv(&mut line).unwrap();
        assert_eq!(&line[..length], b"<14>[CLOUDINIT] stream.rs[INFO]: after");
    }
}
