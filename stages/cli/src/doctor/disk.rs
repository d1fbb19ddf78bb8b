//! Disks: full and read-only file systems.

use std::os::unix::fs::MetadataExt;

use serde_json::json;
use system::{FileSystemUse, MountInfo, System};

use super::page::Page;
use crate::finding::{Findings, Layer};
use crate::machine::Machine;

/// What all users need, and the bits of the mode that let them use it. A strict umask may take them from a file that is written again.
const PUBLIC: [(&str, u32); 3] = [
    ("/tmp /var/tmp", 0o777),
    ("/dev/null", 0o666),
    ("/etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/resolv.conf", 0o444),
];
/// A file system with less free space than this counts as full.
const LITTLE: u64 = 4 << 20;

pub fn section(machine: &Machine, page: &mut Page) {
    page.findings.layer = Layer::Machine;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (cloud, run) = (layout.cloud(""), layout.run(""));
    let (mut seen, mut lines, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for directory in ["/", "/etc", &cloud, "/var/log", &run, "/tmp", "/home"] {
        let Ok(meta) = sys.metadata(directory) else {
            let directory = directory.trim_end_matches('/');
            // That of a disk may be on another one.
            if let Some(target) = sys.read_link(directory).ok().filter(|_| sys.is_live()) {
                let problem = format!("a link to {target}, which does not exist");
                let remedy = "create or mount that directory, or replace the link";
                page.findings.error(directory, problem, remedy);
            }
            continue;
        };
        let Some(space) = page.findings.read(sys.file_system_use(directory)) else { continue };
        // A mount of a part of the same file system may be read-only.
        if seen.contains(&(meta.dev(), space.is_read_only)) {
            continue;
        }
        seen.push((meta.dev(), space.is_read_only));
        let read_only = if space.is_read_only { ", read-only" } else { "" };
        lines.push(format!(
            "{directory}: {} MiB free of {} MiB{read_only}",
            space.free >> 20,
            space.size >> 20
        ));
        rows.push(json!({"directory": directory, "size": space.size, "free": space.free,
            "free_files": space.free_files, "read_only": space.is_read_only}));
        check(directory, &space, sys.is_live(), &mut page.findings);
    }
    let public = PUBLIC.iter().flat_map(|(paths, needed)| paths.split(' ').map(move |path| (path, needed)));
    for (path, needed) in public.filter(|_| sys.is_live()) {
        if let Some(mode) = sys.mode(path).filter(|mode| mode & needed != *needed) {
            let problem = format!(
                "its mode is {mode:04o}: programs of other users than root cannot use it, such as apt's and sudo"
            );
            let remedy = format!("chmod a+{} {path}", if *needed == 0o444 { "r" } else { "rwX" });
            page.findings.error(path, problem, remedy);
        }
    }
    page.section("disks", "Disks", lines, rows.into());
}

/// Returns the first mount of a disk or of memory that is full.
pub fn full(sys: &System) -> Option<String> {
    let mounts = sys.mounts().unwrap_or_default().into_iter().map(|mount| mount.mount_point);
    let mut mounts =
        mounts.filter(|point| !["/proc", "/sys", "/dev", "/snap"].iter().any(|top| point.starts_with(top)));
    mounts.find(|point| {
        let space = sys.file_system_use(point).ok().filter(|space| !space.is_read_only);
        space.is_some_and(|space| is_full(&space) || space.free_files == Some(0))
    })
}

/// Returns whether a file system is full. Those without a size, such as those of the kernel, have no free space either.
fn is_full(space: &FileSystemUse) -> bool {
    space.size > 0 && space.free < LITTLE.min(space.size / 10)
}

/// Checks a file system. Below another root it is read-only if the rescuer mounted it so.
fn check(directory: &str, space: &FileSystemUse, is_live: bool, findings: &mut Findings) {
    if is_full(space) {
        let problem = format!("the file system is full: {} of {} bytes are free", space.free, space.size);
        findings.error(directory, problem, "free space, or grow the disk, then reboot");
    }
    if space.free_files == Some(0) {
        findings.error(directory, "the file system has no free inodes", "remove files, then reboot");
    }
    if space.is_read_only && is_live {
        let problem = "mounted read-only: cloud-init cannot record its state";
        findings.error(directory, problem, "find out why: dmesg, fsck, /etc/fstab");
    }
}

/// Returns the mount of a file, if it has an option.
pub fn mount_with(mounts: &[MountInfo], file: &str, option: &str) -> Option<String> {
    let is_above =
        |mount: &&MountInfo| mount.mount_point == "/" || file.starts_with(&format!("{}/", mount.mount_point));
    let mount = mounts.iter().filter(is_above).max_by_key(|mount| mount.mount_point.len())?;
    mount.options.split(',').any(|known| known == option).then(|| mount.mount_point.clone())
}

#[cfg(test)]
mod tests {
    use super::{FileSystemUse, Findings, check};

    #[test]
    fn full_and_read_only_file_systems_are_reported() {
        let mib = 1 << 20;
        let good = FileSystemUse { size: 1000 * mib, free: 100 * mib, free_files: None, is_read_only: false };
        for (space, is_live, count) in [
            (good, true, 0),
            (FileSystemUse { free: mib, ..good }, true, 1),
            (FileSystemUse { free: 0, free_files: Some(0), ..good }, true, 2),
            (FileSystemUse { is_read_only: true, ..good }, true, 1),
            (FileSystemUse { is_read_only: true, ..good }, false, 0),
            (FileSystemUse { size: 0, free: 0, ..good }, true, 0),
            // A small one that is half empty.
            (FileSystemUse { size: mib, free: mib / 2, ..good }, true, 0),
        ] {
            let mut findings = Findings::default();
            check("/", &space, is_live, &mut findings);
            assert_eq!(findings.all.len(), count, "{space:?}");
        }
    }
}
