//! Compares reading YAML with the answers of PyYAML (`judge.py`), for several tests.

use config::{Node, Value, yaml};
use serde_json::{Value as Json, json};

/// The answers of `judge.py`.
pub struct Judged {
    /// The versions of PyYAML and Python.
    pub by: String,
    pub answers: Vec<Json>,
}

impl Judged {
    /// Reads the output of `judge.py` about this number of texts.
    pub fn from_output(output: &[u8], texts: usize) -> Judged {
        let output: Json = serde_json::from_slice(output).expect("the judge's output as JSON");
        let by = output["by"].as_str().expect("the judge's version").to_string();
        let answers = output["answers"].as_array().expect("the judge's answers").clone();
        assert_eq!(answers.len(), texts);
        Judged { by, answers }
    }
}

/// Returns why PyYAML refuses a text; `None` if it reads it.
pub fn refusal(answer: &Json) -> Option<&str> {
    answer["refused"].as_str()
}

/// Returns whether PyYAML refuses the text because of its Python only. binascii of Python 3.13.5 and 3.14 rejects base64 text
/// that continues after its padding; earlier versions (3.11.7) and `config::yaml` accept it.
pub fn is_refused_by_new_python(answer: &Json) -> bool {
    refusal(answer).is_some_and(|error| error.contains("Incorrect padding"))
}

/// Returns the positions in PyYAML's answer, `None` if the text has some that cannot be compared: `judge.py` names them; and
/// PyYAML does not count a byte order mark as a column.
pub fn placed<'a>(text: &str, answer: &'a Json) -> Option<&'a Vec<Json>> {
    answer["places"].as_array().filter(|_| !text.contains('\u{feff}'))
}

/// Returns how reading the text differs from PyYAML's answer: in acceptance, values or positions.
pub fn difference(text: &str, answer: &Json) -> Option<String> {
    match (yaml::parse("text", text), refusal(answer)) {
        (Ok(_), Some(_)) if is_refused_by_new_python(answer) => None,
        (Ok(parsed), Some(theirs)) => Some(format!("accepted as {}; theirs: {theirs}", tagged(&parsed.root))),
        (Err(bad), None) => Some(format!("refused: {bad}")),
        (Err(_), Some(_)) => None,
        (Ok(parsed), None) => {
            let value = tagged(&parsed.root);
            if value != answer["value"] {
                return Some(format!("ours {value}\n    theirs {}", answer["value"]));
            }
            let mut ours = Vec::new();
            places(&parsed.root, &mut ours);
            let theirs = placed(text, answer).filter(|theirs| **theirs != ours)?;
            let first = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
            Some(format!("{} and {} positions, first difference {first:?}", ours.len(), theirs.len()))
        }
    }
}

/// Returns a value in the form that the judge prints. Entries are in the order of the map.
fn tagged(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Str(text) => json!(text),
        Value::Int(n) => json!({"int": n.to_string()}),
        Value::Float(_) => json!({"float": node.scalar_text()}),
        Value::Bytes(bytes) => {
            json!({"bytes": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()})
        }
        Value::Seq(items) => items.iter().map(tagged).collect(),
        Value::Set(map) => {
            let mut items: Vec<Json> = map.iter().map(|(key, _)| tagged(key)).collect();
            items.sort_by_key(Json::to_string);
            json!({ "set": items })
        }
        Value::Map(map) => {
            json!({"map": map.iter().map(|(k, v)| json!([tagged(k), tagged(v)])).collect::<Vec<_>>()})
        }
    }
}

/// Collects the positions of all values but null, in order, as `judge.py` does.
fn places(node: &Node, into: &mut Vec<Json>) {
    if !node.is_null() {
        into.push(json!([node.at.line, node.at.column]));
    }
    match &node.value {
        Value::Seq(items) => items.iter().for_each(|item| places(item, into)),
        Value::Map(map) | Value::Set(map) => map.iter().for_each(|(key, value)| {
            places(key, into);
            places(value, into);
        }),
        _ => {}
    }
}
