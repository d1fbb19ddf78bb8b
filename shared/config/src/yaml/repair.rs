//! Parses a string, and repairs it and parses it again where PyYAML accepts what the parser rejects. Errors have the
//! positions of the original text.

use std::borrow::Cow;
use std::rc::Rc;

use super::compose::read;
use super::edits::{ColumnShifts, Edit, Placeholders, apply_edits, empty_key_candidates, surrogate_edits};
use super::limits::MAX_TAG_DIRECTIVES;
use super::parsed::{Parsed, YamlError};
use super::position::{LineColumn, line_column_of};
use crate::Position;

/// The number of times that a string is parsed again after a repair. A small string is parsed more often, until all attempts
/// together have read the number of bytes.
pub(super) const MAX_REPAIRS: usize = 100;
pub(super) const MAX_REREAD_BYTES: usize = 4 << 20;
/// The number of places to try for an empty key.
pub(super) const MAX_CANDIDATES: usize = 20;

/// A byte order mark at the start of a string; elsewhere it is an ordinary character.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

pub(super) fn document(
    source: Rc<str>,
    whole: &str,
    lines: &[u32],
) -> std::result::Result<Parsed, YamlError> {
    let mut shifts = ColumnShifts::new(lines);
    let begins_line =
        |at: &usize| whole[..*at].ends_with(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) || *at == 0;
    let mut directives = whole.match_indices("%TAG").map(|(at, _)| at).filter(begins_line);
    if let Some(at) = directives.nth(MAX_TAG_DIRECTIVES) {
        let line = shifts.line(line_column_of(whole, at).line);
        let at = Position { source: Some(source), line, column: 1 };
        return Err(YamlError { at, message: format!("more than {MAX_TAG_DIRECTIVES} %TAG directives") });
    }
    let mut placeholders = Placeholders::default();
    let mut text = Cow::Borrowed(whole);
    if text.contains(BYTE_ORDER_MARK)
        && let Some(placeholder) = placeholders.add(&text, BYTE_ORDER_MARK)
    {
        text = text.replace(BYTE_ORDER_MARK, placeholder.encode_utf8(&mut [0; 4])).into();
    }
    let (mut repairs, mut reread, mut last) = (0, 0, None);
    loop {
        let failed = match read(&source, &text, &shifts, &placeholders) {
            Ok(parsed) => return Ok(parsed),
            Err(failed) => failed,
        };
        repairs += 1;
        reread += text.len();
        // Do not repeat a repair that did not help.
        let place = failed.offsets.map(|(_, at)| at);
        let goes_on = (repairs <= MAX_REPAIRS || reread <= MAX_REREAD_BYTES) && place > last;
        last = last.max(place);
        let change = failed.offsets.filter(|_| goes_on).and_then(|(begin, at)| {
            let (before, rest) = text.split_at_checked(at)?;
            let edits: Vec<Edit> = match text.as_bytes().get(begin)? {
                // `[?, a]`: the parser treats the comma as part of the key.
                b'[' => {
                    let mut tried = empty_key_candidates(&text, at).into_iter().take(MAX_CANDIDATES);
                    let helps = |place: &usize| {
                        let other = [&text[..*place], " :", &text[*place..]].concat();
                        reread += other.len();
                        let here = failed.at;
                        match read(&source, &other, &shifts, &placeholders) {
                            Ok(_) => true,
                            Err(other) => {
                                other.at > here && other.at != LineColumn { column: here.column + 2, ..here }
                            }
                        }
                    };
                    tried.find(helps).map(|place| (place..place, " :".to_string())).into_iter().collect()
                }
                // A literal block scalar whose first line starts with a tab after the indentation. A folded one is not
                // repaired, because the placeholder would change how it is folded.
                b'|' if rest.starts_with('\t') => {
                    vec![(at..at + 1, placeholders.add(&text, '\t')?.to_string())]
                }
                // JSON writes characters beyond 16 bits as two surrogate escapes. PyYAML turns them, and lone surrogates,
                // into strings that cannot be encoded.
                b'"' if before.ends_with("\\u") || before.ends_with("\\U") => surrogate_edits(&text, at - 2),
                // PyYAML accepts `{a:[1]}` and `{a:}`; the parser requires a space after the colon.
                _ if rest.starts_with(':') && rest[1..].starts_with([',', '?', '[', ']', '{', '}']) => {
                    vec![(at + 1..at + 1, " ".to_string())]
                }
                _ => Vec::new(),
            };
            (!edits.is_empty()).then_some(edits)
        });
        match change {
            Some(edits) => text = apply_edits(&text, &edits, &mut shifts).into(),
            None => {
                let LineColumn { line, column } = shifts.original(failed.at);
                let at = Position { source: Some(source), line, column };
                let mut message = failed.message;
                if let Some(place) = whole.find(BYTE_ORDER_MARK) {
                    let line = shifts.line(line_column_of(whole, place).line);
                    message += &format!("; an invisible byte order mark (U+FEFF) is on line {line}");
                }
                return Err(YamlError { at, message });
            }
        }
    }
}
