//! The kernel's own settings, which below another root than `/` are only noted, for that machine's kernel does not run;
//! and mounting, which this one does for it.

use nix::mount::{MntFlags, MsFlags};

use crate::{Effect, Result, ResultExt, System};

impl System {
    /// The kernel command line; in a container, where the machine's is not ours, that of PID 1.
    pub fn kernel_command_line(&self) -> String {
        if let Ok(given) = std::env::var("DEBUG_PROC_CMDLINE") {
            return given;
        }
        if self.is_container()
            && let Ok(line) = self.read_text("/proc/1/cmdline")
        {
            return line.trim_end_matches('\0').replace('\0', " ");
        }
        self.read_text("/proc/cmdline").map(|l| l.trim().to_string()).unwrap_or_default()
    }

    /// Whether the machine says that it is a container: systemd writes `/run/systemd/container`
    /// (os-release of the container interface), others leave only the variable of PID 1.
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

    /// The name that the kernel has now.
    pub fn kernel_hostname(&self) -> String {
        if !self.is_live() {
            return self
                .read_text("/proc/sys/kernel/hostname")
                .map(|t| t.trim().to_string())
                .unwrap_or_default();
        }
        nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The running kernel's name, its version text and the machine (uname(2)); empty where it has none.
    pub fn uname(&self) -> [String; 3] {
        let Ok(identity) = nix::sys::utsname::uname() else { return Default::default() };
        [identity.sysname(), identity.version(), identity.machine()].map(|t| t.to_string_lossy().into_owned())
    }

    /// Gives the running kernel a name (sethostname(2)).
    pub fn set_kernel_hostname(&self, name: &str) -> Result<()> {
        if self.may_set_kernel() {
            nix::unistd::sethostname(name).context(format_args!("setting the hostname {name}"))?;
        }
        self.record(Effect::Other { what: format!("hostname {name}") });
        Ok(())
    }

    /// Mounts a device read-only at a directory of the machine.
    pub fn mount_read_only(&self, device: &str, at: &str, kind: &str) -> Result<()> {
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let mount = |kind: &str, option: Option<&str>| {
            let (device, at) = (self.root().host_followed(device), self.root().host_followed(at));
            nix::mount::mount(Some(&device), &at, Some(kind), flags, option)
        };
        // Read-only says nothing of a journal: these would write what an unclean end has left in it.
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

    /// Unmounts what is mounted at a directory of the machine; what somebody has open there stays until it is closed.
    pub fn unmount(&self, at: &str) -> Result<()> {
        nix::mount::umount2(&self.root().host_followed(at), MntFlags::MNT_DETACH)
            .context(format_args!("unmounting {at}"))
    }
}
