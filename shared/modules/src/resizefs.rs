//! resizefs: makes the root file system as large as its device, which growpart may just have grown. The kernel
//! does it where it can; else the file system's own tool.

use config::schema::{Type, flag, word};
use config::{FromNode, Node, Reader};
use system::{
    Command, Error, GrowableFileSystem, MountInfo, Result, System, debug, info, mounted_at, warning,
};

use crate::disks::block_device::{find_block_device, mount_device};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("resizefs", Frequency::Always, run).repeatable();

config::keys! {
    pub struct Keys {
        /// Grow the root file system to fill its partition; `noblock` does so in the background.
        resize_rootfs: Resize = true;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resize {
    Yes,
    No,
    InBackground,
}

impl FromNode for Resize {
    const SCHEMA: &'static [Type] = &[flag(true), flag(false), word("noblock")];
    fn read(node: &Node, reader: &mut Reader) -> Option<Resize> {
        if node.as_str().is_some_and(|t| t.trim().eq_ignore_ascii_case("noblock")) {
            return Some(Resize::InBackground);
        }
        match bool::read(node, &mut Reader::new()) {
            Some(true) => Some(Resize::Yes),
            Some(false) => Some(Resize::No),
            None => reader.type_error(node, "true, false or noblock"),
        }
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let wanted = match context.args.first() {
        Some(arg) => Resize::read(arg, &mut Reader::new()),
        None => {
            let (keys, invalid) = context.read_keys_and_findings::<Keys>();
            keys.map(|k| k.resize_rootfs).filter(|_| !invalid.has_invalid("resize_rootfs"))
        }
    };
    let Some(wanted) = wanted else {
        return Err(Error::new("resize_rootfs: expected true, false or noblock; module skipped"));
    };
    if wanted == Resize::No {
        debug!(sys, "resize_rootfs is false");
        return Ok(());
    }
    if !sys.is_live() {
        sys.plan_device("grow the file system of / when the machine boots".into());
        return Ok(());
    }
    grow(sys, "/", wanted == Resize::InBackground)
}

/// Grows the file system that is mounted at a point.
pub fn grow(sys: &System, point: &str, in_background: bool) -> Result<()> {
    let mounts = sys.mounts()?;
    let Some(mount) = mounted_at(&mounts, point) else {
        warning!(sys, "resizefs: {point} is not a mount point");
        return Ok(());
    };
    if mount.source == "overlayroot" || mount.fs_type == "overlay" {
        debug!(sys, "{point} is an overlay; skipping resizefs");
        return Ok(());
    }
    let kind = mount.fs_type.as_str();
    let device = if kind == "zfs" { Some(mount.source.clone()) } else { mount_device(sys, mount) };
    let Some(device) = device else {
        let why = format!("{} ({kind}) at {point} is not a resizable device", mount.source);
        if sys.is_container() {
            debug!(sys, "{why}");
        } else {
            warning!(sys, "resizefs: {why}");
        }
        return Ok(());
    };
    let point = writable_mount_point(sys, mount);
    if !in_background && grow_by_kernel(sys, kind, &device, &point, &mounts) {
        info!(sys, "Resized root filesystem (type={kind}, val=True)");
        return Ok(());
    }
    let Some(argv) = resize_command(sys, kind, &device, &point)? else { return Ok(()) };
    let command = Command::new(argv);
    if in_background {
        return sys.spawn_detached(&command);
    }
    sys.run(&command)?;
    info!(sys, "Resized root filesystem (type={kind}, val=True)");
    Ok(())
}

/// Btrfs can be grown through any of its mounts, and a read-only root of a system with snapshots through these.
fn writable_mount_point(sys: &System, mount: &MountInfo) -> String {
    let read_only = mount.options.split(',').any(|o| o == "ro");
    if mount.fs_type == "btrfs" && read_only && mount.mount_point == "/" && sys.is_dir("/.snapshots") {
        return "/.snapshots".to_string();
    }
    mount.mount_point.clone()
}

/// Returns whether the kernel grew it (or had nothing to grow).
fn grow_by_kernel(sys: &System, kind: &str, device: &str, point: &str, mounts: &[MountInfo]) -> bool {
    let growable = match kind {
        "ext4" => GrowableFileSystem::Ext4,
        "xfs" => GrowableFileSystem::Xfs,
        "btrfs" => GrowableFileSystem::Btrfs,
        _ => return false,
    };
    let grown = find_block_device(sys, device, mounts)
        .and_then(|block| block.size(sys))
        .and_then(|size| sys.grow_file_system(point, growable, size));
    match grown {
        Ok(()) => true,
        Err(e) => {
            debug!(sys, "{e}; falling back to the userspace tool for {kind}");
            false
        }
    }
}

/// Returns the command that grows a file system; `None` if there is none, which is logged.
fn resize_command(sys: &System, kind: &str, device: &str, point: &str) -> Result<Option<Vec<String>>> {
    let words = |words: &[&str]| Ok(Some(words.iter().map(ToString::to_string).collect()));
    match kind {
        _ if kind.starts_with("ext") => words(&["resize2fs", device]),
        _ if kind.starts_with("xfs") => words(&["xfs_growfs", point]),
        _ if kind.starts_with("btrfs") => {
            // Most likely the kernel refused because it balances; newer tools wait for their turn.
            let version = sys.run(&Command::new(["btrfs", "--version"]).read_only())?.text();
            let wait: &[&str] = if can_enqueue(&version) { &["--enqueue"] } else { &[] };
            words(&[&["btrfs", "filesystem", "resize"], wait, &["max", point]].concat())
        }
        _ if kind.starts_with("bcachefs") => words(&["bcachefs", "device", "resize", device]),
        _ if kind.starts_with("zfs") => {
            let pool = device.split('/').next().unwrap_or(device);
            if !sys.exists("/dev/zfs") {
                debug!(sys, "/dev/zfs does not exist; not growing pool {pool}");
                return Ok(None);
            }
            let status = sys.run(&Command::new(["zpool", "status", pool]).read_only())?.text();
            match online_disk_of_pool(&status, pool) {
                Some(disk) => {
                    // Other names, such as those in /dev/disk/by-id, are known to zpool.
                    let node = format!("/dev/{disk}");
                    let disk = if sys.is_block_device(&node) { &node } else { disk };
                    words(&["zpool", "online", "-e", pool, disk])
                }
                None => Err(Error::new(format!("zpool status {pool}: no disk is online"))),
            }
        }
        _ if kind.starts_with("ufs") => words(&["growfs", "-y", point]),
        _ if kind.starts_with("hammer2") => words(&["hammer2", "growfs", point]),
        _ => {
            warning!(sys, "resizefs: resizing {kind} is not supported");
            Ok(None)
        }
    }
}

/// Returns whether btrfs-progs knows `--enqueue` (5.10); its first line is `btrfs-progs v6.2`.
fn can_enqueue(version: &str) -> bool {
    let number = version.split_whitespace().find_map(|w| w.strip_prefix('v')).unwrap_or_default();
    let mut parts = number.split('.').map(|n| n.parse().unwrap_or(0_u32));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (5, 10)
}

/// Returns the first disk that is online in a pool.
fn online_disk_of_pool<'t>(status: &'t str, pool: &str) -> Option<&'t str> {
    status.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (name, state) = (words.next()?, words.next()?);
        let group = ["mirror", "raidz", "spare", "log", "cache"].iter().any(|g| name.starts_with(g));
        (state == "ONLINE" && name != pool && !group && name != "state:").then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};

    #[test]
    fn resize_rootfs_is_a_boolean_or_noblock() {
        for (text, wanted) in [
            ("true", Some(Resize::Yes)),
            ("'no'", Some(Resize::No)),
            ("0", Some(Resize::No)),
            ("noblock", Some(Resize::InBackground)),
            ("NoBlock ", Some(Resize::InBackground)),
            ("later", None),
            ("[true]", None),
        ] {
            assert_eq!(Resize::read(&yaml(text), &mut Reader::new()), wanted, "{text}");
        }
    }

    #[test]
    fn file_systems_of_other_kernels_have_commands() {
        let sandbox = Sandbox::new("{}");
        for (kind, line) in
            [("ufs", Some("growfs -y /")), ("hammer2", Some("hammer2 growfs /")), ("9p", None)]
        {
            let argv = resize_command(&sandbox.sys, kind, "/dev/vda1", "/").unwrap();
            assert_eq!(argv.map(|argv| argv.join(" ")).as_deref(), line);
        }
        assert_eq!(sandbox.logged_warnings().len(), 1, "{:?}", sandbox.logged_warnings());
    }

    #[test]
    fn output_of_zpool_and_btrfs_is_parsed() {
        let status = "  pool: rpool\n state: ONLINE\nconfig:\n\tNAME STATE READ\n\trpool ONLINE 0\n\
                      \t  mirror-0 ONLINE 0\n\t    vda2 ONLINE 0\n";
        assert_eq!(online_disk_of_pool(status, "rpool"), Some("vda2"));
        assert_eq!(online_disk_of_pool("  rpool DEGRADED 0\n", "rpool"), None);
        for (version, can) in [
            ("btrfs-progs v6.2\n", true),
            ("btrfs-progs v5.10.1", true),
            ("btrfs-progs v5.4", false),
            ("", false),
        ] {
            assert_eq!(can_enqueue(version), can, "{version}");
        }
    }

    #[test]
    fn invalid_arguments_and_other_mount_points_grow_nothing() {
        let mut sandbox = Sandbox::new("resize_rootfs: true");
        sandbox.args = vec!["nobloc".into()];
        assert!(sandbox.run(&MODULE).is_err());
        let sandbox = Sandbox::live("{}");
        grow(&sandbox.sys, "/proc", false).unwrap();
        grow(&sandbox.sys, "/no/such/point", false).unwrap();
        assert!(sandbox.sys.effects().is_empty());
    }
}
