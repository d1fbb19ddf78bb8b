//! Templates as people write them, through Jinja2 (`jinja2/record.py` recorded its results once) and this crate: equal text,
//! or an error of both.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use config::{Map, Node};

#[test]
fn same_as_jinja2() {
    let read = |text: &str| Node::from_json(&serde_json::from_str(text).unwrap());
    // JSON is YAML, whose parser keeps the order of keys.
    let values = config::yaml::parse("values", include_str!("jinja2/values.json")).unwrap().root;
    let values: &Map = values.as_map().unwrap();
    let cases = read(include_str!("jinja2/outcomes.json"));
    let cases = cases.as_seq().unwrap();
    assert!(cases.len() >= 290, "recorded templates are missing: {}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let [text, outcome] = case.as_seq().unwrap() else { panic!("template and outcome") };
        let text = text.as_str().unwrap();
        let ours = template::render(&format!("## template: jinja\n{text}"), values);
        let same = match (&ours, outcome.as_str()) {
            (Ok(ours), Some(theirs)) => ours.text == theirs,
            (Err(bad), None) => bad.line >= 2 && !bad.message.is_empty(),
            _ => false,
        };
        if !same {
            wrong.push(format!("{text:?}\n  ours   {:?}\n  theirs {outcome:?}", ours.map(|o| o.text)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
