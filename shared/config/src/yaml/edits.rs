//! Edits of a string before it is parsed: placeholders, the changes of each repair, and how they move positions.

use std::ops::Range;

use super::position::{LineColumn, line_column_of};

/// Characters that the parser would treat specially, and their placeholders while it runs.
#[derive(Default)]
pub(super) struct Placeholders(Vec<(char, char)>);

impl Placeholders {
    /// Returns a placeholder: a character that neither YAML nor this text uses.
    pub fn add(&mut self, text: &str, real: char) -> Option<char> {
        if let Some((placeholder, _)) = self.0.iter().find(|(_, of)| *of == real) {
            return Some(*placeholder);
        }
        let placeholder =
            ('\u{E000}'..='\u{F8FF}').find(|c| !text.contains(*c) && self.0.iter().all(|(s, _)| s != c))?;
        self.0.push((placeholder, real));
        Some(placeholder)
    }

    pub fn restore(&self, text: String) -> String {
        self.0.iter().fold(text, |text, (placeholder, real)| match text.contains(*placeholder) {
            true => text.replace(*placeholder, real.encode_utf8(&mut [0; 4])),
            false => text,
        })
    }
}

/// A range of bytes and its replacement.
pub(super) type Edit = (Range<usize>, String);

pub(super) fn apply_edits(text: &str, edits: &[Edit], shifts: &mut ColumnShifts<'_>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut from = 0;
    let mut position = LineColumn { line: 1, column: 1 };
    let mut moved = Vec::new();
    for (range, new) in edits {
        let between = &text[from..range.start];
        let LineColumn { line, column } = line_column_of(between, between.len());
        position = match line {
            1 => LineColumn { line: position.line, column: position.column + column - 1 },
            line => LineColumn { line: position.line + line - 1, column },
        };
        let (before, after) = (text[range.clone()].chars().count(), new.chars().count());
        if before != after {
            moved.push((position, after as i64 - before as i64));
        }
        position.column += after as u32;
        out.push_str(between);
        out.push_str(new);
        from = range.end;
    }
    out.push_str(&text[from..]);
    shifts.add(moved);
    out
}

/// Returns the offsets after each `?` before `at` where a key may be missing, nearest first.
pub(super) fn empty_key_candidates(text: &str, at: usize) -> Vec<usize> {
    let is_one = |place: &usize| {
        let before = text[..*place].trim_end();
        let after = text[place + 1..].trim_start();
        before.ends_with(['[', ',']) && after.starts_with([',', ']'])
    };
    text[..at].rmatch_indices('?').map(|(place, _)| place).filter(is_one).map(|place| place + 1).collect()
}

/// Returns the edits for the surrogate escapes from offset `i` on: in the enclosing quoted scalar and in those that follow
/// it, separated by flow indicators only, as in JSON.
pub(super) fn surrogate_edits(text: &str, mut i: usize) -> Vec<Edit> {
    let is_half = |unit: &u32| (0xD800..0xE000).contains(unit);
    let code = |from: usize, digits: usize| {
        u32::from_str_radix(text.get(from..from + digits)?, 16).ok().filter(is_half)
    };
    let mut found = Vec::new();
    while let Some(c) = text.get(i..).and_then(|rest| rest.chars().next()) {
        let escape = if c == '\\' { text[i + 1..].chars().next() } else { None };
        match (c, escape) {
            (_, Some('u')) => {
                let units =
                    [code(i + 2, 4), code(i + 8, 4).filter(|_| text.get(i + 6..i + 8) == Some("\\u"))];
                let [Some(first), second] = units else {
                    i += 2;
                    continue;
                };
                let letter =
                    char::decode_utf16([Some(first), second].into_iter().flatten().map(|unit| unit as u16))
                        .next();
                let (end, new) = match letter {
                    Some(Ok(letter)) => (i + 12, format!("\\U{:08X}", u32::from(letter))),
                    _ => (i + 6, "\\uFFFD".to_string()),
                };
                found.push((i..end, new));
                i = end;
            }
            (_, Some('U')) if code(i + 2, 8).is_some() => {
                found.push((i..i + 10, "\\uFFFD".to_string()));
                i += 10;
            }
            (_, Some(escaped)) => i += 1 + escaped.len_utf8(),
            ('"', _) => {
                let rest = &text[i + 1..];
                let next = rest.trim_start_matches([' ', '\t', '\r', '\n', ',', ':', '[', ']', '{', '}']);
                if !next.starts_with('"') {
                    break;
                }
                i += 1 + rest.len() - next.len() + 1;
            }
            (other, _) => i += other.len_utf8(),
        }
    }
    found
}

/// How the text was changed before it is parsed: rendered from a template, then repaired.
#[derive(Default)]
pub(super) struct ColumnShifts<'l> {
    /// The column shifts that repairs cause on the rest of their line, in order of position; each entry is the cumulative
    /// shift on its line.
    shifts: Vec<(LineColumn, i64)>,
    /// The line of the template for each line; of further lines it is the same.
    lines: &'l [u32],
}

impl<'l> ColumnShifts<'l> {
    pub fn new(lines: &'l [u32]) -> ColumnShifts<'l> {
        ColumnShifts { lines, ..ColumnShifts::default() }
    }

    pub fn add(&mut self, new: Vec<(LineColumn, i64)>) {
        let mut line = 0;
        let mut sum = 0;
        // Turn cumulative shifts into single ones, add the new ones, sort, and sum up again.
        for (at, by) in &mut self.shifts {
            if at.line != line {
                (line, sum) = (at.line, 0);
            }
            *by -= sum;
            sum += *by;
        }
        self.shifts.extend(new);
        sort::sort_by_key(&mut self.shifts, |(at, _)| *at);
        line = 0;
        for (at, by) in &mut self.shifts {
            if at.line != line {
                (line, sum) = (at.line, 0);
            }
            sum += *by;
            *by = sum;
        }
    }

    /// Returns the line of the original text.
    pub fn line(&self, line: u32) -> u32 {
        // What comes after the last line belongs to it.
        let known = self.lines.get((line as usize).saturating_sub(1)).or(self.lines.last());
        known.copied().unwrap_or(line)
    }

    /// Returns the position in the original text.
    pub fn original(&self, position: LineColumn) -> LineColumn {
        let before = self.shifts.partition_point(|(at, _)| *at < position);
        let last = before.checked_sub(1).and_then(|last| self.shifts.get(last));
        let moved = last.filter(|(at, _)| at.line == position.line).map_or(0, |(_, sum)| *sum);
        let column = u32::try_from(i64::from(position.column) - moved).unwrap_or(1);
        LineColumn { line: self.line(position.line), column }
    }
}
