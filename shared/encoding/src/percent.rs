//! Percent-encoding (RFC 3986 §2.1), as in URLs and on the kernel command line.

/// Decodes `%41` to `A`. A `%` without two hexadecimal digits after it is kept, and so is `+`.
pub fn decode_bytes(text: &[u8]) -> Vec<u8> {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while let Some(byte) = text.get(i) {
        match (byte, digit(text.get(i + 1)), digit(text.get(i + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            _ => {
                out.push(*byte);
                i += 1;
            }
        }
    }
    out
}

/// Does the same as [`decode_bytes`] for text; invalid UTF-8 in the result becomes U+FFFD.
pub fn decode(text: &str) -> String {
    String::from_utf8_lossy(&decode_bytes(text.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn decodes_percent_escapes() {
        for (text, plain) in [
            ("", ""),
            ("a%20b+c", "a b+c"),
            ("%41%4a%4A", "AJJ"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%%41", "%A"),
            ("%c3%bc", "ü"),
            ("%ff", "\u{fffd}"),
            ("é%2f", "é/"),
        ] {
            assert_eq!(super::decode(text), plain, "{text}");
        }
    }
}
