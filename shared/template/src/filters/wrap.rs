//! Long values over several lines, as Python's textwrap and pprint break them.

use crate::value::Val;

/// Splits a line where it may be broken: into words, the blanks between them, and parts of hyphenated words.
fn pieces(line: &[char], hyphens: bool) -> Vec<Vec<char>> {
    let blank = |c: &char| matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ');
    // There is nothing before the first character: its index minus one, which wraps, has none.
    let at = |i: usize| line.get(i).copied();
    let letter = |i: usize| at(i).is_some_and(char::is_alphabetic);
    let word = |i: usize| at(i).is_some_and(|c| c.is_alphanumeric() || c == '_');
    let before_dash = |i: usize| word(i) || at(i).is_some_and(|c| "!\"'&.,?".contains(c));
    // Whether two letters are next to a hyphen, or two with another hyphen between them.
    let letters = |[i, j, k]: [usize; 3]| letter(i) && (letter(j) || (at(j) == Some('-') && letter(k)));
    // The number of dashes from there on, if there are at least two and a word follows.
    let dashes = |i: usize| {
        let many = line[i..].iter().take_while(|c| **c == '-').count();
        (many >= 2 && word(i + many)).then_some(many)
    };
    let mut found = Vec::new();
    let mut i = 0;
    while i < line.len() {
        let end = if blank(&line[i]) {
            i + line[i..].iter().take_while(|c| blank(c)).count()
        } else if let Some(many) = dashes(i).filter(|_| hyphens && before_dash(i.wrapping_sub(1))) {
            i + many
        } else {
            (i + 1..=line.len())
                .find_map(|j| {
                    let is_hyphen = hyphens
                        && at(j) == Some('-')
                        && letters([1, 2, 3].map(|n| j.wrapping_sub(n)))
                        && letters([1, 2, 3].map(|n| j + n));
                    let is_end = line.get(j).is_none_or(blank);
                    let is_dash = hyphens && before_dash(j - 1) && dashes(j).is_some();
                    is_hyphen.then_some(j + 1).or((is_end || is_dash).then_some(j))
                })
                .unwrap_or(line.len())
        };
        found.push(line[i..end].to_vec());
        i = end;
    }
    found
}

/// Breaks a line into lines of at most `width`, where that is possible.
pub fn wrap_line(line: &str, width: usize, long: bool, hyphens: bool) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let is_blank = |piece: &Vec<char>| piece.iter().all(|c| c.is_whitespace());
    let mut pieces = pieces(&chars, hyphens);
    pieces.reverse();
    let mut lines = Vec::new();
    while !pieces.is_empty() {
        let (mut now, mut used): (Vec<Vec<char>>, usize) = (Vec::new(), 0);
        if !lines.is_empty() && pieces.last().is_some_and(is_blank) {
            pieces.pop();
        }
        while let Some(piece) = pieces.pop_if(|piece| used + piece.len() <= width) {
            used += piece.len();
            now.push(piece);
        }
        if let Some(piece) = pieces.last_mut().filter(|piece| piece.len() > width) {
            let left = width - used.min(width);
            if long {
                let mut end = left.min(piece.len());
                let hyphen = piece[..end].iter().rposition(|c| *c == '-').filter(|at| *at > 0);
                if let Some(hyphen) = hyphen.filter(|at| hyphens && piece[..*at].iter().any(|c| *c != '-')) {
                    end = hyphen + 1;
                }
                now.push(piece.drain(..end).collect());
            } else if now.is_empty() {
                now.extend(pieces.pop());
            }
        }
        if now.last().is_some_and(is_blank) {
            now.pop();
        }
        if !now.is_empty() {
            lines.push(now.concat().into_iter().collect());
        }
    }
    lines
}

const WIDTH: usize = 80;

/// Returns a value on as many lines as it needs, with sorted keys, like `pprint.pformat`.
pub fn pformat(value: &Val) -> String {
    let mut out = String::new();
    format(value, 0, 0, 1, &mut out);
    out
}

fn format(value: &Val, indent: usize, allowance: usize, level: usize, out: &mut String) {
    let whole = value.repr(true);
    if whole.chars().count() <= WIDTH.saturating_sub(indent + allowance) {
        out.push_str(&whole);
        return;
    }
    let (open, close, items): (_, _, Vec<(String, Val)>) = match value {
        Val::Map(map) if !map.namespace => {
            let entries = map.sorted().into_iter();
            ("{", "}", entries.map(|(key, item)| (key.repr(true) + ": ", item)).collect())
        }
        Val::Seq(seq) => {
            let items = seq.items.borrow();
            let (open, close) = seq.brackets(items.len());
            (open, close, items.iter().map(|item| (String::new(), item.clone())).collect())
        }
        Val::Str(text) if !text.is_empty() => return format_str(text, indent, allowance, level, out),
        _ => return out.push_str(&whole),
    };
    out.push_str(open);
    for (i, (key, item)) in items.iter().enumerate() {
        out.push_str(key);
        let indent = indent + 1;
        let is_last = i + 1 == items.len();
        let allowance = if is_last { allowance + close.len() } else { 1 };
        format(item, indent + key.chars().count(), allowance, level + 1, out);
        if !is_last {
            out.push_str(&format!(",\n{}", " ".repeat(indent)));
        }
    }
    out.push_str(close);
}

/// Writes a string as several string literals, one on each line.
fn format_str(text: &str, mut indent: usize, mut allowance: usize, level: usize, out: &mut String) {
    let repr = |text: &str| Val::text(text).repr(true);
    let length = |text: &str| repr(text).chars().count();
    if level == 1 {
        indent += 1;
        allowance += 1;
    }
    let width = WIDTH.saturating_sub(indent);
    let mut chunks: Vec<String> = Vec::new();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (i, line) in lines.iter().enumerate() {
        let mut current = String::new();
        let mut rest = *line;
        while !rest.is_empty() {
            // A word with the blanks that follow it.
            let blanks = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (part, tail) = rest.split_at(rest.len() - rest[blanks..].trim_start().len());
            let is_last = i + 1 == lines.len() && tail.is_empty();
            let max = if is_last { width.saturating_sub(allowance) } else { width };
            if !current.is_empty() && length(&format!("{current}{part}")) > max {
                chunks.push(repr(&std::mem::take(&mut current)));
            }
            current.push_str(part);
            rest = tail;
        }
        chunks.push(repr(&current));
    }
    if let [one] = &chunks[..] {
        out.push_str(one);
        return;
    }
    let whole = chunks.join(&format!("\n{}", " ".repeat(indent)));
    out.push_str(&if level == 1 { format!("({whole})") } else { whole });
}
