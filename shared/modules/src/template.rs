//! Templates as they lie in /etc/cloud/templates and as users write them: a part of Jinja after a header line
//! `## template: jinja`, and `$name` without one or after `## template: basic`. Text in, text out.
//!
//! Of Jinja there is what templates for files of settings need: comments, `{{…}}`, `if`, `for` and the trimming
//! of blanks (`trim_blocks` is on, as upstream has it); expressions are in `expression`. What is not understood
//! is an error with its line, never text that came out half.

mod expression;
mod lexer;

use config::{Map, Node};
use expression::Expression;
use lexer::Token;
use system::{System, warning};

/// What a template was rendered to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    pub text: String,
    /// Names that have no value, each once.
    pub unknown: Vec<String>,
}

/// Why it was not rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTemplate {
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template line {}: {}", self.line, self.message)
    }
}

type Result<T> = std::result::Result<T, BadTemplate>;

/// Blocks within blocks; a person's template has three.
const MOST_DEPTH: usize = 50;
/// Of the text that comes out.
const MOST_TEXT: usize = 16 << 20;

/// A piece of a template.
#[derive(Debug)]
enum Piece<'t> {
    Text(&'t str),
    Print(Expression),
    For { names: Vec<String>, list: Expression, line: usize, body: Vec<Piece<'t>>, none: Vec<Piece<'t>> },
    If { branches: Vec<(Expression, Vec<Piece<'t>>)>, none: Vec<Piece<'t>> },
}

/// Renders a template with the values of `variables`.
pub fn render(text: &str, variables: &Map) -> Result<Rendered> {
    let text = text.replace("\r\n", "\n");
    let Some((kind, body)) = header(&text) else { return Ok(dollars(&text, variables)) };
    match kind.to_ascii_lowercase().as_str() {
        "jinja" => jinja(body, variables),
        "basic" => Ok(dollars(body, variables)),
        _ => Err(BadTemplate { line: 1, message: "its header names neither jinja nor basic".into() }),
    }
}

/// Renders a file's text for a module: names that have no value are logged, and an error names the file.
pub fn render_file(sys: &System, path: &str, text: &str, variables: &Map) -> system::Result<String> {
    let rendered = render(text, variables).map_err(|e| system::Error::new(format!("{path}: {e}")))?;
    if !rendered.unknown.is_empty() {
        warning!(sys, "{path}: nothing is known as {}", rendered.unknown.join(", "));
    }
    Ok(rendered.text)
}

/// The kind that a first line `## template: KIND` names, and what follows it.
fn header(text: &str) -> Option<(&str, &str)> {
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let rest = first.strip_prefix("##")?.trim_start();
    let word = rest.get(.."template:".len()).filter(|w| w.eq_ignore_ascii_case("template:"))?;
    Some((rest[word.len()..].trim(), body))
}

fn jinja(body: &str, variables: &Map) -> Result<Rendered> {
    // Jinja drops the newline at the very end, upstream puts it back; trimming must not see it.
    let (inner, end) = match body.strip_suffix('\n') {
        Some(inner) => (inner, "\n"),
        None => (body, ""),
    };
    let tokens = lexer::tokens(inner)?;
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let (pieces, stop) = parser.pieces()?;
    if let Some((word, line)) = stop {
        return Err(BadTemplate { line, message: format!("'{word}' without a block that it belongs to") });
    }
    let mut scope = Scope { names: vec![variables.clone()], out: Rendered::default() };
    scope.render(&pieces)?;
    scope.out.text.push_str(end);
    Ok(scope.out)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    depth: usize,
}

/// A word that ends a list of pieces, and its line.
type Stop<'t> = Option<(&'t str, usize)>;

impl<'t> Parser<'t> {
    /// Pieces up to one of the words that end or part a block, which is left for the caller to look at.
    fn pieces(&mut self) -> Result<(Vec<Piece<'t>>, Stop<'t>)> {
        let mut pieces = Vec::new();
        while let Some(token) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token {
                Token::Text(text) => pieces.push(Piece::Text(text)),
                Token::Print(text, line) => pieces.push(Piece::Print(Expression::parse(text, line)?)),
                Token::Block(text, line) => {
                    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                    match word {
                        "if" => pieces.push(self.nested(line, |p| p.conditional(rest, line))?),
                        "for" => pieces.push(self.nested(line, |p| p.repeated(rest, line))?),
                        "else" | "elif" | "endif" | "endfor" => {
                            return Ok((pieces, Some((text, line))));
                        }
                        _ => {
                            return Err(BadTemplate {
                                line,
                                message: format!("'{word}' is not supported; if and for are"),
                            });
                        }
                    }
                }
            }
        }
        Ok((pieces, None))
    }

    fn nested<T>(&mut self, line: usize, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MOST_DEPTH {
            return Err(BadTemplate { line, message: "blocks within too many blocks".into() });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn conditional(&mut self, condition: &str, line: usize) -> Result<Piece<'t>> {
        let mut condition = Some(Expression::parse(condition, line)?);
        let (mut branches, mut none, mut last) = (Vec::new(), Vec::new(), false);
        loop {
            let (body, stop) = self.pieces()?;
            match condition.take() {
                Some(condition) => branches.push((condition, body)),
                None => none = body,
            }
            match stop {
                Some(("endif", _)) => return Ok(Piece::If { branches, none }),
                Some((text, at)) if branches_on(text) && !last => {
                    last = text == "else";
                    condition = match text.strip_prefix("elif") {
                        Some(rest) => Some(Expression::parse(rest, at)?),
                        None => None,
                    };
                }
                other => return Err(unclosed("if", line, other)),
            }
        }
    }

    fn repeated(&mut self, text: &str, line: usize) -> Result<Piece<'t>> {
        let wrong = || BadTemplate { line, message: "expected 'for NAME in LIST'".into() };
        let (names, list) = text.split_once(" in ").ok_or_else(wrong)?;
        let names: Vec<String> = names.split(',').map(|n| n.trim().to_string()).collect();
        if !names.iter().all(|n| expression::is_name(n)) {
            return Err(wrong());
        }
        let list = Expression::parse(list, line)?;
        let (body, mut stop) = self.pieces()?;
        let mut none = Vec::new();
        if let Some(("else", _)) = stop {
            (none, stop) = self.pieces()?;
        }
        match stop {
            Some(("endfor", _)) => Ok(Piece::For { names, list, line, body, none }),
            other => Err(unclosed("for", line, other)),
        }
    }
}

fn branches_on(text: &str) -> bool {
    text == "else" || text.strip_prefix("elif").is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

fn unclosed(word: &str, line: usize, stop: Stop<'_>) -> BadTemplate {
    match stop {
        Some((found, at)) => {
            BadTemplate { line: at, message: format!("'{found}' within the '{word}' of line {line}") }
        }
        None => BadTemplate { line, message: format!("'{word}' without 'end{word}'") },
    }
}

/// The names that are known, the innermost block's last, and what came out so far.
struct Scope {
    names: Vec<Map>,
    out: Rendered,
}

impl Scope {
    fn render(&mut self, pieces: &[Piece<'_>]) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.out.text.push_str(text),
                Piece::Print(expression) => {
                    let value = expression.value(&self.names)?;
                    match value {
                        expression::Found::Value(value) => self.out.text.push_str(&expression::text(&value)),
                        expression::Found::Undefined(name) => {
                            // Upstream's own words: people search their files for them.
                            self.out.text.push_str(&format!("CI_MISSING_JINJA_VAR/{name}"));
                            note(&mut self.out.unknown, name);
                        }
                    }
                }
                Piece::If { branches, none } => {
                    let mut chosen = none;
                    for (condition, body) in branches {
                        if condition.value(&self.names)?.is_true() {
                            chosen = body;
                            break;
                        }
                    }
                    self.render(chosen)?;
                }
                Piece::For { names, list, line, body, none } => {
                    let items = match list.value(&self.names)? {
                        expression::Found::Value(value) => expression::items(&value),
                        expression::Found::Undefined(_) => Some(Vec::new()),
                    };
                    let items = items.ok_or_else(|| BadTemplate {
                        line: *line,
                        message: "'for' over what is no list".into(),
                    })?;
                    if items.is_empty() {
                        self.render(none)?;
                    }
                    for item in items {
                        let inner = bind(names, item).ok_or_else(|| BadTemplate {
                            line: *line,
                            message: "'for' with more names than values".into(),
                        })?;
                        self.names.push(inner);
                        let done = self.render(body);
                        self.names.pop();
                        done?;
                    }
                }
            }
            if self.out.text.len() > MOST_TEXT {
                return Err(BadTemplate { line: 1, message: "more than 16 MiB come out".into() });
            }
        }
        Ok(())
    }
}

/// The names of a `for` with one item's values.
fn bind(names: &[String], item: Node) -> Option<Map> {
    let mut map = Map::new();
    match names {
        [name] => {
            map.insert(name.as_str(), item);
        }
        names => {
            let values = item.as_seq().filter(|v| v.len() == names.len())?;
            for (name, value) in names.iter().zip(values) {
                map.insert(name.as_str(), value.clone());
            }
        }
    }
    Some(map)
}

fn note(unknown: &mut Vec<String>, name: String) {
    if !unknown.contains(&name) {
        unknown.push(name);
    }
}

/// `$name` and `${name}`, with dots for keys of maps. What is unknown stays as it is written.
fn dollars(text: &str, variables: &Map) -> Rendered {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut out = Rendered::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.text.push_str(before);
        let in_braces = after.strip_prefix('{').and_then(|a| a.split_once('}'));
        let (name, next) = match in_braces {
            Some(found) => found,
            None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            out.text.push('$');
            rest = after;
            continue;
        }
        let (first, keys) = name.split_once('.').map_or((name, None), |(f, k)| (f, Some(k)));
        let found = variables.get(first).and_then(|v| match keys {
            Some(keys) => v.at_path(&keys.split('.').collect::<Vec<_>>()),
            None => Some(v),
        });
        match found {
            Some(value) => out.text.push_str(&expression::text(value)),
            None => {
                note(&mut out.unknown, name.to_string());
                out.text.push_str(&rest[before.len()..rest.len() - next.len()]);
            }
        }
        rest = next;
    }
    out.text.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
