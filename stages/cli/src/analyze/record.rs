//! Groups events into boots: the stages and the time that each part took. A boot starts with the local stage. An event
//! without its counterpart is skipped.

use sort::Named;

use super::event::{Event, Kind};
use super::time::SECOND;

/// The default format of a finished part.
pub const DEFAULT_FORMAT: &str = "%I%D @%Es +%ds";

/// One boot, in the order of the log.
#[derive(Debug, Default)]
pub struct Record<'a> {
    pub begin: i64,
    pub steps: Vec<Step<'a>>,
    /// Microseconds of the stages and of parts with subparts.
    pub total: i64,
}

#[derive(Debug)]
pub enum Step<'a> {
    /// The start of a stage or of a part with subparts.
    Begin(&'a Event),
    /// Its start and finish.
    End(&'a Event, &'a Event),
    /// A part with its start and finish.
    Part(&'a Event, &'a Event),
}

/// Returns at least one boot.
pub fn records(events: &[Event]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut record = Record::default();
    // The starts without a finish so far, by name, and how many there are: a log may have thousands.
    let (mut open, mut opened) = (Named::<Vec<&Event>>::default(), 0);
    let mut is_part = false;
    record.begin = events.first().map_or(0, |e| e.at);
    for (i, event) in events.iter().enumerate() {
        if event.kind == Kind::Finish {
            if is_part {
                is_part = false;
            } else if let Some(start) = open.get_mut(&event.name).and_then(Vec::pop) {
                opened -= 1;
                record.steps.push(Step::End(start, event));
                record.total += event.at - start.at;
            }
            continue;
        }
        if event.name == "init-local" && !record.steps.is_empty() {
            (open, opened) = (Named::default(), 0);
            records.push(std::mem::replace(&mut record, Record { begin: event.at, ..Record::default() }));
        }
        match events.get(i + 1).filter(|next| next.name == event.name) {
            // A stage is not a part of another one.
            Some(next) if next.kind == Kind::Finish && opened > 0 => {
                is_part = true;
                record.steps.push(Step::Part(event, next));
            }
            // Logged twice: by the welcome line and by the stage.
            Some(next) if next.kind == Kind::Start => {}
            _ => {
                open.entry(&event.name).push(event);
                opened += 1;
                record.steps.push(Step::Begin(event));
            }
        }
    }
    records.push(record);
    records
}

pub fn show(records: &[Record<'_>], format: &str) -> String {
    let mut out = String::new();
    for (i, record) in records.iter().enumerate() {
        out += &format!(
            "-- Boot Record {:02} --\n@ is when it began, counted from the beginning of the boot;\n+ is how long it \
             took.\n\n",
            i + 1
        );
        for step in &record.steps {
            out += &match step {
                Step::Begin(start) => format!("Starting stage: {}\n", start.name),
                Step::End(start, finish) => {
                    let took = seconds(finish.at - start.at, 8);
                    format!("Finished stage: ({}) {took} seconds\n\n", finish.name)
                }
                Step::Part(start, finish) => expand_format(format, record.begin, start.at, finish) + "\n",
            };
        }
        out += &format!("Total Time: {} seconds\n\n", seconds(record.total, 0));
    }
    out + &count(records)
}

/// Lists the parts, longest first.
pub fn blame(records: &[Record<'_>]) -> String {
    let mut out = String::new();
    for (i, record) in records.iter().enumerate() {
        let line = |step: &Step<'_>| match step {
            Step::Part(start, finish) => Some(expand_format("     %ds (%n)", record.begin, start.at, finish)),
            _ => None,
        };
        let mut lines: Vec<String> = record.steps.iter().filter_map(line).collect();
        sort::sort_by(&mut lines, |a, b| b.cmp(a));
        out += &format!("-- Boot Record {:02} --\n{}\n\n", i + 1, lines.join("\n"));
    }
    out + &count(records)
}

fn count(records: &[Record<'_>]) -> String {
    format!("{} boot records analyzed\n", records.len())
}

/// Formats seconds with five decimals, rounded as a float as upstream does.
fn seconds(micros: i64, width: usize) -> String {
    format!("{:0width$.5}", micros as f64 / SECOND as f64)
}

/// Replaces the codes of a format; other text is kept.
fn expand_format(format: &str, begin: i64, start: i64, finish: &Event) -> String {
    let mut out = String::with_capacity(format.len() + 80);
    let depth = finish.name.matches('/').count();
    let mut pieces = format.split('%');
    out += pieces.next().unwrap_or_default();
    for piece in pieces {
        let mut letters = piece.chars();
        match letters.next() {
            Some('d') => out += &seconds(finish.at - start, 8),
            Some('D') => out += &finish.description,
            Some('E') => out += &seconds(start - begin, 8),
            Some('e') => out += finish.kind.as_str(),
            Some('I') => out += &format!("|{:1$}`->", "", depth.saturating_sub(1)),
            Some('l') => out += &depth.to_string(),
            Some('n') => out += &finish.name,
            Some('o') => out += &finish.origin,
            Some('r') => out += &finish.result,
            Some('t') => out += &seconds(finish.at, 8),
            Some('T') => out += &seconds(finish.at - begin, 8),
            _ => {
                out.push('%');
                letters = piece.chars();
            }
        }
        out += letters.as_str();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+name` starts, `-name` finishes; a tenth of a second between two.
    fn events(text: &str) -> Vec<Event> {
        let event = |(i, word): (usize, &str)| Event {
            name: word[1..].into(),
            kind: if word.starts_with('+') { Kind::Start } else { Kind::Finish },
            description: format!("d{i}"),
            origin: "o".into(),
            result: "R".into(),
            at: i as i64 * SECOND / 10,
            line: i + 1,
        };
        text.split_whitespace().enumerate().map(event).collect()
    }

    #[test]
    fn incomplete_events_are_skipped() {
        for (text, wanted) in [
            ("", "[]"),
            ("+a +a/b -a/b -a", "[a (a/b) 0.3]"),
            ("-a +b +b/c -b/c -b", "[b (b/c) 0.3]"),
            ("+a +a/b +a/c -a/c -a", "[a a/b (a/c) 0.4]"),
            ("+a +b +c -a -b -c", "[a b c 0.3 0.3 0.3]"),
            ("+a +b +a -b -a -a -a", "[a b a 0.2 0.2 0.5]"),
            ("+a -a +b", "[a 0.1 b]"),
            ("+init-local +init-local +x -x -init-local +init-local", "[init-local (x) 0.3] [init-local]"),
            ("+x +y +init-local -init-local", "[x y] [init-local 0.1]"),
        ] {
            let events = events(text);
            let step = |step: &Step<'_>| match step {
                Step::Begin(start) => start.name.clone(),
                Step::End(start, finish) => format!("{:.1}", (finish.at - start.at) as f64 / SECOND as f64),
                Step::Part(_, finish) => format!("({})", finish.name),
            };
            let show =
                |r: &Record<'_>| format!("[{}]", r.steps.iter().map(step).collect::<Vec<_>>().join(" "));
            let found: Vec<String> = records(&events).iter().map(show).collect();
            assert_eq!(found.join(" "), wanted, "{text}");
        }
    }

    #[test]
    fn format_codes_are_expanded() {
        let events = events("+x +a/b/c -a/b/c");
        let fill = |format: &str| expand_format(format, 0, events[1].at, &events[2]);
        assert_eq!(fill("%I%D @%Es +%ds"), "| `->d2 @00.10000s +00.10000s");
        assert_eq!(fill("%n %e %r %o %l %t %T"), "a/b/c finish R o 2 00.20000 00.20000");
        assert_eq!(fill("%% %x {D} é%é %"), "%% %x {D} é%é %");
    }
}
