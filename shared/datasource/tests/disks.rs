//! Seeds on block devices: images of real file systems behind loop devices, which are the only ones of a machine in a
//! directory (`make devices`). Mounting needs the kernel's vfat; without it the test expects the error.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::process::Command;

use common::{Machine, text};
use scratch::TempDir;

/// A loop device, detached at the end.
struct Loop {
    device: String,
    _dir: TempDir,
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(done.status.success(), "{program} {args:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).trim().to_string()
}

/// Attaches a FAT image with this label and these files.
fn attach(label: &str, files: &[(&str, &str)]) -> Loop {
    let dir = TempDir::new();
    let image = dir.join("image");
    std::fs::File::create(&image).unwrap().set_len(2 << 20).unwrap();
    let image = image.to_str().unwrap();
    run("mkfs.vfat", &["-n", label, image]);
    for (name, content) in files {
        let file = dir.join("file");
        std::fs::write(&file, content).unwrap();
        if let Some((parents, _)) = name.rsplit_once('/') {
            let mut path = String::new();
            for part in parents.split('/') {
                path = format!("{path}/{part}");
                run("mmd", &["-i", image, &format!("::{path}")]);
            }
        }
        run("mcopy", &["-i", image, file.to_str().unwrap(), &format!("::{name}")]);
    }
    let device = run("losetup", &["--find", "--show", "--read-only", image]);
    Loop { device, _dir: dir }
}

/// Gives a machine the device: its node, and its entry in sysfs.
fn plug(machine: Machine, disk: &Loop) -> Machine {
    let name = disk.device.rsplit('/').next().unwrap();
    let numbers = run("stat", &["-c", "%Hr %Lr", &disk.device]);
    let (major, minor) = numbers.split_once(' ').unwrap();
    let machine = machine.file(&format!("/sys/class/block/{name}/size"), "4096\n").file("/dev/null", "");
    let node = machine.host(&format!("/dev/{name}"));
    run("mknod", &[node.to_str().unwrap(), "b", major, minor]);
    machine
}

fn kernel_has(kind: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|l| l.split_whitespace().last() == Some(kind))
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn only_disks_with_the_label_are_seeds() {
    let files = [("meta-data", "instance-id: i-disk"), ("user-data", "u")];
    let half = attach("CIDATA", &[("user-data", "u")]);
    let whole = attach("CIDATA", &files);
    let other = attach("OTHER", &files);
    let machine = || plug(plug(plug(Machine::new(), &half), &whole), &other);
    match machine().find("NoCloud") {
        Ok(found) => {
            assert!(kernel_has("vfat"));
            let instance = found.unwrap();
            assert_eq!((&*instance.id, text(&instance.user_data)), ("i-disk", "u".into()));
            assert_eq!(instance.subplatform, format!("config-disk ({})", whole.device));
        }
        // The labelled device was tried, the last one first, and the reason is reported.
        Err(e) => {
            let e = e.to_string();
            assert!(!kernel_has("vfat"), "{e}");
            let last = std::cmp::max(&whole.device, &half.device);
            assert!(e.starts_with(&format!("{last}: mounting {last} (vfat)")), "{e}");
            assert!(e.contains("kernel module vfat") && !e.contains(&other.device), "{e}");
        }
    }
    // A readable seed is not hidden by an unreadable disk.
    let directory = machine().seed("/var/lib/cloud/seed/nocloud", "instance-id: i-dir", "d");
    assert_eq!(directory.found("NoCloud").id, "i-dir");
    // The mount point is removed again.
    let left = directory.sys.list("/run/cloud-init").unwrap();
    assert!(!left.iter().any(|name| name.starts_with("media-")), "{left:?}");
    // Disabled, and another label: none of these is read.
    for label in ["null", "''", "nobody"] {
        let machine = machine().config(&format!("datasource: {{NoCloud: {{fs_label: {label}}}}}"));
        assert_eq!(machine.find("NoCloud").unwrap(), None, "{label}");
    }
    // A configured label, in any case.
    let own = machine().config("datasource: {NoCloud: {fs_label: other}}");
    match own.find("NoCloud") {
        Ok(found) => assert_eq!(found.unwrap().subplatform, format!("config-disk ({})", other.device)),
        Err(e) => assert!(e.to_string().starts_with(&format!("{}: mounting", other.device)), "{e}"),
    }
}

/// Attaches, writable, an ext4 image with this label and one file, not cleanly unmounted if its journal is `dirty`.
fn attach_ext4(label: &str, name: &str, content: &str, dirty: bool) -> Loop {
    let dir = TempDir::new();
    let (image, tree) = (dir.join("image"), dir.join("tree"));
    let file = tree.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, content).unwrap();
    std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let image = image.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-L", label, "-d", tree.to_str().unwrap(), image]);
    if dirty {
        run("debugfs", &["-w", "-R", "feature needs_recovery", image]);
    }
    let device = run("losetup", &["--find", "--show", image]);
    Loop { device, _dir: dir }
}

/// A label suffices, whatever file system has it; nothing is written to it, and its journal is not replayed.
#[test]
#[ignore = "needs root and loop devices: make devices"]
fn config_drives_are_read_without_a_write() {
    assert!(kernel_has("ext4"), "this kernel has no ext4");
    for dirty in [false, true] {
        let disk =
            attach_ext4("config-2", "openstack/latest/meta_data.json", "{\"uuid\": \"u-ext4\"}", dirty);
        let before = std::fs::read(&disk.device).unwrap();
        let found = plug(Machine::new(), &disk).found("ConfigDrive");
        assert_eq!(found.subplatform, format!("config-disk ({})", disk.device));
        run("sync", &[]);
        assert!(std::fs::read(&disk.device).unwrap() == before, "it was written to (dirty: {dirty})");
        // Without the label it is an unrelated disk.
        let other = attach_ext4("data", "openstack/latest/meta_data.json", "{\"uuid\": \"u\"}", dirty);
        assert_eq!(plug(Machine::new(), &other).find("ConfigDrive").unwrap(), None);
    }
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn config_drive_is_found_by_label_or_as_a_whole_disk() {
    let meta = [("openstack/latest/meta_data.json", "{\"uuid\": \"u-disk\"}")];
    let labelled = attach("CONFIG-2", &meta);
    let any = attach("ANY", &[("x", "y")]);
    let machine = plug(plug(Machine::new(), &labelled), &any);
    match machine.find("ConfigDrive") {
        Ok(found) => assert_eq!(found.unwrap().subplatform, format!("config-disk ({})", labelled.device)),
        // The labelled one first, then whole disks of any label.
        Err(e) => {
            assert!(e.to_string().starts_with(&format!("{}: mounting", labelled.device)), "{e}");
            assert!(
                machine.warnings().contains(&format!("skipped: {}", any.device)),
                "{}",
                machine.warnings()
            );
        }
    }
    // Without the label only whole disks are read.
    let name = any.device.rsplit('/').next().unwrap();
    let partition = plug(Machine::new(), &any)
        .file("/sys/class/block/loop/size", "8192\n")
        .file(&format!("/sys/class/block/{name}/partition"), "1\n");
    assert_eq!(partition.find("ConfigDrive").unwrap(), None);
}

#[test]
fn device_without_a_file_system_is_skipped() {
    // Below another root there are no devices, whatever its /sys has.
    let machine = Machine::new().file("/sys/class/block/vdz/size", "2048\n");
    assert_eq!(machine.find("NoCloud").unwrap(), None);
    assert_eq!(machine.find("ConfigDrive").unwrap(), None);
    // An image in the place of a device's node is read.
    let machine = machine.file("/dev/vdz", vec![0_u8; 1 << 20]);
    assert_eq!(machine.find("NoCloud").unwrap(), None);
}
