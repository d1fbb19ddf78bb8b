//! HTTP/1.1 as bytes: a request is written at once, a response is read from any stream. Sizes are limited, and a
//! truncated response is distinguished from a complete one.

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, Read};
use std::time::Duration;

use super::request::{RequestParts, Response};
use super::url::Url;
use crate::calendar::{self, MONTHS};
use crate::{Error, Result};

/// The size limit of all header lines of a response.
const MAX_HEAD: usize = 256 << 10;
/// The maximum number of header lines; Python accepts 100.
pub const MAX_HEADERS: usize = 256;
/// The size limit of the lines between the chunks of a body.
pub const MAX_CHUNK_LINE: usize = 1024;
/// The maximum number of interim responses (1xx).
const MAX_INTERIM_RESPONSES: usize = 8;

/// Returns the bytes of a request. A proxy that relays it requires the `whole` URL, and its own credentials.
pub fn request(ask: &RequestParts<'_>, whole: bool, proxy_user: Option<&str>) -> Result<Vec<u8>> {
    let url = &ask.url;
    let start = if whole { format!("http://{}", url.authority()) } else { String::new() };
    let mut head = format!("{} {start}{} HTTP/1.1\r\nHost: {}\r\n", ask.method, url.target, url.authority())
        .into_bytes();
    let mut add = |name: &str, value: &str| -> Result<()> {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        if !is_name || value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            // A line break would begin another header or request.
            return Err(Error::new("invalid character in a header name or value"));
        }
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        Ok(())
    };
    let usual = [
        ("User-Agent", crate::USER_AGENT),
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

/// Returns the request for a tunnel through a proxy.
pub fn connect(url: &Url, proxy_user: Option<&str>) -> Vec<u8> {
    let place = url.host_and_port();
    let user = proxy_user.map(|u| format!("Proxy-Authorization: {}\r\n", basic(u))).unwrap_or_default();
    format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{user}\r\n").into_bytes()
}

/// Returns credentials as in RFC 7617; those of a URL are percent-encoded.
fn basic(user: &str) -> String {
    let plain = encoding::percent::decode_bytes(user.as_bytes());
    let colon: &[u8] = if user.contains(':') { b"" } else { b":" };
    format!("Basic {}", encoding::base64::encode(&[&plain, colon].concat()))
}

/// How the end of a response's body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    Bytes(usize),
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// Returns how the body of a response with this head ends; `room` is the maximum number of its bytes.
pub fn length(response: &Response, room: usize) -> Result<BodyLength> {
    if matches!(response.status, 204 | 304) {
        return Ok(BodyLength::Bytes(0));
    }
    if let Some(way) = response.headers.get("transfer-encoding") {
        return match way.eq_ignore_ascii_case("chunked") {
            true => Ok(BodyLength::Chunked),
            false => Err(Error::new("unsupported Transfer-Encoding in response").into_permanent()),
        };
    }
    let Some(length) = response.headers.get("content-length") else { return Ok(BodyLength::UntilClose) };
    let length: u64 = length.trim().parse().map_err(|_| Error::new("invalid Content-Length in response"))?;
    match usize::try_from(length) {
        Ok(fitting) if fitting <= room => Ok(BodyLength::Bytes(fitting)),
        _ => Err(too_large(
            Some(length.saturating_add(response.body.len() as u64)),
            room + response.body.len(),
        )),
    }
}

fn too_large(size: Option<u64>, limit: usize) -> Error {
    Error::too_large("response", size, limit as u64)
}

/// Receives the body after a head and appends it to the response's body, up to `limit` bytes in total. After an error the
/// response has the bytes received so far.
pub fn body(stream: &mut impl BufRead, response: &mut Response, limit: usize) -> Result<()> {
    let room = limit.saturating_sub(response.body.len());
    let length = length(response, room)?;
    let body = &mut response.body;
    match length {
        BodyLength::Bytes(length) => read_body(stream, length, body, limit),
        BodyLength::UntilClose => {
            let first = stream.take(room.min(SMALL_BODY) as u64 + 1).read_to_end(body).map_err(read_error)?;
            if first > SMALL_BODY {
                reserve(body, room - SMALL_BODY, limit);
                stream.take((room - SMALL_BODY) as u64).read_to_end(body).map_err(read_error)?;
            }
            if body.len() > limit { Err(too_large(None, limit)) } else { Ok(()) }
        }
        BodyLength::Chunked => {
            loop {
                let size = chunk_size(&line(stream, MAX_CHUNK_LINE)?)?;
                if size == 0 {
                    // The trailer after the last chunk, which is not used.
                    return Ok(());
                }
                if size > limit.saturating_sub(body.len()) {
                    return Err(too_large(None, limit));
                }
                read_body(stream, size, body, limit)?;
                if !line(stream, 2)?.is_empty() {
                    return Err(invalid_chunk());
                }
            }
        }
    }
}

/// Parses the chunk size in a line. (httparse reads a line without a number as 0, which is the end of the body, and
/// accepts no bare line feed.)
pub fn chunk_size(line: &str) -> Result<usize> {
    let digits = line.split(';').next().unwrap_or_default().trim();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(invalid_chunk());
    }
    // A number that overflows exceeds any limit.
    Ok(usize::from_str_radix(digits, 16).unwrap_or(usize::MAX))
}

/// Returns the error of invalid chunks.
pub fn invalid_chunk() -> Error {
    Error::new("invalid chunk in response")
}

/// Receives the status and the headers of the final response, names in lower case.
pub fn head(stream: &mut impl BufRead) -> Result<Response> {
    for _ in 0..=MAX_INTERIM_RESPONSES {
        let response = parse_head(&head_bytes(stream)?)?.ok_or_else(invalid_head)?;
        if !(100..200).contains(&response.status) {
            return Ok(response);
        }
    }
    Err(Error::new("too many interim (1xx) responses"))
}

/// Reads one head with the blank line that ends it. Text that does not begin as HTTP is refused after its first line.
fn head_bytes(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let begin = bytes.len();
        stream.by_ref().take((MAX_HEAD - begin) as u64).read_until(b'\n', &mut bytes).map_err(read_error)?;
        match &bytes[begin..] {
            b"\n" | b"\r\n" if begin > 0 => return Ok(bytes),
            [.., b'\n'] if begin == 0 => drop(parse_head(&bytes)?),
            [.., b'\n'] => {}
            _ if bytes.len() == MAX_HEAD => return Err(Error::new("response header too large")),
            _ => return Err(Error::with_kind(ErrorKind::UnexpectedEof, "response truncated")),
        }
    }
}

fn invalid_head() -> Error {
    Error::new("invalid HTTP response")
}

/// Parses a head; `None` if it is incomplete. Lines that are not headers are ignored, as Python ignores them.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Response>> {
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut fields);
    let mut parser = httparse::ParserConfig::default();
    parser
        .allow_spaces_after_header_name_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .ignore_invalid_headers_in_responses(true);
    match parser.parse_response(&mut head, bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Error::new("response header too large")),
        Err(_) => return Err(invalid_head()),
    }
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_string();
    let status = head.code.filter(|code| (100..600).contains(code)).ok_or_else(invalid_head)?;
    let mut headers = BTreeMap::new();
    for field in head.headers.iter() {
        let (name, mut value) = (field.name.to_ascii_lowercase(), text(field.value));
        // Where the body ends would depend on the reader: as a list, which RFC 9110 makes of them, two lengths are invalid.
        if let Some(other) = headers.get(&name).filter(|other| name == "content-length" && **other != value) {
            value = format!("{other}, {value}");
        }
        headers.insert(name, value);
    }
    Ok(Some(Response { status, headers, body: Vec::new() }))
}

/// Returns whether these are all bytes after the last chunk: trailers, which are ignored, and a blank line.
pub fn is_end_of_chunks(bytes: &[u8]) -> bool {
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_HEADERS];
    matches!(httparse::parse_headers(bytes, &mut fields), Ok(httparse::Status::Complete((n, _))) if n == bytes.len())
}

/// Returns the pause that a busy server requests (429 or 503). `now`, in seconds since the epoch, is used if the response has no
/// date.
pub fn retry_after(response: &Response, now: u64) -> Option<Duration> {
    let named = response.headers.get("retry-after").map(|text| text.trim());
    let seconds = named.and_then(|text| match text.parse::<u64>() {
        Ok(seconds) => Some(seconds),
        Err(_) => {
            // This machine's clock may be wrong; the server's clock matches its response.
            let now = response.headers.get("date").and_then(|date| http_date(date)).unwrap_or(now);
            http_date(text).map(|then| then.saturating_sub(now))
        }
    });
    matches!(response.status, 429 | 503).then(|| Duration::from_secs(seconds.unwrap_or(1).max(1)))
}

impl Response {
    /// Returns the server's clock when it responded, in seconds since the epoch, if the response says so.
    pub fn date(&self) -> Option<u64> {
        self.headers.get("date").and_then(|date| http_date(date.trim()))
    }
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT` into seconds since the epoch.
fn http_date(text: &str) -> Option<u64> {
    let mut words = text.split_once(", ")?.1.split([' ', ':']);
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as i64 + 1;
    let mut number =
        |most: i64| words.next()?.parse::<i64>().ok().filter(|number| (0..=most).contains(number));
    let (year, hour, minute, second) = (number(9999)?, number(23)?, number(59)?, number(60)?);
    // Servers' dates are not checked further: 31 February is 3 March.
    let days = calendar::days(year, month, 1)? + day - 1;
    let is_gmt = words.next() == Some("GMT");
    u64::try_from(days * 86400 + hour * 3600 + minute * 60 + second).ok().filter(|_| is_gmt)
}

/// Receives one line, without its end.
fn line(stream: &mut impl BufRead, most: usize) -> Result<String> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 2).read_until(b'\n', &mut bytes).map_err(read_error)?;
    if bytes.pop() != Some(b'\n') {
        let full = bytes.len() > most;
        return Err(match full {
            true => Error::new("response header too large"),
            false => Error::with_kind(ErrorKind::UnexpectedEof, "response truncated"),
        });
    }
    bytes.pop_if(|b| *b == b'\r');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The size from which a body gets memory for its limit at once.
const SMALL_BODY: usize = 1 << 20;

/// Reserves memory for more bytes of a body. A vector that grows is twice in memory while it is moved, but pages that are never
/// written are not in memory.
fn reserve(body: &mut Vec<u8>, length: usize, limit: usize) {
    let size = body.len() + length;
    if size > SMALL_BODY && size > body.capacity() {
        _ = body.try_reserve_exact(limit.saturating_add(1).saturating_sub(body.len()).max(length));
    }
}

/// Receives exactly this number of bytes.
fn read_body(stream: &mut impl BufRead, length: usize, body: &mut Vec<u8>, limit: usize) -> Result<()> {
    let before = body.len();
    reserve(body, length, limit);
    stream.take(length as u64).read_to_end(body).map_err(read_error)?;
    let got = body.len() - before;
    if got < length {
        let message = format!("response truncated after {got} of {length} bytes");
        return Err(Error::with_kind(ErrorKind::UnexpectedEof, message));
    }
    Ok(())
}

fn read_error(e: std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::with_kind(ErrorKind::TimedOut, "response not complete in time")
        }
        ErrorKind::Other => Error::new(e.to_string()),
        _ => Error::io("reading the response", &e),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parsers::response as read;
    use super::*;

    fn response(text: &str) -> String {
        match read(text.as_bytes(), 100) {
            Ok(a) => format!("{} {}", a.status, String::from_utf8_lossy(&a.body)),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn a_large_body_gets_its_memory_at_once() {
        let limit = 8 << 20;
        let read = |size: usize, header: &str, body: String| {
            let text = format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n{body}");
            let response = read(text.as_bytes(), limit).map_err(|e| e.to_string())?;
            assert_eq!(response.body.len(), size, "{header}");
            Ok::<usize, String>(response.body.capacity())
        };
        for size in [SMALL_BODY - 1, SMALL_BODY, SMALL_BODY + 1, SMALL_BODY * 3, limit, limit + 1] {
            let content = "x".repeat(size);
            let chunks: String = (0..size)
                .step_by(5000)
                .map(|at| {
                    let part = &content[at..(at + 5000).min(size)];
                    format!("{:x}\r\n{part}\r\n", part.len())
                })
                .collect();
            for (header, body) in [
                ("Server: x".to_string(), content.clone()),
                (format!("Content-Length: {size}"), content.clone()),
                ("Transfer-Encoding: chunked".to_string(), format!("{chunks}0\r\n\r\n")),
            ] {
                match read(size, &header, body) {
                    Ok(capacity) => {
                        assert!(size <= limit, "{header}");
                        assert!(size <= SMALL_BODY || capacity == limit + 1, "{header}: {size} {capacity}");
                    }
                    Err(e) => assert!(size > limit && e.contains("larger than 8388608 bytes"), "{e}"),
                }
            }
        }
    }

    #[test]
    fn responses_are_read_to_their_end_or_rejected() {
        let long = "x".repeat(101);
        let chunked = |line: &str| {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{line}\r\nab\r\n0\r\n\r\n")
        };
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", "200 ab"),
            ("HTTP/1.0 200\n\nto the end", "200 to the end"),
            ("HTTP/1.1 204 No\r\n\r\nabc", "204 "),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length:0\r\n\r\n", "404 "),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
                "200 abc",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "response truncated after 3 of 9 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "response: larger than 100 bytes (101 bytes)"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "invalid Content-Length in response"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nabc", "200 ab"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nab",
                "invalid Content-Length in response",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                "invalid Content-Length in response",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na",
                "response truncated after 1 of 2 bytes",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "response truncated"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                "response: larger than 100 bytes",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
                "invalid chunk in response",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "invalid chunk in response"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                "unsupported Transfer-Encoding in response",
            ),
            ("HTTP/1.1 200 OK\r\nX", "response truncated"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "invalid HTTP response"),
            ("\x15\x03\x01\x00", "response truncated"),
            ("", "response truncated"),
            (&format!("HTTP/1.1 200 OK\r\n\r\n{long}"), "response: larger than 100 bytes"),
            (&format!("HTTP/1.1 200 {}\r\n", "x".repeat(MAX_HEAD)), "response header too large"),
            (&format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(MAX_HEAD / 6)), "response header too large"),
            (&"HTTP/1.1 100 Continue\r\n\r\n".repeat(20), "too many interim (1xx) responses"),
            (
                &format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(MAX_HEADERS + 1) + "\r\n"),
                "response header too large",
            ),
            ("HTTP/1.1 200 OK\r\nno header\r\n folded\r\nContent-Length : 1\r\n\r\nab", "200 a"),
            ("HTTP/1.1  200  OK\r\nContent-Length: 1\r\n\r\nab", "200 a"),
            ("HTTP/1.1 999 X\r\n\r\n", "invalid HTTP response"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n\r\n",
                "invalid chunk in response",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n", "200 ab"),
            (&chunked(&format!("2;{}", "x".repeat(MAX_CHUNK_LINE - 2))), "200 ab"),
            (&chunked(&format!("2;{}", "x".repeat(MAX_CHUNK_LINE - 1))), "response header too large"),
            (&chunked(&format!("{}2", "0".repeat(MAX_CHUNK_LINE))), "response header too large"),
            (&chunked(&format!("2;{}", "x".repeat(1 << 20))), "response header too large"),
        ] {
            assert_eq!(response(text), expected, "{:?}", &text[..text.len().min(80)]);
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_date() {
        let now = 784_111_770;
        for (text, expected) in [
            ("503 X\r\n", Some(1)),
            ("503 X\r\nRetry-After: 7\r\n", Some(7)),
            ("503 X\r\nRetry-After: 0\r\n", Some(1)),
            ("503 X\r\nRetry-After: soon\r\n", Some(1)),
            ("503 X\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Some(7)),
            (
                "503 X\r\nDate: Sun, 06 Nov 1994 08:49:07 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                Some(30),
            ),
            ("503 X\r\nRetry-After: Sun, 06 Nov 1980 08:49:37 GMT\r\n", Some(1)),
            ("429 X\r\n", Some(1)),
            ("429 X\r\nRetry-After: 3\r\n", Some(3)),
            ("500 X\r\nRetry-After: 3\r\n", None),
        ] {
            let response = read(format!("HTTP/1.1 {text}\r\n").as_bytes(), 100).unwrap();
            assert_eq!(retry_after(&response, now).map(|d| d.as_secs()), expected, "{text}");
        }
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:12 GMT", Some(12)),
            ("Wed, 01 May 2024 10:20:30 GMT", Some(1_714_558_830)),
            ("Thu, 31 Dec 2099 23:59:59 GMT", Some(4_102_444_799)),
            ("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
            ("Wed, 01 May 2024 10:20:30 CET", None),
            ("Wed, 01 May 2024", None),
            ("Wed, 01 May 1969 10:20:30 GMT", None),
            ("Wed, 99 May 2024 10:20:30 GMT", None),
            ("", None),
        ] {
            assert_eq!(http_date(text), expected, "{text}");
        }
    }

    /// A response with a length that is cut anywhere is never accepted as complete; no bytes cause a panic.
    #[test]
    fn truncated_answers_are_never_accepted() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5;x\r\n56789\r\n0\r\n",
        ] {
            assert!(response(text).starts_with("200 "), "{text}");
            for end in 0..text.len() {
                assert!(!response(&text[..end]).starts_with("200 "), "{:?}", &text[..end]);
                for byte in [0, b'\n', b' ', b'9', 0xff] {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes[end] = byte;
                    let _ = read(&bytes, 100);
                }
            }
        }
    }

    #[test]
    fn request_has_its_headers_and_credentials() {
        let url = Url::parse("http://us%65r:p@h:81/a?b").unwrap();
        let headers = [("User-Agent".to_string(), "x".to_string())];
        let ask = RequestParts { url, method: "POST", headers: &headers, body: Some(b"hi") };
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
            let ask = RequestParts { headers: &headers, ..ask.clone() };
            assert!(request(&ask, false, None).is_err(), "{name:?}");
        }
    }
}
