//! time.conf(5): when users may log in.

/// The days of time.conf(5), and their bits, from Sunday on.
const DAYS: [(&str, u8); 10] = [
    ("su", 1),
    ("mo", 2),
    ("tu", 4),
    ("we", 8),
    ("th", 16),
    ("fr", 32),
    ("sa", 64),
    ("wk", 62),
    ("wd", 65),
    ("al", 127),
];

/// Returns the number of the line of time.conf(5) that permits a user no login with SSH at any time.
pub fn never_permitted(text: &str, service: &str, user: &str) -> Option<usize> {
    let is_one = |list: &str, name: &str| {
        holds(list, &|pattern| match pattern.strip_suffix('*') {
            Some(start) => Some(name.starts_with(start)),
            // Groups of the network.
            None => (!pattern.starts_with('@')).then_some(pattern == name),
        })
    };
    let is_never = |times: &str| {
        let minutes = (0..7).flat_map(|day| (0..24 * 60).map(move |minute| (day, minute)));
        minutes
            .map(|(day, minute)| (1 << day, minute / 60 * 100 + minute % 60))
            .all(|(day, minute)| holds(times, &|term| is_in(term, day, minute)) == Some(false))
    };
    let refuses = |line: &str| {
        let fields: Vec<&str> =
            line.split('#').next().unwrap_or_default().split(';').map(str::trim).collect();
        let [services, terminals, users, times] = fields[..] else { return false };
        [(services, service), (terminals, "ssh"), (users, user)]
            .iter()
            .all(|(list, name)| is_one(list, name) == Some(true))
            && is_never(times)
    };
    // Of a line that goes on in the next one the fields are not known.
    (1..).zip(text.lines()).find(|(_, line)| refuses(line)).map(|(number, _)| number)
}

/// Evaluates a list of time.conf(5), whose terms `!`, `|` and `&` join from left to right; `None` if one is not known.
fn holds(list: &str, term: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
    let (mut result, mut rest, mut operator) = (false, list, "|");
    loop {
        let end = rest.find(['|', '&']).unwrap_or(rest.len());
        let word = rest[..end].trim();
        let name = word.trim_start_matches('!');
        let value = term(name.trim())? != ((word.len() - name.len()) % 2 == 1);
        result = if operator == "&" { result && value } else { result || value };
        if end == rest.len() {
            return Some(result);
        }
        (operator, rest) = rest[end..].split_at(1);
    }
}

/// Returns whether a time is in a range such as `MoWk0800-1800`; `None` if the range is not valid. A day that is named twice does not count.
fn is_in(range: &str, day: u8, minute: u16) -> Option<bool> {
    let (days, times) = range.split_at(range.find(|c: char| !c.is_ascii_alphabetic())?);
    let bits = days.as_bytes().chunks(2).try_fold(0, |bits, name| {
        let (_, bit) = DAYS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(bits ^ bit)
    })?;
    let (start, end) = times.split_once('-')?;
    let (start, end): (u16, u16) = (start.parse().ok()?, end.parse().ok()?);
    if start < end {
        return Some(bits & day != 0 && (start..end).contains(&minute));
    }
    // It ends on the next day.
    let before = if day == 1 { 64 } else { day >> 1 };
    Some(bits & day != 0 && minute >= start || bits & before != 0 && minute < end)
}

#[cfg(test)]
mod tests {
    use super::never_permitted;

    #[test]
    fn times_that_permit_no_login_are_found() {
        for (rules, expected) in [
            ("", None),
            ("sshd;*;*;Al0000-2400", None),
            ("# sshd;*;*;!Al0000-2400", None),
            ("sshd;*;!root;!Al0000-2400", Some(1)),
            ("\nlogin|ss*;*;al|am*;!Al0000-2400", Some(2)),
            ("login & sshd;*;*;!Al0000-2400", None),
            ("sshd;tty*;*;!Al0000-2400", None),
            ("*;ssh;amy&!amy;!Al0000-2400", None),
            ("*;*;@staff;!Al0000-2400", None),
            // Working hours are intended.
            ("*;*;!root;Wk0800-1800", None),
            ("*;*;!root;WkWk0800-1800", Some(1)),
            ("*;*;!root;Wk0800-1800 & !Al0700-1900", Some(1)),
            ("*;*;!root;AlMoTuWeThFrSa2300-0100 & !Su2300-0100", Some(1)),
            ("*;*;!root;!Al2400", None),
            ("*;*;!root;!Xx0000-2400", None),
            ("*;*;!root", None),
        ] {
            assert_eq!(never_permitted(rules, "sshd", "amy"), expected, "{rules}");
        }
    }
}
