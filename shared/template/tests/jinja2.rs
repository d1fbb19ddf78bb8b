//! The same templates through Jinja2 (`jinja2/record.py` recorded its results once) and this crate: equal text, or an error
//! of both.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use config::{Map, Node};

/// Intended differences: the template, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("{{ x.real.nope }}", "a number has no attributes here"),
    ("{{ lipsum is defined }}", "nobody configures a machine with filler text"),
];

#[test]
fn same_as_jinja2() {
    let read = |text: &str| Node::from_json(&serde_json::from_str(text).unwrap());
    // JSON is YAML, whose parser keeps the order of keys.
    let values = config::yaml::parse("values", include_str!("jinja2/values.json")).unwrap().root;
    let values: &Map = values.as_map().unwrap();
    let cases = read(include_str!("jinja2/outcomes.json"));
    let cases = cases.as_seq().unwrap();
    assert!(cases.len() >= 400, "recorded templates are missing: {}", cases.len());
    let mut wrong = Vec::new();
    let mut differences = 0;
    for case in cases {
        let [text, outcome] = case.as_seq().unwrap() else { panic!("template and outcome") };
        let text = text.as_str().unwrap();
        let ours = template::render(&format!("## template: jinja\n{text}"), values);
        let same = match (&ours, outcome.as_str()) {
            (Ok(ours), Some(theirs)) => ours.text == theirs,
            (Err(bad), None) => bad.line >= 2 && !bad.message.is_empty(),
            _ => false,
        };
        let meant = DIFFERENCES.iter().any(|(of, _)| *of == text);
        differences += usize::from(meant);
        if same == meant {
            wrong.push(format!("{text:?}\n  ours   {:?}\n  theirs {outcome:?}", ours.map(|o| o.text)));
        }
    }
    assert_eq!(differences, DIFFERENCES.len(), "a difference is listed for what is no case");
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
