//! The header block of a MIME entity (RFC 5322 §2.2, RFC 2045 §5.1, RFC 2231). The parser is lenient, because senders
//! often violate the RFCs.

use crate::transfer::{decode_charset, trim_line_end};

/// The maximum number of headers of an entity, and of parameters of a header; others are ignored, except as many again
/// of the `Content-` headers. In memory they are up to forty times as large as in the message.
const MAX_COUNT: usize = 100;

/// Header names and values in their original order, with folded lines joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Parses the headers up to an empty line, or up to the first line that cannot be a header. Returns the headers and
    /// the body that follows.
    pub fn parse(entity: &[u8]) -> (Headers, &[u8]) {
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut rest = entity;
        let mut first = true;
        let mut is_kept = true;
        while !rest.is_empty() {
            let end = rest.iter().position(|b| *b == b'\n').map_or(rest.len(), |i| i + 1);
            let line = trim_line_end(&rest[..end]);
            let text = || String::from_utf8_lossy(line).trim().to_string();
            if line.is_empty() {
                rest = &rest[end..];
                break;
            }
            if matches!(line[0], b' ' | b'\t') {
                if let Some((_, value)) = headers.last_mut().filter(|_| is_kept) {
                    value.push(' ');
                    value.push_str(&text());
                }
            } else if let Some(colon) = name_end(line) {
                let name = String::from_utf8_lossy(&line[..colon]);
                let is_content = name.get(..8).is_some_and(|head| head.eq_ignore_ascii_case("content-"));
                is_kept = headers.len() < if is_content { 2 * MAX_COUNT } else { MAX_COUNT };
                if is_kept {
                    let value = String::from_utf8_lossy(&line[colon + 1..]).trim().to_string();
                    headers.push((name.into_owned(), value));
                }
            } else if !(first && line.starts_with(b"From ")) {
                // The first line may be an mbox separator; any other line begins the body.
                break;
            }
            first = false;
            rest = &rest[end..];
        }
        (Headers(headers), rest)
    }

    /// Returns the first value of a name, which is compared case-insensitively.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Appends a header. Replaces control characters other than tabs with spaces.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        // The headers are written to a message later, where a line break would inject another header.
        let value: String = value.into();
        let clean = |text: &str| text.replace(|c: char| c.is_control() && c != '\t', " ");
        self.0.push((clean(name), clean(&value)));
    }

    /// Removes all headers of this name and appends a new one.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.add(name, value);
    }

    /// Returns the type and subtype in lower case, or `text/plain` if they are missing or malformed (RFC 2045 §5.2).
    pub fn content_type(&self) -> String {
        let value = self.get("content-type").unwrap_or_default();
        let named = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if named.bytes().filter(|b| *b == b'/').count() == 1 { named } else { "text/plain".to_string() }
    }

    /// Returns a parameter of a structured header, such as `boundary` of `Content-Type`.
    pub fn parameter(&self, header: &str, name: &str) -> Option<String> {
        parameter(self.get(header)?, name)
    }

    /// Returns the file name: `filename` of `Content-Disposition`, else `name` of `Content-Type`.
    pub fn filename(&self) -> Option<String> {
        let name = self.parameter("content-disposition", "filename");
        let name = name.or_else(|| self.parameter("content-type", "name"))?;
        let name = name.trim();
        (!name.is_empty()).then(|| name.to_string())
    }
}

/// Returns the length of the header name: printable ASCII without spaces, followed by a colon.
fn name_end(line: &[u8]) -> Option<usize> {
    let colon = line.iter().position(|b| *b == b':')?;
    (colon > 0 && line[..colon].iter().all(u8::is_ascii_graphic)).then_some(colon)
}

/// Iterates over the lines that begin with `--`, with their offsets and line ends. MIME delimiters are such lines. The
/// text between them is searched with vector instructions, because such lines are rare in large bodies.
pub fn dashed_lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let dash = at + memchr::memchr(b'-', &text[at..])?;
            at = dash + 1;
            let begins = dash == 0 || text[dash - 1] == b'\n';
            if begins && text[dash..].starts_with(b"--") {
                at = memchr::memchr(b'\n', &text[dash..]).map_or(text.len(), |end| dash + end + 1);
                return Some((dash, &text[dash..at]));
            }
        }
    })
}

/// Returns a parameter of `value; a=b; c="d"`. Supports RFC 2231: `a*=utf-8''%c3%a9`, `a*0=x; a*1=y`.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut pieces: Vec<(u32, bool, String)> = Vec::new();
    for (name, text) in parameters(value) {
        let Some(tail) = strip_name(&name, wanted) else { continue };
        if tail.is_empty() {
            return Some(text);
        }
        // `*`, `*0`, `*0*`
        let Some(tail) = tail.strip_prefix('*') else { continue };
        let (number, encoded) = match tail.strip_suffix('*') {
            Some(number) => (number, true),
            None => (tail, tail.is_empty()),
        };
        match number.parse() {
            Ok(number) => pieces.push((number, encoded, text)),
            Err(_) if number.is_empty() => pieces.push((0, true, text)),
            Err(_) => {}
        }
    }
    sort::sort_by_key(&mut pieces, |(number, ..)| *number);
    let mut charset = String::new();
    let mut bytes = Vec::new();
    for (place, (_, encoded, text)) in pieces.iter().enumerate() {
        let mut text = text.as_str();
        if place == 0
            && *encoded
            && let Some((named, rest)) = text.split_once('\'')
        {
            charset = named.to_ascii_lowercase();
            text = rest.split_once('\'').map_or(rest, |(_language, rest)| rest);
        }
        if *encoded {
            bytes.extend(encoding::percent::decode_bytes(text.as_bytes()));
        } else {
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    let text = decode_charset(&bytes, Some(&charset)).map(|t| t.into_owned());
    (!pieces.is_empty()).then(|| text.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()))
}

fn strip_name<'a>(name: &'a str, wanted: &str) -> Option<&'a str> {
    let head = name.get(..wanted.len())?;
    head.eq_ignore_ascii_case(wanted).then(|| &name[wanted.len()..])
}

/// Returns the names and values after the first `;`. Quotes protect semicolons, backslashes protect quotes.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pieces: Vec<String> = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in value.chars() {
        let is_full = pieces.len() > MAX_COUNT;
        let piece = match pieces.last_mut() {
            Some(piece) if c != ';' || quoted => piece,
            _ if is_full => break,
            _ => {
                pieces.push(String::new());
                continue;
            }
        };
        piece.push(c);
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
    }
    for piece in pieces.iter().skip(1) {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        found.push((name.trim().to_string(), unquote(value.trim())));
    }
    found
}

fn unquote(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else { return value.to_string() };
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_block_ends_at_the_first_other_line() {
        // entity, headers as text, body
        for (entity, headers, body) in [
            ("A: 1\nb:2\n\nbody\n", "A=1 b=2", "body\n"),
            ("A: 1\r\n\r\nbody\r\n", "A=1", "body\r\n"),
            ("\nbody", "", "body"),
            ("", "", ""),
            ("A: 1", "A=1", ""),
            ("A: 1;\n  x=y\n\tz\n\n", "A=1; x=y z", ""),
            (" folded first\nA: 1\n\nb", "A=1", "b"),
            ("From me today\nA: 1\n\nb", "A=1", "b"),
            ("A: 1\nFrom me today\n\nb", "A=1", "From me today\n\nb"),
            ("A: 1\ngarbage\nB: 2\n\nb", "A=1", "garbage\nB: 2\n\nb"),
            ("#cloud-config\na: 1\n", "", "#cloud-config\na: 1\n"),
            ("two words: 1\n", "", "two words: 1\n"),
        ] {
            let (read, rest) = Headers::parse(entity.as_bytes());
            let shown: Vec<String> = read.iter().map(|(n, v)| format!("{n}={v}")).collect();
            assert_eq!((shown.join(" ").as_str(), rest), (headers, body.as_bytes()), "{entity:?}");
        }
    }

    #[test]
    fn finds_lines_beginning_with_dashes() {
        for (text, lines) in [
            ("--a\nb\n--\n", vec![(0, "--a\n"), (6, "--\n")]),
            ("-\n -- \n-a--\n\r--b\n--c", vec![(17, "--c")]),
            ("---", vec![(0, "---")]),
            ("\n-", vec![]),
            ("\n--", vec![(1, "--")]),
            ("a--\n----\n--x", vec![(4, "----\n"), (9, "--x")]),
            ("", vec![]),
        ] {
            let found: Vec<_> = dashed_lines(text.as_bytes()).collect();
            let lines: Vec<_> =
                lines.into_iter().map(|(at, line): (usize, &str)| (at, line.as_bytes())).collect();
            assert_eq!(found, lines, "{text:?}");
        }
    }

    #[test]
    fn invalid_types_default_to_text_plain() {
        let with = |value: &str| Headers(vec![("Content-Type".to_string(), value.to_string())]);
        for (value, expected) in [
            ("Text/X-Shellscript; charset=x", "text/x-shellscript"),
            ("shell", "text/plain"),
            ("a/b/c", "text/plain"),
            ("", "text/plain"),
            (" text/foo ", "text/foo"),
        ] {
            assert_eq!(with(value).content_type(), expected);
        }
        for (value, expected) in [
            ("a/b; name=x", Some("x")),
            ("a/b; NAME=\"x y\"", Some("x y")),
            (r#"a/b; name="x;\"y\\""#, Some(r#"x;"y\"#)),
            ("a/b; other=\"name=x\"", None),
            ("a/b; name*=utf-8''%c3%a9.sh", Some("é.sh")),
            ("a/b; name*=latin-1''%e9", Some("é")),
            ("a/b; name*=utf-8'en'x", Some("x")),
            ("a/b; name*1=\"c d\"; name*0=ab", Some("abc d")),
            ("a/b; name*0*=utf-8''%41; name*1=%41", Some("A%41")),
            ("a/b; name*x=1", None),
            ("a/b; name*=%ff", Some("\u{fffd}")),
            ("a/b; name=\"unterminated", Some("unterminated")),
            ("a/b; name", None),
            ("a/b; names=x", None),
        ] {
            assert_eq!(with(value).filename().as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn header_values_cannot_inject_headers() {
        let mut headers = Headers::default();
        headers.add("X-A", "1\r\nX-B: 2");
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("X-A", "1  X-B: 2")]);
    }

    #[test]
    fn the_number_of_headers_and_parameters_is_limited() {
        let many = format!("A: b\nC: d{}\n{}\nbody", "; a=b".repeat(1000) + "; e=f", "X: y\n".repeat(1000));
        let (headers, body) = Headers::parse(many.as_bytes());
        assert_eq!((headers.0.len(), body), (MAX_COUNT, &b"body"[..]));
        assert_eq!(parameters(headers.get("c").unwrap()).len(), MAX_COUNT);
        let others = "X: y\n".repeat(MAX_COUNT + 1);
        let late = format!("{others} folded\ncontent-TYPE: a/b;\n c=d\nY: z\n e=f\n\nbody");
        let (headers, _) = Headers::parse(late.as_bytes());
        assert_eq!(
            (headers.0.len(), headers.get("x"), headers.0[MAX_COUNT - 1].1.as_str()),
            (101, Some("y"), "y")
        );
        assert_eq!(headers.get("content-type"), Some("a/b; c=d"));
        let many = "Content-X: y\n".repeat(1000);
        assert_eq!(Headers::parse(many.as_bytes()).0.0.len(), 2 * MAX_COUNT);
    }
}
