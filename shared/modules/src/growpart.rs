//! growpart: grows partitions to the size of their disk, which a cloud may have made larger than the image.
//! Edits the partition table itself and notifies the kernel, so that a mounted root grows without helper programs.

use config::schema::{STR, Type, list};
use config::{FromNode, Node, Reader, Value};
use system::{Command, Error, MountInfo, Result, ResultExt, System, debug, info, warning};

use crate::disks::block_device::{Mapped, Partition, find_block_device};
use crate::disks::lvm;
use crate::disks::partition_table::{Geometry, Growth, Plan, plan_growth};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("growpart", Frequency::Always, run);

/// Do not rewrite the partition table for less free space than this (as in cloud-utils).
const FUDGE: u64 = 1 << 20;
/// Where images leave a key that may be used once to grow an encrypted root.
const KEY_FILE: &str = "/cc_growpart_keydata";

config::string_enum! {
    pub enum Mode, false until "22.3" use "off" as "Changed in version 22.3. Specifying a boolean ``false`` value for **mode** is \
        deprecated. Use the string ``'off'`` instead." {
        Auto = "auto",
        Growpart = "growpart",
        Gpart = "gpart",
        Off = "off" or "Off" or "OFF" or "false" or "False" or "FALSE" or "no" or "No" or "NO" or "0";
        Growfs = "growfs"
    }
}

config::keys! {
    pub struct Growpart {
        /// `auto` and `growpart` grow partitions, `off` does not; `gpart` is for FreeBSD only.
        mode: Mode = "auto";
        /// Mount points or device paths. The default is `/`.
        devices: Devices;
        /// Grow even if /etc/growroot-disabled exists.
        ignore_growroot_disabled: bool = false;
        /// Also grow a logical volume of LVM: the partition below it, its physical volume, and the volume by the space that
        /// these gained. Not for thin pools and volume groups of several disks.
        lvm: bool = false;
    }
    pub struct Keys {
        /// Grow partitions to fill their disks.
        growpart: Option<Growpart>;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Devices(Vec<String>);

impl FromNode for Devices {
    const SCHEMA: &'static [Type] = &[list(&[STR])];
    const ABSENT: Option<fn() -> Self> = Some(|| Self(vec!["/".to_string()]));
    fn read(node: &Node, reader: &mut Reader) -> Option<Devices> {
        match node.value {
            Value::Seq(_) | Value::Str(_) => Vec::<String>::read(node, reader).map(Devices),
            Value::Null => Some(Devices(Vec::new())),
            _ => reader.type_error(node, "a list of mount points or devices"),
        }
    }
}

/// The result for one device.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Changed { disk: String, number: u32, from: u64, to: u64 },
    NoChange(String),
    Skipped(String),
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    // With an invalid mode or list of devices, the default devices must not grow.
    let keys = context.fully_valid_key(|k: Keys| k.growpart)?;
    if keys.is_none() && context.config.get("growpart").is_some() {
        warning!(sys, "growpart is null; skipping");
        return Ok(());
    }
    let Growpart { mode, devices: Devices(devices), ignore_growroot_disabled, lvm } =
        keys.unwrap_or(Growpart {
            mode: Mode::Auto,
            devices: Devices(vec!["/".to_string()]),
            ignore_growroot_disabled: false,
            lvm: false,
        });
    match mode {
        Mode::Off => {
            debug!(sys, "growpart is off");
            return Ok(());
        }
        Mode::Growfs | Mode::Gpart => {
            let mode = mode.as_str();
            return Err(Error::new(format!("growpart.mode: {mode} is not available on this system")));
        }
        Mode::Auto | Mode::Growpart => {}
    }
    if !ignore_growroot_disabled && sys.exists("/etc/growroot-disabled") {
        debug!(sys, "growpart is disabled by /etc/growroot-disabled");
        return Ok(());
    }
    if !sys.is_live() {
        sys.plan_device(format!("grow the partition of {} when the machine boots", devices.join(", ")));
        return Ok(());
    }
    let mounts = sys.mounts()?;
    for target in &devices {
        match (Grower { context, mounts: &mounts, lvm }).grow(target) {
            Ok(Outcome::Changed { disk, number, from, to }) => {
                info!(sys, "'{target}' resized: changed ({disk}, {number}) from {from} to {to}");
            }
            Ok(Outcome::NoChange(why)) => debug!(sys, "'{target}' NOCHANGE: {why}"),
            Ok(Outcome::Skipped(why)) => debug!(sys, "'{target}' SKIPPED: {why}"),
            // The machine works with the smaller partition.
            Err(e) => warning!(sys, "growpart: '{target}' was not resized: {e}"),
        }
    }
    Ok(())
}

struct Grower<'a> {
    context: &'a Context<'a>,
    mounts: &'a [MountInfo],
    /// Whether logical volumes grow.
    lvm: bool,
}

impl Grower<'_> {
    /// Grows the partition of a device or a mount point, and the volumes between the two.
    fn grow(&self, target: &str) -> Result<Outcome> {
        let sys = self.context.sys;
        let block = match find_block_device(sys, target, self.mounts) {
            Ok(block) => block,
            Err(e) => return Ok(Outcome::Skipped(e.to_string())),
        };
        let Some((name, kind)) = block.device_mapper(sys) else {
            return match block.partition(sys)? {
                Some(partition) => grow_partition(sys, &partition),
                None => Ok(Outcome::Skipped(format!("{} is not a partition", block.path))),
            };
        };
        if kind == Mapped::Other {
            return Ok(Outcome::Skipped(format!("{name} is a device-mapper device, but not encrypted")));
        }
        let devices = block.underlying_devices(sys);
        let [device] = &devices[..] else {
            return Ok(Outcome::Skipped(format!("{name} consists of {} devices", devices.len())));
        };
        let volume = format!("/dev/mapper/{name}");
        if kind == Mapped::Luks {
            return grow_volume(sys, &volume, device, self.grow(device));
        }
        if !self.lvm {
            if self.could_grow(device) {
                info!(sys, "'{target}' is a logical volume on {device}; 'growpart: {{lvm: true}}' grows it");
            }
            return Ok(Outcome::Skipped(format!("{name} is a device-mapper device, but not encrypted")));
        }
        let below = self.grow(device)?;
        let gain = match &below {
            Outcome::Changed { from, to, .. } if sys.is_dry_run() => to - from,
            _ => 0,
        };
        let size = find_block_device(sys, device, self.mounts)?.size(sys)? + gain;
        lvm::grow(self.context, &volume, device, size)?;
        Ok(below)
    }

    /// Returns whether a device is a partition with free space behind it, or a volume on one.
    fn could_grow(&self, device: &str) -> bool {
        let sys = self.context.sys;
        let Ok(block) = find_block_device(sys, device, self.mounts) else { return false };
        match block.partition(sys) {
            Ok(Some(partition)) => matches!(plan_partition(sys, &partition), Ok(Plan::Grow(_))),
            Ok(None) => matches!(&block.underlying_devices(sys)[..], [device] if self.could_grow(device)),
            Err(_) => false,
        }
    }
}

fn plan_partition(sys: &System, partition: &Partition) -> Result<Plan> {
    let geometry = Geometry {
        sector_size: partition.sector_size,
        sector_count: partition.disk_size / partition.sector_size,
    };
    let disk = partition.disk.as_str();
    let read = &mut |offset, length| sys.read_device(disk, offset, length);
    plan_growth(geometry, partition.number, FUDGE, read)
        .map_err(|why| Error::new(format!("not changing the partition table of {disk}: {why}")))
}

fn grow_partition(sys: &System, partition: &Partition) -> Result<Outcome> {
    let disk = partition.disk.as_str();
    let growth = match plan_partition(sys, partition)? {
        Plan::Grow(growth) => growth,
        Plan::NoChange { free } => {
            return Ok(Outcome::NoChange(format!("{} could only grow by {free} bytes", partition.path)));
        }
    };
    check_matches_kernel(&growth, partition)?;
    let pieces: Vec<_> = growth.patches.iter().map(|p| (p.offset, p.bytes.as_slice())).collect();
    sys.write_device(disk, &pieces)?;
    let length = growth.new_length * partition.sector_size;
    sys.resize_partition(disk, partition.number, partition.start, length)
        .context("partition table written; the kernel will use it after a reboot")?;
    let (disk, number) = (partition.disk.clone(), partition.number);
    Ok(Outcome::Changed { disk, number, from: partition.length, to: length })
}

/// Checks that the kernel and the table agree on the partition. Otherwise the table belongs to another disk, or was
/// changed without the kernel rereading it.
fn check_matches_kernel(growth: &Growth, partition: &Partition) -> Result<()> {
    let same = growth.start * partition.sector_size == partition.start
        && growth.old_length * partition.sector_size == partition.length;
    if same {
        return Ok(());
    }
    let path = &partition.path;
    Err(Error::new(format!(
        "{path}: the kernel and the partition table of {} disagree about its position",
        partition.disk
    )))
}

/// Grows an encrypted volume on a partition, and returns the outcome of both. The volume is resized even if the partition did
/// not grow, because this removes the key that every user of the image can read.
fn grow_volume(sys: &System, volume: &str, device: &str, partition: Result<Outcome>) -> Result<Outcome> {
    match (partition, grow_luks(sys, volume, device)) {
        (Err(e), Ok(_)) => Err(e),
        (Err(e), Err(luks)) => Err(Error::new(format!("{e}; {luks}"))),
        (Ok(_), Err(e)) => Err(e),
        (Ok(_), Ok(Some(why))) => Ok(Outcome::Skipped(why)),
        (Ok(outcome), Ok(None)) => Ok(outcome),
    }
}

/// Grows an encrypted volume with the key that the image left for it, which works once. Returns why the volume was skipped;
/// `None` if it was not.
fn grow_luks(sys: &System, volume: &str, partition: &str) -> Result<Option<String>> {
    let content = match sys.read_text_if_exists(KEY_FILE) {
        Ok(None) => return Ok(Some(format!("{volume} is encrypted, but {KEY_FILE} does not exist"))),
        Ok(Some(text)) => {
            parse_key_file(&text).ok_or_else(|| Error::new(format!("{KEY_FILE}: expected a key and a slot")))
        }
        Err(e) => Err(e),
    };
    // Every user of the image could read the key: slot and file are removed even if resizing failed, and the file even
    // if it is invalid.
    let result = content.and_then(|(key, slot)| {
        let resize = Command::new(["cryptsetup", "--key-file", "-", "resize", volume]).stdin(key);
        let resized = sys.run(&resize).map(drop);
        let kill = ["cryptsetup", "luksKillSlot", "--batch-mode", partition, &slot.to_string()];
        let killed = sys.run(&Command::new(kill)).map(drop);
        resized.and(killed)
    });
    let removed = sys.remove(KEY_FILE).map(drop);
    result.and(removed).map(|()| None)
}

fn parse_key_file(text: &str) -> Option<(Vec<u8>, u64)> {
    let json = config::json::value(text.as_bytes()).ok()?;
    let key = encoding::base64::decode(json.get("key")?.as_str()?.as_bytes())?;
    let slot = json.get("slot")?;
    Some((key, slot.as_u64().or_else(|| slot.as_str()?.parse().ok())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn key_file_of_an_encrypted_root_is_parsed() {
        assert_eq!(parse_key_file(r#"{"key": "YWJj", "slot": 5}"#), Some((b"abc".to_vec(), 5)));
        assert_eq!(parse_key_file(r#"{"key": "YWJj", "slot": "7"}"#), Some((b"abc".to_vec(), 7)));
        for text in ["", "[]", r#"{"key": "%", "slot": 1}"#, r#"{"key": "YWJj"}"#, r#"{"slot": 1}"#] {
            assert_eq!(parse_key_file(text), None, "{text}");
        }
        let long =
            format!(r#"{{"key": "YWJj", "slot": 5, "x": [{}0]}}"#, "0,".repeat(config::yaml::MAX_NODES));
        assert_eq!(parse_key_file(&long), None);
    }

    #[test]
    fn the_key_file_is_removed_even_on_failure() {
        // The root has no cryptsetup: both commands fail; the key is removed nevertheless.
        for text in [br#"{"key": "c2VjcmV0LWtleQ==", "slot": 1}"#.as_slice(), b"junk", b"\xff"] {
            let sandbox = Sandbox::new("{}");
            sandbox.sys.write(KEY_FILE, text, system::WriteOptions::secret()).unwrap();
            let error = grow_luks(&sandbox.sys, "/dev/mapper/root", "/dev/vda2").unwrap_err().to_string();
            assert!(!sandbox.sys.exists(KEY_FILE) && !error.contains("secret"), "{error}");
        }
        let sandbox = Sandbox::new("{}");
        assert!(grow_luks(&sandbox.sys, "/dev/mapper/root", "/dev/vda2").unwrap().is_some());
    }

    #[test]
    fn the_key_is_used_and_removed_if_the_partition_did_not_grow() {
        for (cryptsetup, expected) in [
            ("", "hybrid MBR"),
            ("exit 1", "hybrid MBR; running cryptsetup --key-file - resize /dev/mapper/root: exit code 1"),
        ] {
            let sandbox = Sandbox::new("{}");
            sandbox.stub("cryptsetup", cryptsetup);
            let key = r#"{"key": "YWJj", "slot": 5}"#;
            sandbox.sys.write(KEY_FILE, key, system::WriteOptions::secret()).unwrap();
            let partition = Err(Error::new("hybrid MBR"));
            let outcome = grow_volume(&sandbox.sys, "/dev/mapper/root", "/dev/vda2", partition);
            assert_eq!(outcome.unwrap_err().to_string(), expected);
            assert!(!sandbox.sys.exists(KEY_FILE));
            let calls = sandbox.calls();
            assert!(calls.contains("resize /dev/mapper/root\n"), "{calls}");
            assert!(calls.contains("luksKillSlot --batch-mode /dev/vda2 5\n"), "{calls}");
        }
        // Without a key, the outcome is that of the partition, or the reason why the volume was skipped.
        let sandbox = Sandbox::new("{}");
        let grow = |partition| grow_volume(&sandbox.sys, "/dev/mapper/root", "/dev/vda2", partition);
        assert_eq!(grow(Err(Error::new("x"))).unwrap_err().to_string(), "x");
        assert!(matches!(grow(Ok(Outcome::NoChange("y".into()))), Ok(Outcome::Skipped(_))));
    }

    #[test]
    fn kernel_and_table_must_agree_on_the_partition() {
        let partition = Partition {
            path: "/dev/vda1".into(),
            disk: "/dev/vda".into(),
            number: 1,
            start: 1 << 20,
            length: 10 << 20,
            disk_size: 100 << 20,
            sector_size: 512,
        };
        let growth = |start, old_length| Growth { start, old_length, new_length: 0, patches: Vec::new() };
        assert!(check_matches_kernel(&growth(2048, 20480), &partition).is_ok());
        assert!(check_matches_kernel(&growth(2049, 20480), &partition).is_err());
        assert!(check_matches_kernel(&growth(2048, 20479), &partition).is_err());
    }
}
