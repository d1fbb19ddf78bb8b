//! The Gregorian calendar: dates, and days since 1970-01-01.

/// The English names of the months, as in mail, HTTP and syslog.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the days since 1970-01-01 of a date, negative before it; `None` if the year has no such date.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    // Count from 1 March 0000, so that the leap day is the last of a year.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days = years * 365 + leap_days + (153 * months + 2) / 5 + day - 719_469;
    (date(days) == (year, month, day)).then_some(days)
}

/// Returns the year, month and day that is this many days after 1970-01-01.
pub fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    // 146097 days are 400 years.
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Parses `2031-12-24` into days since 1970-01-01; `None` for other text and for a date that does not exist.
pub fn parse_days(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let mut number = |length: usize| {
        let digits = parts.next().filter(|part| part.len() == length)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some() { None } else { days(year, month, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("0000-02-29", Some(-719_469)),
            ("2000-02-29", Some(11_016)),
            ("2031-01-01", Some(22_280)),
            ("2100-03-01", Some(47_541)),
            ("9999-12-31", Some(2_932_896)),
            ("2031-02-29", None),
            ("2100-02-29", None),
            ("2031-04-31", None),
            ("2031-13-01", None),
            ("2031-00-01", None),
            ("2031-01-00", None),
            ("2031-1-01", None),
            ("+031-01-01", None),
            ("2031-01-01:9", None),
            ("2031-01-01-1", None),
            ("24.12.2031", None),
            ("", None),
        ] {
            assert_eq!(parse_days(text), expected, "{text}");
        }
    }

    #[test]
    fn every_day_has_one_date() {
        for day in -800_000..3_000_000 {
            let (year, month, day_of_month) = date(day);
            assert_eq!(days(year, month, day_of_month), Some(day));
        }
    }
}
