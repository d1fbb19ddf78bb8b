//! make fuzz TARGET=encoding: base64 by its four decoders, percent-encoding, strings as Python quotes them, and gzip, there
//! and back. The first byte is where gzip's content ends and what follows it begins.
#![no_main]

use encoding::{base64, gzip, percent, python};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [end, bytes @ ..] = data else { return };
    base64(bytes);
    texts(bytes);
    let (content, tail) = bytes.split_at(usize::from(*end).min(bytes.len()));
    members(content, tail);
});

/// What one decoder reads, a more lenient one reads too.
fn base64(bytes: &[u8]) {
    let encoded = base64::encode(bytes);
    for decode in [base64::decode, base64::decode_strict, base64::decode_mime, base64::decode_like_python] {
        assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(bytes));
    }
    let spaced = base64::decode(bytes);
    let python = base64::decode_like_python(bytes);
    let mime = base64::decode_mime(bytes);
    assert!(base64::decode_strict(bytes).is_none_or(|strict| Some(strict) == spaced));
    assert!(spaced.is_none() || spaced == python);
    // Padding in the middle ends the text of a mail.
    assert!(python.is_none_or(|python| mime.is_some_and(|mime| python.starts_with(&mime))));
}

fn texts(bytes: &[u8]) {
    assert!(percent::decode_bytes(bytes).len() <= bytes.len());
    let text = String::from_utf8_lossy(bytes);
    let encoded = percent::encode(&text, &percent::RESERVED);
    assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(&b)));
    assert_eq!(percent::decode(&encoded), text);

    let mut json = String::new();
    python::put_json(&text, &mut json);
    assert!(json.is_ascii());
    assert_eq!(serde_json::from_str::<String>(&json).ok().as_deref(), Some(&*text));
    let mut repr = String::new();
    python::put_repr(&text, &mut repr);
    assert!(!repr.contains(['\n', '\r', '\0']));
}

fn members(content: &[u8], tail: &[u8]) {
    let Ok(member) = gzip::deflate(content) else { panic!("writing to memory failed") };
    let two = [member.as_slice(), &member].concat();
    let both = [content, content].concat();
    assert_eq!(gzip::inflate(&two, both.len()).as_ref(), Ok(&both));
    if let Some(limit) = both.len().checked_sub(1) {
        assert_eq!(gzip::inflate(&two, limit), Err(gzip::GzipError::TooLarge(limit)));
    }
    assert!(gzip::inflate(&member[..member.len() - 1], content.len()).is_err());
    if !gzip::is_gzip(tail) {
        assert_eq!(gzip::inflate(&[&member, tail].concat(), content.len()).as_deref(), Ok(content));
    }
}
