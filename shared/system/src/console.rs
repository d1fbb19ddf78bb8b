//! What a person at the machine's console is to see, and chance.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::{FcntlArg, fcntl};

use crate::{Effect, Result, ResultExt, System};

impl System {
    /// Prints to the machine's console; `false` when it has none that can be written. Secrets (new random
    /// passwords) go here and nowhere else, so the effect that is noted does not have the text.
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

    /// Bytes that nobody can guess, from the kernel of this machine, whichever the root is.
    pub fn random_bytes(&self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        File::open("/dev/urandom")
            .and_then(|mut f| f.read_exact(&mut bytes))
            .context("reading /dev/urandom")?;
        Ok(bytes)
    }

    /// Whether no process holds a lock (fcntl(2)) on the file; one that is not there is not locked.
    pub fn is_unlocked(&self, path: &str) -> bool {
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root().host_followed(path));
        let Ok(file) = options else { return true };
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&file, FcntlArg::F_GETLK(&mut lock)).is_err() || lock.l_type == libc::F_UNLCK as libc::c_short
    }
}

#[cfg(test)]
mod tests {
    use crate::{System, WriteOptions};
    use scratch::TempDir;

    #[test]
    fn console_random_bytes_and_locks() {
        let top = TempDir::new();
        let sys = System::new(&top);
        assert!(!sys.print_console("x"));
        sys.write("/dev/console", "", WriteOptions::default()).unwrap();
        assert!(sys.print_console("a\n") && sys.print_console("b\n"));
        assert_eq!(sys.read_text("/dev/console").unwrap(), "a\nb\n");
        assert!(!format!("{:?}", sys.effects()).contains("a\\n"));
        assert_ne!(sys.random_bytes(16).unwrap(), sys.random_bytes(16).unwrap());
        assert!(sys.is_unlocked("/none") && sys.is_unlocked("/dev/console"));
    }
}
