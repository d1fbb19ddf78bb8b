//! Time: wall-clock time for logs, uptime for the status, and monotonic deadlines, which a clock step does not affect.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::calendar::{self, MONTHS};

/// The least time that a repeated request has until its deadline.
const SHORTEST_REQUEST: Duration = Duration::from_millis(100);

/// The machine's clocks.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { started: Instant::now() }
    }
}

impl Clock {
    /// Returns the wall-clock time since the epoch. In early boot it may be wrong, and may step.
    pub fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns the seconds since the machine started (CLOCK_BOOTTIME, as in /proc/uptime).
    pub fn uptime(&self) -> f64 {
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
            .map(|t| Duration::from(t).as_secs_f64())
            .unwrap_or_default()
    }

    /// Returns the time since this `System` was created.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sleeps for `time`. Waiting for an event takes a loop with a [`Deadline`].
    pub fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Sleeps for about `time` before another request to a server, to which machines that booted together must not return together.
    pub fn sleep_about(&self, time: Duration) {
        self.sleep(varied(time, crate::random_number()));
    }

    /// Sleeps as [`Clock::sleep_about`] does if another request can be made before `deadline`; returns whether it can. One that
    /// begins too late fails for the deadline only, and would hide why the others failed.
    #[must_use]
    pub fn sleep_before(&self, deadline: Deadline, time: Duration) -> bool {
        let pause = varied(time, crate::random_number());
        let is_in_time = deadline.leaves_request_after(pause);
        if is_in_time {
            self.sleep(pause);
        }
        is_in_time
    }
}

/// Returns the time, varied by half, as a random number selects.
pub(crate) fn varied(time: Duration, random: u64) -> Duration {
    time / 2 + part_of(time, random)
}

/// Returns the part of a time that a random number selects.
pub(crate) fn part_of(time: Duration, random: u64) -> Duration {
    time.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

/// A time on the monotonic clock at which a wait ends.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `time` from now.
    pub fn after(time: Duration) -> Deadline {
        // Avoids an overflow for a configured "forever".
        Deadline(Instant::now() + time.min(Duration::from_secs(30 * 365 * 86400)))
    }

    /// Returns the time until the deadline; zero if it is past.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns whether a request that begins after `pause` has a chance to succeed.
    pub(crate) fn leaves_request_after(&self, pause: Duration) -> bool {
        self.remaining() > pause + SHORTEST_REQUEST
    }

    /// Returns the deadline moved by `time`.
    pub fn later(self, time: Duration) -> Deadline {
        Deadline(self.0.checked_add(time).unwrap_or(self.0))
    }

    /// Returns the earlier of two deadlines.
    pub fn earlier(self, other: Deadline) -> Deadline {
        Deadline(self.0.min(other.0))
    }

    /// Returns whether the deadline is past.
    pub fn is_expired(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Returns the date, and hour, minute and second (UTC), of the seconds since the epoch.
fn civil(epoch: u64) -> ((i64, i64, i64), (u64, u64, u64)) {
    let seconds = epoch % 86400;
    (calendar::date((epoch / 86400) as i64), (seconds / 3600, seconds / 60 % 60, seconds % 60))
}

/// Returns the UTC time stamp of a line of cloud-init.log: `2024-05-01 10:20:30,123`.
pub fn log_time(wall: Duration) -> String {
    let ((y, mo, d), (h, mi, s)) = civil(wall.as_secs());
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02},{:03}", wall.subsec_millis())
}

/// Returns the UTC time by RFC 2822: `Thu, 01 Jan 1970 00:00:12 +0000`.
pub fn rfc2822(wall: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let ((y, mo, d), (h, mi, s)) = civil(wall.as_secs());
    let (weekday, month) = (DAYS[(wall.as_secs() / 86400 % 7) as usize], MONTHS[(mo as usize + 11) % 12]);
    format!("{weekday}, {d:02} {month} {y:04} {h:02}:{mi:02}:{s:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_begins_at_its_deadline() {
        let (clock, soon) = (Clock::default(), Deadline::after(Duration::from_millis(90)));
        assert!(!clock.sleep_before(soon, Duration::ZERO), "a request would have less than 0.1 s");
        assert!(!clock.sleep_before(Deadline::after(Duration::from_secs(60)), Duration::from_secs(600)));
        assert!(clock.sleep_before(Deadline::after(Duration::from_secs(60)), Duration::ZERO));
    }

    #[test]
    fn times_are_formatted_in_utc() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_714_558_830, "Wed, 01 May 2024 10:20:30 +0000"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 +0000"),
        ] {
            assert_eq!(rfc2822(Duration::from_secs(seconds)), text);
        }
        assert_eq!(log_time(Duration::from_millis(1_714_558_830_123)), "2024-05-01 10:20:30,123");
    }
}
