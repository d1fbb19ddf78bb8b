//! Rejects what PyYAML rejects and the underlying parser accepts: tabs between words, and `?` inside `[]` or `{}`. A
//! file that works here must also work with upstream. Scans the text once, scalar by scalar, and only if it contains
//! such a character.

use super::position::{LineColumn, Problem};

/// The notation of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    Quoted,
    /// After `|` or `>`.
    Block,
}

pub(super) struct Validator<'a> {
    rest: std::str::Chars<'a>,
    /// The offset of `rest` in the whole text, in bytes.
    index: u64,
    position: LineColumn,
    comment: bool,
}

fn tab(at: LineColumn) -> Problem {
    Problem {
        at,
        problem: "tabs are only allowed in quoted strings and comments; use spaces",
        ..Problem::default()
    }
}

/// Returns whether a comment starts directly after `|` or `>` and their indicators.
fn has_glued_comment(text: &str) -> bool {
    let is_one = |place: usize| {
        let before = text[..place].trim_end_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
        before.ends_with(['|', '>'])
    };
    text.match_indices('#').any(|(place, _)| is_one(place))
}

impl<'a> Validator<'a> {
    /// Returns `None` if the text contains nothing to check.
    pub fn new(text: &'a str) -> Option<Validator<'a>> {
        (text.bytes().any(|byte| matches!(byte, b'\t' | b'?')) || has_glued_comment(text)).then(|| {
            Validator {
                rest: text.chars(),
                index: 0,
                position: LineColumn { line: 1, column: 1 },
                comment: false,
            }
        })
    }

    fn next(&mut self) -> Option<(char, LineColumn)> {
        let c = self.rest.next()?;
        let at = self.position;
        self.index += c.len_utf8() as u64;
        // CR LF is one line break.
        let crlf = c == '\r' && self.rest.as_str().starts_with('\n');
        if matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') && !crlf {
            self.position = LineColumn { line: at.line.saturating_add(1), column: 1 };
            self.comment = false;
        } else {
            self.position.column = at.column.saturating_add(1);
        }
        Some((c, at))
    }

    /// Checks the text between two scalars: indicators, whitespace and comments.
    ///
    /// # Errors
    /// Fails for a tab outside a comment.
    pub fn between(&mut self, until: u64) -> Result<(), Problem> {
        while self.index < until {
            match self.next() {
                Some(('\t', at)) if !self.comment => return Err(tab(at)),
                Some(('#', _)) => self.comment = true,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    pub fn scalar(&mut self, start: u64, end: u64, form: ScalarStyle, in_flow: bool) -> Result<(), Problem> {
        self.between(start)?;
        self.comment = false;
        let header = self.position.line;
        let (mut before, mut marked) = (' ', false);
        while self.index < end {
            let Some((c, at)) = self.next() else { break };
            match form {
                ScalarStyle::Plain if c == '\t' => return Err(tab(at)),
                ScalarStyle::Plain if c == '?' && in_flow => {
                    let problem = "a string with a question mark must be quoted inside [] and {}";
                    return Err(Problem { at, problem, ..Problem::default() });
                }
                ScalarStyle::Block if at.line == header => match c {
                    '#' if marked && !self.comment && !matches!(before, ' ' | '\t') => {
                        let problem = "a comment after | or > needs a space before it";
                        return Err(Problem { at, problem, ..Problem::default() });
                    }
                    '#' => self.comment = true,
                    '|' | '>' if matches!(before, ' ' | '\t') => marked = true,
                    '\t' if !self.comment => return Err(tab(at)),
                    _ => {}
                },
                _ => {}
            }
            before = c;
        }
        self.comment = false;
        Ok(())
    }
}
