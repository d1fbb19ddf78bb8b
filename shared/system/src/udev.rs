//! udev, as far as one has to wait for it: while it works on a device's event, the device's links and names are
//! not to be relied on.

use std::time::Duration;

use crate::{Deadline, System, debug};

/// udev keeps this file while events are in its queue.
const QUEUE: &str = "/run/udev/queue";
/// udev listens here; without it nothing will ever empty the queue.
const CONTROL: &str = "/run/udev/control";
/// What it knows of devices, a file each.
const DATA: &str = "/run/udev/data";
/// It listens before it reads what the kernel told it, and has neither queue nor data until then; not for longer.
const BEGINNING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

impl System {
    /// Whether udev is at work on an event.
    pub fn udev_is_busy(&self) -> bool {
        self.exists(QUEUE) && self.exists(CONTROL)
    }

    /// Whether udev, where there is one, has handled any device yet.
    pub fn udev_has_begun(&self) -> bool {
        !self.exists(CONTROL) || self.list(DATA).is_ok_and(|names| !names.is_empty())
    }

    /// Waits until udev has worked off its queue; `false` when it had not within that time.
    pub fn settle_udev(&self, within: Duration) -> bool {
        let deadline = Deadline::after(within);
        if self.udev_is_busy() {
            debug!(self, "waiting for udev, at most {} s", within.as_secs_f32());
        }
        let beginning = Deadline::after(BEGINNING.min(within));
        while self.udev_is_busy() || (!beginning.is_over() && !self.udev_has_begun()) {
            if deadline.is_over() {
                return false;
            }
            self.clock().sleep(PAUSE.min(deadline.left()));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Write;
    use scratch::Scratch;

    #[test]
    fn a_queue_is_waited_for_with_a_deadline() {
        let top = Scratch::new();
        let sys = System::new(&top);
        assert!(sys.settle_udev(Duration::ZERO));
        sys.write(QUEUE, "", Write::default()).unwrap();
        assert!(!sys.udev_is_busy(), "nobody is there who could empty it");
        sys.write(CONTROL, "", Write::default()).unwrap();
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
        assert!(!sys.udev_has_begun());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                std::fs::create_dir_all(begun.parent().unwrap()).unwrap();
                std::fs::write(begun, "")
            });
            assert!(sys.settle_udev(Duration::from_secs(20)) && sys.udev_has_begun());
        });
    }
}
