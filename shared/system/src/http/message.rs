//! HTTP/1.1 as bytes: a request is written in one go, an answer read from whatever stream carries it. Bounded, and
//! an answer that ended too early is told from one that is done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read};

use super::url::Url;
use super::{Fetched, Request};
use crate::{Error, Result};

/// Of all header lines of an answer together.
const MOST_HEAD: usize = 256 << 10;
/// Of the lines between the chunks of a body.
const MOST_CHUNK_LINE: usize = 1024;
/// Answers of 1xx before the one that counts.
const MOST_INTERIM: usize = 8;

/// The request as it is sent. A proxy that relays it wants the `whole` URL, and its own credentials.
pub fn request(ask: &Request<'_>, whole: bool, proxy_user: Option<&str>) -> Result<Vec<u8>> {
    let url = &ask.url;
    let start = if whole { format!("http://{}", url.authority()) } else { String::new() };
    let mut head = format!("{} {start}{} HTTP/1.1\r\nHost: {}\r\n", ask.method, url.target, url.authority())
        .into_bytes();
    let mut add = |name: &str, value: &str| -> Result<()> {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        if !is_name || value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            // Another header, or another request, would begin in it.
            return Err(Error::new("a header's name or value has a character that cannot be sent"));
        }
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        Ok(())
    };
    let usual = [
        ("User-Agent", concat!("Cloud-Init/", env!("CARGO_PKG_VERSION"))),
        ("Accept", "*/*"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ];
    let names = |name: &str| ask.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    for (name, value) in usual.into_iter().filter(|(name, _)| !names(name)) {
        add(name, value)?;
    }
    for (name, value) in ask.headers {
        add(name, value)?;
    }
    if let Some(user) = url.user.as_deref().filter(|_| !names("Authorization")) {
        add("Authorization", &basic(user))?;
    }
    if let Some(user) = proxy_user {
        add("Proxy-Authorization", &basic(user))?;
    }
    if ask.body.is_some() || ask.method != "GET" {
        add("Content-Length", &ask.body.map_or(0, <[u8]>::len).to_string())?;
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(ask.body.unwrap_or_default());
    Ok(head)
}

/// The opening of a tunnel through a proxy.
pub fn connect(url: &Url, proxy_user: Option<&str>) -> Vec<u8> {
    let place = url.host_and_port();
    let user = proxy_user.map(|u| format!("Proxy-Authorization: {}\r\n", basic(u))).unwrap_or_default();
    format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{user}\r\n").into_bytes()
}

/// RFC 7617; what a URL has of it is percent-encoded.
fn basic(user: &str) -> String {
    let plain = encoding::percent::decode_bytes(user.as_bytes());
    let colon: &[u8] = if user.contains(':') { b"" } else { b":" };
    format!("Basic {}", encoding::base64::encode(&[&plain, colon].concat()))
}

/// The answer, whole or an error.
pub fn read(stream: &mut dyn Read, limit: usize) -> Result<Fetched> {
    let mut stream = BufReader::with_capacity(16 << 10, stream);
    let (status, headers) = head(&mut stream)?;
    let too_large = || Error::new(format!("the answer is larger than {limit} bytes"));
    let chunked = match headers.get("transfer-encoding") {
        Some(way) if !way.eq_ignore_ascii_case("chunked") => {
            return Err(Error::new("the answer is encoded in a way that was not asked for"));
        }
        way => way.is_some(),
    };
    let mut body = Vec::new();
    if matches!(status, 204 | 304) {
        return Ok(Fetched { status, headers, body });
    }
    if chunked {
        loop {
            let line = line(&mut stream, MOST_CHUNK_LINE)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(digits, 16).map_err(|_| Error::new("the answer has a broken chunk"))?;
            if size == 0 {
                break;
            }
            if size > limit.saturating_sub(body.len()) {
                return Err(too_large());
            }
            take(&mut stream, size, &mut body)?;
            if !self::line(&mut stream, 2)?.is_empty() {
                return Err(Error::new("the answer has a broken chunk"));
            }
        }
        // What follows the last chunk are headers again, and nobody here wants them.
        return Ok(Fetched { status, headers, body });
    }
    match headers.get("content-length") {
        Some(length) => {
            let length = length.trim().parse().map_err(|_| Error::new("the answer's length is no number"))?;
            if length > limit {
                return Err(too_large());
            }
            take(&mut stream, length, &mut body)?;
        }
        None => {
            stream.take(limit as u64 + 1).read_to_end(&mut body).map_err(broken)?;
            if body.len() > limit {
                return Err(too_large());
            }
        }
    }
    Ok(Fetched { status, headers, body })
}

/// The status and the headers of the answer that counts, names in lower case.
fn head(stream: &mut impl BufRead) -> Result<(u16, BTreeMap<String, String>)> {
    for _ in 0..=MOST_INTERIM {
        let first = line(stream, MOST_HEAD)?;
        let mut left = MOST_HEAD.saturating_sub(first.len());
        let status = status(&first).ok_or_else(|| Error::new("the answer is not HTTP"))?;
        let mut headers = BTreeMap::new();
        loop {
            let line = line(stream, left)?;
            if line.is_empty() {
                break;
            }
            left = left.saturating_sub(line.len() + 2);
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_string());
            }
        }
        if !(100..200).contains(&status) {
            return Ok((status, headers));
        }
    }
    Err(Error::new("the server says that it goes on, and does not"))
}

/// The status of the first line of a head.
pub fn status(line: &str) -> Option<u16> {
    let (version, rest) = line.split_once(' ')?;
    let status: u16 = rest.split(' ').next()?.parse().ok()?;
    (version.starts_with("HTTP/1.") && (100..600).contains(&status)).then_some(status)
}

/// One line without its end.
fn line(stream: &mut impl BufRead, most: usize) -> Result<String> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 2).read_until(b'\n', &mut bytes).map_err(broken)?;
    if bytes.pop() != Some(b'\n') {
        let full = bytes.len() > most;
        return Err(Error::new(if full {
            "the answer's head is too long"
        } else {
            "the answer ended too early"
        }));
    }
    bytes.pop_if(|b| *b == b'\r');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// So many bytes and not one less.
fn take(stream: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> Result<()> {
    let before = body.len();
    stream.take(length as u64).read_to_end(body).map_err(broken)?;
    let got = body.len() - before;
    if got < length {
        return Err(Error::new(format!("the answer ended after {got} of {length} bytes")));
    }
    Ok(())
}

fn broken(e: std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::new("the answer did not end in time"),
        ErrorKind::Other => Error::new(e.to_string()),
        _ => Error::io("reading the answer", &e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> String {
        match read(&mut text.as_bytes(), 100) {
            Ok(a) => format!("{} {}", a.status, String::from_utf8_lossy(&a.body)),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn answers() {
        let long = "x".repeat(101);
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", "200 ab"),
            ("HTTP/1.0 200\n\nto the end", "200 to the end"),
            ("HTTP/1.1 204 No\r\n\r\nabc", "204 "),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length:0\r\n\r\n", "404 "),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
                "200 abc",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "the answer ended after 3 of 9 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "the answer is larger than 100 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "the answer's length is no number"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na",
                "the answer ended after 1 of 2 bytes",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                "the answer ended too early",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                "the answer is larger than 100 bytes",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
                "the answer has a broken chunk",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "the answer has a broken chunk"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                "the answer is encoded in a way that was not asked for",
            ),
            ("HTTP/1.1 200 OK\r\nX", "the answer ended too early"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
            ("\x15\x03\x01\x00", "the answer ended too early"),
            ("", "the answer ended too early"),
            (&format!("HTTP/1.1 200 OK\r\n\r\n{long}"), "the answer is larger than 100 bytes"),
            (&format!("HTTP/1.1 200 {}\r\n", "x".repeat(MOST_HEAD)), "the answer's head is too long"),
            (
                &format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(MOST_HEAD / 6)),
                "the answer's head is too long",
            ),
            (&"HTTP/1.1 100 Continue\r\n\r\n".repeat(20), "the server says that it goes on, and does not"),
        ] {
            assert_eq!(answer(text), expected, "{:?}", &text[..text.len().min(80)]);
        }
    }

    /// Cut anywhere, an answer that says how long it is is never taken for whole; nothing panics, whatever the bytes.
    #[test]
    fn answers_cut_anywhere() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5;x\r\n56789\r\n0\r\n",
        ] {
            assert!(answer(text).starts_with("200 "), "{text}");
            for end in 0..text.len() {
                assert!(!answer(&text[..end]).starts_with("200 "), "{:?}", &text[..end]);
                for byte in [0, b'\n', b' ', b'9', 0xff] {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes[end] = byte;
                    let _ = read(&mut bytes.as_slice(), 100);
                }
            }
        }
    }

    #[test]
    fn requests() {
        let url = Url::parse("http://us%65r:p@h:81/a?b").unwrap();
        let headers = [("User-Agent".to_string(), "x".to_string())];
        let ask = Request { url, method: "POST", headers: &headers, body: Some(b"hi") };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(request(&ask, false, None).unwrap()),
            "POST /a?b HTTP/1.1\r\nHost: h:81\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\
             User-Agent: x\r\nAuthorization: Basic dXNlcjpw\r\nContent-Length: 2\r\n\r\nhi"
        );
        let by_proxy = text(request(&ask, true, Some("q")).unwrap());
        assert!(by_proxy.starts_with("POST http://h:81/a?b HTTP/1.1\r\n"), "{by_proxy}");
        assert!(by_proxy.contains("\r\nProxy-Authorization: Basic cTo=\r\n"), "{by_proxy}");
        assert_eq!(
            text(connect(&ask.url, Some("q:r"))),
            "CONNECT h:81 HTTP/1.1\r\nHost: h:81\r\nProxy-Authorization: Basic cTpy\r\n\r\n"
        );
        for (name, value) in [("A", "x\r\nB: y"), ("A B", "x"), ("A\n", "x"), ("", "x"), ("A:", "x")] {
            let headers = [(name.to_string(), value.to_string())];
            let ask = Request { headers: &headers, ..ask.clone() };
            assert!(request(&ask, false, None).is_err(), "{name:?}");
        }
    }
}
