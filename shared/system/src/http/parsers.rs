//! The parsers of HTTP responses, for tests and the fuzz target `http`.

use super::incoming::Incoming;
use super::message;
use crate::{Response, Result};

/// Reads a response from a stream that ends after these bytes; the body may have at most `limit`.
///
/// # Errors
/// Fails if the response is invalid, truncated or too large.
pub fn response(bytes: &[u8], limit: usize) -> Result<Response> {
    let mut stream = bytes;
    let mut response = message::head(&mut stream)?;
    message::body(&mut stream, &mut response, limit)?;
    Ok(response)
}

/// Reads a response from a connection that may stay open, and returns whether it may be used for another request.
///
/// # Errors
/// Fails as [`response`] does.
pub fn response_in_pieces<'b>(
    pieces: impl IntoIterator<Item = &'b [u8]>,
    limit: usize,
) -> Result<(Response, bool)> {
    let mut incoming = Incoming::new(limit);
    for piece in pieces {
        if incoming.receive(piece)? {
            break;
        }
    }
    incoming.finish()
}
