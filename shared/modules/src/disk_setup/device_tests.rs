//! disk_setup on loop devices: what it makes is equal to what cloud-init 26.2 makes on an equal disk. They need root and loop
//! devices: `make devices`.

use std::collections::BTreeMap;
use std::path::Path;

use super::MODULE;
use crate::tests::sandbox::{Sandbox, yaml};

const MIB: u64 = 1 << 20;

/// A loop device.
pub struct Disk {
    top: scratch::TempDir,
    image: std::path::PathBuf,
    pub device: String,
}

pub fn run(program: &str, args: &[&str], input: &str) -> String {
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
    /// Returns a disk on which shell commands have been run: `$D` is the device, `$P` its first partition, `$T` a
    /// directory.
    pub fn prepared(mib: u64, script: &str) -> Disk {
        let top = scratch::TempDir::new();
        let image = top.join("disk");
        std::fs::File::create(&image).unwrap().set_len(mib * MIB).unwrap();
        let device = run("losetup", &["--find", "--show", "--partscan", image.to_str().unwrap()], "");
        let disk = Disk { top, image, device: device.trim().to_string() };
        disk.shell(script);
        disk
    }

    /// Works on a disk of another process.
    pub fn existing(device: &str, work: impl FnOnce(&Disk)) {
        let top = scratch::TempDir::new();
        let disk = Disk { image: top.join("none"), top, device: device.to_string() };
        work(&disk);
        std::mem::forget(disk);
    }

    /// Runs shell commands, with the variables of [`Disk::prepared`].
    pub fn shell(&self, script: &str) -> String {
        let variables = format!("D={0}; P={0}p1; T={1}", self.device, self.top.display());
        run("sh", &["-ec", &format!("{variables}; {script}")], "")
    }

    /// Returns the partition table, and the type and label of each file system.
    pub fn layout(&self) -> BTreeMap<String, String> {
        self.flush();
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

    fn flush(&self) {
        self.shell("for d in $D ${D}p*; do [ ! -b $d ] || blockdev --flushbufs $d; done");
    }

    /// Returns the whole content of the disk.
    pub fn bytes(&self) -> Vec<u8> {
        self.flush();
        std::fs::read(&self.image).unwrap()
    }

    /// Returns the first pages of the disk and of its first partition, which hold partition tables and signatures.
    pub fn headers(&self) -> Vec<u8> {
        let bytes = self.bytes();
        [&bytes[..4096], &bytes[1 << 20..(1 << 20) + 4096]].concat()
    }

    /// Returns the number of sectors that the kernel has written to the disk or discarded. It writes when the last
    /// program closes the disk.
    pub fn writes(&self) -> [u64; 2] {
        let name = self.device.rsplit('/').next().unwrap();
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        let numbers: Vec<u64> = stat.split_whitespace().map(|n| n.parse().unwrap()).collect();
        [6, 13].map(|index| numbers[index])
    }

    /// Runs the module with a configuration in which `DISK` is the device. Returns the warnings.
    pub fn set_up(&self, config: &str) -> Vec<String> {
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
            .args(["-c", &format!("umount {0} {0}p1; swapoff {0} {0}p1; losetup -d {0}", self.device)])
            .output();
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
    std::fs::write(top.join("config"), config.replace("DISK", &disk.device)).unwrap();
    // Without udev, lsblk knows no file systems; blkid reads them.
    let program = r#"
import logging, re, sys, yaml
root, config, device = sys.argv[1:]
sys.path.insert(0, root + '/usr/lib/python3/dist-packages')
from cloudinit import subp, util
from cloudinit.config import cc_disk_setup as module
logging.basicConfig(level=logging.WARNING)
util.udevadm_settle = lambda *a, **k: None
plain = subp.subp

def known(line):
    name = re.search('NAME="([^"]*)"', line)[1]
    read = lambda tag: plain(['blkid', '-p', '-o', 'value', '-s', tag, '/dev/' + name], rcs=[0, 2])[0].strip()
    line = line.replace('FSTYPE=""', 'FSTYPE="%s"' % read('TYPE')).replace('LABEL=""', 'LABEL="%s"' % read('LABEL'))
    return line.replace('TYPE="loop"', 'TYPE="disk"')

def run(args, *rest, **named):
    out = plain(args, *rest, **named)
    if args[0] == 'lsblk':
        return subp.SubpResult('\n'.join(map(known, out[0].splitlines())), out[1])
    if args[0] == 'blockdev' and args[1] == '--rereadpt':
        try:
            plain(['partx', '--update', args[2]])
        except Exception:
            pass
    return out

subp.subp = run

class Cloud:
    def device_name_to_device(self, name):
        return device if name == 'ephemeral0' else None

module.handle('disk_setup', yaml.safe_load(open(config)), Cloud(), [])
"#;
    let config = top.join("config");
    let args = ["-c", program, root, config.to_str().unwrap(), &disk.device];
    run("python3", &args, "");
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn disks_match_upstream() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/disk_setup/upstream");
    let mut all = String::new();
    let upstream = std::env::var("FIRSTLIGHT_UPSTREAM").ok();
    for (script, config) in SAME {
        let disk = Disk::prepared(32, script);
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
