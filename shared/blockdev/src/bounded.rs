//! Work that may hang, with a deadline. A read from a device that does not answer cannot be called off from
//! within; a child process that does it could be killed, but a generator starts none. So the work is done in a
//! thread that is left behind: the kernel waits killably for a page of a block device
//! (folio_wait_locked_killable), which means that the thread ends with this process. `abandon_hung_reads` is for the end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use system::Deadline;

/// Lets this process end although threads were left behind in reads. They end with it, but then the kernel closes
/// their devices, and the last one to close a device waits for its reads, killed or not: half a minute for a disk
/// that says nothing, or for ever, and nobody else can open the device meanwhile. So a child holds them open for
/// longer than the kernel has patience with a disk; nobody waits for it, and it does nothing else.
#[allow(unsafe_code)]
pub fn abandon_hung_reads() {
    const WAIT: libc::timespec = libc::timespec { tv_sec: 120, tv_nsec: 0 };
    // SAFETY: between fork and _exit the child, which has no other thread, calls only functions that are safe in a
    // signal handler.
    unsafe {
        if libc::fork() != 0 {
            return;
        }
        // Nobody who reads what we print is to wait for it, and no terminal ends it.
        (0..3).for_each(|descriptor| {
            libc::close(descriptor);
        });
        libc::setsid();
        libc::nanosleep(&WAIT, std::ptr::null_mut());
        libc::_exit(0);
    }
}

/// The result of `work`, or `None` when the deadline came first (the work then goes on unheard).
pub fn run_within<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = channel();
    Builder::new().spawn(move || sender.send(work())).ok()?;
    receiver.recv_timeout(deadline.remaining()).ok()
}

/// A worker that says nothing for so long may be stuck: another one takes the rest. A disk answers in
/// milliseconds, a disc that has to spin up in seconds, and then the others need not wait for it.
const STALL_TIMEOUT: Duration = Duration::from_millis(200);
/// Each may be stuck on a device of its own.
const MAX_WORKERS: usize = 12;

/// So many items are worth a worker from the beginning. They wait for the kernel most of the time: more of them than
/// processors are worth it (500 loop devices on two: 25 ms with four, 22 with eight, the same with more).
const ITEMS_PER_WORKER: usize = 32;
const MAX_INITIAL_WORKERS: usize = 8;

/// What the workers share. A result wakes nobody but at the end: with hundreds of devices that are looked at in
/// microseconds each, being woken would be most of the work.
struct Shared<I, T> {
    items: Vec<I>,
    /// The item that is begun next.
    next: AtomicUsize,
    results: Mutex<Results<T>>,
    all_done: Condvar,
}

struct Results<T> {
    each: Vec<Option<T>>,
    done: usize,
}

impl<I, T> Shared<I, T> {
    fn results(&self) -> MutexGuard<'_, Results<T>> {
        // Nothing panics while it holds the lock.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<S: Default>(&self, work: fn(&mut S, &I) -> T) {
        let mut state = S::default();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = self.items.get(at) else { return };
            let result = work(&mut state, item);
            let mut results = self.results();
            // Empty after the deadline, when nobody waits any more.
            let Some(place) = results.each.get_mut(at) else { return };
            *place = Some(result);
            results.done += 1;
            if results.done == self.items.len() {
                self.all_done.notify_one();
            }
        }
    }
}

/// `work` on each item, in parallel where there are many or where one of them does not answer; `S` is what a
/// worker keeps from item to item. The results are in the order of the items; `None` stands for one that did not
/// answer in time.
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
    // From here on no item is begun any more, and what comes late is dropped.
    shared.next.store(usize::MAX / 2, Ordering::Relaxed);
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
