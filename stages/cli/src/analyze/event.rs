//! Start and finish events, read from the lines of a log or from an earlier dump. Lines without an event are skipped;
//! incomplete events are counted.

use serde_json::{Value, json};

use super::time;

encoding::words! {
    pub enum Kind {
        Start = "start",
        Finish = "finish",
    }
}

/// One event. Its name is a path: `modules-final/config-runcmd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub kind: Kind,
    pub description: String,
    pub origin: String,
    /// The result of a finish event: SUCCESS, WARN, FAIL.
    pub result: String,
    /// Microseconds since the epoch.
    pub at: i64,
    /// The line of the log, or the entry of a dump, counted from 1.
    pub line: usize,
}

/// The stages: their names in the welcome line and in events, and their descriptions.
const STAGES: [(&str, &str, &str); 4] = [
    ("init-local", "init-local", "starting search for local datasources"),
    ("init", "init-network", "searching for network datasources"),
    ("modules:config", "modules-config", "running config modules"),
    ("modules:final", "modules-final", "finalizing modules"),
];

/// Returns the events of a log in order, and the numbers of the lines with an incomplete event.
pub fn from_log(log: &str, now: i64) -> (Vec<Event>, Vec<usize>) {
    let (mut events, mut bad) = (Vec::new(), Vec::new());
    for (number, line) in log.lines().enumerate() {
        if !["start:", "finish:", "Cloud-init v."].iter().any(|mark| line.contains(mark)) {
            continue;
        }
        let Some((stamp, message)) = split(line) else { continue };
        match parse_message(message) {
            Some(Ok(event)) => match time::parse(stamp, now) {
                Some(at) => events.push(Event { at, line: number + 1, ..event }),
                None => bad.push(number + 1),
            },
            Some(Err(())) => bad.push(number + 1),
            None => {}
        }
    }
    (events, bad)
}

/// Returns the timestamp and the message of a line of cloud-init.log, syslog or the journal, without the source. A line of
/// the journal may contain a line of the log with its own timestamp.
pub fn split(line: &str) -> Option<(&str, &str)> {
    let first =
        [" - ", " [CLOUDINIT] ", " cloud-init["].iter().filter_map(|s| Some((line.find(s)?, *s))).min()?;
    let (stamp, rest) = (&line[..first.0], &line[first.0 + first.1.len()..]);
    let rest = match first.1 {
        " cloud-init[" => rest.split_once("]: ")?.1,
        _ => rest,
    };
    let is_inner = first.1 == " cloud-init[" && rest.starts_with(|c: char| c.is_ascii_digit() || c == '[');
    match rest
        .strip_prefix("[CLOUDINIT] ")
        .map(|rest| (stamp, rest))
        .or_else(|| is_inner.then(|| split(rest))?)
    {
        Some((stamp, rest)) => Some((stamp, strip_logger(rest))),
        None => Some((stamp, strip_logger(rest))),
    }
}

/// Removes the first word of `handlers.py[DEBUG]: text`.
fn strip_logger(rest: &str) -> &str {
    match rest.split_once(": ") {
        Some((source, text)) if source.ends_with(']') && !source.contains(' ') => text.trim(),
        _ => rest.trim(),
    }
}

/// Parses an event, `None` for any other message. Fails for an incomplete event.
fn parse_message(message: &str) -> Option<Result<Event, ()>> {
    if message.starts_with("Cloud-init v.") {
        return welcome(message).map(Ok);
    }
    let (kind, rest) = match (message.strip_prefix("start:"), message.strip_prefix("finish:")) {
        (Some(rest), _) => (Kind::Start, rest.trim_start()),
        (_, Some(rest)) => (Kind::Finish, rest.trim_start()),
        _ => return None,
    };
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = name.trim_end_matches(':');
    let (result, description) = match kind {
        Kind::Start => ("", rest),
        Kind::Finish => rest.split_once(':').unwrap_or((rest, "")),
    };
    if name.is_empty() || (kind == Kind::Finish && result.trim().is_empty()) {
        return Some(Err(()));
    }
    Some(Ok(event(name, kind, description.trim(), result.trim())))
}

fn event(name: &str, kind: Kind, description: &str, result: &str) -> Event {
    let (name, description, result) = (name.to_string(), description.to_string(), result.to_string());
    Event { name, kind, description, origin: "cloudinit".into(), result, at: 0, line: 0 }
}

/// Parses the start of a stage, `Cloud-init v. 26.2 running 'init-local' at …`. The line of the end is not an event.
fn welcome(message: &str) -> Option<Event> {
    let action = message.split_once(" running '")?.1.split_once('\'')?.0;
    let known = STAGES.iter().find(|(welcome, event, _)| action == *welcome || action == *event);
    Some(match known {
        Some((_, name, description)) => event(name, Kind::Start, description, ""),
        None => event(&action.replace(':', "-"), Kind::Start, &format!("running {action}"), ""),
    })
}

/// Returns the events of a dump, except for those without a name, a kind or a time.
pub fn from_dump(dump: &[Value]) -> Vec<Event> {
    let read = |(index, entry): (usize, &Value)| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let kind = match text("event_type")? {
            "start" => Kind::Start,
            "finish" => Kind::Finish,
            _ => return None,
        };
        // Years beyond 30,000 are not valid.
        let seconds = entry.get("timestamp")?.as_f64().filter(|s| s.abs() < 1e12)?;
        let of = |key: &str| text(key).unwrap_or_default();
        let event = event(text("name")?, kind, of("description"), of("result"));
        Some(Event {
            at: (seconds * time::SECOND as f64).round() as i64,
            origin: of("origin").into(),
            line: index + 1,
            ..event
        })
    };
    dump.iter().enumerate().filter_map(read).collect()
}

pub fn to_dump(events: &[Event]) -> Value {
    let entry = |e: &Event| {
        let seconds = e.at as f64 / time::SECOND as f64;
        let mut entry = json!({"name": e.name, "description": e.description, "timestamp": seconds,
            "origin": e.origin, "event_type": e.kind.as_str()});
        if e.kind == Kind::Finish {
            entry["result"] = e.result.as_str().into();
        }
        entry
    };
    events.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_every_kind_of_log_line() {
        let own = "2031-03-04 05:06:07,890 - x.py[DEBUG]: ";
        let read = |line: &str| {
            let (events, bad) = from_log(line, 1_930_392_000 * time::SECOND);
            let show = |e: &Event| {
                let kind = e.kind.as_str();
                format!("{kind} {}={}={} {}", e.name, e.result, e.description, e.at - 1_930_367_167_000_000)
            };
            (events.first().map(show).unwrap_or_default(), bad.len())
        };
        for (line, wanted, bad) in [
            (format!("{own}start: a/b: c: d"), "start a/b==c: d 890000", 0),
            (format!("{own}start: a/b"), "start a/b== 890000", 0),
            (format!("{own}finish: a/b: SUCCESS: c: d"), "finish a/b=SUCCESS=c: d 890000", 0),
            (format!("{own}finish: a/b: FAIL"), "finish a/b=FAIL= 890000", 0),
            (format!("{own}finish: a/b"), "", 1),
            (format!("{own}start: "), "", 1),
            (format!("{own}text with start: in it"), "", 0),
            (format!("{own}Running command ['x', 'start: a: b']"), "", 0),
            ("start: a: b".into(), "", 0),
            ("yesterday - x.py[DEBUG]: start: a: b".into(), "", 1),
            ("Mar  4 05:06:07 h [CLOUDINIT] x.py[DEBUG]: start: a: b - c".into(), "start a==b - c 0", 0),
            (
                "Mar 04 05:06:07.5 h cloud-init[9]: [CLOUDINIT] x.py[DEBUG]: start: a: b".into(),
                "start a==b 500000",
                0,
            ),
            (format!("Mar 04 05:06:07.5 h cloud-init[9]: {own}start: a: b"), "start a==b 890000", 0),
            (
                "Mar 04 05:06:07 h cloud-init[9]: Cloud-init v. 1 running 'init' at x. Up 3 s".into(),
                "start init-network==searching for network datasources 0",
                0,
            ),
            (
                format!("{own}Cloud-init v. 1 running 'modules:init' at x"),
                "start modules-init==running modules:init 890000",
                0,
            ),
            (format!("{own}Cloud-init v. 1 finished at x"), "", 0),
        ] {
            assert_eq!(read(&line), (wanted.to_string(), bad), "{line}");
        }
    }

    #[test]
    fn dump_round_trip() {
        let own = "2031-03-04 05:06:07,890 - x.py[DEBUG]: ";
        let (events, _) = from_log(&format!("{own}start: a: b\n{own}finish: a: WARN: c\n"), 0);
        let dump = to_dump(&events);
        assert_eq!(dump[0]["timestamp"].to_string(), "1930367167.89");
        assert_eq!(from_dump(dump.as_array().unwrap()), events);
        assert!(
            from_dump(&[
                json!(1),
                json!({"name": "a"}),
                json!({"event_type": "start", "timestamp": 1}),
                json!({"name": "a", "event_type": "start", "timestamp": 1e300}),
            ])
            .is_empty()
        );
    }
}
