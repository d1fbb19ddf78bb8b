//! A Jinja text in its parts: text, `{{…}}` and `{%…%}`. Comments are gone, and so are the blanks that a `-` or
//! a block's end takes away.

use super::{BadTemplate, Result};

/// A part and, for what is between braces, its line in the template (the header is line 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    Text(&'t str),
    Print(&'t str, usize),
    Block(&'t str, usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Print,
    Block,
    Comment,
}

/// The parts of a template's body, in order.
pub fn tokens(body: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = body;
    while let Some((start, kind)) = opening(rest) {
        // The header has a line of its own.
        let line = 2 + body[..body.len() - rest.len() + start].matches('\n').count();
        let inside = &rest[start + 2..];
        let end = closing(inside, kind).ok_or_else(|| BadTemplate {
            line,
            message: format!("'{}' is not closed", &rest[start..start + 2]),
        })?;
        let mut content = &inside[..end];
        let mut before = &rest[..start];
        if let Some(shorter) = content.strip_prefix('-') {
            content = shorter;
            before = before.trim_end();
        } else if let Some(shorter) = content.strip_prefix('+') {
            content = shorter;
        }
        rest = &inside[end + 2..];
        if let Some(shorter) = content.strip_suffix('-') {
            content = shorter;
            rest = rest.trim_start();
        } else if let Some(shorter) = content.strip_suffix('+').filter(|_| kind != Kind::Print) {
            content = shorter;
        } else if kind != Kind::Print {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
        if !before.is_empty() {
            tokens.push(Token::Text(before));
        }
        match kind {
            Kind::Print => tokens.push(Token::Print(content.trim(), line)),
            Kind::Block => tokens.push(Token::Block(content.trim(), line)),
            Kind::Comment => {}
        }
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(rest));
    }
    Ok(tokens)
}

/// Where the next part in braces begins.
fn opening(text: &str) -> Option<(usize, Kind)> {
    text.match_indices('{').find_map(|(i, _)| match text.as_bytes().get(i + 1) {
        Some(b'{') => Some((i, Kind::Print)),
        Some(b'%') => Some((i, Kind::Block)),
        Some(b'#') => Some((i, Kind::Comment)),
        _ => None,
    })
}

/// Where it ends; closing braces within quotes do not end it.
fn closing(text: &str, kind: Kind) -> Option<usize> {
    let end = match kind {
        Kind::Comment => return text.find("#}"),
        Kind::Print => "}}",
        Kind::Block => "%}",
    };
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[i..].starts_with(end) => return Some(i),
            None => {}
        }
    }
    None
}
