//! What stays open as long as a stage runs: the sinks of its log, and its own standard streams, sent where the
//! configuration wants them. What is said there later goes through [`crate::Log`] and [`System::print`].

use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::run::chroot_child;
use crate::{Change, Effect, Level, Result, ResultExt, System};

/// The widest mode of a log: messages are for administrators.
const LOG_MODE: u32 = 0o640;

/// Which of a stage's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    Output,
    Error,
    Both,
}

impl System {
    /// Empties standard input, unless a person sits at it: a program that read from a console would hang a boot.
    pub fn redirect_stdin_to_null(&self) {
        if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
            return;
        }
        // Where there is no /dev/null, programs are given an empty input of their own all the same.
        if let Ok(null) = File::open("/dev/null") {
            let _ = nix::unistd::dup2_stdin(&null);
        }
    }

    /// Lines of `min_level` and worse go to the end of the file from now on. Its directories are made; its mode becomes
    /// 0640 at most; an empty one is given to the first of `owners` (as chown(1) takes them) that exists.
    pub fn log_to_file(&self, min_level: Level, path: &str, owners: &[String]) -> Result<()> {
        let what = || format!("opening the log {path}");
        let (file, is_new) = self.open_log(path).context(what())?;
        let meta = file.metadata().context(what())?;
        if meta.is_file() {
            let mode = meta.mode() & 0o7777;
            if !is_new && mode & !LOG_MODE != 0 {
                let narrow = Permissions::from_mode(mode & LOG_MODE);
                file.set_permissions(narrow).context(format_args!("chmod {path}"))?;
            }
            if meta.len() == 0 {
                owners.iter().any(|owner| {
                    self.owner(owner).is_ok_and(|(uid, gid)| self.chown(&file, uid, gid).is_ok())
                });
            }
        }
        clear_nonblocking(&file, &meta).context(what())?;
        self.log().to_file(min_level, file);
        Ok(())
    }

    /// Lines of `min_level` and worse go to the system log from now on; an error where none listens yet.
    pub fn log_to_syslog(&self, min_level: Level) -> Result<()> {
        let path = self.root().host_followed("/dev/log");
        let socket = UnixDatagram::unbound().and_then(|s| s.connect(path).map(|()| s));
        self.log().to_syslog(min_level, socket.context("opening /dev/log")?);
        Ok(())
    }

    /// From now on output goes where it went and to the end of the file too, which is made with mode 0640 and group
    /// adm, as the log is.
    pub fn tee_output(&self, path: &str) -> Result<()> {
        let what = || format!("opening {path}");
        let (file, is_new) = self.open_log(path).context(what())?;
        if is_new && let Some(group) = self.group("adm") {
            // Without that right it is root's alone, which is no reason to go without it.
            let _ = self.chown(&file, None, Some(group.gid));
        }
        self.tee_into(path, file);
        Ok(())
    }

    /// From now on the streams go to a file, from its end on or from its beginning.
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

    /// From now on the streams go to the standard input of a line of shell, which ends with the stage. It is the
    /// administrator's own line (`output:`), and is run below the root.
    pub fn redirect_to_shell(&self, streams: Streams, line: &str) -> Result<()> {
        let what = format!("redirecting to | {line}");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", line]).stdin(Stdio::piped());
        if !self.is_live() {
            chroot_child(&mut shell, self.root().as_path(), "/");
        }
        let mut child = shell.spawn().context(&what)?;
        self.record(Effect::Run { command: format!("/bin/sh -c {line}"), code: None });
        match child.stdin.take() {
            Some(pipe) => redirect(streams, &OwnedFd::from(pipe)).context(&what),
            None => Ok(()),
        }
    }

    /// A file open at its end, and whether it is new: then it has the mode of logs. Its directories are made.
    fn open_log(&self, path: &str) -> std::io::Result<(File, bool)> {
        let (file, is_new) = self.open_append(path.as_ref(), LOG_MODE)?;
        if is_new {
            file.set_permissions(Permissions::from_mode(LOG_MODE))?;
            // For its label.
            let change = Change::Created;
            self.record(Effect::Write { path: path.into(), mode: LOG_MODE, owner: (None, None), change });
        }
        Ok((file, is_new))
    }
}

/// What is opened without waiting is for programs that expect to wait until a device takes what they write.
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
    fn log_modes() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let mode = |path: &str| sys.metadata(path).unwrap().permissions().mode() & 0o7777;
        for (name, before, after) in
            [("new", None, 0o640), ("wide", Some(0o664), 0o640), ("own", Some(0o600), 0o600)]
        {
            let path = format!("/var/log/{name}");
            if let Some(before) = before {
                sys.write(&path, "old\n", WriteOptions::mode(before)).unwrap();
            }
            sys.log_to_file(Level::Info, &path, &["nobody-at-all".into(), "-1:-1".into()]).unwrap();
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
        let refused = sys.log_to_file(Level::Info, "/var/log/new/x", &[]).unwrap_err();
        assert!(refused.to_string().starts_with("opening the log /var/log/new/x: "), "{refused}");
        assert!(sys.log_to_syslog(Level::Info).is_err());
    }
}
