//! Quoted text as Python writes it: `repr` and `json.dumps`.

use std::fmt::Write;

/// Appends a string as `repr` returns it. The result has no line breaks.
pub fn put_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                let _ = match u32::from(c) {
                    n @ ..=0xff => write!(out, "\\x{n:02x}"),
                    n => write!(out, "\\u{n:04x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Appends a string as `json.dumps` returns it: ASCII, with surrogate pairs above U+FFFF.
pub fn put_json(text: &str, out: &mut String) {
    out.push('"');
    let is_special = |b: &u8| !matches!(b, b' '..=b'~') || matches!(b, b'"' | b'\\');
    let mut rest = text;
    // Most text has no special characters and is copied as a whole.
    while let Some(at) = rest.bytes().position(|b| is_special(&b)) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        let Some(c) = chars.next() else { break };
        rest = chars.as_str();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
        }
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_like_by_python() {
        for (text, repr, json) in [
            ("", "''", r#""""#),
            ("it's", r#""it's""#, r#""it's""#),
            ("'\"", r#"'\'"'"#, r#""'\"""#),
            ("a\\\n\r\t\0\u{8}", r"'a\\\n\r\t\x00\x08'", r#""a\\\n\r\t\u0000\b""#),
            ("\u{7f}\u{80}\u{a0}é", r"'\x7f\x80\xa0é'", r#""\u007f\u0080\u00a0\u00e9""#),
            ("\u{2028}𝄞", r"'\u2028𝄞'", r#""\u2028\ud834\udd1e""#),
        ] {
            let (mut as_repr, mut as_json) = (String::new(), String::new());
            put_repr(text, &mut as_repr);
            put_json(text, &mut as_json);
            assert_eq!((as_repr.as_str(), as_json.as_str()), (repr, json), "{text:?}");
        }
    }
}
