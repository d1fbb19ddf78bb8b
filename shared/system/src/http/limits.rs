//! The time limits of one exchange. A single deadline would end a large download over a slow line, so the limits are for
//! the connection, for each silence, and for a body that is slower than any line.

use std::io::ErrorKind;
use std::time::Duration;

use crate::{Deadline, Error};

/// The minimum rate of a body in bytes per second. A dial-up line is faster.
const MIN_RATE: u64 = 4 << 10;
/// The number of silences that a phase may have in addition to the time for its size at the minimum rate.
const GRACE_SILENCES: u32 = 3;

/// The time limits of one exchange. Each of its phases (a handshake, the request, the response) begins with
/// [`TimeLimits::begin_phase`].
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    idle: Duration,
    until: Option<Deadline>,
    silence: Deadline,
    /// The end of the phase at the minimum rate, from its first byte on.
    whole: Option<Deadline>,
    moved: u64,
}

impl TimeLimits {
    /// Returns limits: `idle` for each wait for a connection or a byte, `until` for the whole exchange.
    pub fn new(idle: Duration, until: Option<Deadline>) -> TimeLimits {
        TimeLimits { idle, until, silence: Deadline::after(idle), whole: None, moved: 0 }
    }

    /// Begins the next phase.
    pub fn begin_phase(&mut self) {
        *self = TimeLimits::new(self.idle, self.until);
    }

    /// Records that bytes were sent or received.
    pub fn record_bytes(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.moved += bytes as u64;
        self.silence = Deadline::after(self.idle);
        let whole = self.whole.unwrap_or_else(|| Deadline::after(self.idle.saturating_mul(GRACE_SILENCES)));
        self.whole = Some(whole.later(Duration::from_micros(bytes as u64 * 1_000_000 / MIN_RATE)));
    }

    /// Returns the time at which the wait for the next byte ends.
    pub fn deadline(&self) -> Deadline {
        [self.whole, self.until].into_iter().flatten().fold(self.silence, Deadline::earlier)
    }

    /// Returns the remaining time, for a socket, for which 0 would mean "no limit".
    pub fn timeout(&self) -> std::io::Result<Duration> {
        let left = self.deadline().remaining();
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Returns the reason for the end of the exchange at [`TimeLimits::deadline`].
    pub fn error(&self) -> Error {
        let (idle, moved) = (self.idle.as_secs_f64(), self.moved);
        let text = match () {
            () if moved == 0 && self.until.is_some_and(|until| until.is_expired()) => {
                "no response in time".into()
            }
            () if self.until.is_some_and(|until| until.is_expired()) => {
                format!("not finished in time ({moved} bytes received)")
            }
            () if self.whole.is_some_and(|whole| whole.is_expired()) => {
                format!("too slow: less than {MIN_RATE} bytes per second ({moved} bytes received)")
            }
            () if moved == 0 => format!("no response in time ({idle} s)"),
            () => format!("no further data for {idle} s ({moved} bytes received)"),
        };
        Error::with_kind(ErrorKind::TimedOut, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(deadline: Deadline) -> f64 {
        deadline.remaining().as_secs_f64().round()
    }

    #[test]
    fn deadline_grows_with_the_received_bytes() {
        let mut limits = TimeLimits::new(Duration::from_secs(5), None);
        assert_eq!(seconds(limits.deadline()), 5.0);
        assert!(limits.error().to_string().contains("no response in time (5 s)"));
        limits.record_bytes(1);
        assert_eq!((seconds(limits.deadline()), seconds(limits.whole.unwrap())), (5.0, 15.0));
        // 400 KiB take at most 100 seconds, 64 MiB four and a half hours.
        limits.record_bytes(400 << 10);
        assert_eq!(seconds(limits.whole.unwrap()), 115.0);
        limits.record_bytes(64 << 20);
        assert_eq!(seconds(limits.whole.unwrap()), 115.0 + 16384.0);
        limits.begin_phase();
        assert!(limits.whole.is_none());
        let mut slow =
            TimeLimits::new(Duration::from_secs(60), Some(Deadline::after(Duration::from_secs(40))));
        slow.record_bytes(1);
        assert_eq!((seconds(slow.whole.unwrap()), seconds(slow.deadline())), (180.0, 40.0));
    }

    #[test]
    fn error_names_the_exceeded_limit() {
        let (over, later) = (Deadline::after(Duration::ZERO), Deadline::after(Duration::from_secs(600)));
        let mut limits = TimeLimits::new(Duration::from_secs(5), None);
        limits.record_bytes(7);
        (limits.silence, limits.whole) = (over, Some(later));
        assert_eq!(limits.error().to_string(), "no further data for 5 s (7 bytes received)");
        limits.whole = Some(over);
        assert_eq!(
            limits.error().to_string(),
            "too slow: less than 4096 bytes per second (7 bytes received)"
        );
        limits.until = Some(over);
        assert_eq!(limits.error().to_string(), "not finished in time (7 bytes received)");
        assert!(limits.timeout().is_err());
    }
}
