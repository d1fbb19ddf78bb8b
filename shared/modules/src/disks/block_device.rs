//! Block devices in sysfs: the device of a mount point, the disk of a partition.

use system::{Error, MountInfo, Result, System, mounted_at};

/// A device's directory in sysfs, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// `/dev/vda1`.
    pub path: String,
    /// `/sys/dev/block/254:1`, with its links followed.
    pub sysfs: String,
}

/// What a device of the device-mapper is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapped {
    Luks,
    Lvm,
    Other,
}

/// A partition of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub path: String,
    pub disk: String,
    pub number: u32,
    /// The start in bytes.
    pub start: u64,
    pub length: u64,
    pub disk_size: u64,
    pub sector_size: u64,
}

/// The size of sysfs's sectors, which does not depend on the disk's.
const SYSFS_SECTOR_SIZE: u64 = 512;

/// Returns the device of a mount; `None` for a mount without a named device, such as tmpfs, NFS or an overlay.
pub fn mount_device(sys: &System, mount: &MountInfo) -> Option<String> {
    if sys.is_block_device(&mount.source) {
        return Some(mount.source.clone());
    }
    // Without an initrd the kernel calls its root /dev/root, which does not exist; the device number leads to the name.
    // A container on a directory of its host sees the host's device in sysfs, and has no node for it.
    let numbered = devname(sys, &format!("/sys/dev/block/{}:{}", mount.major, mount.minor));
    numbered.filter(|path| sys.is_block_device(path)).or_else(|| {
        if mount.source != "/dev/root" {
            return None;
        }
        let line = sys.kernel_command_line();
        let root = line.split_whitespace().filter_map(|w| w.strip_prefix("root=")).next_back()?;
        Some(resolve_root_parameter(root)).filter(|path| sys.is_block_device(path))
    })
}

/// Returns the device that `root=` names.
fn resolve_root_parameter(root: &str) -> String {
    for (tag, directory) in [
        ("LABEL=", "by-label"),
        ("UUID=", "by-uuid"),
        ("PARTUUID=", "by-partuuid"),
        ("PARTLABEL=", "by-partlabel"),
    ] {
        if let Some(value) = root.strip_prefix(tag) {
            return format!("/dev/disk/{directory}/{}", value.trim_matches('"'));
        }
    }
    if root.starts_with('/') { root.to_string() } else { format!("/dev/{root}") }
}

fn devname(sys: &System, sysfs: &str) -> Option<String> {
    let uevent = sys.read_text(format!("{sysfs}/uevent")).ok()?;
    let name = uevent.lines().find_map(|l| l.strip_prefix("DEVNAME="))?;
    Some(format!("/dev/{name}"))
}

/// Returns the device of a path below /dev, or of a mount point.
pub fn find_block_device(sys: &System, target: &str, mounts: &[MountInfo]) -> Result<BlockDevice> {
    let path = if target.starts_with("/dev/") {
        target.to_string()
    } else {
        let mount = mounted_at(mounts, target).ok_or_else(|| Error::new("not a mount point"))?;
        mount_device(sys, mount).ok_or_else(|| {
            Error::new(format!("{} ({}) is not a block device", mount.source, mount.fs_type))
        })?
    };
    let (major, minor) = sys.device_number(&path)?;
    let link = format!("/sys/dev/block/{major}:{minor}");
    let sysfs = sys.real_path(&link).ok_or_else(|| Error::new(format!("{link} does not exist")))?;
    Ok(BlockDevice { path: devname(sys, &sysfs).unwrap_or(path), sysfs })
}

fn read_number(sys: &System, path: &str) -> Result<u64> {
    let text = sys.read_text(path)?;
    text.trim().parse().map_err(|_| Error::new(format!("{path}: expected a number")))
}

impl BlockDevice {
    pub fn size(&self, sys: &System) -> Result<u64> {
        Ok(read_number(sys, &format!("{}/size", self.sysfs))?.saturating_mul(SYSFS_SECTOR_SIZE))
    }

    /// Returns the partition; `None` for a whole disk or a device that is composed of others.
    pub fn partition(&self, sys: &System) -> Result<Option<Partition>> {
        let file = format!("{}/partition", self.sysfs);
        if !sys.exists(&file) {
            return Ok(None);
        }
        let Some((parent, _)) = self.sysfs.rsplit_once('/') else { return Ok(None) };
        let disk = devname(sys, parent).ok_or_else(|| Error::new(format!("{parent} is not a disk")))?;
        let bytes = |path: String| read_number(sys, &path).map(|n| n.saturating_mul(SYSFS_SECTOR_SIZE));
        Ok(Some(Partition {
            path: self.path.clone(),
            disk,
            number: u32::try_from(read_number(sys, &file)?).unwrap_or(0),
            start: bytes(format!("{}/start", self.sysfs))?,
            length: self.size(sys)?,
            disk_size: bytes(format!("{parent}/size"))?,
            sector_size: read_number(sys, &format!("{parent}/queue/logical_block_size"))
                .unwrap_or(SYSFS_SECTOR_SIZE)
                .max(1),
        }))
    }

    /// Returns the device-mapper's name and the kind of its target; `None` for other devices.
    pub fn device_mapper(&self, sys: &System) -> Option<(String, Mapped)> {
        let name = sys.read_text(format!("{}/dm/name", self.sysfs)).ok()?;
        let id = sys.read_text(format!("{}/dm/uuid", self.sysfs)).unwrap_or_default();
        let kinds = [("CRYPT-LUKS", Mapped::Luks), ("LVM-", Mapped::Lvm)];
        let kind = kinds.into_iter().find(|(prefix, _)| id.starts_with(prefix));
        Some((name.trim().to_string(), kind.map_or(Mapped::Other, |(_, kind)| kind)))
    }

    /// Returns the devices that this one is composed of.
    pub fn underlying_devices(&self, sys: &System) -> Vec<String> {
        let names = sys.list(format!("{}/slaves", self.sysfs)).unwrap_or_default();
        names.into_iter().map(|name| format!("/dev/{name}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockDevice, Mapped};
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn encrypted_and_logical_volumes_are_distinguished() {
        let sandbox = Sandbox::new("{}");
        for (number, uuid, expected) in [
            (0, Some("CRYPT-LUKS2-0123-root\n"), Some(("root".to_string(), Mapped::Luks))),
            (1, Some("LVM-0123\n"), Some(("root".into(), Mapped::Lvm))),
            (2, Some("CRYPT-PLAIN-swap\n"), Some(("root".into(), Mapped::Other))),
            (3, None, None),
        ] {
            let sysfs = format!("/sys/devices/virtual/block/dm-{number}");
            let files = uuid.map(|uuid| [("name", "root\n"), ("uuid", uuid)]).into_iter().flatten();
            for (name, text) in files {
                sandbox
                    .sys
                    .write(format!("{sysfs}/dm/{name}"), text, system::WriteOptions::default())
                    .unwrap();
            }
            let device = BlockDevice { path: "/dev/mapper/root".into(), sysfs };
            assert_eq!(device.device_mapper(&sandbox.sys), expected);
        }
    }

    /// As in a container on a directory of its host.
    #[test]
    fn a_device_without_a_node_is_no_device() {
        let sandbox = Sandbox::new("{}");
        let mount = system::MountInfo {
            major: 254,
            minor: 0,
            mount_point: "/".into(),
            options: "rw".into(),
            fs_type: "ext4".into(),
            source: "/dev/vda".into(),
        };
        let options = system::WriteOptions::default();
        sandbox.sys.write("/sys/dev/block/254:0/uevent", "DEVNAME=vda\n", options).unwrap();
        assert_eq!(super::mount_device(&sandbox.sys, &mount), None);
    }

    #[test]
    fn root_parameter_is_resolved_to_a_path() {
        for (root, path) in [
            ("/dev/vda1", "/dev/vda1"),
            ("vda1", "/dev/vda1"),
            ("LABEL=cloudimg-rootfs", "/dev/disk/by-label/cloudimg-rootfs"),
            ("PARTUUID=1-2", "/dev/disk/by-partuuid/1-2"),
            ("UUID=x", "/dev/disk/by-uuid/x"),
        ] {
            assert_eq!(super::resolve_root_parameter(root), path);
        }
    }
}
