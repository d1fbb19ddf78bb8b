//! The limit of values in a JSON document, which serde_json does not have.

/// The number of values and keys that a document may have.
pub const MAX_VALUES: usize = 2_000_000;

/// Returns whether a document has more than [`MAX_VALUES`] values and keys: parsed, they take up to 100 times the memory of
/// their text. They are counted by what is around them, outside of strings; the document does not have to be valid.
pub fn has_too_many_values(bytes: &[u8]) -> bool {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
        if values > MAX_VALUES {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let list = |count: usize, item: &str| format!("[{}{item}]", format!("{item},").repeat(count - 1));
        for (text, expected) in [
            (String::new(), false),
            (list(MAX_VALUES - 1, "0"), false),
            (list(MAX_VALUES, "0"), true),
            (list(MAX_VALUES / 3 + 1, r#"{"":0}"#), true),
            (format!(r#"["{}"]"#, ",".repeat(MAX_VALUES)), false),
            (format!(r#"["\"{}"]"#, ",".repeat(MAX_VALUES)), false),
            (format!(r#"["\\",{}"#, ",".repeat(MAX_VALUES)), true),
        ] {
            assert_eq!(has_too_many_values(text.as_bytes()), expected, "{}", &text[..text.len().min(20)]);
        }
    }
}
