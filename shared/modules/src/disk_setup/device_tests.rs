//! disk_setup on loop devices: what it makes is equal to what cloud-init 26.2 makes on an equal disk, and what a disk holds is
//! kept. They need root and loop devices: `make devices`.

use std::collections::BTreeMap;
use std::path::Path;

use super::MODULE;
use crate::test_sandbox::{Sandbox, yaml};

const MIB: u64 = 1 << 20;

/// A loop device.
struct Disk {
    _top: scratch::TempDir,
    image: std::path::PathBuf,
    device: String,
}

fn run(program: &str, args: &[&str], input: &str) -> String {
    use std::io::Write as _;
    let mut child = std::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Disk {
    /// A disk on which shell commands have been run: `$D` is the device, `$P` its first partition.
    fn prepared(script: &str) -> Disk {
        let top = scratch::TempDir::new();
        let image = top.join("disk");
        std::fs::File::create(&image).unwrap().set_len(32 * MIB).unwrap();
        let device = run("losetup", &["--find", "--show", "--partscan", image.to_str().unwrap()], "");
        let disk = Disk { _top: top, image, device: device.trim().to_string() };
        run("sh", &["-ec", &format!("D={0}; P={0}p1; {script}", disk.device)], "");
        disk
    }

    /// The partition table, and the type and label of each file system.
    fn layout(&self) -> BTreeMap<String, String> {
        run("sync", &[], "");
        let mut found = BTreeMap::new();
        let table = std::process::Command::new("sfdisk").args(["--dump", &self.device]).output().unwrap();
        let table = String::from_utf8_lossy(&table.stdout).replace(&self.device, "D");
        for line in table.lines().filter(|line| line.starts_with("label:") || line.starts_with('D')) {
            let line: Vec<&str> = line.split(", uuid=").next().into_iter().collect();
            found.insert(format!("table {}", line[0]), String::new());
        }
        for number in 0..5 {
            let path = if number == 0 { self.device.clone() } else { format!("{}p{number}", self.device) };
            if Path::new(&path).exists() {
                let args = ["-p", "-o", "export", "-s", "TYPE", "-s", "LABEL", &path];
                let output = std::process::Command::new("blkid").args(args).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let text = text.lines().filter(|l| !l.starts_with("DEVNAME")).collect::<Vec<_>>().join(" ");
                found.insert(format!("content {number}"), text);
            }
        }
        found
    }

    fn bytes(&self) -> Vec<u8> {
        run("sync", &[], "");
        run("blockdev", &["--flushbufs", &self.device], "");
        std::fs::read(&self.image).unwrap()
    }

    /// Runs the module with a configuration in which `DISK` is the device. Returns the warnings.
    fn set_up(&self, config: &str) -> Vec<String> {
        let mut sandbox = Sandbox::live("{}");
        sandbox.config = yaml(&config.replace("DISK", &self.device));
        sandbox.instance.devices.insert("ephemeral0".into(), self.device.as_str().into());
        sandbox.run(&MODULE).unwrap();
        sandbox.logged_warnings()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("sh")
            .args(["-c", &format!("umount {0} {0}p1; swapoff {0}p1; losetup -d {0}", self.device)])
            .output();
    }
}

/// Disks that hold something, by the commands that make them.
const HELD: &[(&str, &str)] = &[
    ("ext4", "mkfs.ext4 -q -L kept $D"),
    ("swap", "mkswap $D"),
    ("vfat", "mkfs.vfat $D"),
    ("empty mbr partition", "echo ,,83 | sfdisk -q $D; partx --add $D"),
    (
        "two gpt partitions",
        "sgdisk -n 1:0:+15M -n 2:0:0 $D; partx --update $D; mkfs.ext4 -q ${D}p1; mkfs.xfs -q -f ${D}p2 || true",
    ),
    ("gpt unknown to the kernel", "sgdisk -n 1:0:+15M -n 2:0:0 $D; partx --delete $D 2>/dev/null || true"),
    ("ext4 in a partition", "echo ,,83 | sfdisk -q $D; partx --add $D; mkfs.ext4 -q -L kept $P"),
    (
        "colliding signatures",
        "mkfs.ext4 -q $D; printf '\\353\\074\\220mkfs.fat' | dd of=$D conv=notrunc 2>/dev/null",
    ),
    (
        "LUKS",
        "printf 'LUKS\\272\\276\\000\\001' | dd of=$D conv=notrunc 2>/dev/null; \
      printf 11111111-2222-3333-4444-555555555555 | dd of=$D bs=1 seek=168 conv=notrunc 2>/dev/null",
    ),
    (
        "LVM",
        "printf 'LABELONE\\001\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\040\\0\\0\\0LVM2 001abcdefghijklmnopqrstuvwxyz012345' | \
      dd of=$D bs=512 seek=1 conv=notrunc 2>/dev/null",
    ),
];

/// Configurations that would change such a disk, if they were obeyed.
const CAREFUL: &[&str] = &[
    "disk_setup: {DISK: {layout: remove}}",
    "disk_setup: {DISK: {layout: [20, 20, 60]}}",
    "disk_setup: {DISK: {layout: [[10, 83], [20, 82], 70], table_type: gpt, overwrite: false}}",
    "disk_setup: {DISK: {layout: [5, 5, 5, 85], overwrite: null}}",
    "disk_setup: {DISK: {layout: [20, 20, 60], overwrite: maybe}}",
    "disk_setup: {DISK: {layout: [20, 20, 0], overwrite: true}}",
    "disk_setup: {DISK: {layout: [20, 20, [60, zz]], overwrite: true}}",
    "disk_setup: {DISK: {layout: wipe, overwrite: true}}",
    "disk_setup: {DISK: {layout: [20, 20, 60], table_type: msdos, overwrite: true}}",
    "fs_setup: [{device: DISK, filesystem: btrfs, partition: none}]",
    "fs_setup: [{device: DISK, filesystem: btrfs, partition: none, replace_fs: f2fs}]",
    "fs_setup: [{device: DISK, filesystem: ext4, label: new, partition: none}]",
    "fs_setup: [{device: DISK, filesystem: ext4, partition: none, overwrite: maybe}]",
    "fs_setup: [{device: DISK, filesystem: a/b, partition: none, overwrite: true}]",
    "fs_setup: [{device: DISK, partition: none, overwrite: true}]",
    "fs_setup: [{device: DISK, cmd: 'mkfs.ext4 -F %(device)s', partition: none}]",
    "fs_setup: [{device: DISK, cmd: 'mkfs.ext4 -F %(dev)s', partition: none, overwrite: true}]",
];

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn loop_disks_that_hold_something_are_kept() {
    for (name, script) in HELD {
        let disk = Disk::prepared(script);
        let before = disk.bytes();
        for config in CAREFUL {
            let warnings = disk.set_up(config);
            assert!(disk.bytes() == before, "{name}: changed by {config}: {warnings:?}");
        }
    }
    // Partitions with contents, chosen by number or searched for.
    for script in [
        "echo ,,83 | sfdisk -q $D; partx --add $D; mkfs.ext4 -q -L kept $P",
        "echo ,,83 | sfdisk -q $D; partx --add $D; mkswap $P",
        "printf ',15M,83\\n,10M,5\\n' | sfdisk -q $D; partx --add $D; mkfs.vfat $P",
        "sgdisk -n 1:0:0 -t 1:ef02 $D; partx --update $D; echo boot code > $P",
    ] {
        let disk = Disk::prepared(script);
        let before = disk.bytes();
        for config in [
            "fs_setup: [{device: DISK.1, filesystem: btrfs}]",
            "fs_setup: [{device: DISK, filesystem: xfs, partition: 1, label: x}]",
            "fs_setup: [{device: DISK, filesystem: xfs, partition: auto}]",
            "fs_setup: [{device: DISK, filesystem: xfs, partition: any, replace_fs: ''}]",
            "fs_setup: [{device: DISK, filesystem: xfs, partition: any}]",
            "fs_setup: [{device: DISK, cmd: 'mkfs.ext4 -F %(device)s', partition: any}]",
            "fs_setup: [{device: DISK, filesystem: xfs, partition: 1, replace_fs: btrfs}]",
        ] {
            let warnings = disk.set_up(config);
            assert!(!warnings.is_empty() && disk.bytes() == before, "{script}: {config}: {warnings:?}");
        }
    }
    // A disk in use is not changed with overwrite either.
    let disk = Disk::prepared("echo ,,83 | sfdisk -q $D; partx --add $D; mkswap $P; swapon $P");
    for config in [
        "disk_setup: {DISK: {layout: [50, 50], overwrite: true}}",
        "disk_setup: {DISK: {layout: remove, overwrite: true}}",
        "fs_setup: [{device: DISK.1, filesystem: ext4, overwrite: true}]",
    ] {
        let before = disk.bytes();
        let warnings = disk.set_up(config);
        assert!(disk.bytes() == before && warnings[0].contains("is in use"), "{config}: {warnings:?}");
    }
}

/// Disks and configurations whose result is upstream's.
const SAME: &[(&str, &str)] = &[
    ("", "disk_setup: {DISK: {layout: true}}"),
    ("", "disk_setup: {DISK: {layout: true, table_type: gpt}}"),
    ("", "disk_setup: {DISK: {layout: [33, [66, 82]]}}"),
    ("", "disk_setup: {DISK: {layout: [25, 25, [25, fd], 25], table_type: mbr}}"),
    ("", "disk_setup: {DISK: {layout: [30, [30, 82], [40, 8e00]], table_type: gpt}}"),
    (
        "",
        "disk_setup: {ephemeral0: {layout: [50, 50], table_type: gpt}}\nfs_setup: \
      [{device: ephemeral0.1, filesystem: ext4, label: one}, {device: ephemeral0.2, filesystem: swap}]",
    ),
    (
        "",
        "device_aliases: {data: DISK}\ndisk_setup: {data: {layout: [50, 50]}}\nfs_setup: \
      [{device: data, filesystem: ext4, partition: auto, label: a}, {device: data, filesystem: ext3, partition: any}]",
    ),
    ("", "fs_setup: [{device: DISK, filesystem: ext4, label: raw, partition: none}]"),
    ("", "fs_setup: [{device: DISK, filesystem: ext2, extra_opts: [-b, '4096']}]"),
    (
        "",
        "fs_setup: [{device: DISK, filesystem: ext4, cmd: 'mkfs.%(filesystem)s -F -L %(label)s %(device)s', label: c}]",
    ),
    ("mkfs.ext4 -q -L old $D", "disk_setup: {DISK: {layout: [50, 50]}}"),
    ("mkfs.ext4 -q -L old $D", "fs_setup: [{device: DISK, filesystem: ext4, label: new, partition: auto}]"),
    ("mkfs.ext4 -q -L old $D", "fs_setup: [{device: DISK, filesystem: ext4, partition: any}]"),
    ("mkfs.ext4 -q -L old $D", "fs_setup: [{device: DISK, filesystem: ext4, replace_fs: ext4, label: new}]"),
    (
        "echo ,,83 | sfdisk -q $D; partx --add $D; mkfs.ext4 -q $P",
        "disk_setup: {DISK: {layout: remove, overwrite: true}}",
    ),
    (
        "echo ,,83 | sfdisk -q $D; partx --add $D",
        "disk_setup: {DISK: {layout: [50, 50], overwrite: true, table_type: gpt}}",
    ),
    (
        "echo ,,7 | sfdisk -q $D; partx --add $D; mkfs.vfat $P",
        "disk_setup: {ephemeral0: {layout: [100], overwrite: true, \
      table_type: gpt}}\nfs_setup: [{device: ephemeral0.1, filesystem: ext4}]",
    ),
    (
        "echo ,,83 | sfdisk -q $D; partx --add $D; mkfs.ext4 -q -L one $P",
        "fs_setup: [{device: DISK, partition: 1, \
      filesystem: ext4, label: two, overwrite: true}]",
    ),
    (
        "printf ',15M,83\\n,,83\\n' | sfdisk -q $D; partx --add $D; mkfs.ext4 -q -L one $P",
        "fs_setup: [{device: DISK, \
      partition: auto, filesystem: ext4, label: two}, {device: DISK.1, filesystem: ext4, label: one}]",
    ),
];

/// cloud-init's own module, in the root that `FIRSTLIGHT_UPSTREAM` names. Loop devices count as disks, as ours do.
fn set_up_with_upstream(disk: &Disk, root: &str, config: &str) {
    let top = scratch::TempDir::new();
    let config = config.replace("DISK", &disk.device);
    std::fs::write(top.join("config"), config).unwrap();
    let program = format!(
        "import sys, logging, yaml\nsys.path.insert(0, '{root}/usr/lib/python3/dist-packages')\n\
         from cloudinit import subp, util\nfrom cloudinit.config import cc_disk_setup as module\n\
         logging.basicConfig(level=logging.WARNING)\n\
         util.udevadm_settle = lambda *a, **k: None\nplain = subp.subp\n\
         def run(args, *rest, **named):\n\
         \x20   out = plain(args, *rest, **named)\n\
         \x20   if args[0] == 'lsblk':\n\
         \x20       return subp.SubpResult(out[0].replace('TYPE=\"loop\"', 'TYPE=\"disk\"'), out[1])\n\
         \x20   if args[0] == 'blockdev' and args[1] == '--rereadpt':\n\
         \x20       try: plain(['partx', '--update', args[2]])\n\
         \x20       except Exception: pass\n\
         \x20   return out\n\
         subp.subp = run\n\
         class Cloud:\n\
         \x20   def device_name_to_device(self, name): return '{device}' if name == 'ephemeral0' else None\n\
         module.handle('disk_setup', yaml.safe_load(open('{top}/config')), Cloud(), [])\n",
        device = disk.device,
        top = top.display(),
    );
    run("python3", &["-c", &program], "");
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn loop_disks_are_as_upstream_makes_them() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/disk_setup/upstream");
    let mut all = String::new();
    let upstream = std::env::var("FIRSTLIGHT_UPSTREAM").ok();
    for (script, config) in SAME {
        let disk = Disk::prepared(script);
        match &upstream {
            Some(root) => set_up_with_upstream(&disk, root, config),
            None => {
                let warnings = disk.set_up(config);
                let expected = warnings.iter().filter(|w| !w.contains("no empty device")).collect::<Vec<_>>();
                assert!(expected.is_empty(), "{config}: {expected:?}");
            }
        }
        all.push_str(&format!("# {script}\n# {}\n", config.replace('\n', "\n# ")));
        for (key, value) in disk.layout() {
            all.push_str(format!("{key} {value}").trim_end());
            all.push('\n');
        }
        // The second run changes nothing that it need not.
        if upstream.is_none() && !config.contains("overwrite: true") && !config.contains("replace_fs") {
            let before = disk.bytes();
            disk.set_up(config);
            assert!(disk.bytes() == before, "changed by a second run: {config}");
        }
    }
    if upstream.is_some() {
        std::fs::write(&recorded, all).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&recorded).unwrap();
    for (ours, theirs) in all.lines().zip(expected.lines()) {
        assert_eq!(ours, theirs, "in\n{all}");
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}
