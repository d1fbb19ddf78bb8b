//! Work that may hang, with a deadline. A read from a device that does not respond cannot be cancelled, and a generator starts
//! no child process that could be killed instead. The work is therefore done in a thread, which is abandoned at the deadline:
//! the kernel's wait for a page of a block device is killable (folio_wait_locked_killable), so the thread ends with the
//! process. See [`abandon_hung_reads`] for the exit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use system::{Deadline, Mailbox};

/// Prepares the exit of a process with threads that are blocked in reads. The threads end with the process, but the last close
/// of a device waits for its reads, half a minute or forever, and blocks other opens meanwhile. A child process therefore
/// keeps the devices open for 120 s, longer than the kernel's timeout for a disk. It does nothing else and is not waited for.
#[allow(unsafe_code)]
pub fn abandon_hung_reads() {
    const WAIT: libc::timespec = libc::timespec { tv_sec: 120, tv_nsec: 0 };
    // SAFETY: between fork and _exit the child, which has no other thread, calls only functions that are safe in a
    // signal handler.
    unsafe {
        if libc::fork() != 0 {
            return;
        }
        // Readers of the output must not wait for the child, and a terminal must not terminate it.
        (0..3).for_each(|descriptor| {
            libc::close(descriptor);
        });
        libc::setsid();
        libc::nanosleep(&WAIT, std::ptr::null_mut());
        libc::_exit(0);
    }
}

/// Returns the result of `work`, or `None` if the deadline expires first; the work then continues in its thread.
pub fn run_within<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let result = Mailbox::default();
    let own = result.clone();
    Builder::new().spawn(move || own.put(work())).ok()?;
    result.wait(Some(deadline))
}

/// If no item finishes for this long, a worker may be stuck and another one is started. Disks respond within milliseconds; a
/// disc that spins up takes seconds, and must not delay the others.
const STALL_TIMEOUT: Duration = Duration::from_millis(200);
/// The maximum number of workers, each of which may be stuck.
const MAX_WORKERS: usize = 12;

/// The number of items per initial worker. Workers wait for the kernel most of the time, so more of them than processors are
/// useful (500 loop devices on two: 25 ms with four, 22 ms with eight, no less with more).
const ITEMS_PER_WORKER: usize = 32;
const MAX_INITIAL_WORKERS: usize = 8;

/// The state that the workers share. Only the last result wakes the waiting thread: with hundreds of devices that take
/// microseconds each, waking it up would be most of the work.
struct Shared<I, T> {
    items: Vec<I>,
    /// The index of the next item.
    next: AtomicUsize,
    /// Whether the deadline is past: no further item is started.
    closed: AtomicBool,
    results: Mutex<Results<T>>,
    all_done: Condvar,
}

struct Results<T> {
    each: Vec<Option<T>>,
    done: usize,
}

impl<I, T> Shared<I, T> {
    fn results(&self) -> MutexGuard<'_, Results<T>> {
        // The lock is never held during a panic.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<S: Default>(&self, work: fn(&mut S, &I) -> T) {
        let mut state = S::default();
        while !self.closed.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = self.items.get(at) else { return };
            let result = work(&mut state, item);
            let mut results = self.results();
            // Empty after the deadline.
            let Some(place) = results.each.get_mut(at) else { return };
            *place = Some(result);
            results.done += 1;
            if results.done == self.items.len() {
                self.all_done.notify_one();
            }
        }
    }
}

/// Calls `work` for each item, in parallel if there are many items or one does not respond. `S` is the state that a worker
/// keeps from item to item. Returns the results in the order of the items; `None` for those that missed the deadline.
pub fn map_within<S, I, T>(deadline: Deadline, items: Vec<I>, work: fn(&mut S, &I) -> T) -> Vec<Option<T>>
where
    S: Default + 'static,
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    let count = items.len();
    let each = items.iter().map(|_| None).collect();
    let shared = Arc::new(Shared {
        items,
        next: AtomicUsize::new(0),
        closed: AtomicBool::new(false),
        results: Mutex::new(Results { each, done: 0 }),
        all_done: Condvar::new(),
    });
    let start = || {
        let shared = shared.clone();
        Builder::new().spawn(move || shared.work(work)).is_ok()
    };
    // Few devices are done before a second thread would have started; hundreds wait for the kernel in turn.
    let begin = count.div_ceil(ITEMS_PER_WORKER).min(MAX_INITIAL_WORKERS);
    let mut workers = (0..begin).filter(|_| start()).count();
    let mut results = shared.results();
    while workers > 0 && results.done < count && !deadline.is_expired() {
        let before = results.done;
        let wait = STALL_TIMEOUT.min(deadline.remaining());
        let waited = shared.all_done.wait_timeout_while(results, wait, |results| results.done < count);
        results = waited.unwrap_or_else(PoisonError::into_inner).0;
        let is_stuck = results.done == before && shared.next.load(Ordering::Relaxed) < count;
        if is_stuck && workers < MAX_WORKERS && start() {
            workers += 1;
        }
    }
    // Late results are dropped.
    shared.closed.store(true, Ordering::Relaxed);
    std::mem::take(&mut results.each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hung_work_is_abandoned() {
        let deadline = Deadline::after(Duration::from_millis(50));
        assert_eq!(run_within(deadline, || std::thread::sleep(Duration::from_secs(3600))), None);
        assert_eq!(run_within(Deadline::after(Duration::from_secs(20)), || 1), Some(1));
    }

    #[test]
    fn a_hung_item_does_not_delay_the_others() {
        let work = |seen: &mut u64, item: &u64| {
            *seen += 1;
            assert!(*seen <= 100);
            if item % 40 == 7 {
                std::thread::sleep(Duration::from_secs(3600));
            }
            item * 2
        };
        let results = map_within(Deadline::after(Duration::from_millis(1500)), (0..100).collect(), work);
        let expected: Vec<Option<u64>> = (0..100).map(|i| (i % 40 != 7).then_some(i * 2)).collect();
        assert_eq!(results, expected);
        let none: Vec<u64> = Vec::new();
        assert!(map_within(Deadline::after(Duration::from_secs(1)), none, work).is_empty());
    }
}
