//! Waiting for udev. While it processes an event, the device's symbolic links and names are not reliable.

use std::time::{Duration, SystemTime};

use crate::{Deadline, ResultExt as _, System, debug};

/// Exists while udev has queued events.
const QUEUE: &str = "/run/udev/queue";
/// udev's control socket; without it no daemon empties the queue.
const CONTROL: &str = "/run/udev/control";
/// udev's database, one file for each device.
const DATA: &str = "/run/udev/data";
/// The time for which a starting udev may listen on its socket without a queue or database yet.
// Wait: everything | a udev that listens to begin its work | -
const STARTUP_TIME: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);
/// The sequence number of the kernel's last event.
const SEQNUM: &str = "/sys/kernel/uevent_seqnum";
/// The first line is the CPU time of udev and its workers.
const CPU_STAT: &str = "/sys/fs/cgroup/system.slice/systemd-udevd.service/cpu.stat";

/// A snapshot of udev's progress; equal to an earlier one if there was none in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdevProgress {
    data: Option<SystemTime>,
    numbers: [Vec<u8>; 2],
}

impl System {
    /// Returns whether udev has events in its queue.
    pub fn udev_is_busy(&self) -> bool {
        self.exists(QUEUE) && self.exists(CONTROL)
    }

    /// Returns whether udev, if it runs, has processed a device yet. A database that is older than the control socket is the
    /// initrd's.
    pub fn udev_has_started(&self) -> bool {
        let Some(listens) = self.modified_at(CONTROL) else { return true };
        self.modified_at(DATA).is_some_and(|wrote| wrote >= listens)
            && self.list(DATA).is_ok_and(|names| !names.is_empty())
    }

    fn modified_at(&self, path: &str) -> Option<SystemTime> {
        self.metadata(path).and_then(|m| m.modified().context(path)).ok()
    }

    /// Returns a snapshot of udev's progress: its database, the kernel's event number and its CPU time.
    pub fn udev_progress(&self) -> UdevProgress {
        let first_line = |path| {
            let mut text = self.read_head(path, 32).unwrap_or_default();
            text.truncate(text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len()));
            text
        };
        UdevProgress { data: self.modified_at(DATA), numbers: [SEQNUM, CPU_STAT].map(first_line) }
    }

    /// Returns whether the running udev has processed this network interface and is not renaming it.
    pub fn udev_has_processed_nic(&self, name: &str) -> bool {
        let Ok(index) = self.read_text(format!("/sys/class/net/{name}/ifindex")) else { return false };
        let record = format!("{DATA}/n{}", index.trim());
        let (Some(listens), Some(wrote)) = (self.modified_at(CONTROL), self.modified_at(&record)) else {
            return false;
        };
        // udev writes the record after it has renamed the interface, and again with this mark if the kernel has yet to.
        let is_renaming = |text: &str| text.lines().any(|line| line == "E:ID_RENAMING=1");
        wrote >= listens && self.read_text(&record).is_ok_and(|text| !is_renaming(&text))
    }

    /// Waits until udev's queue is empty. Returns `false` if it is not `within` that time.
    pub fn settle_udev(&self, within: Duration) -> bool {
        self.settle_udev_unless(within, || false)
    }

    /// Does the same as [`System::settle_udev`], but returns `true` as soon as the devices that matter are `ready`.
    pub fn settle_udev_unless(&self, within: Duration, ready: impl Fn() -> bool) -> bool {
        if ready() {
            return true;
        }
        let deadline = Deadline::after(within);
        let _wait = self.begin_wait("udev");
        if self.udev_is_busy() {
            debug!(self, "waiting for udev, at most {} s", within.as_secs_f32());
        }
        let beginning = Deadline::after(STARTUP_TIME.min(within));
        while self.udev_is_busy() || (!beginning.is_expired() && !self.udev_has_started()) {
            if deadline.is_expired() {
                return false;
            }
            self.clock().sleep(PAUSE.min(deadline.remaining()));
            if ready() {
                return true;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteOptions;
    use scratch::TempDir;

    #[test]
    fn interface_is_processed_once_the_running_udev_has_its_record() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let write = |path: &str, text: &str| sys.write(path, text, WriteOptions::default()).unwrap();
        write("/sys/class/net/eth0/ifindex", "2\n");
        write("/run/udev/data/n2", "E:ID_NET_NAME=ens3\n");
        assert!(!sys.udev_has_processed_nic("eth0"), "udev does not run");
        write(CONTROL, "");
        let age = |seconds| SystemTime::now() - Duration::from_secs(seconds);
        let set_age = |path: &str, seconds| {
            let file = std::fs::File::options().write(true).open(top.join(&path[1..])).unwrap();
            file.set_modified(age(seconds)).unwrap();
        };
        set_age("/run/udev/data/n2", 20);
        set_age(CONTROL, 10);
        assert!(!sys.udev_has_processed_nic("eth0"), "the record is the initrd's");
        set_age("/run/udev/data/n2", 5);
        assert!(sys.udev_has_processed_nic("eth0"));
        assert!(!sys.udev_has_processed_nic("eth1"), "there is no such interface");
        write("/run/udev/data/n2", "I:5\nE:ID_RENAMING=1\n");
        assert!(!sys.udev_has_processed_nic("eth0"), "udev renames it");
    }

    #[test]
    fn settle_ends_when_the_devices_are_ready() {
        let top = TempDir::new();
        let sys = System::new(&top);
        sys.write(QUEUE, "", WriteOptions::default()).unwrap();
        sys.write(CONTROL, "", WriteOptions::default()).unwrap();
        let looks = std::cell::Cell::new(0);
        let ready = || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        };
        assert!(sys.settle_udev_unless(Duration::from_secs(20), ready));
        assert_eq!(looks.get(), 3);
        assert!(!sys.settle_udev_unless(Duration::from_millis(30), || false));
    }

    #[test]
    fn settle_waits_for_the_queue_until_the_deadline() {
        let top = TempDir::new();
        let sys = System::new(&top);
        assert!(sys.settle_udev(Duration::ZERO));
        sys.write(QUEUE, "", WriteOptions::default()).unwrap();
        assert!(!sys.udev_is_busy(), "nobody is there who could empty it");
        sys.write(CONTROL, "", WriteOptions::default()).unwrap();
        assert!(!sys.settle_udev(Duration::from_millis(30)));
        std::thread::scope(|scope| {
            let queue = top.join("run/udev/queue");
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                std::fs::remove_file(queue)
            });
            assert!(sys.settle_udev(Duration::from_secs(20)));
        });
        let begun = top.join("run/udev/data/n1");
        assert!(!sys.udev_has_started());
        let before = sys.udev_progress();
        assert_eq!(before, sys.udev_progress());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                std::fs::create_dir_all(begun.parent().unwrap()).unwrap();
                std::fs::write(begun, "")
            });
            assert!(sys.settle_udev(Duration::from_secs(20)) && sys.udev_has_started());
        });
        assert_ne!(before, sys.udev_progress());
        // A database older than the socket of the running udev was written in the initrd.
        let old = SystemTime::now() - Duration::from_secs(60);
        std::fs::File::open(top.join("run/udev/data")).unwrap().set_modified(old).unwrap();
        assert!(!sys.udev_has_started());
    }

    #[test]
    fn progress_counts_events_and_cpu_time() {
        let top = TempDir::new();
        let sys = System::new(top.to_path_buf());
        let put = |path: &str, text: &str| sys.write(path, text, WriteOptions::default()).map(drop).unwrap();
        let mut last = sys.udev_progress();
        for (path, text, moves) in [
            (SEQNUM, "7\n", true),
            (SEQNUM, "8\n", true),
            (CPU_STAT, "usage_usec 5\nuser_usec 5\n", true),
            (CPU_STAT, "usage_usec 5\nuser_usec 6\n", false),
            (CPU_STAT, "usage_usec 6\nuser_usec 6\n", true),
            (QUEUE, "", false),
        ] {
            put(path, text);
            let now = sys.udev_progress();
            assert_eq!(now != last, moves, "{path} {text}");
            last = now;
        }
    }
}
