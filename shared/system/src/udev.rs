//! udev, as far as one has to wait for it: while it works on a device's event, the device's links and names are
//! not to be relied on.

use std::time::{Duration, SystemTime};

use crate::{Deadline, ResultExt as _, System, debug};

/// udev keeps this file while events are in its queue.
const QUEUE: &str = "/run/udev/queue";
/// udev listens here; without it nothing will ever empty the queue.
const CONTROL: &str = "/run/udev/control";
/// What it knows of devices, a file each.
const DATA: &str = "/run/udev/data";
/// It listens before it reads what the kernel told it, and has neither queue nor data until then; not for longer.
const STARTUP_TIME: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);
/// The number of the last event that the kernel had for it.
const SEQNUM: &str = "/sys/kernel/uevent_seqnum";
/// The processor time that it and its workers have had, in the first line.
const CPU_STAT: &str = "/sys/fs/cgroup/system.slice/systemd-udevd.service/cpu.stat";

/// How far udev is; equal to an earlier one where it got nowhere in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdevProgress {
    data: Option<SystemTime>,
    numbers: [Vec<u8>; 2],
}

impl System {
    /// Whether udev is at work on an event.
    pub fn udev_is_busy(&self) -> bool {
        self.exists(QUEUE) && self.exists(CONTROL)
    }

    /// Whether udev, where there is one, has handled any device yet. What an initrd's udev knew is older than the
    /// place where this one listens.
    pub fn udev_has_started(&self) -> bool {
        let Some(listens) = self.modified_at(CONTROL) else { return true };
        self.modified_at(DATA).is_some_and(|wrote| wrote >= listens)
            && self.list(DATA).is_ok_and(|names| !names.is_empty())
    }

    fn modified_at(&self, path: &str) -> Option<SystemTime> {
        self.metadata(path).and_then(|m| m.modified().context(path)).ok()
    }

    /// What changes while udev gets anywhere: it knows of one more device, the kernel has found one more for it, or it
    /// computes.
    pub fn udev_progress(&self) -> UdevProgress {
        let first_line = |path| {
            let mut text = self.read_head(path, 32).unwrap_or_default();
            text.truncate(text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len()));
            text
        };
        UdevProgress { data: self.modified_at(DATA), numbers: [SEQNUM, CPU_STAT].map(first_line) }
    }

    /// Waits until udev has worked off its queue; `false` when it had not within that time.
    pub fn settle_udev(&self, within: Duration) -> bool {
        let deadline = Deadline::after(within);
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
    fn progress() {
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
