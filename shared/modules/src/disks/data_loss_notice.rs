//! The notice on a temporary disk. Its name is the one that Azure's agent and the disks of Azure's Windows machines use,
//! so that a disk with this file alone counts as empty.

use system::{System, WriteOptions, debug, info, mounted_at};

const FILE: &str = "DATALOSS_WARNING_README.txt";
const NOTICE: &str = "\
WARNING: THIS IS A TEMPORARY DISK.

Everything on it is lost when the cloud stops this machine or moves it to another host.
Keep data that matters on another disk.
";

/// Writes the notice to the root of a temporary device, if the device is mounted there and the notice is missing. A
/// failure is logged: the disk can be used without it.
pub fn write(sys: &System, device: &str, mount_point: &str) {
    let Some(disk) = sys.real_path(device) else { return };
    let result = sys.mounts().and_then(|mounts| {
        let mounted = mounted_at(&mounts, mount_point).and_then(|mount| sys.real_path(&mount.source));
        // Without this check, the notice could be written to the root file system.
        if mounted != Some(disk) {
            debug!(sys, "{device} is not mounted at {mount_point}; not writing {FILE}");
            return Ok(());
        }
        let path = format!("{}/{FILE}", mount_point.trim_end_matches('/'));
        if !sys.exists(&path) {
            sys.write(&path, NOTICE, WriteOptions::default())?;
        }
        Ok(())
    });
    if let Err(e) = result {
        info!(sys, "mounts: writing the notice to {device}: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// The notice after a run with `source` mounted at /mnt.
    fn notice(sandbox: &Sandbox, source: &str) -> Option<String> {
        let mountinfo =
            format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:17 / /mnt rw - ext4 {source} rw\n");
        for (path, text) in
            [("/proc/self/mountinfo", mountinfo.as_str()), ("/dev/sdb1", ""), ("/dev/sdc1", "")]
        {
            sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        }
        sandbox.sys.create_dir_all("/mnt", 0o755).unwrap();
        write(&sandbox.sys, "/dev/sdb1", "/mnt/");
        sandbox.sys.read_text_if_exists("/mnt/DATALOSS_WARNING_README.txt").unwrap()
    }

    #[test]
    fn a_mounted_temporary_disk_gets_the_notice() {
        let sandbox = Sandbox::new("{}");
        assert_eq!(notice(&sandbox, "/dev/sdb1").as_deref(), Some(NOTICE));
    }

    #[test]
    fn another_device_or_none_at_the_mount_point_gets_no_notice() {
        for source in ["/dev/sdc1", "tmpfs"] {
            assert_eq!(notice(&Sandbox::new("{}"), source), None, "{source}");
        }
        let sandbox = Sandbox::new("{}");
        write(&sandbox.sys, "/dev/absent", "/");
        assert!(!sandbox.sys.exists("/DATALOSS_WARNING_README.txt"));
    }

    #[test]
    fn an_existing_file_is_kept() {
        let sandbox = Sandbox::new("{}");
        sandbox.sys.create_dir_all("/mnt", 0o755).unwrap();
        let file = "/mnt/DATALOSS_WARNING_README.txt";
        sandbox.sys.write(file, "of the cloud", WriteOptions::default()).unwrap();
        assert_eq!(notice(&sandbox, "/dev/sdb1").as_deref(), Some("of the cloud"));
    }
}
