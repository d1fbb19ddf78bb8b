//! make fuzz TARGET=http: a response, read from a stream and in pieces: heads, interim responses, chunks, trailers. The first
//! byte is the size of the pieces.
#![no_main]

use system::parsers::{response, response_in_pieces};

const LIMIT: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [size, bytes @ ..] = data else { return };
    let pieces = response_in_pieces(bytes.chunks(usize::from(*size).max(1)), LIMIT);
    match (response(bytes, LIMIT), pieces) {
        (Ok(whole), Ok((pieces, _))) => {
            assert!(whole.body.len() <= LIMIT && (200..600).contains(&whole.status));
            let value = |r: system::Response| (r.status, r.headers, r.body);
            assert_eq!(value(whole), value(pieces));
            // A response that ends before its last byte would leave that byte to the next one.
            let is_reusable =
                |bytes| response_in_pieces([bytes], LIMIT).is_ok_and(|(_, is_reusable)| is_reusable);
            assert!(!is_reusable(bytes) || !is_reusable(&bytes[..bytes.len() - 1]));
        }
        (Err(_), Err(_)) => {}
        (whole, pieces) => panic!("{whole:?} {pieces:?}"),
    }
});
