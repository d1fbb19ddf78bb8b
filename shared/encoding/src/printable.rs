//! Text of others in logs and on terminals: what is not printable is escaped.

use std::borrow::Cow;

/// Returns text as a part of a single line: what is not printable is escaped, as in `\n` and `\u{1b}`. A value from user-data or metadata must not become a line of its own, or a command of a terminal. Tabs stay.
pub fn single_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable)
}

/// Returns text of several lines for a person: as [`single_line`], but line breaks stay. Names in it are single lines.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unprintable(c) && c != '\n')
}

/// Returns whether a character ends a line, is a command of a terminal, is invisible, or changes the direction of the text around it. The
/// joiners of some scripts (U+200C, U+200D) are parts of their words.
pub fn is_unprintable(c: char) -> bool {
    #[rustfmt::skip]
    let is_mark = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    is_mark || (c.is_control() && c != '\t')
}

fn escaped(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_a_single_line() {
        for (text, line) in [
            ("plain \t ümlaut", "plain \t ümlaut"),
            ("a\n2026-01-01 00:00:00,000 - x.rs[ERROR]: b", "a\\n2026-01-01 00:00:00,000 - x.rs[ERROR]: b"),
            ("\r\0\u{1b}[2J\u{7f}", "\\r\\u{0}\\u{1b}[2J\\u{7f}"),
            ("\u{85}\u{2028}\u{2029}", "\\u{85}\\u{2028}\\u{2029}"),
            ("a\u{202e}b\u{2066}c\u{200f}d", "a\\u{202e}b\\u{2066}c\\u{200f}d"),
            ("a\u{200b}b\u{feff}c\u{ad}d\u{e0041}", "a\\u{200b}b\\u{feff}c\\u{ad}d\\u{e0041}"),
            ("\u{645}\u{6cc}\u{200c}\u{62e}", "\u{645}\u{6cc}\u{200c}\u{62e}"),
        ] {
            assert_eq!(super::single_line(text), line);
        }
        assert_eq!(super::printable("a\n\tb\r\u{9b}2J\u{202a}"), "a\n\tb\\r\\u{9b}2J\\u{202a}");
    }
}
