//! What PyYAML refuses and the parser under us lets pass: tabs between words, and a `?` inside of `[]` or `{}`.
//! A file that works here must not break when it meets upstream, so it is refused here too. Goes through the text
//! once, scalar by scalar, and only where the text has such a character at all.

use super::events::{LineColumn, Problem};

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    Quoted,
    /// After `|` or `>`.
    Block,
}

pub(super) struct Validator<'a> {
    rest: std::str::Chars<'a>,
    /// Of `rest` in the whole text, in characters.
    index: u64,
    spot: LineColumn,
    comment: bool,
}

fn tab(at: LineColumn) -> Problem {
    Problem {
        at,
        problem: "a tab may only stand in quoted text and in comments; use blanks",
        ..Problem::default()
    }
}

/// Whether a text has a comment that begins right behind `|` or `>`, with their indicators.
fn has_glued_comment(text: &str) -> bool {
    let is_one = |place: usize| {
        let before = text[..place].trim_end_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
        before.ends_with(['|', '>'])
    };
    text.match_indices('#').any(|(place, _)| is_one(place))
}

impl<'a> Validator<'a> {
    /// `None` where there is nothing to look for.
    pub fn new(text: &'a str) -> Option<Validator<'a>> {
        (text.contains(['\t', '?']) || has_glued_comment(text)).then(|| Validator {
            rest: text.chars(),
            index: 0,
            spot: LineColumn { line: 1, column: 1 },
            comment: false,
        })
    }

    fn next(&mut self) -> Option<(char, LineColumn)> {
        let c = self.rest.next()?;
        let at = self.spot;
        self.index += 1;
        // A CR before its LF begins no line of its own.
        let crlf = c == '\r' && self.rest.as_str().starts_with('\n');
        if matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') && !crlf {
            self.spot = LineColumn { line: at.line.saturating_add(1), column: 1 };
            self.comment = false;
        } else {
            self.spot.column = at.column.saturating_add(1);
        }
        Some((c, at))
    }

    /// What stands between two scalars: signs, blanks and comments.
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
        let header = self.spot.line;
        let (mut before, mut marked) = (' ', false);
        while self.index < end {
            let Some((c, at)) = self.next() else { break };
            match form {
                ScalarStyle::Plain if c == '\t' => return Err(tab(at)),
                ScalarStyle::Plain if c == '?' && in_flow => {
                    let problem = "text with a question mark needs quotes within [] and {}";
                    return Err(Problem { at, problem, ..Problem::default() });
                }
                ScalarStyle::Block if at.line == header => match c {
                    '#' if marked && !self.comment && !matches!(before, ' ' | '\t') => {
                        let problem = "a comment behind | or > needs a blank before it";
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
