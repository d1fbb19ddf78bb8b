//! How long one exchange may take. A single deadline for all of it would end a large download over a slow line, so the
//! limits are for the connection, for each silence, and for a body that is slower than any line.

use std::io::ErrorKind;
use std::time::Duration;

use crate::{Deadline, Error};

/// In bytes a second: a body that comes more slowly is ended. A dial-up line is faster.
const SLOWEST: u64 = 4 << 10;
/// A phase of an exchange may take so many silences beyond what its size needs at the slowest rate.
const GRACE: u32 = 3;

/// The time limits of one exchange. Each of its phases (a handshake, the request, the answer) begins with [`Pace::begin`].
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    idle: Duration,
    until: Option<Deadline>,
    silence: Deadline,
    /// From the phase's first byte on.
    whole: Option<Deadline>,
    moved: u64,
}

impl Pace {
    /// `idle`: the longest wait for a connection or a byte. `until`: the end of everything, whatever has come.
    pub fn new(idle: Duration, until: Option<Deadline>) -> Pace {
        Pace { idle, until, silence: Deadline::after(idle), whole: None, moved: 0 }
    }

    /// Begins the next phase.
    pub fn begin(&mut self) {
        *self = Pace::new(self.idle, self.until);
    }

    /// Notes that so many bytes were sent or received.
    pub fn moved(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.moved += bytes as u64;
        self.silence = Deadline::after(self.idle);
        let whole = self.whole.unwrap_or_else(|| Deadline::after(self.idle.saturating_mul(GRACE)));
        self.whole = Some(whole.later(Duration::from_micros(bytes as u64 * 1_000_000 / SLOWEST)));
    }

    /// The moment at which waiting for the next byte ends.
    pub fn deadline(&self) -> Deadline {
        [self.whole, self.until].into_iter().flatten().fold(self.silence, Deadline::earlier)
    }

    /// The time that is left, for a socket, for which 0 means "for ever".
    pub fn timeout(&self) -> std::io::Result<Duration> {
        let left = self.deadline().left();
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Why the exchange ended at [`Pace::deadline`].
    pub fn error(&self) -> Error {
        let (idle, moved) = (self.idle.as_secs_f64(), self.moved);
        let text = match () {
            () if moved == 0 && self.until.is_some_and(|until| until.is_over()) => "no answer in time".into(),
            () if self.until.is_some_and(|until| until.is_over()) => {
                format!("not finished in time ({moved} bytes received)")
            }
            () if self.whole.is_some_and(|whole| whole.is_over()) => {
                format!("too slow: less than {SLOWEST} bytes per second ({moved} bytes received)")
            }
            () if moved == 0 => format!("no answer in time ({idle} s)"),
            () => format!("no further data for {idle} s ({moved} bytes received)"),
        };
        Error::io_kind(ErrorKind::TimedOut, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(deadline: Deadline) -> f64 {
        deadline.left().as_secs_f64().round()
    }

    #[test]
    fn limits() {
        let mut pace = Pace::new(Duration::from_secs(5), None);
        assert_eq!(seconds(pace.deadline()), 5.0);
        assert!(pace.error().to_string().contains("no answer in time (5 s)"));
        pace.moved(1);
        assert_eq!((seconds(pace.deadline()), seconds(pace.whole.unwrap())), (5.0, 15.0));
        // 400 KiB buy 100 seconds, 64 MiB four and a half hours.
        pace.moved(400 << 10);
        assert_eq!(seconds(pace.whole.unwrap()), 115.0);
        pace.moved(64 << 20);
        assert_eq!(seconds(pace.whole.unwrap()), 115.0 + 16384.0);
        pace.begin();
        assert!(pace.whole.is_none());
        let mut slow = Pace::new(Duration::from_secs(60), Some(Deadline::after(Duration::from_secs(40))));
        slow.moved(1);
        assert_eq!((seconds(slow.whole.unwrap()), seconds(slow.deadline())), (180.0, 40.0));
    }

    #[test]
    fn reasons() {
        let over = Deadline::after(Duration::ZERO);
        let mut pace = Pace::new(Duration::from_millis(1), None);
        pace.moved(7);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(pace.error().to_string(), "no further data for 0.001 s (7 bytes received)");
        pace.whole = Some(over);
        assert_eq!(pace.error().to_string(), "too slow: less than 4096 bytes per second (7 bytes received)");
        pace.until = Some(over);
        assert_eq!(pace.error().to_string(), "not finished in time (7 bytes received)");
        assert!(pace.timeout().is_err());
    }
}
