//! Compares the events of a YAML parser with PyYAML's, for the choice of the parser under `config::yaml`
//! (docs/yaml-parser.md). Reads a JSON list of strings and the answers of `events.py`; prints the counts, and with a third argument
//! the documents of that class. In this directory:
//!
//!     python3 ../../shared/config/tests/pyyaml/documents.py 3000 6000 >/tmp/strings
//!     python3 events.py </tmp/strings >/tmp/events
//!     cargo run --release -- /tmp/strings /tmp/events ["only PyYAML reads"]
//!
//! On files, with `python3 real.py DIRECTORY... >/tmp/strings` in place of the first line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Value, json};

/// Returns the candidate's events in the form of `events.py`.
fn events(text: &str) -> Result<Vec<Value>, String> {
    let name = |tag: Option<Cow<Tag>>| tag.map(|tag| format!("{}{}", tag.handle, tag.suffix));
    let mut out = Vec::new();
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|bad| bad.to_string())?;
        let at = [span.start.line(), span.start.col() + 1];
        out.push(match event {
            Event::Alias(anchor) => json!(["alias", anchor, at]),
            Event::Scalar(text, style, anchor, tag) => {
                let tag = name(tag);
                let implicit = style == ScalarStyle::Plain && tag.is_none() || tag.as_deref() == Some("!");
                json!(["scalar", text, implicit, tag, anchor, at])
            }
            Event::SequenceStart(anchor, tag) => json!(["list", name(tag), anchor, at]),
            Event::MappingStart(anchor, tag) => json!(["map", name(tag), anchor, at]),
            Event::SequenceEnd | Event::MappingEnd => json!(["end"]),
            Event::StreamEnd => break,
            _ => continue,
        });
    }
    Ok(out)
}

fn without_positions(events: &[Value]) -> Vec<&[Value]> {
    events.iter().filter_map(Value::as_array).map(|event| &event[..event.len().max(2) - 1]).collect()
}

fn class(ours: &Result<Vec<Value>, String>, theirs: Option<&Vec<Value>>) -> &'static str {
    match (ours, theirs) {
        (Err(_), None) => "both refuse",
        (Err(_), Some(_)) => "only PyYAML reads",
        (Ok(_), None) => "only the candidate reads",
        (Ok(ours), Some(theirs)) if ours == theirs => "equal",
        (Ok(ours), Some(theirs)) if without_positions(ours) == without_positions(theirs) => "other positions",
        _ => "other values",
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut read = || -> Vec<Value> {
        let path = arguments.next().expect("usage: yaml-parser TEXTS EVENTS [CLASS]");
        serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("a JSON list")
    };
    let (texts, answers) = (read(), read());
    let shown = arguments.next();
    let mut counts = BTreeMap::<&str, usize>::new();
    for (text, answer) in texts.iter().zip(&answers) {
        let text = text.as_str().unwrap_or_default();
        let ours = events(text);
        let class = class(&ours, answer["events"].as_array());
        *counts.entry(class).or_default() += 1;
        if shown.as_deref() == Some(class) {
            println!("{text:?}\n    ours {ours:?}\n    theirs {answer}");
        }
    }
    println!("{counts:?}");
}
