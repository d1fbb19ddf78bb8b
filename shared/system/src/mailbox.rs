//! Values that one thread leaves for another. A channel of the standard library compiles into the code of all three of its kinds,
//! which is 17 KiB a program: see docs/small-binaries.md.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Deadline;

/// A queue of values; its clones are the same queue.
pub struct Mailbox<T>(Arc<(Mutex<State<T>>, Condvar)>);

struct State<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let state = State { items: VecDeque::new(), is_closed: false };
        Mailbox(Arc::new((Mutex::new(state), Condvar::new())))
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Mailbox<T> {
        Mailbox(self.0.clone())
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}

impl<T> Mailbox<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // The lock is never held during a panic.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a value.
    pub fn put(&self, item: T) {
        self.state().items.push_back(item);
        self.0.1.notify_one();
    }

    /// Ends waits: nothing will be added.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.0.1.notify_all();
    }

    /// Removes the first value, if there is one.
    pub fn take(&self) -> Option<T> {
        self.state().items.pop_front()
    }

    /// Waits for a value and removes it; `None` at the deadline, if there is one, or once the empty queue is closed.
    pub fn wait(&self, until: Option<Deadline>) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.is_closed || until.is_some_and(|until| until.is_expired()) {
                return None;
            }
            let changed = &self.0.1;
            state = match until {
                Some(until) => {
                    changed.wait_timeout(state, until.remaining()).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn values_arrive_in_order_until_the_end() {
        let (own, soon) = (Mailbox::default(), Deadline::after(Duration::from_millis(20)));
        assert_eq!(own.wait(Some(soon)), None);
        let other = own.clone();
        let sender = std::thread::spawn(move || {
            (1..4).for_each(|i| other.put(i));
            other.close();
        });
        assert_eq!(
            [own.wait(None), own.wait(None), own.wait(None), own.wait(None)],
            [Some(1), Some(2), Some(3), None]
        );
        sender.join().unwrap();
        assert_eq!((own.take(), format!("{own:?}")), (None, "Mailbox".into()));
    }
}
