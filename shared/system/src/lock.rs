//! Locks of files, as fcntl(2) and flock(2) take them.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};

use crate::{Deadline, Error, Result, ResultExt, System};

/// The lock of lckpwdf(3), which shadow's programs and systemd take to change /etc/passwd, /etc/shadow and their like.
const ACCOUNTS: &str = "/etc/.pwd.lock";
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// The pause for locks of flock(2), which are held for milliseconds.
const SHORT_PAUSE: Duration = Duration::from_millis(2);
/// A lock of a whole file for writing.
const WHOLE_FILE: libc::flock = libc::flock {
    l_type: libc::F_WRLCK as libc::c_short,
    l_whence: libc::SEEK_SET as libc::c_short,
    l_start: 0,
    l_len: 0,
    l_pid: 0,
};

/// Locks a file until its description is closed. Fails if another program holds the lock until the deadline.
pub(crate) fn lock_file(file: impl AsFd, deadline: Deadline) -> Result<()> {
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&WHOLE_FILE)) {
            Ok(_) => return Ok(()),
            Err(Errno::EACCES | Errno::EAGAIN | Errno::EINTR) if !deadline.is_expired() => {
                std::thread::sleep(PAUSE);
            }
            Err(Errno::EACCES | Errno::EAGAIN) => {
                return Err(Error::with_kind(ErrorKind::TimedOut, "another program holds the lock"));
            }
            Err(e) => return Err(Error::io("locking", &e.into())),
        }
    }
}

/// Locks a file or directory (flock(2)) until the result is dropped. Fails if another program holds the lock until the deadline.
pub(crate) fn flock(mut file: fs::File, deadline: Deadline) -> Result<Flock<fs::File>> {
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) if !deadline.is_expired() => file = back,
            Err((_, e)) => return Err(Error::io("locking", &e.into())),
        }
        std::thread::sleep(SHORT_PAUSE);
    }
}

impl System {
    /// Locks the files of accounts (passwd(5), shadow(5) and their like) against other programs that change them, until the
    /// result is dropped. A dry run locks nothing.
    ///
    /// # Errors
    /// Fails if another program holds the lock until the deadline, or if the lock file cannot be opened.
    pub fn lock_accounts(&self, deadline: Deadline) -> Result<Option<fs::File>> {
        if self.is_dry_run() {
            return Ok(None);
        }
        let (file, _) = self.open_append(ACCOUNTS.as_ref(), 0o600).context(ACCOUNTS)?;
        lock_file(&file, deadline).context(ACCOUNTS)?;
        Ok(Some(file))
    }

    /// Locks a directory (flock(2)) against other programs that do so, until the result is dropped. `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if another program holds the lock until the deadline, or if the directory cannot be opened.
    pub fn lock_directory(&self, path: &str, deadline: Deadline) -> Result<Option<Flock<fs::File>>> {
        let directory = match fs::File::open(self.root().host_followed(path)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.context(path)?,
        };
        flock(directory, deadline).context(path).map(Some)
    }

    /// Returns the process that holds a lock (fcntl(2)) on the file, 0 if it is in another PID namespace; `None` if the file is
    /// not locked or does not exist.
    pub fn lock_holder(&self, path: &str) -> Option<u32> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let host = self.root().host_followed(path);
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(host).ok()?;
        let mut lock = WHOLE_FILE;
        fcntl(&file, FcntlArg::F_GETLK(&mut lock)).ok()?;
        (lock.l_type != libc::F_UNLCK as libc::c_short).then(|| u32::try_from(lock.l_pid).unwrap_or_default())
    }
}
