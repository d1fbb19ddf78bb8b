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

    /// Waits until udev's queue is empty. Returns `false` if it is not `within` that time.
    pub fn settle_udev(&self, within: Duration) -> bool {
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
        // What is older than the place where it listens is an initrd's.
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
