//! make fuzz TARGET=gzip: members, headers and streams, inflated to a limit.
#![no_main]

const LIMIT: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(content) = encoding::gzip::inflate(data, LIMIT) {
        assert!(content.len() <= LIMIT);
    }
    let packed = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255], data].concat();
    let _ = encoding::gzip::inflate(&packed, LIMIT);
});
