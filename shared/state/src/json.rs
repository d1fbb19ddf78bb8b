//! JSON as cloud-init's files have always had it: indented by one, keys sorted, ASCII, a final newline.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use system::{Change, Error, Result, System, WriteOptions};

/// The text of a value (of serde_json, or a `config::Node`) in that form; `indent` is 1 in files, 2 in `status --format=json`.
pub fn to_text(value: &impl Serialize, indent: usize) -> String {
    let mut bytes = Vec::new();
    let spaces = vec![b' '; indent];
    let mut to = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(&spaces));
    // What is written here has text keys only and the sink is memory: neither can fail.
    let _ = value.serialize(&mut to);
    let text = String::from_utf8(bytes).unwrap_or_default();
    // Python writes DEL as an escape too.
    if text.bytes().all(|byte| byte < 0x7f) {
        return text + "\n";
    }
    let mut ascii = String::with_capacity(text.len() + 16);
    let mut units = [0_u16; 2];
    for c in text.chars() {
        if c < '\u{7f}' {
            ascii.push(c);
        } else {
            // Only strings hold other characters, so an escape is always in its place.
            for unit in c.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii + "\n"
}

/// Writes a value as the text that [`to_text`] makes of it.
pub fn write(sys: &System, path: &str, value: &Value, how: WriteOptions) -> Result<Change> {
    sys.write(path, to_text(value, 1), how)
}

/// Reads a value; the error of a text that is no JSON names line and column.
pub fn read(sys: &System, path: &str) -> Result<Value> {
    let bytes = sys.read(path)?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Error::new(format!("reading {path}: no JSON: {}", position(&e))))
}

/// Where the syntax error is, without the text around it.
fn position(e: &serde_json::Error) -> String {
    format!("line {}, column {}", e.line(), e.column())
}

#[cfg(test)]
mod tests {
    #[test]
    fn writes_like_python() {
        let value = serde_json::json!({"b": [], "a": {"é": 1.5, "n": null}, "c": [1, "𝄞\u{7f}"]});
        let wanted = "{\n \"a\": {\n  \"n\": null,\n  \"\\u00e9\": 1.5\n },\n \"b\": [],\n \"c\": [\n  1,\n  \"\\ud834\\udd1e\\u007f\"\n ]\n}\n";
        assert_eq!(super::to_text(&value, 1), wanted);
    }
}
