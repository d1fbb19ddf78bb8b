//! Seeds on block devices: images of real file systems, behind loop devices where the machine lets us have some.
//! Mounting needs the kernel's vfat and iso9660, which a test machine may lack: then that is what is said.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Machine, text};
use datasource::{Search, Stage, datasource};
use state::Layout;
use system::System;

/// A loop device of our own, given back at the end.
struct Loop {
    device: String,
    dir: PathBuf,
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn run(program: &str, args: &[&str]) -> Option<String> {
    let done = Command::new(program).args(args).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_string())
}

/// A FAT image with this label and these files, attached; `None` where this machine cannot make one.
fn attach(name: &str, label: &str, files: &[(&str, &str)]) -> Option<Loop> {
    let dir = std::env::temp_dir().join(format!("datasource-disk-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let image = dir.join("image");
    std::fs::File::create(&image).unwrap().set_len(2 << 20).unwrap();
    let image = image.to_str().unwrap();
    let mut disk = Loop { device: String::new(), dir: dir.clone() };
    run("mkfs.vfat", &["-n", label, image])?;
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
        run("mcopy", &["-i", image, file.to_str().unwrap(), &format!("::{name}")])?;
    }
    disk.device = run("losetup", &["--find", "--show", "--read-only", image])?;
    Some(disk)
}

/// What a datasource finds on this machine's devices.
fn find(name: &str, config: &str) -> system::Result<Option<state::Instance>> {
    let config = config::yaml::parse("test.cfg", config).unwrap().root;
    // This machine's devices, and nothing else of it: state and seeds are looked for where there are none.
    let layout = Layout::with(Some("/nonexistent/cloud"), None, None);
    (datasource(name).unwrap().find)(&Search {
        sys: &System::new("/"),
        layout: &layout,
        config: &config,
        command_line: "",
        stage: Stage::Local,
    })
}

fn kernel_has(kind: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|l| l.split_whitespace().last() == Some(kind))
}

/// Whether this can be tried at all; a test that cannot says so.
fn possible() -> bool {
    let is_root = Path::new("/dev/loop-control").exists() && run("id", &["-u"]).as_deref() == Some("0");
    let possible = is_root && !System::new("/").is_container();
    if !possible {
        eprintln!("not tried: loop devices need root outside of a container");
    }
    possible
}

#[test]
fn labelled_disks() {
    if !possible() {
        return;
    }
    // Labels of our own, so that a seed of this machine's does not answer.
    let config = "datasource: {NoCloud: {fs_label: fltst}}";
    let files = [("meta-data", "instance-id: i-disk"), ("user-data", "u")];
    let Some(half) = attach("half", "FLTST", &[("user-data", "u")]) else {
        return eprintln!("not tried: mkfs.vfat, mtools or losetup is missing");
    };
    let whole = attach("whole", "FLTST", &files).unwrap();
    let other = attach("other", "OTHER", &files).unwrap();
    match find("NoCloud", config) {
        Ok(found) => {
            assert!(kernel_has("vfat"));
            let instance = found.unwrap();
            assert_eq!((&*instance.id, text(&instance.user_data)), ("i-disk", "u".into()));
            assert_eq!(instance.subplatform, format!("config-disk ({})", whole.device));
        }
        // It is the labelled device that was tried, the last one first, and the reason is said.
        Err(e) => {
            let e = e.to_string();
            assert!(!kernel_has("vfat"), "{e}");
            let last = if whole.device > half.device { &whole.device } else { &half.device };
            assert!(e.starts_with(&format!("{last}: mounting")), "{e}");
            assert!(e.contains("kernel's vfat module") && !e.contains(&other.device), "{e}");
        }
    }
    // Switched off, and another label: none of these is looked at.
    for config in ["datasource: {NoCloud: {fs_label: null}}", "datasource: {NoCloud: {fs_label: nobody}}"] {
        assert_eq!(find("NoCloud", config).unwrap(), None, "{config}");
    }
}

#[test]
fn a_device_that_is_no_disk() {
    // Below another root there are no devices, whatever /sys there says.
    let machine = Machine::new().file("/sys/class/block/vdz/size", "2048\n");
    assert_eq!(machine.find("NoCloud").unwrap(), None);
    assert_eq!(machine.find("ConfigDrive").unwrap(), None);
    // An image under a device's name is one.
    let machine = machine.file("/dev/vdz", vec![0_u8; 1 << 20]);
    assert_eq!(machine.find("NoCloud").unwrap(), None);
}
