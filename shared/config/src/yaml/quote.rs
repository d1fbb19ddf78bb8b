//! Writes text as a scalar as PyYAML does when it writes ASCII only: plain if it is read as the same text, else in single
//! quotes, else in double quotes with escapes. Long text is folded.

use super::scalar::{self, Tag};
use super::writer::{WIDTH, Writer};

/// Returns whether YAML 1.1 reads a character as a line break.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether text contains a line break.
pub(super) fn has_break(text: &str) -> bool {
    if text.is_ascii() { text.contains('\n') } else { text.contains(is_break) }
}

/// Writes text and returns whether it was quoted. With `split` it may be folded over several lines, indented by `indent`.
pub(super) fn write_text(writer: &mut Writer, text: &str, indent: usize, split: bool) -> bool {
    if may_be_plain(text) && scalar::resolve(text) == Tag::Str {
        writer.write_indicator("", true);
        write_folded(writer, text, indent, Folding { split, quoted: false });
        return false;
    }
    if may_be_single(text) {
        writer.write_indicator("'", true);
        write_folded(writer, text, indent, Folding { split, quoted: true });
        writer.write_indicator("'", false);
    } else {
        write_double_quoted(writer, text, indent, split);
    }
    true
}

/// Returns whether text has neither YAML indicators nor blanks and line breaks that a plain scalar would lose.
fn may_be_plain(text: &str) -> bool {
    let followed = |rest: &str| rest.chars().next().is_none_or(is_white);
    let Some(first) = text.chars().next() else { return false };
    // Most strings pass this check, which needs no look at each character's neighbours.
    let harmless = |b: u8| (b' '..=b'~').contains(&b) && !matches!(b, b'#' | b':');
    if (first.is_ascii_alphanumeric() || first == '_') && !text.ends_with(' ') && text.bytes().all(harmless) {
        return true;
    }
    let rest = &text[first.len_utf8()..];
    let leading = match first {
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
            true
        }
        '?' | ':' | '-' => followed(rest),
        _ => first == ' ',
    };
    if leading || text.ends_with(' ') || text.starts_with("---") || text.starts_with("...") {
        return false;
    }
    let mut before = first;
    for (i, c) in rest.char_indices() {
        let comment = c == '#' && is_white(before);
        let key = c == ':' && followed(&rest[i + 1..]);
        if comment || key {
            return false;
        }
        before = c;
    }
    text.chars().all(|c| (' '..='~').contains(&c))
}

fn is_white(c: char) -> bool {
    matches!(c, '\0' | ' ' | '\t' | '\r') || is_break(c)
}

/// Returns whether text is ASCII without control characters and has no blank beside a line break, which folding would drop.
fn may_be_single(text: &str) -> bool {
    let printable = text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b));
    printable && !(text.contains('\n') && (text.contains(" \n") || text.contains("\n ")))
}

/// How [`write_folded`] writes a scalar.
struct Folding {
    /// The text may continue on further lines.
    split: bool,
    /// The text is in single quotes.
    quoted: bool,
}

/// Writes the content of a plain or single-quoted scalar. A line wider than [`WIDTH`] ends at the next single blank; each
/// line break is written as an empty line. In quotes an apostrophe is doubled.
fn write_folded(writer: &mut Writer, text: &str, indent: usize, Folding { split, quoted }: Folding) {
    if !text.is_empty() && !text.contains('\n') {
        let doubled = if quoted && text.contains('\'') { &*text.replace('\'', "''") } else { text };
        if !split || writer.column + doubled.len() <= WIDTH {
            writer.write(doubled);
            (writer.after_blank, writer.only_indicators) = (false, false);
            return;
        }
    }
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let sort = |c: char| (c == ' ', c == '\n');
        let first = rest.chars().next().map(sort).unwrap_or_default();
        let length = rest.find(|c| sort(c) != first).unwrap_or(rest.len());
        let run = &rest[..length];
        let inside = at > 0 && at + length < text.len();
        match first {
            (true, _) if length == 1 && split && inside && writer.column > WIDTH => {
                writer.write_indent(indent)
            }
            (_, true) => {
                writer.write_line_break();
                for _ in 0..length {
                    writer.write_line_break();
                }
                writer.write_indent(indent);
            }
            _ if quoted => writer.write(&run.replace('\'', "''")),
            _ => writer.write(run),
        }
        at += length;
        writer.after_blank = false;
        writer.only_indicators = false;
    }
}

/// Writes text in double quotes and escapes everything but printable ASCII. A line wider than [`WIDTH`] ends with a
/// backslash at a blank or after an escape.
fn write_double_quoted(writer: &mut Writer, text: &str, indent: usize, split: bool) {
    let chars: Vec<char> = text.chars().collect();
    writer.write_indicator("\"", true);
    // The beginning of the text that is not written yet; after an escape it exceeds `at`.
    let mut start = 0;
    // The blank at the beginning of the line, whose backslash is written. Where the indentation alone is wider than
    // [`WIDTH`], PyYAML ends the line after that backslash with another one, and the two are read as one of the text.
    let mut escaped_blank = None;
    let pending = |from: usize, to: usize| chars.get(from..to).unwrap_or_default().iter().collect::<String>();
    for at in 0..=chars.len() {
        let here = chars.get(at).copied();
        if here.is_none_or(|c| matches!(c, '"' | '\\') || !(' '..='~').contains(&c)) {
            writer.write(&pending(start, at));
            start = start.max(at);
            if let Some(c) = here {
                writer.write(&escape(c));
                start = at + 1;
            }
        }
        let wide = writer.column + at > WIDTH + start;
        let may_end = at > 0 && at + 1 < chars.len() && escaped_blank != Some(start.max(at));
        if split && may_end && (here == Some(' ') || start >= at) && wide {
            writer.write(&pending(start, at));
            writer.write("\\");
            start = start.max(at);
            writer.write_indent(indent);
            writer.after_blank = false;
            writer.only_indicators = false;
            // A blank at the beginning of a line would be dropped.
            if chars.get(start) == Some(&' ') {
                writer.write("\\");
                escaped_blank = Some(start);
            }
        }
    }
    writer.write_indicator("\"", false);
}

/// Returns the escape sequence of a character in double quotes.
fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{B}' => 'v',
        '\u{C}' => 'f',
        '\r' => 'r',
        '\u{1B}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{A0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            return match u32::from(c) {
                n @ 0..=0xFF => format!("\\x{n:02X}"),
                n @ 0..=0xFFFF => format!("\\u{n:04X}"),
                n => format!("\\U{n:08X}"),
            };
        }
    };
    format!("\\{short}")
}
