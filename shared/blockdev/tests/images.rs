//! Real file systems in images that take the place of device nodes. Each is created by its own tool, except UDF.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "common/udf.rs"]
mod udf;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use blockdev::Superblock;
use scratch::TempDir;
use system::{Deadline, System, WriteOptions};

struct Sandbox(TempDir);

impl Sandbox {
    fn new() -> Sandbox {
        let top = TempDir::new();
        std::fs::create_dir_all(top.join("dev")).unwrap();
        Sandbox(top)
    }

    fn sys(&self) -> System {
        System::new(&self.0)
    }

    /// Returns a disk of this many KiB, which the root's /sys lists.
    fn disk(&self, name: &str, kib: u64) -> PathBuf {
        let path = self.0.join("dev").join(name);
        std::fs::File::create(&path).unwrap().set_len(kib << 10).unwrap();
        let size = format!("/sys/class/block/{name}/size");
        self.sys().write(size, format!("{}\n", kib * 2), WriteOptions::default()).unwrap();
        path
    }
}

/// Runs a tool that the tests need; without it they fail.
fn tool(argv: &[&str], path: &Path) {
    let program = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .map(|dir| Path::new(dir).join(argv[0]))
        .into_iter()
        .find(|p| p.exists())
        .unwrap_or_else(|| panic!("{} is missing: see packaging/deps", argv[0]));
    let output = Command::new(program).args(&argv[1..]).arg(path).output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn iso(path: &Path, label: &str, from: &Path) {
    std::fs::create_dir_all(from).unwrap();
    std::fs::write(from.join("meta-data"), "instance-id: i-1\n").unwrap();
    let from = from.to_str().unwrap().to_string();
    let path = path.to_str().unwrap();
    tool(&["xorriso", "-as", "mkisofs", "-quiet", "-V", label, "-J", "-r", "-o", path], Path::new(&from));
}

fn block(fstype: &str, label: Option<&str>, fatboot: Option<&str>, uuid: Option<&str>) -> Superblock {
    let text = |t: Option<&str>| t.map(str::to_string);
    Superblock { fstype: fstype.into(), label: text(label), label_fatboot: text(fatboot), uuid: text(uuid) }
}

/// Returns an empty exFAT of 1 MiB.
fn exfat() -> Vec<u8> {
    let mut image = vec![0; 1 << 20];
    for (at, bytes) in [
        (0, &b"\xeb\x76\x90EXFAT   "[..]),
        // The length, the place and length of the FAT, the place of the clusters, their number, and the first of the root.
        (72, b"\0\x08\0\0\0\0\0\0\x18\0\0\0\x08\0\0\0\x20\0\0\0\xfc\0\0\0\x02\0\0\0"),
        // The revision 1.0, sectors of 512 bytes, eight of them in a cluster, one FAT.
        (104, b"\0\x01\0\0\x09\x03\x01"),
        (510, b"\x55\xaa"),
    ] {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let counted = (0..11 * 512).filter(|at| ![106, 107, 112].contains(at));
    let checksum =
        counted.fold(0_u32, |sum, at: usize| sum.rotate_right(1).wrapping_add(u32::from(image[at])));
    image[11 * 512..][..4].copy_from_slice(&checksum.to_le_bytes());
    image
}

#[test]
fn file_systems_made_by_mkfs_are_identified() {
    let sandbox = Sandbox::new();
    let sys = sandbox.sys();
    tool(&["mkfs.vfat", "-n", "CIDATA", "-i", "12345678"], &sandbox.disk("vda", 4096));
    tool(&["mkfs.vfat", "-F", "32", "-n", "config-2", "-i", "9796932E"], &sandbox.disk("vdb", 65536));
    let uuid = "6b8ff3f0-9f4c-4e4b-9c52-5c4c8e4a4a10";
    tool(&["mkfs.ext4", "-q", "-L", "config-2", "-U", uuid], &sandbox.disk("vdc", 4096));
    sandbox.disk("vdd", 1024);
    let sr0 = sandbox.disk("sr0", 4096);
    iso(&sr0, "cidata", &sandbox.0.join("seed"));

    let found = blockdev::scan(&sys, Deadline::after(Duration::from_secs(30)));
    assert!(found.failed.is_empty(), "{:?}", found.failed);
    let mut seen: Vec<_> = found.superblocks.into_iter().map(|(d, s)| (d.path, s)).collect();
    // The UUID of an ISO image is its creation time.
    assert!(seen[0].1.uuid.take().is_some_and(|u| u.len() == 22));
    assert_eq!(
        seen,
        [
            ("/dev/sr0".to_string(), block("iso9660", Some("cidata"), None, None)),
            ("/dev/vda".to_string(), block("vfat", Some("CIDATA"), Some("CIDATA"), Some("1234-5678"))),
            ("/dev/vdb".to_string(), block("vfat", Some("config-2"), Some("config-2"), Some("9796-932E"))),
            ("/dev/vdc".to_string(), block("ext4", Some("config-2"), None, Some(uuid))),
        ]
    );

    let sandbox = Sandbox::new();
    for (name, kib, words) in [
        ("vda", 4096, &["mkfs.ext2", "-q"][..]),
        ("vdb", 4096, &["mkfs.ext3", "-q"]),
        ("vdc", 320 << 10, &["mkfs.xfs", "-q"]),
        ("vdd", 128 << 10, &["mkfs.btrfs", "-q"]),
        ("vde", 4096, &["mkfs.ntfs", "-F", "-Q", "-q"]),
    ] {
        tool(words, &sandbox.disk(name, kib));
    }
    for name in ["vdf", "vdg"] {
        sandbox.disk(name, 1024);
    }
    // The magic numbers of squashfs (with its version) and erofs, and of a RAID behind an ext2.
    for (name, at, bytes) in [
        ("vdf", 0, &b"hsqs"[..]),
        ("vdf", 28, b"\x04"),
        ("vdg", 1024, b"\xe2\xe1\xf5\xe0"),
        ("vda", (4096 << 10) - (64 << 10), b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a"),
    ] {
        let disk = std::fs::OpenOptions::new().write(true).open(sandbox.0.join("dev").join(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&disk, bytes, at).unwrap();
    }
    std::fs::write(sandbox.disk("vdh", 1024), exfat()).unwrap();
    let found = blockdev::scan(&sandbox.sys(), Deadline::after(Duration::from_secs(30)));
    let types: Vec<_> = found.superblocks.into_iter().map(|(_, s)| s.fstype).collect();
    assert_eq!(types, ["ext2", "ext3", "xfs", "btrfs", "ntfs", "squashfs", "erofs", "exfat"]);
}

/// A disc in Azure's format is recognised; one with another standard identifier, or without an anchor, is not.
#[test]
fn only_valid_udf_discs_are_recognised() {
    let sandbox = Sandbox::new();
    let disc = |name: &str, changes: &[(usize, u8)]| {
        let mut image = udf::disc();
        changes.iter().for_each(|(at, byte)| image[*at] = *byte);
        std::fs::write(sandbox.disk(name, udf::KIB), image).unwrap();
    };
    disc("sr0", &[]);
    disc("sr1", &[(udf::NAME_AT, b'X')]);
    disc("sr2", &[(udf::ANCHOR_AT, 9)]);
    let found = blockdev::scan(&sandbox.sys(), Deadline::after(Duration::from_secs(30)));
    assert!(found.failed.is_empty(), "{:?}", found.failed);
    let seen: Vec<_> = found.superblocks.into_iter().map(|(d, s)| (d.path, s)).collect();
    assert_eq!(seen, [("/dev/sr0".to_string(), block("udf", None, None, None))]);
}

#[test]
fn unreadable_devices_are_reported_and_empty_ones_omitted() {
    let sandbox = Sandbox::new();
    let sys = sandbox.sys();
    let garbage: Vec<u8> = (0_u32..1 << 18).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(sandbox.disk("vda", 256), garbage).unwrap();
    // The node is missing, is a directory, is shorter than the kernel reports, is empty.
    sandbox.disk("vdb", 64);
    std::fs::remove_file(sandbox.0.join("dev/vdb")).unwrap();
    sandbox.disk("vdc", 64);
    std::fs::remove_file(sandbox.0.join("dev/vdc")).unwrap();
    std::fs::create_dir(sandbox.0.join("dev/vdc")).unwrap();
    std::fs::write(sandbox.disk("vdd", 64), "short").unwrap();
    std::fs::write(sandbox.disk("vde", 64), "").unwrap();

    let found = blockdev::scan(&sys, Deadline::after(Duration::from_secs(30)));
    assert_eq!(found.superblocks, []);
    let failed: Vec<_> = found.failed.iter().map(|(d, e)| (d.name.as_str(), e.to_string())).collect();
    assert_eq!(
        failed,
        [
            ("vdb", "opening /dev/vdb: No such file or directory".to_string()),
            ("vdc", "opening /dev/vdc: not a block device".to_string())
        ]
    );
}

#[test]
fn labels_that_are_not_utf8_equal_no_name() {
    let sandbox = Sandbox::new();
    let path = sandbox.disk("vda", 4096);
    tool(&["mkfs.vfat", "-n", "CIDATA"], &path);
    let mut bytes = std::fs::read(&path).unwrap();
    // Both copies of the label: in the boot sector, and in the root directory.
    for at in (0..bytes.len() - 6).filter(|at| &bytes[*at..*at + 6] == b"CIDATA").collect::<Vec<_>>() {
        bytes[at] = 0xE9;
    }
    std::fs::write(&path, bytes).unwrap();
    let superblock = blockdev::probe_path(&sandbox.sys(), "/dev/vda").unwrap().unwrap();
    assert_eq!(superblock.label.as_deref(), Some("\u{fffd}IDATA"));
    assert!(!superblock.has_label("CIDATA"));
}

#[test]
fn an_expired_deadline_skips_probing() {
    let sandbox = Sandbox::new();
    sandbox.disk("vda", 64);
    let found = blockdev::scan(&sandbox.sys(), Deadline::after(Duration::ZERO));
    assert_eq!(found.failed[0].1.to_string(), "probing /dev/vda: deadline exceeded");
}
