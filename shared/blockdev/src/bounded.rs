//! Work that may hang, with a deadline. A read from a device that does not answer cannot be called off from
//! within; a child process that does it could be killed, but a generator starts none. So the work is done in a
//! thread that is left behind: the kernel waits killably for a page of a block device
//! (folio_wait_locked_killable), which means that the thread ends with this process and does not hold it up.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use system::Deadline;

/// The result of `work`, or `None` when the deadline came first (the work then goes on unheard).
pub fn within<T: Send + 'static>(deadline: Deadline, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    Builder::new().spawn(move || sender.send(work())).ok()?;
    receiver.recv_timeout(deadline.left()).ok()
}

/// A worker that says nothing for so long may be stuck: another one takes the rest. A disk answers in
/// milliseconds, a disc that has to spin up in seconds, and then the others need not wait for it.
const PATIENCE: Duration = Duration::from_millis(200);
/// Each may be stuck on a device of its own.
const MOST_WORKERS: usize = 8;

/// So many items are worth a worker from the beginning.
const PER_WORKER: usize = 32;
const MOST_AT_FIRST: usize = 4;

/// `work` on each item, in parallel where there are many or where one of them does not answer. The results are in the order of
/// the items; `None` stands for one that did not answer in time.
pub fn each_within<I, T>(deadline: Deadline, items: Vec<I>, work: fn(&I) -> T) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    let mut results: Vec<Option<T>> = items.iter().map(|_| None).collect();
    let shared = std::sync::Arc::new((items, std::sync::atomic::AtomicUsize::new(0)));
    let (sender, receiver) = channel();
    let start = |sender: &Sender<(usize, T)>| {
        let (shared, sender) = (shared.clone(), sender.clone());
        let worker = move || {
            let (items, next) = &*shared;
            while let Some((at, item)) = {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                items.get(at).map(|item| (at, item))
            } {
                if sender.send((at, work(item))).is_err() {
                    return;
                }
            }
        };
        Builder::new().spawn(worker).is_ok()
    };
    // Few devices are done before a second thread would have started; hundreds wait for the kernel in turn.
    let begin = results.len().div_ceil(PER_WORKER).min(MOST_AT_FIRST);
    let mut workers = (0..begin).filter(|_| start(&sender)).count();
    let mut missing = if workers == 0 { 0 } else { results.len() };
    while missing > 0 {
        match next(&receiver, deadline) {
            Ok((at, result)) => {
                results[at] = Some(result);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) if !deadline.is_over() => {
                let started = shared.1.load(std::sync::atomic::Ordering::Relaxed);
                if started < results.len() && workers < MOST_WORKERS && start(&sender) {
                    workers += 1;
                }
            }
            Err(_) => break,
        }
    }
    // From here on no item is begun any more.
    shared.1.store(usize::MAX / 2, std::sync::atomic::Ordering::Relaxed);
    results
}

fn next<T>(receiver: &Receiver<T>, deadline: Deadline) -> Result<T, RecvTimeoutError> {
    receiver.recv_timeout(PATIENCE.min(deadline.left()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_behind() {
        let deadline = Deadline::after(Duration::from_millis(50));
        assert_eq!(within(deadline, || std::thread::sleep(Duration::from_secs(3600))), None);
        assert_eq!(within(Deadline::after(Duration::from_secs(20)), || 1), Some(1));
    }

    #[test]
    fn one_that_hangs_does_not_hold_up_the_rest() {
        let work = |item: &u64| {
            if item % 40 == 7 {
                std::thread::sleep(Duration::from_secs(3600));
            }
            item * 2
        };
        let results = each_within(Deadline::after(Duration::from_millis(1500)), (0..100).collect(), work);
        let expected: Vec<Option<u64>> = (0..100).map(|i| (i % 40 != 7).then_some(i * 2)).collect();
        assert_eq!(results, expected);
        let none: Vec<u64> = Vec::new();
        assert!(each_within(Deadline::after(Duration::from_secs(1)), none, work).is_empty());
    }
}
