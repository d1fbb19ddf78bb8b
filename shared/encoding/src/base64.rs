//! Base64 (RFC 4648 §4). Senders differ in what they write, so there are four decoders, from strict to lenient.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const INVALID: u8 = 255;

// Computed at compile time: see docs/small-binaries.md, "Code".
const fn decode_table() -> [u8; 256] {
    let mut table = [INVALID; 256];
    let mut i = 0;
    while i < 64 {
        table[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    table
}

static DECODE_TABLE: [u8; 256] = decode_table();

/// Decodes text that may contain white space; `None` for any other invalid byte, and for wrong or missing padding.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    decode_with(text, |byte| byte.is_ascii_whitespace(), true)
}

/// Decodes text without any invalid byte, white space included: for detecting base64.
pub fn decode_strict(text: &[u8]) -> Option<Vec<u8>> {
    decode_with(text, |_| false, true)
}

/// Decodes leniently, as mail readers do: skips invalid bytes and supplies missing padding. `None` only if a single
/// character remains at the end.
pub fn decode_mime(text: &[u8]) -> Option<Vec<u8>> {
    decode_with(text, |_| true, false)
}

/// Decodes as Python's `base64.b64decode` does: invalid bytes are skipped, padding that completes a group ends the text, and
/// missing padding is an error (`None`).
pub fn decode_like_python(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut have, mut pads) = (0_u32, 0, 0);
    for &byte in text {
        if byte == b'=' {
            if have >= 2 {
                pads += 1;
                if have + pads >= 4 {
                    let bytes = (bits << (6 * (4 - have))).to_be_bytes();
                    out.extend_from_slice(&bytes[1..have]);
                    return Some(out);
                }
            }
            continue;
        }
        let value = DECODE_TABLE[usize::from(byte)];
        if value == INVALID {
            continue;
        }
        pads = 0;
        bits = bits << 6 | u32::from(value);
        have += 1;
        if have == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, have) = (0, 0);
        }
    }
    (have == 0).then_some(out)
}

fn decode_with(text: &[u8], skipped: impl Fn(u8) -> bool, padded: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut have, mut pads) = (0_u32, 0, 0);
    for &byte in text {
        let value = DECODE_TABLE[usize::from(byte)];
        if value != INVALID && pads == 0 {
            bits = bits << 6 | u32::from(value);
            have += 1;
            if have == 4 {
                out.extend_from_slice(&bits.to_be_bytes()[1..]);
                (bits, have) = (0, 0);
            }
        } else if byte == b'=' && have + pads < 4 && have >= 2 {
            pads += 1;
        } else if !skipped(byte) {
            return None;
        } else if pads > 0 && value != INVALID {
            // Padding ends the text; what follows is other data.
            break;
        }
    }
    match have {
        0 => {}
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    (!padded || (have + pads) % 4 == 0).then_some(out)
}

/// Encodes on one line, with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648_vectors_both_ways() {
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
}
