//! Disks of a machine in a directory: images with real file systems behind loop devices, which `tests/lib/machine-boot`
//! gives the machine under names of their own. The kernel under test may lack a file system; a disk with a vfat serial
//! number is then mounted in advance: its superblock is real, its files come from a directory.

use std::path::Path;
use std::process::Command;

use crate::fail;

/// A loop device, detached when dropped.
pub struct Disk {
    device: String,
    /// For `machine-boot`: the name, the numbers of the device, and the directory of a file system that is mounted.
    pub description: String,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// Attaches the disk that a directory describes by its name, `NODE.LABEL` or `NODE.LABEL.SERIAL`, and by its files. With a
/// serial number it is a vfat file system, otherwise ext4; one with a file `.unmountable` has a feature that no kernel knows.
pub fn attach(tree: &Path, image: &Path) -> Disk {
    let name = tree.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parts: Vec<&str> = name.split('.').collect();
    let (node, label, serial) = match parts.as_slice() {
        [node, label] => (*node, *label, None),
        [node, label, serial] => (*node, *label, Some(serial.replace('-', ""))),
        _ => fail(&format!("{}: expected NODE.LABEL or NODE.LABEL.SERIAL", tree.display())),
    };
    let is_unmountable = tree.join(".unmountable").exists();
    let (tree, image) = (tree.display().to_string(), image.display().to_string());
    run("truncate", &["-s", "8M", &image]);
    match &serial {
        Some(serial) => run("mkfs.vfat", &["-n", label, "-i", serial, &image]),
        None => run("mkfs.ext4", &["-q", "-L", label, "-d", &tree, &image]),
    };
    if is_unmountable {
        run("debugfs", &["-w", "-R", "feature FEATURE_I30", &image]);
    }
    attach_image(node, &image, if serial.is_some() { &tree } else { "" })
}

/// Attaches an image as this node. If a directory is given, it is mounted in advance with these files.
pub fn attach_image(node: &str, image: &str, mounted: &str) -> Disk {
    let device = run("losetup", &["--find", "--show", image]);
    let numbers = run("stat", &["-c", "%Hr:%Lr", &device]);
    Disk { description: format!("{node}={numbers}={mounted}"), device }
}

/// Runs a program and returns its output.
pub fn run(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().unwrap_or_else(|e| fail(&format!("{program}: {e}")));
    if !done.status.success() {
        fail(&format!("{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8_lossy(&done.stdout).trim().to_string()
}
