//! growpart and resizefs on real disks: loop devices with mounted file systems, checked by sgdisk, sfdisk and the
//! kernel. They need root and loop devices: `make devices`.

use std::path::{Path, PathBuf};

use crate::tests::sandbox::{Sandbox, yaml};
use crate::{growpart, resizefs};

const MIB: u64 = 1 << 20;

/// A loop device with a partition table, and its mount point.
struct Disk {
    image: PathBuf,
    device: String,
    point: PathBuf,
}

fn run(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {text}");
    text
}

fn run_with_input(program: &str, args: &[&str], input: &str) {
    use std::io::Write as _;
    let mut child = std::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program} {args:?}");
}

impl Disk {
    fn new(sandbox: &Sandbox, mib: u64, sector: u64, table: &str) -> Disk {
        let image = sandbox.top.join("disk");
        std::fs::File::create(&image).unwrap().set_len(mib * MIB).unwrap();
        let sector = sector.to_string();
        let args = ["--find", "--show", "--partscan", "--sector-size", &sector, image.to_str().unwrap()];
        let device = run("losetup", &args).trim().to_string();
        let disk = Disk { image, device, point: sandbox.top.join("mounted") };
        run_with_input("sfdisk", &["--quiet", &disk.device], table);
        disk.read_table();
        disk
    }

    /// Adds the partitions of the table. A kernel without support for partition tables does not do so by itself.
    fn read_table(&self) {
        if !Path::new(&self.part(1)).exists() {
            run("partx", &["--add", &self.device]);
        }
    }

    fn part(&self, number: u32) -> String {
        format!("{}p{number}", self.device)
    }

    fn mount(&self, number: u32, mkfs: &[&str]) {
        let part = self.part(number);
        run(mkfs[0], &[&mkfs[1..], &[&part]].concat());
        std::fs::create_dir_all(&self.point).unwrap();
        run("mount", &[&part, self.point.to_str().unwrap()]);
        std::fs::write(self.point.join("kept"), "kept").unwrap();
    }

    fn enlarge(&self, mib: u64) {
        std::fs::File::options().write(true).open(&self.image).unwrap().set_len(mib * MIB).unwrap();
        run("losetup", &["--set-capacity", &self.device]);
    }

    fn part_mib(&self, number: u32) -> u64 {
        run("blockdev", &["--getsize64", &self.part(number)]).trim().parse::<u64>().unwrap() / MIB
    }

    fn file_system_mib(&self) -> u64 {
        let stat = file_system_size(&self.point);
        assert_eq!(std::fs::read_to_string(self.point.join("kept")).unwrap(), "kept");
        stat / MIB
    }
}

fn file_system_size(point: &Path) -> u64 {
    let text = run("stat", &["--file-system", "--format", "%b %S", point.to_str().unwrap()]);
    let (blocks, size) = text.trim().split_once(' ').unwrap();
    blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap()
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.point).output();
        let _ = std::process::Command::new("losetup").args(["--detach", &self.device]).output();
    }
}

/// Both modules on a mounted partition of a disk that became larger. The kernel lets no ext4 file system grow without
/// CAP_SYS_RESOURCE, which containers keep from root: `make devices` leaves these out there, and says so.
fn assert_grows(sector: u64, label: &str, mkfs: &[&str]) {
    let mut sandbox = Sandbox::live("{}");
    let table = format!("label: {label}\nsize=20M\n,\n");
    let disk = Disk::new(&sandbox, 400, sector, &table);
    disk.mount(2, mkfs);
    let before = disk.file_system_mib();
    disk.enlarge(900);
    let point = disk.point.to_string_lossy().into_owned();
    let mode = if label == "gpt" { "auto" } else { "growpart" };
    sandbox.config = yaml(&format!("growpart: {{mode: {mode}, devices: [{point}]}}"));
    sandbox.run(&growpart::MODULE).unwrap();
    assert_eq!(sandbox.logged_warnings(), Vec::<String>::new(), "{sector} {label}");
    assert_eq!(disk.part_mib(2), 878, "{sector} {label}");
    resizefs::grow(&sandbox.sys, &point, false).unwrap();
    let after = disk.file_system_mib();
    assert!(after > before + 450, "{mkfs:?}: {before} to {after} MiB");
    assert!(sandbox.commands().is_empty(), "the kernel alone: {:?}", sandbox.commands());
    // A second run finds nothing to do, and no tool is asked.
    let effects = sandbox.sys.effects().len();
    sandbox.run(&growpart::MODULE).unwrap();
    assert_eq!(sandbox.sys.effects().len(), effects);
    resizefs::grow(&sandbox.sys, &point, false).unwrap();
    assert!(
        sandbox.logged_warnings().is_empty() && sandbox.commands().is_empty(),
        "{:?}",
        sandbox.commands()
    );
    if label == "gpt" {
        let output = run("sgdisk", &["--verify", &disk.device]);
        assert!(output.contains("No problems found"), "{output}");
    }
    run("sfdisk", &["--verify", &disk.device]);
    // Reading the table again gives the same size, so the growth survives a reboot.
    run("umount", &[&point]);
    run("partx", &["--delete", &disk.device]);
    disk.read_table();
    assert_eq!(disk.part_mib(2), 878);
    run("mount", &[&disk.part(2), &point]);
    assert_eq!(disk.file_system_mib(), after);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn ext4_grows_on_gpt() {
    assert_grows(512, "gpt", &["mkfs.ext4", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn ext4_grows_on_mbr() {
    assert_grows(512, "dos", &["mkfs.ext4", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn ext4_grows_on_gpt_of_large_sectors() {
    assert_grows(4096, "gpt", &["mkfs.ext4", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn ext4_grows_on_mbr_of_large_sectors() {
    assert_grows(4096, "dos", &["mkfs.ext4", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn xfs_grows_on_gpt() {
    assert_grows(512, "gpt", &["mkfs.xfs", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn btrfs_grows_on_gpt() {
    assert_grows(512, "gpt", &["mkfs.btrfs", "-q"]);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn unsupported_targets_are_not_changed() {
    let mut sandbox = Sandbox::live("{}");
    let disk = Disk::new(&sandbox, 100, 512, "label: dos\nsize=10M\n,,E\nsize=10M\n,\n");
    disk.enlarge(200);
    let head = || std::fs::read(&disk.image).unwrap()[..MIB as usize].to_vec();
    let before = head();
    for (target, expected) in [
        ("/no/such/point".to_string(), None),
        ("/proc".into(), None),
        ("/dev/null".into(), None),
        (disk.device.clone(), None),
        (disk.part(1), None),
        (disk.part(2), Some("partition 2 is an extended partition")),
        (disk.part(6), Some("growing logical partitions is not supported (partition 6)")),
    ] {
        sandbox.config = yaml(&format!("growpart: {{devices: [{target}]}}"));
        let logged_warnings = sandbox.logged_warnings().len();
        sandbox.run(&growpart::MODULE).unwrap();
        let new = &sandbox.logged_warnings()[logged_warnings..];
        match expected {
            Some(expected) => assert!(new.len() == 1 && new[0].ends_with(expected), "{target}: {new:?}"),
            None => assert!(new.is_empty(), "{target}: {new:?}"),
        }
    }
    assert!(head() == before, "the table was changed");
    assert!(sandbox.sys.effects().is_empty(), "{:?}", sandbox.sys.effects());
}
