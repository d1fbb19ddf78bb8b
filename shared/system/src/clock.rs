//! Time: wall-clock time for logs, uptime for the status, and monotonic deadlines, which a clock step does not affect.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The machine's clocks.
#[derive(Debug)]
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

/// The names of the months in dates of mail and HTTP.
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns year, month, day, hour, minute, second (UTC) and weekday (0 = Thursday) of the seconds since the epoch.
fn civil(epoch: u64) -> (u64, u64, u64, u64, u64, u64, u64) {
    let (days, seconds) = (epoch / 86400, epoch % 86400);
    // Count from 1 March 0000, so that the leap day is the last of a year; 146097 days are 400 years.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60, days % 7)
}

/// Returns the UTC time stamp of a line of cloud-init.log: `2024-05-01 10:20:30,123`.
pub fn log_time(wall: Duration) -> String {
    let (y, mo, d, h, mi, s, _) = civil(wall.as_secs());
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02},{:03}", wall.subsec_millis())
}

/// Returns the UTC time by RFC 2822: `Thu, 01 Jan 1970 00:00:12 +0000`.
pub fn rfc2822(wall: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (y, mo, d, h, mi, s, weekday) = civil(wall.as_secs());
    let (weekday, month) = (DAYS[weekday as usize % 7], MONTHS[(mo as usize + 11) % 12]);
    format!("{weekday}, {d:02} {month} {y:04} {h:02}:{mi:02}:{s:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

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
