//! The lexer: text outside of braces, and tokens inside. Whitespace is handled as by Jinja with `trim_blocks`, which
//! cloud-init sets: a newline after `%}` and `#}` is removed, `-` removes all whitespace on its side, `+` keeps it.

use crate::rendered::TemplateError;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// Literal text.
    Data(String),
    Name(String),
    Str(String),
    Int(i128),
    Float(f64),
    /// An operator, or a delimiter of a tag.
    Operator(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Data(_) => f.write_str("text"),
            Token::Name(name) => write!(f, "'{name}'"),
            Token::Str(_) => f.write_str("a string in quotes"),
            Token::Int(_) | Token::Float(_) => f.write_str("a number"),
            Token::Operator(sign) => write!(f, "'{sign}'"),
        }
    }
}

/// Jinja's operators. One precedes those that are a prefix of it. [`crate::alias`] replaces them in this order, so that `==`
/// is after those that end with `=`.
pub const OPERATORS: [&str; 26] = [
    "**", "//", "!=", ">=", "<=", "==", "+", "-", "*", "/", "%", "~", "(", ")", "[", "]", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";",
];

/// The maximum number of tokens, each of which takes some memory.
const MAX_TOKENS: usize = 400_000;

/// Returns the tokens with their lines. `first` is the number of the body's first line.
pub fn tokenize(body: &str, first: usize) -> Result<Vec<(Token, usize)>, TemplateError> {
    let mut lexer = Lexer { text: body, at: 0, line: first, tokens: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    tokens: Vec<(Token, usize)>,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].bytes().filter(|b| *b == b'\n').count();
        self.at += bytes;
    }

    fn error<T>(&self, line: usize, message: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError { line, message: message.into() })
    }

    fn push(&mut self, token: Token, line: usize) -> Result<(), TemplateError> {
        if self.tokens.len() >= MAX_TOKENS {
            return self.error(line, format!("more than {MAX_TOKENS} tokens"));
        }
        self.tokens.push((token, line));
        Ok(())
    }

    /// Adds literal text; with `strips` without the whitespace at its end.
    fn push_data(&mut self, text: &str, strips: bool, line: usize) -> Result<(), TemplateError> {
        let text = if strips { text.trim_end() } else { text };
        if text.is_empty() { Ok(()) } else { self.push(Token::Data(text.into()), line) }
    }

    fn run(&mut self) -> Result<(), TemplateError> {
        loop {
            let rest = self.rest();
            let Some(begin) = find_opening(rest) else {
                return self.push_data(rest, false, self.line);
            };
            let sign = rest[begin + 2..].chars().next();
            self.push_data(&rest[..begin], sign == Some('-'), self.line)?;
            self.advance(begin);
            let line = self.line;
            let kind = self.rest().as_bytes()[1];
            self.advance(2 + usize::from(matches!(sign, Some('-' | '+'))));
            if kind == b'#' {
                let Some(end) = self.rest().find("#}") else { return self.error(line, "unclosed '{#'") };
                let mark = self.rest()[..end].chars().last();
                self.advance(end + 2);
                self.trim_after(mark == Some('-'), mark != Some('+'));
            } else if kind == b'{' {
                self.tag("{{", "}}", line)?;
            } else if let Some((end, mark)) = raw_tag(self.rest(), "raw") {
                self.advance(end);
                self.trim_after(mark == '-', false);
                self.raw(line)?;
            } else {
                self.tag("{%", "%}", line)?;
            }
        }
    }

    /// Skips the whitespace that a closing delimiter removes.
    fn trim_after(&mut self, strips: bool, trims: bool) {
        let rest = self.rest();
        if strips {
            self.advance(rest.len() - rest.trim_start().len());
        } else if trims && rest.starts_with('\n') {
            self.advance(1);
        }
    }

    /// Reads the text up to `{% endraw %}`.
    fn raw(&mut self, line: usize) -> Result<(), TemplateError> {
        let rest = self.rest();
        for (i, _) in rest.match_indices("{%") {
            let inner = &rest[i + 2..];
            let begin = usize::from(inner.starts_with(['-', '+']));
            if let Some((end, mark)) = raw_tag(&inner[begin..], "endraw") {
                self.push_data(&rest[..i], inner.starts_with('-'), line)?;
                self.advance(i + 2 + begin + end);
                self.trim_after(mark == '-', mark != '+');
                return Ok(());
            }
        }
        self.error(line, "'raw' without 'endraw'")
    }

    /// Reads the tokens up to a closing delimiter outside of brackets.
    fn tag(&mut self, begin: &'static str, close: &'static str, begun: usize) -> Result<(), TemplateError> {
        self.push(Token::Operator(begin), begun)?;
        let mut open: Vec<&str> = Vec::new();
        loop {
            let rest = self.rest();
            self.advance(rest.len() - rest.trim_start().len());
            let (rest, line) = (self.rest(), self.line);
            let Some(first) = rest.chars().next() else {
                return self.error(begun, format!("unclosed '{begin}'"));
            };
            if open.is_empty() {
                let (mark, tail) = match rest.strip_prefix('-').or_else(|| rest.strip_prefix('+')) {
                    Some(tail) if tail.starts_with(close) => (first, &tail[2..]),
                    _ => (' ', rest.strip_prefix(close).unwrap_or(rest)),
                };
                if tail.len() < rest.len() && !(mark == '+' && close == "}}") {
                    self.advance(rest.len() - tail.len());
                    self.push(Token::Operator(close), line)?;
                    self.trim_after(mark == '-', close == "%}" && mark != '+');
                    return Ok(());
                }
            }
            // `a.1.0` has two keys, not a float.
            let is_key = matches!(self.tokens.last(), Some((Token::Operator("."), _)));
            let (token, length) = token(rest, is_key).or_else(|message| self.error(line, message))?;
            match token {
                Token::Operator("(") => open.push(")"),
                Token::Operator("[") => open.push("]"),
                Token::Operator("{") => open.push("}"),
                Token::Operator(sign @ (")" | "]" | "}")) if open.pop() != Some(sign) => {
                    return self.error(line, format!("unmatched '{sign}'"));
                }
                _ => {}
            }
            self.advance(length);
            self.push(token, line)?;
        }
    }
}

fn find_opening(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    text.match_indices('{').map(|(i, _)| i).find(|i| matches!(bytes.get(i + 1), Some(b'{' | b'%' | b'#')))
}

/// Matches a tag of one word. Returns its length including `%}`, and the whitespace control before that.
fn raw_tag(text: &str, word: &str) -> Option<(usize, char)> {
    let rest = text.trim_start().strip_prefix(word)?.trim_start();
    let (mark, rest) = match rest.chars().next()? {
        c @ ('-' | '+') if !(c == '+' && word == "raw") => (c, &rest[1..]),
        _ => (' ', rest),
    };
    Some((text.len() - rest.strip_prefix("%}")?.len(), mark))
}

/// Reads a token within a tag, and returns it with its length. Keys that are numbers have no decimal places.
fn token(text: &str, is_key: bool) -> Result<(Token, usize), String> {
    let length_of = |fits: fn(char) -> bool| text.find(|c| !fits(c)).unwrap_or(text.len());
    match text.chars().next() {
        Some('0'..='9') => {
            let end = if is_key { length_of(|c| c.is_ascii_digit()) } else { text.len() };
            number(&text[..end]).ok_or_else(|| "invalid number".into())
        }
        Some(c) if c == '_' || c.is_alphabetic() => {
            let end = length_of(|c| c == '_' || c.is_alphanumeric());
            Ok((Token::Name(text[..end].into()), end))
        }
        Some(quote @ ('"' | '\'')) => {
            quoted(text, quote).ok_or_else(|| "unterminated string or invalid escape".into())
        }
        other => match OPERATORS.into_iter().find(|sign| text.starts_with(sign)) {
            Some(sign) => Ok((Token::Operator(sign), sign.len())),
            None => Err(format!("unexpected '{}'", other.unwrap_or_default())),
        },
    }
}

fn number(text: &str) -> Option<(Token, usize)> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let digits =
        |from: usize| (from..).find(|at| !is_digit(*at) && bytes.get(*at) != Some(&b'_')).unwrap_or(from);
    let mut end = digits(0);
    let mut float = false;
    if bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
        (end, float) = (digits(end + 1), true);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if is_digit(end + 1 + sign) {
            (end, float) = (digits(end + 1 + sign), true);
        }
    }
    let written = text[..end].replace('_', "");
    if float {
        return Some((Token::Float(encoding::float::parse(&written)?), end));
    }
    // Jinja reads `0777` as two numbers, which is an error; here it is not a number.
    let zeros = written.len() > 1 && written.starts_with('0') && written.bytes().any(|b| b != b'0');
    if zeros { None } else { Some((Token::Int(written.parse().ok()?), end)) }
}

/// Returns the text between quotes with its escapes decoded, and the length with the quotes.
fn quoted(text: &str, quote: char) -> Option<(Token, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        if c == quote {
            return Some((Token::Str(out), i + 1));
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (_, escaped) = chars.next()?;
        match escaped {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\n' => {}
            '\\' | '\'' | '"' => out.push(escaped),
            // Octal numbers, characters by name, control characters.
            '0'..='7' | 'N' | 'a' | 'b' | 'f' | 'v' => return None,
            'x' | 'u' | 'U' => {
                let count = [2, 4, 8]["xuU".find(escaped)?];
                let mut value = 0_u32;
                for _ in 0..count {
                    value = value.checked_mul(16)? + chars.next()?.1.to_digit(16)?;
                }
                out.push(char::from_u32(value)?);
            }
            other => out.extend(['\\', other]),
        }
    }
    None
}
