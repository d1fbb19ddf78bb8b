//! JSON in the format of cloud-init's files: indented by one space, sorted keys, ASCII, a final newline.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use system::{Change, Error, Result, System, WriteOptions};

/// Returns a value as JSON text. `indent` is in spaces: 1 in files, 2 in `status --format=json`.
pub fn to_text(value: &impl Serialize, indent: usize) -> String {
    let mut bytes = Vec::new();
    let spaces = vec![b' '; indent];
    let mut to = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(&spaces));
    // Keys are text and the output is memory, so this cannot fail.
    let _ = value.serialize(&mut to);
    let text = String::from_utf8(bytes).unwrap_or_default();
    // Python escapes DEL as well.
    if text.bytes().all(|byte| byte < 0x7f) {
        return text + "\n";
    }
    let mut ascii = String::with_capacity(text.len() + 16);
    let mut units = [0_u16; 2];
    for c in text.chars() {
        if c < '\u{7f}' {
            ascii.push(c);
        } else {
            // Only strings contain other characters, where an escape is valid.
            for unit in c.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii + "\n"
}

/// Writes a value as [`to_text`] formats it.
pub fn write(sys: &System, path: &str, value: &Value, how: WriteOptions) -> Result<Change> {
    sys.write(path, to_text(value, 1), how)
}

/// Reads a value. An error of syntax has line and column, never the text.
pub fn read(sys: &System, path: &str) -> Result<Value> {
    let bytes = sys.read(path)?;
    serde_json::from_slice(&bytes).map_err(|e| Error::new(format!("{path}: invalid JSON: {}", position(&e))))
}

/// Returns the position of a syntax error.
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
