//! Percent-encoding (RFC 3986 §2.1), as in URLs and on the kernel command line.

pub use percent_encoding::{AsciiSet, CONTROLS};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_decode_str, utf8_percent_encode};

/// All characters but those that RFC 3986 calls unreserved.
pub const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes the characters of a set, and all that are not ASCII.
pub fn encode(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).collect()
}

/// Decodes `%41` to `A`. A `%` without two hexadecimal digits after it is kept, and so is `+`.
pub fn decode_bytes(text: &[u8]) -> Vec<u8> {
    percent_decode(text).collect()
}

/// Does the same as [`decode_bytes`] for text; invalid UTF-8 in the result becomes U+FFFD.
pub fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
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

    #[test]
    fn encodes_all_but_the_kept_characters() {
        for (text, encoded) in
            [("", ""), ("a-b._~", "a-b._~"), ("a b/%+", "a%20b%2F%25%2B"), ("ü\0", "%C3%BC%00")]
        {
            assert_eq!(super::encode(text, &super::RESERVED), encoded, "{text}");
        }
    }
    /// No input causes a panic, the output is never longer than the input, and what is encoded is decoded to itself.
    #[test]
    fn mutated_input_never_grows_and_survives_a_round_trip() {
        for bad in scratch::mutations("a%20b%c3%bc+100%%41 é%zz".as_bytes(), 4000) {
            let decoded = super::decode_bytes(&bad);
            assert!(decoded.len() <= bad.len());
            let text = String::from_utf8_lossy(&bad);
            // U+FFFD is three bytes in the place of one.
            assert!(super::decode(&text).len() <= 3 * text.len());
            assert_eq!(super::decode(&super::encode(&text, &super::RESERVED)), text);
        }
    }
}
