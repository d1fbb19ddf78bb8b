//! Whether a drive or disk may still appear: a generator runs before udev has loaded any driver, and a CD-ROM that appears a
//! second later was a common cause of wrong identification. Used only if no datasource was found. Reads /sys and /run, and
//! does not wait.

use std::time::Duration;

use system::{Deadline, System};

/// Exists once udev accepts requests in this root.
const UDEV: &str = "/run/udev/control";
const BLOCK: &str = "/sys/class/block";
const SCSI: &str = "/sys/bus/scsi/devices";

/// No device is pending if none was in this many consecutive polls: between the steps of a drive (bus scanned, driver
/// loaded, node made) udev is idle for a moment. Polls count, not time: if this process is not scheduled, neither is udev.
pub const QUIET_POLLS: u32 = 10;
/// The time between two polls.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Returns why devices may still appear, one line each; empty if none will.
pub fn reasons(sys: &System) -> Vec<String> {
    let mut reasons: Vec<String> = udev(sys).into_iter().chain(devices(sys)).collect();
    reasons.extend(controllers_without_driver(sys));
    if !sys.exists(UDEV) {
        // The kernel may still be scanning behind these.
        let hosts = sys.list("/sys/class/scsi_host").unwrap_or_default();
        if !hosts.is_empty() {
            reasons.push(format!("udev has not run yet, and drives may appear on {}", hosts.join(", ")));
        }
    }
    reasons
}

/// Returns the first reason for the local stage to wait. While udev is busy nothing else is read: on a slow machine the
/// processor is udev's.
pub fn first(sys: &System) -> Option<String> {
    udev(sys).or_else(|| devices(sys).into_iter().next())
}

fn udev(sys: &System) -> Option<String> {
    if sys.udev_is_busy() {
        return Some("udev is busy".into());
    }
    (!sys.udev_has_started()).then(|| "udev has not started yet".into())
}

fn devices(sys: &System) -> Vec<String> {
    let mut reasons = drives_without_driver(sys);
    for name in sys.list(BLOCK).unwrap_or_default() {
        let node = format!("/dev/{}", name.replace('!', "/"));
        let size = sys.read_text(format!("{BLOCK}/{name}/size")).unwrap_or_default();
        let is_drive = name.strip_prefix("sr").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if !sys.exists(&node) && !matches!(size.trim(), "" | "0") {
            reasons.push(format!("{name} has no node yet"));
        } else if is_drive && is_busy(sys, &node) {
            reasons.push(format!("{name} is still detecting its medium"));
        }
    }
    reasons
}

fn is_busy(sys: &System, node: &str) -> bool {
    let Ok(drive) = blockdev::open(sys, node) else { return false };
    // The ioctl may have to wait for the drive.
    let deadline = Deadline::after(Duration::from_millis(300));
    blockdev::run_within(deadline, move || blockdev::is_drive_not_ready(&drive)).unwrap_or(true)
}

/// Returns the disks and CD drives on the SCSI bus whose driver is not loaded yet.
fn drives_without_driver(sys: &System) -> Vec<String> {
    // SCSI device types (linux/scsi/scsi_proto.h): disk, CD or DVD drive.
    let is_drive = |kind: &str| matches!(kind, "0" | "5");
    let mut found = Vec::new();
    for name in sys.list(SCSI).unwrap_or_default() {
        let kind = sys.read_text(format!("{SCSI}/{name}/type")).unwrap_or_default();
        if is_drive(kind.trim()) && !sys.exists(format!("{SCSI}/{name}/driver")) {
            found.push(format!("the drive {name} has no driver yet"));
        }
    }
    found
}

/// Returns the controllers of disks and drives whose driver is not loaded yet.
fn controllers_without_driver(sys: &System) -> Vec<String> {
    const DEVICES: &str = "/sys/bus/pci/devices";
    const VIRTIO: &str = "/sys/bus/virtio/devices";
    // The PCI class of mass storage; the virtio ids of a disk and of a SCSI host.
    let is_storage = |class: &str| class.starts_with("0x01");
    let is_disk = |device: &str| matches!(device, "0x0002" | "0x0008");
    let mut found = Vec::new();
    for (directory, file, fits) in
        [(DEVICES, "class", &is_storage as &dyn Fn(&str) -> bool), (VIRTIO, "device", &is_disk)]
    {
        for name in sys.list(directory).unwrap_or_default() {
            let text = sys.read_text(format!("{directory}/{name}/{file}")).unwrap_or_default();
            if fits(text.trim()) && !sys.exists(format!("{directory}/{name}/driver")) {
                found.push(format!("the controller {name} has no driver yet"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::WriteOptions;

    #[test]
    fn devices_without_driver_or_node_are_pending() {
        let top = std::env::temp_dir().join(format!("pending-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        let sys = System::new(&top);
        let put = |path: &str, text: &str| sys.write(path, text, WriteOptions::default()).map(drop).unwrap();
        assert_eq!(reasons(&sys), Vec::<String>::new());
        put("/sys/class/block/vda/size", "2048\n");
        put("/dev/vda", "");
        put("/sys/class/block/loop0/size", "0\n");
        put("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
        put("/sys/bus/pci/devices/0000:00:03.0/class", "0x010000\n");
        put("/sys/bus/pci/devices/0000:00:03.0/driver/x", "");
        assert_eq!(reasons(&sys), Vec::<String>::new());
        put("/sys/class/block/vdb/size", "2048\n");
        put("/sys/bus/pci/devices/0000:00:04.0/class", "0x010601\n");
        put("/sys/bus/virtio/devices/virtio3/device", "0x0008\n");
        put("/sys/class/scsi_host/host0/x", "");
        assert_eq!(first(&sys).as_deref(), Some("vdb has no node yet"));
        assert_eq!(
            reasons(&sys)[1..],
            [
                "the controller 0000:00:04.0 has no driver yet",
                "the controller virtio3 has no driver yet",
                "udev has not run yet, and drives may appear on host0",
            ]
        );
        put(UDEV, "");
        assert_eq!(first(&sys).as_deref(), Some("udev has not started yet"));
        put("/run/udev/queue", "");
        assert_eq!(reasons(&sys).len(), 4);
        assert_eq!(first(&sys).as_deref(), Some("udev is busy"));
        put("/run/udev/data/b8:0", "");
        put("/sys/bus/scsi/devices/2:0:0:0/type", "5\n");
        put("/sys/bus/scsi/devices/3:0:0:0/type", "1\n");
        put("/sys/bus/scsi/devices/host2/x", "");
        sys.remove("/run/udev/queue").unwrap();
        assert_eq!(devices(&sys), ["the drive 2:0:0:0 has no driver yet", "vdb has no node yet"]);
        put("/sys/bus/scsi/devices/2:0:0:0/driver/x", "");
        put("/dev/vdb", "");
        assert_eq!(first(&sys), None);
        std::fs::remove_dir_all(top).unwrap();
    }
}
