//! A response that arrives in pieces: whether it is complete by its own length, since some servers leave the connection
//! open although the request asks them to close it. Pure: the pieces are arguments.

use std::io::ErrorKind;

use super::message::{self, BodyLength};
use super::request::Response;
use crate::{Error, Result};

/// The limit of the response's header, interim responses included.
const MAX_HEAD: usize = 512 << 10;
/// The limit of the lines between the chunks of a body.
const MAX_CHUNK_OVERHEAD: usize = 512 << 10;

/// The received part of a response.
#[derive(Debug)]
pub struct Incoming {
    received: Vec<u8>,
    /// The head of the response, once it is complete.
    response: Option<PartialResponse>,
    limit: usize,
}

/// A response whose head is complete.
#[derive(Debug)]
struct PartialResponse {
    head: Response,
    length: BodyLength,
    /// The offset of the body.
    start: usize,
    /// The offset of the line before the next chunk.
    next_chunk: usize,
}

impl Incoming {
    /// Returns an empty response whose body may have this many bytes.
    pub fn new(limit: usize) -> Incoming {
        Incoming { received: Vec::new(), response: None, limit }
    }

    /// Adds received bytes and returns whether the response is complete.
    pub fn receive(&mut self, piece: &[u8]) -> Result<bool> {
        self.received.extend_from_slice(piece);
        let bytes = &self.received;
        if self.response.is_none() {
            // A head can only end with an empty line.
            let fresh = &bytes[bytes.len().saturating_sub(piece.len() + 2)..];
            if !fresh.windows(2).any(|w| w == b"\n\n") && !fresh.windows(3).any(|w| w == b"\n\r\n") {
                if bytes.len() > MAX_HEAD {
                    return Err(Error::new("response header too large"));
                }
                return Ok(false);
            }
            self.response = self.begin_response()?;
        }
        let Some(response) = &mut self.response else { return Ok(false) };
        let body = &bytes[response.start..];
        match response.length {
            BodyLength::Bytes(length) => Ok(body.len() >= length),
            BodyLength::UntilClose if body.len() > self.limit => {
                Err(Error::too_large("response", None, self.limit as u64))
            }
            BodyLength::UntilClose => Ok(false),
            BodyLength::Chunked if body.len() > self.limit.saturating_add(MAX_CHUNK_OVERHEAD) => {
                Err(Error::too_large("response", None, self.limit as u64))
            }
            BodyLength::Chunked => loop {
                let Some(line) = body.get(response.next_chunk..) else { return Ok(false) };
                let Some(end) = line.iter().position(|b| *b == b'\n') else {
                    // It is searched again with every piece.
                    return if line.len() > message::MAX_CHUNK_LINE {
                        Err(message::invalid_chunk())
                    } else {
                        Ok(false)
                    };
                };
                match message::chunk_size(&String::from_utf8_lossy(&line[..end]))? {
                    0 => return Ok(true),
                    size if size > self.limit => {
                        return Err(Error::too_large("response", None, self.limit as u64));
                    }
                    // A chunk is followed by a line end, which may be a bare line feed: an empty line is not a size.
                    size => {
                        let after = response.next_chunk.saturating_add(end + 1).saturating_add(size);
                        response.next_chunk = match body.get(after..) {
                            Some([b'\r', b'\n', ..]) => after + 2,
                            Some([b'\n', ..]) => after + 1,
                            Some([] | [b'\r']) | None => return Ok(false),
                            Some(_) => return Err(message::invalid_chunk()),
                        };
                    }
                }
            },
        }
    }

    /// Parses the head, if it is complete.
    fn begin_response(&self) -> Result<Option<PartialResponse>> {
        let mut rest = self.received.as_slice();
        let head = match message::head(&mut rest) {
            Ok(head) => head,
            // An interim response, which the final one follows.
            Err(e) if e.kind() == Some(ErrorKind::UnexpectedEof) => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = message::length(&head, self.limit)?;
        Ok(Some(PartialResponse { head, length, start: self.received.len() - rest.len(), next_chunk: 0 }))
    }

    /// Returns the response, and whether the server accepts another request on its connection.
    pub fn finish(&mut self) -> Result<(Response, bool)> {
        let mut rest = self.received.as_slice();
        let (mut response, length) = match self.response.take() {
            Some(response) => {
                rest = &rest[response.start..];
                (response.head, response.length)
            }
            None => (message::head(&mut rest)?, BodyLength::UntilClose),
        };
        message::body(&mut rest, &mut response, self.limit)?;
        // Not reusable if bytes follow the body (an incomplete trailer): they would be read as the next response.
        let is_whole = match length {
            BodyLength::Bytes(_) => rest.is_empty(),
            BodyLength::Chunked => message::is_end_of_chunks(rest),
            BodyLength::UntilClose => false,
        };
        let closes =
            response.headers.get("connection").is_some_and(|c| c.to_ascii_lowercase().contains("close"));
        let is_reusable = is_whole && !closes && self.received.starts_with(b"HTTP/1.1 ");
        Ok((response, is_reusable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// Returns how a response ends that consists of a head and the same piece many times.
    fn flood(head: &str, piece: &str) -> (String, usize) {
        let mut incoming = Incoming::new(64 << 20);
        assert!(!incoming.receive(head.as_bytes()).unwrap());
        for count in 1..5000 {
            match incoming.receive(piece.as_bytes()) {
                Ok(false) => {}
                Ok(true) => return ("complete".into(), count),
                Err(e) => return (e.to_string(), count),
            }
        }
        ("more".into(), 5000)
    }

    /// A line without an end would otherwise be searched as far as the limit of the body, again with every piece.
    #[test]
    fn lines_without_an_end_are_refused() {
        let long = "1".repeat(1000);
        assert_eq!(flood(CHUNKED, &long), ("invalid chunk in response".into(), 2));
        assert_eq!(flood(&format!("{CHUNKED}1\r\nx\r\n"), &long), ("invalid chunk in response".into(), 2));
        let (message, count) = flood("HTTP/1.1 200 OK\r\nX: ", &long);
        assert_eq!((&*message, count.div_ceil(100)), ("response header too large", 6));
    }

    /// Chunks of one byte, each after a line of almost the longest length: the body stays far below its limit.
    #[test]
    fn lines_between_chunks_are_limited_in_total() {
        let chunk = format!("1;{}\r\nx\r\n", "e".repeat(1000));
        let limit = 100;
        let receive = |bytes: usize| {
            let mut incoming = Incoming::new(limit);
            assert!(!incoming.receive(CHUNKED.as_bytes()).unwrap());
            let body: Vec<u8> = chunk.bytes().cycle().take(bytes).collect();
            body.chunks(60_000)
                .map(|piece| incoming.receive(piece))
                .find_map(|r| r.err())
                .map(|e| e.to_string())
        };
        assert_eq!(receive(limit + MAX_CHUNK_OVERHEAD), None);
        let error = receive(limit + MAX_CHUNK_OVERHEAD + 1);
        assert_eq!(error.as_deref(), Some("response: larger than 100 bytes"));
    }

    #[test]
    fn end_is_found_wherever_the_pieces_are_split() {
        let ends = |pieces: &[&str]| {
            let mut incoming = Incoming::new(20);
            for piece in pieces {
                match incoming.receive(piece.as_bytes()) {
                    Ok(false) => {}
                    Ok(true) => {
                        let (response, is_reusable) = incoming.finish().unwrap();
                        let text = String::from_utf8_lossy(&response.body).escape_debug().to_string();
                        return format!("{text} {is_reusable}");
                    }
                    Err(e) => return e.to_string(),
                }
            }
            "more".to_string()
        };
        for (pieces, expected) in [
            (&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "h", "i"][..], "hi true"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"], "more"),
            (&["HTTP/1.1 200 OK\r\n\r\n", "123456789012345678901"], "response: larger than 20 bytes"),
            (&[CHUNKED, "2\r\nhi\r\n", "0\r\n\r\n"], "hi true"),
            // An end with trailers is an end.
            (&[CHUNKED, "2\r\nhi\r\n0\r\nX: y\r\nZ: \r\n\r\n"], "hi true"),
            // The rest of the trailer, or another response, would be read as the next one.
            (&[CHUNKED, "2\r\nhi\r\n0\r\nX: y\r\n"], "hi false"),
            (&[CHUNKED, "2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"], "hi false"),
            (&[CHUNKED, "2\r\nhi\r\n0\r\n"], "hi false"),
            // A chunk whose last bytes look like the end of the body is not, nor is an apparent end in its middle.
            (&[CHUNKED, "7\r\n\r\n0\r\n\r\n", "\r\n1\r\nx\r\n0\r\n\r\n"], "\\r\\n0\\r\\n\\r\\nx true"),
            (
                &[CHUNKED, "9\r\n\r\n\r\n0\r\n\r\n", "\r\n1\r", "\nx\r\n0", "\r\n"],
                "\\r\\n\\r\\n0\\r\\n\\r\\nx false",
            ),
            (&[CHUNKED, "+2\r\nhi\r\n"], "invalid chunk in response"),
        ] {
            assert_eq!(ends(pieces), expected, "{pieces:?}");
        }
    }

    /// Trailers are parsed only to see whether the connection can be used again.
    #[test]
    fn connections_with_too_many_trailers_are_not_reused() {
        let reusable = |trailers: usize| {
            let mut incoming = Incoming::new(100);
            let end = format!("{CHUNKED}2\r\nhi\r\n0\r\n{}\r\n", "a: b\r\n".repeat(trailers));
            assert!(incoming.receive(end.as_bytes()).unwrap());
            let (answer, is_reusable) = incoming.finish().unwrap();
            assert_eq!(answer.body, b"hi");
            is_reusable
        };
        assert!(reusable(0) && reusable(message::MAX_HEADERS));
        assert!(!reusable(message::MAX_HEADERS + 1));
    }

    /// Whatever the pieces are, the response is the one that is read from a stream.
    #[test]
    fn responses_in_pieces_equal_those_from_a_stream() {
        let mut complete = 0;
        for text in [
            format!("{CHUNKED}2;a=b\r\nhi\r\n1\nx\n0\r\nX: y\r\n\r\n"),
            "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\nContent-Length : 2\n\nhi".to_string(),
        ] {
            for (number, bytes) in scratch::mutations(text.as_bytes(), 20_000).enumerate() {
                let size = number % 7 + 1;
                let pieces = super::super::parsers::response_in_pieces(bytes.chunks(size), 100);
                let whole = super::super::parsers::response(&bytes, 100);
                let value = |r: Response| (r.status, r.headers, r.body);
                let text = String::from_utf8_lossy(&bytes);
                match (whole, pieces) {
                    (Ok(whole), Ok((pieces, _))) => {
                        complete += 1;
                        assert!(whole.body.len() <= 100, "{text}");
                        assert_eq!(value(whole), value(pieces), "{text}");
                    }
                    (whole, pieces) => {
                        assert!(whole.is_err() && pieces.is_err(), "{whole:?} {pieces:?} {text}")
                    }
                }
            }
        }
        assert!((1000..35_000).contains(&complete), "{complete}");
    }
}
