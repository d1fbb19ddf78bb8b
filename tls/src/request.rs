//! The request: what the plain side sends first. Lines of a word and its value up to an empty line, then as many bytes of
//! PEM as the lines announced.

use std::io::Read;

use crate::error::TlsError;

/// Bytes of all lines; a name has at most 253 characters.
const MAX_LINES: usize = 1024;
/// Bytes of each PEM text.
const MAX_PEM: usize = 4 << 20;

/// The PEM strings, in the order in which they follow.
const PARTS: [&str; 3] = ["roots", "certificate", "key"];

/// The settings for verifying the server.
#[derive(PartialEq, Eq)]
pub struct Request {
    /// The name or address that the server's certificate must be valid for.
    pub name: String,
    /// The certificates of trusted CAs, PEM.
    pub roots: Vec<u8>,
    /// The client certificate and its private key, PEM, for servers that require one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Reads the request, and not a byte of what follows it.
///
/// # Errors
/// Fails if the request is truncated, too long, or of another version of this program.
pub fn read(plain: &mut impl Read) -> Result<Request, TlsError> {
    let unreadable =
        |e: std::io::Error| TlsError::new(format!("cloud-init-tls is an internal helper program: {e}"));
    let unknown = || TlsError::new("cloud-init-tls is an internal helper program: invalid request");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\n\n") {
        // Byte by byte, as what follows must not be read; there are about sixty.
        plain.read_exact(&mut byte).map_err(unreadable)?;
        head.push(byte[0]);
        if head.len() > MAX_LINES {
            return Err(unknown());
        }
    }
    let head = String::from_utf8(head).map_err(|_| unknown())?;
    let mut name = None;
    let mut lengths = [None; PARTS.len()];
    for line in head.lines().filter(|line| !line.is_empty()) {
        let (word, value) = line.split_once(' ').ok_or_else(unknown)?;
        if word == "name" {
            name = Some(value.to_string());
            continue;
        }
        // An unknown word comes from another version of the stages.
        let part = PARTS.iter().position(|part| *part == word).ok_or_else(unknown)?;
        let length = value.parse().ok().filter(|n: &usize| *n <= MAX_PEM).ok_or_else(unknown)?;
        lengths[part] = Some(length);
    }
    let mut texts = [const { None }; PARTS.len()];
    for (text, length) in texts.iter_mut().zip(lengths) {
        let Some(length) = length else { continue };
        let mut bytes = Vec::new();
        plain.take(length as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() < length {
            return Err(unknown());
        }
        *text = Some(bytes);
    }
    match (name, texts) {
        (Some(name), [Some(roots), None, None]) => Ok(Request { name, roots, identity: None }),
        (Some(name), [Some(roots), Some(own), Some(key)]) => {
            Ok(Request { name, roots, identity: Some((own, key)) })
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requests_are_rejected() {
        let mut bytes = &b"name h.example\nroots 3\n\nPEMGET / HTTP/1.1"[..];
        let request = read(&mut bytes).unwrap();
        assert!(request == Request { name: "h.example".into(), roots: b"PEM".into(), identity: None });
        assert_eq!(bytes, b"GET / HTTP/1.1");
        let mut bytes = &b"certificate 2\nkey 1\nname h\nroots 3\n\nPEMCCKX"[..];
        assert!(read(&mut bytes).unwrap().identity == Some((b"CC".into(), b"K".into())));
        assert_eq!(bytes, b"X");
        for bad in [
            "",
            "name h\n",
            "name h\n\n",
            "roots 0\n\n",
            "name h\nroots 4\n\nPEM",
            "name h\nroots -1\n\n",
            "name h\nroots 99999999999\n\n",
            "name h\nroots 0\nkey 3\n\nPEM",
            "name h\nroots 0\nproxy 3\n\nPEM",
            "\n\n",
        ] {
            assert!(read(&mut bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(read(&mut "x".repeat(2000).as_bytes()).is_err());
    }
}
