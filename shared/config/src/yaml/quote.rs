//! How a text is written as a scalar: plain where it reads back as the same text, else in single quotes, else,
//! with escapes, in double quotes; and where a long one is folded. As PyYAML decides when it writes ASCII only.

use super::emit::{Emitter, WIDTH, reads_as_text};

/// What counts as a line break in YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn has_break(text: &str) -> bool {
    if text.is_ascii() { text.contains('\n') } else { text.contains(is_break) }
}

/// Writes a text; whether it came to be quoted. `split`: it may go on over more lines, at that indent.
pub(super) fn write_text(emitter: &mut Emitter, text: &str, indent: usize, split: bool) -> bool {
    if may_be_plain(text) && reads_as_text(text) {
        emitter.write_indicator("", true);
        write_folded(emitter, text, indent, split, false);
        return false;
    }
    if may_be_single(text) {
        emitter.write_indicator("'", true);
        write_folded(emitter, text, indent, split, true);
        emitter.write_indicator("'", false);
    } else {
        write_double_quoted(emitter, text, indent, split);
    }
    true
}

/// Nothing that YAML would take for a sign of its own, nor blanks and breaks that it would not keep.
fn may_be_plain(text: &str) -> bool {
    let followed = |rest: &str| rest.chars().next().is_none_or(is_white);
    let Some(first) = text.chars().next() else { return false };
    // Most texts: no look at each character's neighbours is needed.
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

/// ASCII without controls, and no blank beside a line break, which folding would eat.
fn may_be_single(text: &str) -> bool {
    let printable = text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b));
    printable && !(text.contains('\n') && (text.contains(" \n") || text.contains("\n ")))
}

/// The inside of a plain or single-quoted scalar. A line that has grown too wide ends at the next single blank;
/// each line break is written as an empty line. Within quotes an apostrophe is doubled.
fn write_folded(emitter: &mut Emitter, text: &str, indent: usize, split: bool, quoted: bool) {
    if !text.is_empty() && !text.contains('\n') {
        let doubled = if quoted && text.contains('\'') { &*text.replace('\'', "''") } else { text };
        if !split || emitter.column + doubled.len() <= WIDTH {
            emitter.write(doubled);
            (emitter.after_blank, emitter.only_indicators) = (false, false);
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
            (true, _) if length == 1 && split && inside && emitter.column > WIDTH => {
                emitter.write_indent(indent)
            }
            (_, true) => {
                emitter.write_line_break();
                for _ in 0..length {
                    emitter.write_line_break();
                }
                emitter.write_indent(indent);
            }
            _ if quoted => emitter.write(&run.replace('\'', "''")),
            _ => emitter.write(run),
        }
        at += length;
        emitter.after_blank = false;
        emitter.only_indicators = false;
    }
}

/// In double quotes, everything but printable ASCII escaped. A line that has grown too wide ends with a backslash at
/// a blank or behind an escape.
fn write_double_quoted(emitter: &mut Emitter, text: &str, indent: usize, split: bool) {
    let chars: Vec<char> = text.chars().collect();
    emitter.write_indicator("\"", true);
    // Where what is not written yet begins; beyond `at` right after an escape.
    let mut start = 0;
    let pending = |from: usize, to: usize| chars.get(from..to).unwrap_or_default().iter().collect::<String>();
    for at in 0..=chars.len() {
        let here = chars.get(at).copied();
        if here.is_none_or(|c| matches!(c, '"' | '\\') || !(' '..='~').contains(&c)) {
            emitter.write(&pending(start, at));
            start = start.max(at);
            if let Some(c) = here {
                emitter.write(&escape(c));
                start = at + 1;
            }
        }
        let wide = emitter.column + at > WIDTH + start;
        if split && at > 0 && at + 1 < chars.len() && (here == Some(' ') || start >= at) && wide {
            emitter.write(&pending(start, at));
            emitter.write("\\");
            start = start.max(at);
            emitter.write_indent(indent);
            emitter.after_blank = false;
            emitter.only_indicators = false;
            // A blank at the beginning of a line would be eaten.
            if chars.get(start) == Some(&' ') {
                emitter.write("\\");
            }
        }
    }
    emitter.write_indicator("\"", false);
}

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
