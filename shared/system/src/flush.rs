//! Flushing file systems, so that what this program and the programs that it ran have written survives a power failure.

use std::collections::BTreeSet;
use std::fs::File;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{MountInfo, Result, ResultExt, System, debug};

impl System {
    /// Flushes (syncfs(2)) the file systems of `/` and of `directory`, and the other local ones that are mounted for
    /// writing. Does nothing for another root than `/`: it is an image, which is flushed when it is unmounted.
    ///
    /// # Errors
    /// Fails if a flush fails; the others are tried.
    pub fn flush_file_systems(&self, directory: &str) -> Result<()> {
        if !self.is_live() || self.is_dry_run() {
            return Ok(());
        }
        let _wait = self.begin_wait("the disks to store what was written");
        let known = self.read_text("/proc/filesystems").unwrap_or_default();
        let mounts = self.mounts().unwrap_or_default();
        let (begun, mut failed) = (self.clock().elapsed(), Ok(()));
        let paths = local_file_systems(&mounts, &known, directory);
        for path in &paths {
            // What is mounted may be a single file, also a pipe, whose opening would wait for a writer.
            let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::open(*path, how, Mode::empty());
            if matches!(opened, Err(Errno::ACCESS)) && !["/", directory].contains(path) {
                // What this program may not open, it has not written either; a program in another domain may have, which is logged.
                debug!(self, "The file system of {path} is not flushed: a security policy denies access");
                continue;
            }
            let flushed = opened.and_then(rustix::fs::syncfs).map_err(std::io::Error::from);
            failed = failed.and(flushed.context(format_args!("flushing the file system of {path}")));
        }
        let seconds = (self.clock().elapsed() - begun).as_secs_f64();
        debug!(self, "Flushing {} file systems took {seconds:.3} seconds", paths.len());
        failed
    }

    /// Flushes the names in a directory: file systems such as Btrfs write what another program flushes ahead of them.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened or flushed.
    pub fn flush_directory(&self, path: &str) -> Result<()> {
        if !self.is_live() || self.is_dry_run() {
            return Ok(());
        }
        File::open(path).and_then(|directory| directory.sync_all()).context(format_args!("flushing {path}"))
    }
}

/// Returns a path on each file system to flush: that of `/`, that of `directory`, and each on a device that is mounted for
/// writing. Those of the network and of other processes are left out, as their servers may not respond.
fn local_file_systems<'a>(mounts: &'a [MountInfo], known: &str, directory: &'a str) -> Vec<&'a str> {
    let on_device =
        |kind: &str| kind == "zfs" || known.lines().any(|line| line.strip_prefix('\t') == Some(kind));
    let is_local = |mount: &&MountInfo| {
        let is_writable = mount.options.split(',').any(|option| option == "rw");
        is_writable && !mount.fs_type.starts_with("fuse") && on_device(&mount.fs_type)
    };
    let always = ["/", directory]
        .map(|path| (path, mounts.iter().filter(|m| contains(m, path)).max_by_key(|m| m.mount_point.len())));
    let others = mounts.iter().filter(is_local).map(|mount| (&*mount.mount_point, Some(mount)));
    let mut seen = BTreeSet::new();
    let is_new = |(_, mount): &(&str, Option<&MountInfo>)| {
        mount.is_none_or(|m| seen.insert(format!("{}:{}", m.major, m.minor)))
    };
    always.into_iter().chain(others).filter(is_new).map(|(path, _)| path).collect()
}

fn contains(mount: &MountInfo, path: &str) -> bool {
    let rest = path.strip_prefix(mount.mount_point.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo::parse_mountinfo;

    #[test]
    fn each_local_writable_file_system_is_flushed_once() {
        let known = "nodev\ttmpfs\nnodev\toverlay\nnodev\tnfs4\n\text4\n\tvfat\n\tfuseblk\n";
        let mounts = parse_mountinfo(
            "1 0 0:40 / / rw - overlay overlay rw\n2 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n\
             3 2 8:2 / /boot/efi ro - vfat /dev/sda2 rw\n4 1 0:9 / /home rw - nfs4 server:/home rw\n\
             5 1 8:1 /x /srv rw - ext4 /dev/sda1 rw\n6 1 8:3 / /var rw - ext4 /dev/sda3 rw\n\
             7 1 8:4 / /mnt rw - fuseblk /dev/sda4 rw\n8 1 0:5 / /run rw - tmpfs tmpfs rw\n",
        );
        let flushed = |directory| local_file_systems(&mounts, known, directory);
        assert_eq!(flushed("/var/lib/cloud"), ["/", "/var/lib/cloud", "/boot"]);
        assert_eq!(flushed("/variable"), ["/", "/boot", "/var"]);
        assert_eq!(local_file_systems(&[], "", "/x"), ["/", "/x"]);
    }
}
