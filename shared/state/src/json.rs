//! JSON in the format of cloud-init's files: indented by one space, sorted keys, ASCII, a final newline.

use std::io::ErrorKind;

use encoding::json::{MAX_VALUES, has_too_many_values};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};
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

/// Reads a file as JSON, with the errors of [`parse`].
///
/// # Errors
/// Fails also if the file cannot be read.
pub fn read(sys: &System, path: &str) -> Result<Value> {
    parse(path, &sys.read(path)?)
}

/// Parses the content of a file.
///
/// # Errors
/// Fails with [`ErrorKind::InvalidData`] and line and column, never the text, if it is not valid JSON, and with
/// [`ErrorKind::FileTooLarge`] if it has too many values.
pub fn parse(path: &str, bytes: &[u8]) -> Result<Value> {
    check(path, bytes)?;
    serde_json::from_slice(bytes).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        let message = format!("{path}: invalid JSON: line {line}, column {column}");
        Error::with_kind(ErrorKind::InvalidData, message)
    })
}

/// Removes a field of an object and returns its value, the default if it is absent, or `None` if it has another type. The rest of the
/// object are fields of a later version. Derived code with `flatten` does the same in 18 KiB more: see docs/small-binaries.md.
pub fn take<T: DeserializeOwned + Default>(fields: &mut Map<String, Value>, name: &str) -> Option<T> {
    fields.remove(name).map_or_else(|| Some(T::default()), |value| serde_json::from_value(value).ok())
}

/// Fails if a document has too many values. The size of a file is limited when it is read.
pub fn check(path: &str, bytes: &[u8]) -> Result<()> {
    match has_too_many_values(bytes) {
        true => Err(Error::with_kind(
            ErrorKind::FileTooLarge,
            format!("{path}: could not be read: more than {MAX_VALUES} values"),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use encoding::json::MAX_VALUES;
    use scratch::TempDir;
    use system::{System, WriteOptions};

    #[test]
    fn file_with_too_many_values_is_not_read() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        for (text, expected) in [
            (list(MAX_VALUES - 1), None),
            (list(MAX_VALUES), Some(ErrorKind::FileTooLarge)),
            ("[1,".to_string(), Some(ErrorKind::InvalidData)),
        ] {
            sys.write("/f", text, WriteOptions::default()).unwrap();
            assert_eq!(super::read(&sys, "/f").err().and_then(|e| e.kind()), expected);
        }
        assert!(super::read(&sys, "/none").unwrap_err().is_not_found());
    }

    #[test]
    fn writes_like_python() {
        let value = serde_json::json!({"b": [], "a": {"é": 1.5, "n": null}, "c": [1, "𝄞\u{7f}"]});
        let wanted = "{\n \"a\": {\n  \"n\": null,\n  \"\\u00e9\": 1.5\n },\n \"b\": [],\n \"c\": [\n  1,\n  \"\\ud834\\udd1e\\u007f\"\n ]\n}\n";
        assert_eq!(super::to_text(&value, 1), wanted);
    }
}
