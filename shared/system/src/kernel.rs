//! Facts and settings of the running kernel. Below a root other than `/` settings are recorded, not changed, since that
//! machine's kernel is not running; only mounting is done there too.

use std::hash::{BuildHasher, Hasher, RandomState};

use nix::mount::{MntFlags, MsFlags};

use crate::{Effect, Error, Result, ResultExt, System};

/// Returns a number that is random enough for pauses, transaction IDs and link-local addresses. It must not wait until the
/// kernel's generator is seeded, as [`System::random_bytes`] does: the seed may be in the metadata that is to be fetched. std takes
/// the keys of its hash maps from getrandom(2) with `GRND_INSECURE`, or from /dev/urandom on older kernels.
pub fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Adds `ds=…` of PID 1's environment to its command line: systemd-nspawn of systemd 262 passes words such as NAME=VALUE there, as
/// the kernel does with those that it does not know.
pub fn with_environment(mut line: String, environment: &[u8]) -> String {
    for variable in environment.split(|b| *b == 0).filter(|variable| variable.starts_with(b"ds=")) {
        line.push(' ');
        line.push_str(&String::from_utf8_lossy(variable));
    }
    line
}

impl System {
    /// Returns the kernel command line; in a container the command line of PID 1, since the kernel's is the host's. The
    /// environment variable `DEBUG_PROC_CMDLINE` overrides it.
    pub fn kernel_command_line(&self) -> String {
        if let Ok(given) = std::env::var("DEBUG_PROC_CMDLINE") {
            return given;
        }
        if self.is_container()
            && let Ok(line) = self.read_text("/proc/1/cmdline")
        {
            let environment = self.read("/proc/1/environ").unwrap_or_default();
            return with_environment(line.trim_end_matches('\0').replace('\0', " "), &environment);
        }
        self.read_text("/proc/cmdline").map(|l| l.trim().to_string()).unwrap_or_default()
    }

    /// Returns whether the machine is a container: it has `/run/systemd/container` (systemd's container interface),
    /// `/.dockerenv` or `/run/.containerenv`, or PID 1 has the environment variable `container`.
    pub fn is_container(&self) -> bool {
        if self.exists("/run/systemd/container")
            || self.exists("/.dockerenv")
            || self.exists("/run/.containerenv")
        {
            return true;
        }
        self.read("/proc/1/environ")
            .is_ok_and(|env| env.split(|b| *b == 0).any(|v| v.starts_with(b"container=") && v.len() > 10))
    }

    /// Returns the kernel's current hostname.
    pub fn kernel_hostname(&self) -> String {
        if !self.is_live() {
            return self
                .read_text("/proc/sys/kernel/hostname")
                .map(|t| t.trim().to_string())
                .unwrap_or_default();
        }
        nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Returns the system, node, release, version and machine of uname(2); empty strings if they are not available.
    pub fn uname(&self) -> [String; 5] {
        let Ok(u) = nix::sys::utsname::uname() else { return Default::default() };
        [u.sysname(), u.nodename(), u.release(), u.version(), u.machine()]
            .map(|t| t.to_string_lossy().into_owned())
    }

    /// Sets the running kernel's hostname (sethostname(2)).
    ///
    /// # Errors
    /// Fails if the kernel refuses the name.
    pub fn set_kernel_hostname(&self, name: &str) -> Result<()> {
        if self.may_set_kernel() {
            nix::unistd::sethostname(name).context(format_args!("setting the hostname {name}"))?;
        }
        self.record(Effect::Other { what: format!("hostname {name}") });
        Ok(())
    }

    /// Returns the size of a memory page in bytes.
    pub fn page_size(&self) -> usize {
        let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
        size.and_then(|n| usize::try_from(n).ok()).unwrap_or(4096)
    }

    /// Returns random bytes of the running kernel, whatever the root is. Early at boot this waits until the kernel's generator
    /// is seeded, so that passwords and salts cannot be guessed (getrandom(2)).
    ///
    /// # Errors
    /// Fails if the kernel has neither getrandom(2) nor its devices.
    pub fn random_bytes(&self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        match getrandom::getrandom(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(e) => Err(Error::new(format!("getting random bytes: {e}"))),
        }
    }

    /// Mounts a device with a file system of type `kind` read-only at the directory `at`. No journal is replayed.
    ///
    /// # Errors
    /// Fails if the kernel refuses the mount.
    pub fn mount_read_only(&self, device: &str, at: &str, kind: &str) -> Result<()> {
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let mount = |kind: &str, option: Option<&str>| {
            let (device, at) = (self.root().host_followed(device), self.root().host_followed(at));
            nix::mount::mount(Some(&device), &at, Some(kind), flags, option)
        };
        // A read-only mount replays the journal of a file system that was not unmounted cleanly, which writes to the device.
        let ways: &[(&str, Option<&str>)] = match kind {
            "ext3" | "ext4" => &[(kind, Some("noload"))],
            "xfs" => &[(kind, Some("norecovery"))],
            "btrfs" => &[(kind, Some("rescue=nologreplay")), (kind, Some("nologreplay"))],
            "ntfs" => &[("ntfs3", None), (kind, None)],
            _ => &[(kind, None)],
        };
        let mut mounted = Err(nix::errno::Errno::ENODEV);
        for (kind, option) in ways {
            mounted = mount(kind, *option);
            if !matches!(mounted, Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENODEV)) {
                break;
            }
        }
        mounted.context(format_args!("mounting {device} ({kind}) at {at}"))?;
        self.record(Effect::Other { what: format!("mount {device} {at}") });
        Ok(())
    }

    /// Unmounts the directory `at` lazily: open files stay until they are closed.
    ///
    /// # Errors
    /// Fails if nothing is mounted there, or without privileges.
    pub fn unmount(&self, at: &str) -> Result<()> {
        nix::mount::umount2(&self.root().host_followed(at), MntFlags::MNT_DETACH)
            .context(format_args!("unmounting {at}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{System, random_number};

    #[test]
    fn command_line_of_a_container_is_that_of_pid_1() {
        let top = scratch::TempDir::new();
        let sys = System::new(&*top);
        top.put("/proc/cmdline", "ro\n");
        top.put("/proc/1/cmdline", "/sbin/init\0a b\0");
        for (environment, expected) in [
            ("TERM=x", "ro"),
            ("container=lxc\0fads=x\0", "/sbin/init a b"),
            ("ds=nocloud;s=http://h/\0container=lxc\0", "/sbin/init a b ds=nocloud;s=http://h/"),
        ] {
            top.put("/proc/1/environ", environment);
            assert_eq!(sys.kernel_command_line(), expected);
        }
    }

    #[test]
    fn random_bytes_differ() {
        let sys = System::new("/nonexistent");
        assert_ne!(sys.random_bytes(16).unwrap(), sys.random_bytes(16).unwrap());
    }

    #[test]
    fn random_numbers_differ() {
        let mut drawn: Vec<u64> = (0..100).map(|_| random_number()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100);
        // Every bit is used: a DHCP client takes the lower ones, an address the bytes.
        assert_eq!(drawn.iter().fold(0, |all, one| all | one), u64::MAX);
    }
}
