//! Timestamps at the beginning of a line: of cloud-init.log, ISO 8601, syslog and journalctl. Times are microseconds since
//! the epoch; a timestamp without a zone is UTC, as in cloud-init.log.

use system::calendar::{MONTHS, days, parse_days};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: i64 = 86_400 * SECOND;

/// Parses the timestamp at the beginning of a string. Timestamps of syslog have no year: the last one that does not put them
/// after `now` is used.
pub fn parse(text: &str, now: i64) -> Option<i64> {
    let (mut first, mut rest) = first_word(text);
    if WEEKDAYS.contains(&first) {
        (first, rest) = first_word(rest);
    }
    if let Some(month) = MONTHS.iter().position(|m| *m == first) {
        let (day, rest) = first_word(rest);
        let (time, rest) = first_word(rest);
        let (day, clock) = (number(day, 1..=2)?, time_of_day(time)?);
        let at = |year| Some(days(year, month as i64 + 1, day)? * DAY + clock);
        if let Some(year) = number(first_word(rest).0, 4..=4) {
            return at(year);
        }
        let year = year_of(now);
        return at(year).filter(|found| *found <= now + DAY).or_else(|| at(year - 1));
    }
    let (date, time) = match first.split_once('T') {
        Some(both) => both,
        None => (first, first_word(rest).0),
    };
    let (time, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => (&time[..at], offset(&time[at..])?),
        None => (time, 0),
    };
    Some(parse_days(date)? * DAY + time_of_day(time)? - zone)
}

/// Formats a time as Python prints one in UTC: `2031-03-04 05:06:07.250000+00:00`.
pub fn format(micros: i64) -> String {
    let wall = std::time::Duration::from_micros(micros.max(0) as u64);
    let stamp = system::log_time(wall);
    let seconds = stamp.split(',').next().unwrap_or_default();
    match micros.rem_euclid(SECOND) {
        0 => format!("{seconds}+00:00"),
        rest => format!("{seconds}.{rest:06}+00:00"),
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_one = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if is_one { text.parse().ok() } else { None }
}

/// `05:06:07`, with or without a fraction behind a point or a comma.
fn time_of_day(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut part = |digits, most| number(parts.next()?, digits).filter(|n| *n < most);
    let seconds = part(1..=2, 24)? * 3600 + part(2..=2, 60)? * 60 + part(2..=2, 61)?;
    if parts.next().is_some() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}")[..6].parse().ok()?;
    Some(seconds * SECOND + micros)
}

/// `Z`, `+02:00` or `-0330`.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, digits) = zone.split_at(1);
    let digits = number(&digits.replacen(':', "", 1), 4..=4)?;
    let micros = (digits / 100 * 60 + digits % 100) * 60 * SECOND;
    Some(if sign == "-" { -micros } else { micros })
}

fn year_of(micros: i64) -> i64 {
    format(micros).get(..4).and_then(|year| year.parse().ok()).unwrap_or(1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_in_every_format() {
        // 2031-03-04 12:00 UTC.
        let now = 1_930_392_000 * SECOND;
        let at = 1_930_367_167 * SECOND;
        for (text, wanted) in [
            ("2031-03-04 05:06:07,890", Some(at + 890_000)),
            ("2031-03-04 05:06:07.5 host", Some(at + 500_000)),
            ("2031-03-04 05:06:07", Some(at)),
            ("2031-03-04T05:06:07.123456789Z", Some(at + 123_456)),
            ("2031-03-04T05:06:07+02:00 host", Some(at - 7200 * SECOND)),
            ("2031-03-04T05:06:07-0030", Some(at + 1800 * SECOND)),
            ("Mar  4 05:06:07 host", Some(at)),
            ("Mar 04 05:06:07.000001 host", Some(at + 1)),
            ("Tue Mar  4 05:06:07 2031", Some(at)),
            ("Tue 2031-03-04 05:06:07.250000 UTC", Some(at + 250_000)),
            // In this year the date is still in the future.
            ("Dec 31 23:59:59", Some(1_924_991_999 * SECOND)),
            ("1969-12-31 23:59:59", Some(-SECOND)),
            ("2032-02-29 00:00:00", Some(1_961_625_600 * SECOND)),
            ("2031-02-29 00:00:00", None),
            ("2031-13-01 00:00:00", None),
            ("2031-03-04 25:00:00", None),
            ("2031-03-04", None),
            ("2031-03-04 05:06:07,", None),
            ("2031-03-04 05:06:07,x", None),
            ("Mar x 05:06:07", None),
            ("1930367160.5", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now), wanted, "{text}");
        }
        assert_eq!(format(at), "2031-03-04 05:06:07+00:00");
        assert_eq!(format(at + 250_000), "2031-03-04 05:06:07.250000+00:00");
    }
}
