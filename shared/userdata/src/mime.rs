//! Splits a MIME message (RFC 2046 §5) into its leaves, in order, in linear time. Depth and number are limited. As
//! much as possible is read from malformed messages.

use system::{Error, Result};

use crate::header::{Headers, dashed_lines};
use crate::transfer::trim_line_end;

/// The maximum nesting depth of containers. It also limits the run time, because each level scans its content again.
const MAX_DEPTH: usize = 64;

/// The type of a message that is embedded in another one.
pub const MESSAGE_RFC822: &str = "message/rfc822";

/// A leaf is any entity other than a multipart container. Embedded messages are leaves without a body.
#[derive(Debug, Clone)]
pub struct Leaf<'a> {
    /// The headers of the leaf.
    pub headers: Headers,
    /// The body, with its transfer encoding.
    pub body: &'a [u8],
    /// Whether the leaf is the whole message, which then has no container.
    pub is_whole: bool,
}

/// Returns the leaves of a message.
///
/// # Errors
///
/// Fails if there are more than `max` leaves or the nesting is too deep.
pub fn leaves(message: &[u8], max: usize) -> Result<Vec<Leaf<'_>>> {
    let mut found = Vec::new();
    // Empty lines before a message are unintended, such as the first line of a here-document.
    let begin = message.iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
    walk(&message[begin..], 0, max, &mut found)?;
    Ok(found)
}

/// Returns whether a line of a message is its boundary without the dashes that make it a separator.
pub fn has_bare_boundary(message: &[u8]) -> bool {
    let (headers, body) = Headers::parse(message.trim_ascii_start());
    let boundary = headers.parameter("content-type", "boundary").unwrap_or_default();
    let is_bare = |line: &[u8]| trim_line_end(line).trim_ascii() == boundary.trim_end().as_bytes();
    !boundary.is_empty() && body.split(|b| *b == b'\n').any(is_bare)
}

fn walk<'a>(entity: &'a [u8], depth: usize, max: usize, found: &mut Vec<Leaf<'a>>) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::new(format!("MIME message nested deeper than {MAX_DEPTH} levels")));
    }
    let (headers, body) = Headers::parse(entity);
    let content_type = headers.content_type();
    if content_type.starts_with("multipart/") {
        if let Some(boundary) = headers.parameter("content-type", "boundary") {
            for piece in BodyParts::new(body, boundary.trim_end()) {
                walk(piece, depth + 1, max, found)?;
            }
        }
        return Ok(());
    }
    if found.len() >= max {
        return Err(Error::new(format!("more than {max} parts")));
    }
    if content_type == MESSAGE_RFC822 {
        // The body is empty, because the leaves of the embedded message follow.
        found.push(Leaf { headers, body: b"", is_whole: depth == 0 });
        return walk(body, depth + 1, max, found);
    }
    found.push(Leaf { headers, body, is_whole: depth == 0 });
    Ok(())
}

/// The body parts between the delimiter lines of a boundary.
struct BodyParts<'a, 'b> {
    rest: Option<&'a [u8]>,
    boundary: &'b str,
}

impl<'a, 'b> BodyParts<'a, 'b> {
    /// Skips the preamble, which is for readers without MIME support.
    fn new(body: &'a [u8], boundary: &'b str) -> BodyParts<'a, 'b> {
        let mut pieces = BodyParts { rest: Some(body), boundary };
        pieces.next();
        pieces
    }

    /// Returns `Some` if a line is a delimiter, with `true` for the closing one.
    fn delimiter(&self, line: &[u8]) -> Option<bool> {
        let tail = trim_line_end(line).strip_prefix(b"--")?.strip_prefix(self.boundary.as_bytes())?;
        let (tail, closing) = match tail.strip_prefix(b"--") {
            Some(tail) => (tail, true),
            None => (tail, false),
        };
        tail.iter().all(|b| matches!(b, b' ' | b'\t')).then_some(closing)
    }
}

impl<'a> Iterator for BodyParts<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        for (at, line) in dashed_lines(rest) {
            if let Some(closing) = self.delimiter(line) {
                // What follows the closing delimiter is the epilogue.
                self.rest = (!closing).then(|| &rest[at + line.len()..]);
                // The line end before a delimiter belongs to the delimiter.
                return Some(trim_line_end(&rest[..at]));
            }
        }
        // No closing delimiter: the message was truncated or written by hand.
        Some(trim_line_end(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &str) -> Vec<String> {
        let leaves = leaves(message.as_bytes(), 100).unwrap();
        let text = |l: &Leaf<'_>| format!("{}:{}", l.headers.content_type(), String::from_utf8_lossy(l.body));
        leaves.iter().map(text).collect()
    }

    const HEAD: &str = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n";

    #[test]
    fn multipart_bodies_are_split_at_their_boundaries() {
        let deep = "Content-Type: multipart/x; boundary=C\n\n--C\n\n1\n--C\n\n2\n--C--\nepilogue";
        for (body, expected) in [
            (
                "preamble\n--B\n\none\n--B\n\ntwo\n--B--\nepilogue\n--B\n\nthree",
                vec!["text/plain:one", "text/plain:two"],
            ),
            ("--B\nContent-Type: a/b\n\none\n", vec!["a/b:one"]),
            ("--B\n\none\n\n--B--", vec!["text/plain:one\n"]),
            ("--B  \t\n\none\n--B-- \n", vec!["text/plain:one"]),
            ("--Bx\n\none\n--B\n\ntwo\n--Bx--\n--B--", vec!["text/plain:two\n--Bx--"]),
            ("--B\n--B\n\n--B--", vec!["text/plain:", "text/plain:"]),
            ("no boundary at all", vec![]),
            ("--B--", vec![]),
            (&format!("--B\n{deep}\n--B\n\n3\n--B--"), vec!["text/plain:1", "text/plain:2", "text/plain:3"]),
            (
                "--B\nContent-Type: multipart/x; boundary=C\n\n--C\n\n1\n--B\n\n2\n--C--\n--B--",
                vec!["text/plain:1", "text/plain:2\n--C--"],
            ),
            ("--B\nContent-Type: multipart/x\n\n--C\n\n1\n--C--\n--B\n\n2\n--B--", vec!["text/plain:2"]),
            (
                "--B\nContent-Type: message/rfc822\n\nContent-Type: a/b\n\n1\n--B--",
                vec!["message/rfc822:", "a/b:1"],
            ),
        ] {
            assert_eq!(shown(&format!("{HEAD}{body}")), expected, "{body:?}");
            let crlf: Vec<String> = expected.iter().map(|e| e.replace('\n', "\r\n")).collect();
            assert_eq!(shown(&format!("{HEAD}{body}").replace('\n', "\r\n")), crlf, "{body:?} with CRLF");
        }
        assert_eq!(shown("\r\n\nMIME-Version: 1.0\n\nx"), ["text/plain:x"]);
        assert_eq!(
            shown("#cloud-config\n# mime-version:\n"),
            ["text/plain:#cloud-config\n# mime-version:\n"]
        );
    }

    #[test]
    fn depth_and_parts_are_limited() {
        let nested = |levels: usize| {
            let open: String = (0..levels)
                .map(|i| format!("Content-Type: multipart/x; boundary=b{i}\n\n--b{i}\n"))
                .collect();
            open + "\nx"
        };
        assert_eq!(leaves(nested(60).as_bytes(), 10).unwrap().len(), 1);
        assert!(leaves(nested(10_000).as_bytes(), 10).is_err());
        let many = format!("{HEAD}{}", "--B\n\nx\n".repeat(11));
        assert_eq!(leaves(many.as_bytes(), 11).unwrap().len(), 11);
        assert!(leaves(many.as_bytes(), 10).is_err());
    }
}
