//! Formats the processed data as one MIME message, which is stored beside the raw data (`user-data.txt.i`), and
//! compares parts with such a file.

use std::borrow::Cow;

use crate::header::dashed_lines;
use crate::mime;
use crate::part::Part;

/// The headers of a part, including the blank line, and its body.
type Piece<'a> = (String, Cow<'a, [u8]>);

/// Formats parts as a MIME message. Returns it in pieces that borrow from the parts, because it may be large. The
/// boundary is derived from the content, so that the same data results in the same file.
pub fn message<'a>(parts: &'a [Part<'_>]) -> Vec<Cow<'a, [u8]>> {
    let pieces: Vec<Piece<'a>> = parts.iter().map(piece).collect();
    let boundary = boundary(&pieces);
    let mut before = format!(
        "Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\nNumber-Attachments: {}\n\n",
        parts.len()
    );
    let mut out = Vec::with_capacity(2 * pieces.len() + 1);
    for (head, body) in pieces {
        out.push(format!("{before}--{boundary}\n{head}").into_bytes().into());
        out.push(body);
        before = "\n".to_string();
    }
    out.push(format!("{before}--{boundary}--\n").into_bytes().into());
    out
}

fn piece<'a>(part: &'a Part<'_>) -> Piece<'a> {
    let headers = part.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let head = headers.chain(["\n".to_string()]).collect();
    let body = part.transferred.as_ref().unwrap_or(&part.payload);
    let text = if memchr::memchr(b'\r', body).is_some() { std::str::from_utf8(body).ok() } else { None };
    let body = match text {
        Some(text) => to_unix_line_ends(text).into_bytes().into(),
        None => Cow::Borrowed(&**body),
    };
    (head, body)
}

/// Converts line ends to LF, as upstream writes them in messages.
fn to_unix_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns a boundary in the format of Python's email package: `===============`, 19 digits, `==`.
fn boundary(pieces: &[Piece<'_>]) -> String {
    // FNV-1a. Any hash will do; of a long body, the length and both ends are enough.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut number = 0xcbf2_9ce4_8422_2325;
    for (head, body) in pieces {
        let end = body.len().saturating_sub(HASHED_ENDS);
        let ends = body.iter().take(HASHED_ENDS).chain(&body[end..]);
        number =
            head.as_bytes().iter().chain(&(body.len() as u64).to_le_bytes()).chain(ends).fold(number, fold);
    }
    loop {
        let boundary = format!("==============={:019}==", number % 10_u64.pow(19));
        let line = format!("--{boundary}");
        // Tries the next number if a line begins with the boundary, which happens once in 10^19 times.
        let begins = |text: &[u8]| dashed_lines(text).any(|(_, l)| l.starts_with(line.as_bytes()));
        let taken = |(head, body): &Piece<'_>| begins(head.as_bytes()) || begins(body);
        if !pieces.iter().any(taken) {
            return boundary;
        }
        number = number.wrapping_add(1);
    }
}

/// The number of bytes at each end of a body that are hashed for the boundary.
const HASHED_ENDS: usize = 256;

/// Returns whether an existing message, written by this program or by Python's cloud-init, contains the same parts. Its
/// boundary and the spelling of its headers are ignored.
pub fn is_equivalent(message: &[u8], parts: &[Part<'_>]) -> bool {
    let Ok(leaves) = mime::leaves(message, parts.len()) else { return false };
    leaves.len() == parts.len()
        && leaves.into_iter().map(Part::from_leaf).zip(parts).all(|(old, new)| {
            old.content_type == new.content_type
                && old.filename == new.filename
                && old.launch_index() == new.launch_index()
                && old.merge_type() == new.merge_type()
                && same_payload(&old.payload, &new.payload)
        })
}

/// Compares payloads. Python writes LF line ends, and U+FFFD for each byte that it considers undecodable.
fn same_payload(old: &[u8], new: &[u8]) -> bool {
    // A trailing CR is read as part of the delimiter's line end.
    if old == new || Some(old) == new.strip_suffix(b"\r") {
        return true;
    }
    let old = String::from_utf8_lossy(old);
    if let Ok(new) = std::str::from_utf8(new)
        && to_unix_line_ends(&old) == to_unix_line_ends(new)
    {
        return true;
    }
    if !old.contains(char::REPLACEMENT_CHARACTER) {
        return false;
    }
    // Each byte beyond ASCII counts as one mark; a character that Python wrote correctly counts as its UTF-8 length.
    let marks = |c: char| match c {
        char::REPLACEMENT_CHARACTER => 1,
        c => c.len_utf8(),
    };
    let spread = |c: char| if c.is_ascii() { (c, 1) } else { ('\u{80}', marks(c)) };
    let old = old.chars().flat_map(|c| {
        let (c, times) = spread(c);
        std::iter::repeat_n(c, times)
    });
    let new: String = new.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '\u{80}' }).collect();
    to_unix_line_ends(&old.collect::<String>()) == to_unix_line_ends(&new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::expand;

    fn parts(blob: &[u8]) -> Vec<Part<'_>> {
        expand([blob], &mut |_| Ok(Vec::new())).unwrap().parts
    }

    fn whole(parts: &[Part<'_>]) -> Vec<u8> {
        message(parts).concat()
    }

    /// As Python's cloud-init 26.2 writes `#cloud-config\na: é\n`.
    const PYTHON: &str = "Content-Type: multipart/mixed; boundary=\"===============2318039125117486169==\"\n\
        MIME-Version: 1.0\nNumber-Attachments: 1\n\n--===============2318039125117486169==\nMIME-Version: 1.0\n\
        Content-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"part-001\"\n\n\
        #cloud-config\na: \u{fffd}\u{fffd}\n\n--===============2318039125117486169==--\n";

    #[test]
    fn message_is_deterministic() {
        let parts = parts("#cloud-config\na: é\n".as_bytes());
        assert_eq!(whole(&parts), whole(&parts));
        let text = String::from_utf8(whole(&parts)).unwrap();
        let plain = |text: &str| {
            let digits =
                text.split('=').find(|t| t.len() == 19 && t.bytes().all(|b| b.is_ascii_digit())).unwrap();
            text.replace(digits, "N")
        };
        assert_eq!(plain(&text), plain(&PYTHON.replace("\u{fffd}\u{fffd}", "é")));
    }

    #[test]
    fn message_round_trip() {
        let blob = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
            Content-Type: text/x-shellscript; name=\"a \\\"b\\\"\"\nContent-Transfer-Encoding: base64\n\nIyEvYmluL3NoDQo=\n\
            --b\nMerge-Type: list(append)\nContent-Type: text/cloud-config; charset=latin-1\n\nlaunch-index: 7\nx: \xe9\n\
            --b\n\n\0\x01\xff\r\n\r\n--b--";
        let parts = parts(blob);
        assert_eq!(parts.len(), 3);
        let text = whole(&parts);
        assert!(is_equivalent(&text, &parts));
        let again: Vec<Part<'_>> = mime::leaves(&text, 9).unwrap().into_iter().map(Part::from_leaf).collect();
        assert_eq!(again, parts);
    }

    #[test]
    fn compares_with_messages_written_by_python() {
        let see = |blob: &str| is_equivalent(PYTHON.as_bytes(), &parts(blob.as_bytes()));
        assert!(see("#cloud-config\na: é\n"));
        assert!(see("#cloud-config\r\na: é\r\n"));
        assert!(!see("#cloud-config\na: e\n"));
        assert!(!see("#cloud-config\na: €\n"));
        assert!(!see("#cloud-config\nb: é\n"));
        assert!(!see("#!/bin/sh\n"));
        assert!(!is_equivalent(b"", &parts(b"#!/bin/sh")));
        assert!(!is_equivalent(b"\0\xff", &parts(b"#!/bin/sh")));
    }
}
