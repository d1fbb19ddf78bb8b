//! Decodes content transfer encodings (RFC 2045 §6) and charsets.

use std::borrow::Cow;

/// Strips the LF or CRLF of a line.
pub fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Decodes a body. Like mail readers, returns the body unchanged if it cannot be decoded.
pub fn decode<'a>(body: &'a [u8], encoding: Option<&str>) -> Cow<'a, [u8]> {
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    let decoded = match encoding.as_str() {
        "base64" => encoding::base64::decode_mime(body),
        "quoted-printable" => Some(quoted_printable(body)),
        "x-uuencode" | "uuencode" | "uue" | "x-uue" => uuencoded(body),
        _ => None,
    };
    decoded.map_or(Cow::Borrowed(body), Cow::Owned)
}

fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(body.len());
    let mut i = 0;
    while let Some(byte) = body.get(i) {
        let rest = &body[i + 1..];
        i += 1;
        if *byte != b'=' {
            out.push(*byte);
        } else if let (Some(high), Some(low)) = (digit(rest.first()), digit(rest.get(1))) {
            out.push((high * 16 + low) as u8);
            i += 2;
        } else {
            // A soft line break. Relays may add spaces after the `=`, and a second CR to a line that has one.
            let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            let returns = rest[blanks..].iter().take_while(|b| **b == b'\r').count();
            match rest.get(blanks + returns) {
                Some(b'\n') => i += blanks + returns + 1,
                None if returns == 0 => i += blanks,
                _ => out.push(b'='),
            }
        }
    }
    out
}

/// Returns `None` if there is no `begin` line. Skips invalid lines.
fn uuencoded(body: &[u8]) -> Option<Vec<u8>> {
    let mut lines = body.split_inclusive(|b| *b == b'\n').map(trim_line_end);
    lines.find(|line| line.starts_with(b"begin "))?;
    let mut out = Vec::new();
    for line in lines.take_while(|line| line.trim_ascii() != b"end") {
        let Some((length, data)) = line.split_first() else { continue };
        let value = |b: &u8| b.wrapping_sub(b' ') & 63;
        let length = usize::from(value(length));
        let bytes = data.chunks(4).flat_map(|group| {
            let at = |i: usize| group.get(i).map_or(0, value);
            [at(0) << 2 | at(1) >> 4, at(1) << 4 | at(2) >> 2, at(2) << 6 | at(3)]
        });
        out.extend(bytes.take(length));
    }
    Some(out)
}

/// Decodes text. Valid UTF-8 is read as UTF-8, whatever charset is declared. Returns `None` if the text is valid in
/// neither or the charset is not supported.
pub fn decode_charset<'a>(bytes: &'a [u8], charset: Option<&str>) -> Option<Cow<'a, str>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(Cow::Borrowed(text));
    }
    let charset = charset.unwrap_or_default().to_ascii_lowercase().replace('_', "-");
    match charset.as_str() {
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" => {
            Some(Cow::Owned(bytes.iter().map(|b| char::from(*b)).collect()))
        }
        "windows-1252" | "cp1252" => {
            let read = |b: &u8| WINDOWS_1252.chars().nth(usize::from(b.wrapping_sub(0x80)));
            Some(Cow::Owned(bytes.iter().map(|b| read(b).unwrap_or(char::from(*b))).collect()))
        }
        "iso-8859-15" | "iso8859-15" | "latin-9" | "latin9" => {
            let read = |b: &u8| LATIN_9.iter().find(|(of, _)| of == b).map_or(char::from(*b), |(_, c)| *c);
            Some(Cow::Owned(bytes.iter().map(read).collect()))
        }
        "utf-16" | "utf16" | "utf-16le" | "utf-16be" | "utf-16-le" | "utf-16-be" => {
            let (big, body) = match bytes {
                [0xfe, 0xff, body @ ..] => (true, body),
                [0xff, 0xfe, body @ ..] => (false, body),
                body => (charset.ends_with("be"), body),
            };
            let unit = |pair: &[u8]| match (pair, big) {
                ([a, b], true) => u16::from_be_bytes([*a, *b]),
                ([a, b], false) => u16::from_le_bytes([*a, *b]),
                _ => 0xd800,
            };
            let text: Result<String, _> = char::decode_utf16(body.chunks(2).map(unit)).collect();
            text.ok().map(Cow::Owned)
        }
        _ => None,
    }
}

/// The characters 0x80 to 0x9f of Windows-1252; the others are those of ISO 8859-1.
const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
const LATIN_9: &[(u8, char)] =
    &[(0xa4, '€'), (0xa6, 'Š'), (0xa8, 'š'), (0xb4, 'Ž'), (0xb8, 'ž'), (0xbc, 'Œ'), (0xbd, 'œ'), (0xbe, 'Ÿ')];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_encodings_are_decoded() {
        for (encoding, body, expected) in [
            (None, "a=3D", "a=3D"),
            (Some("7bit"), "a", "a"),
            (Some("8bit"), "é", "é"),
            (Some("BASE64"), "aGVs\nbG8=\n", "hello"),
            (Some("base64"), "aGVsbG8", "hello"),
            (Some("base64"), "a", "a"),
            (Some("base64"), "*aGVsbG8=*", "hello"),
            (Some(" Quoted-Printable "), "a=C3=A9=\n b =3d \n=\r\nx=zz=", "aé b = \nx=zz"),
            (Some("quoted-printable"), "a= \t\nb=", "ab"),
            (Some("quoted-printable"), "a=\r\r\nb\r\r\n=\rc=\r", "ab\r\r\n=\rc=\r"),
            (Some("quoted-printable"), "=4", "=4"),
            (Some("x-uuencode"), "begin 644 x\n%:&5L;&\\\n`\nend\n", "hello"),
            (Some("uue"), "no begin", "no begin"),
            (Some("rot13"), "a", "a"),
        ] {
            let read = decode(body.as_bytes(), encoding);
            assert_eq!(String::from_utf8_lossy(&read), expected, "{encoding:?} {body:?}");
        }
    }

    #[test]
    fn known_charsets_are_decoded() {
        assert_eq!(decode_charset("é".as_bytes(), Some("latin-1")).as_deref(), Some("é"));
        assert_eq!(decode_charset(b"\xe9", Some("ISO_8859-1")).as_deref(), Some("é"));
        assert_eq!(decode_charset(b"\xe9", Some("us-ascii")), None);
        assert_eq!(decode_charset(b"\xe9", Some("koi8-r")), None);
        assert_eq!(decode_charset(b"\xe9\x80", Some("Windows-1252")).as_deref(), Some("é€"));
        assert_eq!(decode_charset(b"\xe9\xa4", Some("iso-8859-15")).as_deref(), Some("é€"));
        assert_eq!(decode_charset(b"\xff\xfea\0\xe9\0", Some("utf-16")).as_deref(), Some("aé"));
        assert_eq!(decode_charset(b"\0a\0\xe9", Some("UTF-16BE")).as_deref(), Some("aé"));
        assert_eq!(decode_charset(b"\xe9\0\xe9", Some("utf-16le")), None);
        assert_eq!(decode_charset(b"\xe9", None), None);
        assert_eq!(decode_charset(b"a", Some("utf-16")).as_deref(), Some("a"));
    }
}
