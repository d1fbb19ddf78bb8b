//! Disks and partitions: found by their names, with their content.

use std::collections::BTreeMap;
use std::time::Duration;

use blockdev::{Contents, Superblock, contents, is_in_use};
use system::{Error, Result, System};

use super::layout::{is_boot_loader, is_extended};
use crate::disks::block_device::{BlockDevice, find_block_device};
use crate::disks::metadata_devices::MetadataDevices;

// Wait: disk_setup | udev, before and after a disk is changed | -
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Sysfs gives an extended partition this size at most, in its sectors of 512 bytes.
const MAX_EXTENDED_SIZE: u64 = 2 * 512;

/// The names of devices that the user and the datasource define.
pub struct Names<'a> {
    pub aliases: &'a BTreeMap<String, String>,
    pub metadata: MetadataDevices<'a>,
}

impl Names<'_> {
    /// Returns the path of a name, or the name if it is not defined.
    pub fn resolve(&self, name: &str) -> String {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.metadata.path(name).unwrap_or_else(|| name.to_string())
    }

    /// Resolves as [`Names::resolve`] does a name that may have the number of a partition after a dot.
    pub fn resolve_dotted(&self, sys: &System, name: &str) -> (String, Option<u32>) {
        let whole = self.resolve(name);
        if sys.exists(&whole) {
            return (whole, None);
        }
        match name.rsplit_once('.').map(|(name, number)| (name, number.parse())) {
            Some((name, Ok(number @ 1..))) if !name.is_empty() => (self.resolve(name), Some(number)),
            _ => (whole, None),
        }
    }
}

/// The kind of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Disk,
    Partition,
    Other,
}

/// A block device.
#[derive(Debug, Clone)]
pub struct Target {
    pub device: BlockDevice,
    pub kind: Kind,
}

/// Waits until the kernel and udev know the devices.
pub fn settle(sys: &System) {
    if !sys.is_dry_run() {
        sys.settle_udev(SETTLE_TIMEOUT);
    }
}

/// Finds the device of a path.
///
/// # Errors
/// Fails if it does not exist or is not a block device.
pub fn find(sys: &System, path: &str) -> Result<Target> {
    settle(sys);
    let real = sys.real_path(path).filter(|real| sys.is_block_device(real));
    let real = real.ok_or_else(|| Error::new(format!("{path} is not a block device")))?;
    let device = find_block_device(sys, &real, &[])?;
    let has = |name: &str| sys.exists(format!("{}/{name}", device.sysfs));
    let name = device.sysfs.rsplit('/').next().unwrap_or_default();
    let is_other =
        ["dm", "md"].into_iter().any(has) || ["sr", "ram", "zram"].iter().any(|p| name.starts_with(p));
    let kind = match has("partition") {
        true => Kind::Partition,
        false if is_other => Kind::Other,
        false => Kind::Disk,
    };
    Ok(Target { device, kind })
}

impl Target {
    pub fn path(&self) -> &str {
        &self.device.path
    }

    /// Returns the path of a partition, which may not exist.
    pub fn partition_path(&self, number: u32) -> String {
        let middle = if self.path().ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
        format!("{}{middle}{number}", self.path())
    }

    /// Returns the partitions that the kernel knows, in the order of their numbers.
    ///
    /// # Errors
    /// Fails if the kernel's information cannot be read.
    pub fn partitions(&self, sys: &System) -> Result<Vec<Target>> {
        let mut found = Vec::new();
        for name in sys.list(&self.device.sysfs)? {
            let sysfs = format!("{}/{name}", self.device.sysfs);
            let Some(number) = sys.read_text_if_exists(format!("{sysfs}/partition")).ok().flatten() else {
                continue;
            };
            let number = number.trim().parse::<u32>().unwrap_or(u32::MAX);
            let device = BlockDevice { path: format!("/dev/{}", name.replace('!', "/")), sysfs };
            found.push((number, Target { device, kind: Kind::Partition }));
        }
        sort::sort_by_key(&mut found, |(number, _)| *number);
        Ok(found.into_iter().map(|(_, target)| target).collect())
    }

    /// Reads the content of the device.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn inspect(&self, sys: &System) -> Result<ExistingData> {
        let contents = contents(sys, self.path())?;
        let mut other = None;
        if let Some(partition) = self.device.partition(sys)? {
            let table = blockdev::contents(sys, &partition.disk)?.table.unwrap_or_default();
            let kind =
                table.partitions.iter().find(|p| p.number == partition.number).map(|p| p.kind.as_str());
            other = match kind {
                Some(kind) if is_extended(kind) => Some("logical partitions"),
                Some(kind) if is_boot_loader(kind) => Some("a boot loader"),
                _ if partition.length <= MAX_EXTENDED_SIZE => Some("logical partitions"),
                _ => None,
            };
        } else if !self.partitions(sys)?.is_empty() {
            other = Some("partitions");
        }
        if !sys.list(format!("{}/holders", self.device.sysfs))?.is_empty() {
            other = Some("another device");
        }
        Ok(ExistingData { contents, other, in_use: is_in_use(sys, self.path())? })
    }
}

/// The content of a device, which would be lost if it were overwritten.
#[derive(Debug, Default)]
pub struct ExistingData {
    pub contents: Contents,
    /// A description of content without a signature.
    pub other: Option<&'static str>,
    pub in_use: bool,
}

impl ExistingData {
    /// Returns the file system, swap area or volume, unless it was never finished.
    fn superblock(&self) -> Option<&Superblock> {
        self.contents.superblock.as_ref().filter(|_| !self.contents.is_unfinished)
    }

    /// Describes the data that would be lost; `None` without data.
    pub fn describe(&self) -> Option<String> {
        let partitions = self.contents.table.as_ref().map_or(0, |table| table.partitions.len());
        if let Some(found) = self.superblock() {
            return Some(format!("it holds data of type {}", found.fstype));
        }
        if self.contents.is_ambivalent {
            return Some("it holds data of several types".into());
        }
        if partitions > 0 {
            let damaged = self.contents.table.as_ref().is_some_and(|table| table.is_damaged);
            let table = if damaged { " in a damaged partition table" } else { "" };
            return Some(format!("it holds {partitions} partitions{table}"));
        }
        if let Some(other) = self.other {
            return Some(format!("it holds {other}"));
        }
        self.in_use.then(|| "it is in use".into())
    }

    /// Returns the type of the file system.
    pub fn fs_type(&self) -> Option<&str> {
        self.superblock().map(|s| s.fstype.as_str())
    }

    /// Returns the label of the file system.
    pub fn label(&self) -> Option<&str> {
        self.superblock().and_then(|s| s.label.as_deref())
    }
}
