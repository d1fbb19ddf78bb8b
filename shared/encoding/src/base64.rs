//! Base64 (RFC 4648 §4). Senders differ in what they write, so there are four decoders, from strict to lenient.

use ::base64::Engine as _;
use ::base64::alphabet::STANDARD;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Python ignores the bits of the last symbol that are beyond the last byte.
const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
static PADDED: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
static UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireNone));

/// Decodes text that may contain whitespace; `None` for any other invalid byte, and for wrong or missing padding.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    decode_strict(&text)
}

/// Decodes text without any invalid byte, whitespace included: for detecting base64.
pub fn decode_strict(text: &[u8]) -> Option<Vec<u8>> {
    PADDED.decode(text).ok()
}

/// Decodes leniently, as mail readers do: skips invalid bytes and supplies missing padding. `None` only if a single
/// character remains at the end.
pub fn decode_mime(text: &[u8]) -> Option<Vec<u8>> {
    let mut symbols = Vec::with_capacity(text.len());
    for &byte in text {
        // Padding ends the text; what follows belongs to something else.
        if byte == b'=' && symbols.len() % 4 >= 2 {
            break;
        }
        symbols.extend(is_symbol(byte).then_some(byte));
    }
    UNPADDED.decode(symbols).ok()
}

/// Decodes as Python's `base64.b64decode` does: invalid bytes are skipped, padding that completes a group ends the text, and
/// missing padding is an error (`None`).
pub fn decode_like_python(text: &[u8]) -> Option<Vec<u8>> {
    let mut symbols = Vec::with_capacity(text.len());
    let mut pads = 0;
    for &byte in text {
        let in_group = symbols.len() % 4;
        if byte == b'=' && in_group >= 2 {
            pads += 1;
            if in_group + pads >= 4 {
                return UNPADDED.decode(symbols).ok();
            }
        } else if is_symbol(byte) {
            pads = 0;
            symbols.push(byte);
        }
    }
    if symbols.len().is_multiple_of(4) { UNPADDED.decode(symbols).ok() } else { None }
}

fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Encodes on one line, with padding.
pub fn encode(bytes: &[u8]) -> String {
    PADDED.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_vectors_of_rfc_4648() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), text);
            for read in [decode, decode_strict, decode_mime] {
                assert_eq!(read(text.as_bytes()).as_deref(), Some(plain.as_bytes()), "{text}");
            }
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode_strict(encode(&all).as_bytes()), Some(all));
    }

    /// Results of CPython 3.11.
    #[test]
    fn matches_python() {
        for (text, bytes) in [
            ("Zm8=Zm8=", Some("fo")),
            ("Zm8", None),
            ("Z", None),
            ("=", Some("")),
            ("Zg=\n=", Some("f")),
            ("Zm9v====", Some("foo")),
            ("Zm-9v", Some("foo")),
            ("Zm9v...", Some("foo")),
            ("Zm8==x", Some("fo")),
            ("=Zg==", Some("f")),
            ("Z=g==", Some("f")),
            ("Zg=a=", Some("f\u{6}")),
            ("Zm9vZ===", None),
            ("Zm9v=Zm9v", Some("foofoo")),
            ("Zg===", Some("f")),
            ("Z===", None),
            ("Zm=9v", Some("foo")),
            ("Zm==9v", Some("f")),
            ("", Some("")),
            ("\u{e4}Zg==", Some("f")),
        ] {
            let decoded = decode_like_python(text.as_bytes()).map(|b| String::from_utf8(b).unwrap());
            assert_eq!(decoded.as_deref(), bytes, "{text:?}");
        }
    }

    #[test]
    fn decoders_differ_in_strictness() {
        // text, decode, decode_strict, decode_mime
        for (text, some, strict, lax) in [
            ("Zm9v\nYmFy\r\n", Some("foobar"), None, Some("foobar")),
            (" Z m 8 = ", Some("fo"), None, Some("fo")),
            ("Zm8", None, None, Some("fo")),
            ("Zm8==", None, None, Some("fo")),
            ("Zg=", None, None, Some("f")),
            ("Zm-9v", None, None, Some("foo")),
            ("Zm8=Zm8=", None, None, Some("fo")),
            ("Z", None, None, None),
            ("=", None, None, Some("")),
            ("Zg=\n=", Some("f"), None, Some("f")),
            ("Zm9v====", None, None, Some("foo")),
            ("#cloud-config", None, None, None),
        ] {
            let see = |read: fn(&[u8]) -> Option<Vec<u8>>| {
                read(text.as_bytes()).map(|b| String::from_utf8_lossy(&b).into_owned())
            };
            assert_eq!(see(decode).as_deref(), some, "{text:?}");
            assert_eq!(see(decode_strict).as_deref(), strict, "{text:?}");
            if text != "#cloud-config" {
                assert_eq!(see(decode_mime).as_deref(), lax, "{text:?}");
            }
        }
    }
    /// No input causes a panic, the output is never longer than three quarters of the input, and a more lenient decoder reads
    /// what a stricter one accepts in the same way.
    #[test]
    fn mutated_input_is_decoded_consistently() {
        let good =
            [encode(&[0xa5; 40]), "\n".into(), encode(b"a"), "\r\n==".into(), encode(b"bcdefgh")].concat();
        let (mut accepted, mut refused) = (0, 0);
        for bad in scratch::mutations(good.as_bytes(), 4000).chain(scratch::mutations(b"Zm9vYg==", 4000)) {
            let strict = decode_strict(&bad);
            let all = [decode(&bad), decode_like_python(&bad), decode_mime(&bad)];
            if strict.is_some() {
                accepted += 1;
                assert!(all.iter().all(|other| *other == strict), "{:?}", bad.escape_ascii().to_string());
            } else {
                refused += 1;
            }
            for read in all.iter().flatten() {
                assert!(read.len() <= bad.len() / 4 * 3 + 2, "{:?}", bad.escape_ascii().to_string());
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
    }
}
