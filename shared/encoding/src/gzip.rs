//! Gzip (RFC 1952), with a limit on the output.

use std::io::{self, ErrorKind, Read, Write};

use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The reason why gzip data cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GzipError {
    /// The data does not begin with gzip's magic number.
    NotGzip,
    /// The data ends early.
    Truncated,
    /// A header, a block or a checksum is invalid.
    Damaged,
    /// The decompressed data exceeds this limit in bytes.
    TooLarge(usize),
    /// The data has more members than [`MAX_MEMBERS`].
    TooManyMembers,
}

impl std::fmt::Display for GzipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GzipError::NotGzip => f.write_str("not gzip"),
            GzipError::Truncated => f.write_str("truncated gzip data"),
            GzipError::Damaged => f.write_str("damaged gzip data"),
            GzipError::TooLarge(limit) => write!(f, "gzip data exceeds {limit} bytes when decompressed"),
            GzipError::TooManyMembers => write!(f, "gzip data has more than {MAX_MEMBERS} members"),
        }
    }
}

impl std::error::Error for GzipError {}

/// Returns whether data begins with gzip's magic number.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The number of members in one piece of data. Each takes some microseconds, also if it is empty: a million of them fit into 20 MB.
const MAX_MEMBERS: usize = 10_000;

/// Decompresses all members to at most `limit` bytes in all. Bytes after the last member are ignored, as by gzip(1).
///
/// # Errors
/// Fails if the data is not gzip, is truncated or damaged, exceeds the limit, or has more than 10,000 members.
pub fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, GzipError> {
    if !is_gzip(bytes) {
        return Err(GzipError::NotGzip);
    }
    let mut out = Vec::new();
    match write_members(bytes, limit.min(SMALL), &mut out) {
        // A vector that grows is twice in memory while it is moved: the size is determined first.
        Err(GzipError::TooLarge(_)) if limit > SMALL => {
            out = Vec::with_capacity(write_members(bytes, limit, &mut io::sink())?);
            write_members(bytes, limit, &mut out)?;
        }
        result => drop(result?),
    }
    Ok(out)
}

/// The size up to which data is decompressed at once.
const SMALL: usize = 1 << 20;

/// Decompresses all members and returns the size.
fn write_members(bytes: &[u8], limit: usize, out: &mut dyn Write) -> Result<usize, GzipError> {
    let (mut rest, mut size, mut members) = (bytes, 0, 0);
    let mut buffer = [0; 8192];
    // flate2's decoder of several members would take trailing bytes for a damaged one.
    while is_gzip(rest) {
        members += 1;
        if members > MAX_MEMBERS {
            return Err(GzipError::TooManyMembers);
        }
        // With one byte more than allowed it shows that the data is too large.
        let room = (limit - size).saturating_add(1);
        let mut member = GzDecoder::new(rest).take(room as u64);
        loop {
            match member.read(&mut buffer) {
                Ok(0) => break,
                // Memory and nothing accept all bytes.
                Ok(length) => out.write_all(&buffer[..length]).map_err(|_| GzipError::Damaged)?,
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Err(GzipError::Truncated),
                Err(_) => return Err(GzipError::Damaged),
            }
        }
        size += room - member.limit() as usize;
        if size > limit {
            return Err(GzipError::TooLarge(limit));
        }
        rest = member.into_inner().into_inner();
    }
    Ok(size)
}

/// Returns a writer that compresses to one member in memory, without a name and a time. `capacity` is the size that it has memory for
/// at once.
pub fn encoder(capacity: usize) -> GzEncoder<Vec<u8>> {
    let mut out = Vec::new();
    _ = out.try_reserve_exact(capacity);
    // Logs shrink well at any level.
    GzEncoder::new(out, Compression::new(3))
}

/// Compresses to one member.
///
/// # Errors
/// Fails as flate2's encoder does; writing to memory itself cannot fail.
pub fn deflate(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = encoder(0);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns the CRC-32 of gzip, of GUID partition tables and of Ethernet.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_inflated_to_themselves() {
        // Empty content, content that compresses well, and random bytes that exceed every buffer.
        let mut noise = 1_u32;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(300_000)
        .collect();
        for (content, piece) in [(&b""[..], 1), (&[7; 200_000], 4096), (&random, 70_001), (b"abc", 1)] {
            let mut encoder = encoder(0);
            content.chunks(piece).for_each(|part| encoder.write_all(part).unwrap());
            let packed = encoder.finish().unwrap();
            assert!(packed.len() < content.len() + content.len() / 100 + 50, "{}", packed.len());
            assert!(content.len() != 200_000 || packed.len() < 2000, "{}", packed.len());
            assert_eq!(inflate(&packed, content.len()).unwrap(), content);
        }
    }

    /// Returns a member as gzip(1) writes it, with the optional header fields of `flags`.
    fn gzip_member(content: &[u8], flags: u8) -> Vec<u8> {
        let mut out = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 2, 3];
        if flags & 4 != 0 {
            out.extend_from_slice(b"\x03\0abc");
        }
        if flags & 8 != 0 {
            out.extend_from_slice(b"name\0");
        }
        if flags & 16 != 0 {
            out.extend_from_slice(b"comment\0");
        }
        if flags & 2 != 0 {
            out.extend((crc32(&out) as u16).to_le_bytes());
        }
        let mut encoder = flate2::write::DeflateEncoder::new(out, Compression::new(6));
        encoder.write_all(content).unwrap();
        let mut out = encoder.finish().unwrap();
        out.extend(crc32(content).to_le_bytes());
        out.extend((content.len() as u32).to_le_bytes());
        out
    }

    #[test]
    fn optional_header_fields_are_skipped() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        for flags in 0..32 {
            assert_eq!(inflate(&gzip_member(b"hello", flags), 100).unwrap(), b"hello", "flags {flags}");
        }
        for size in [0, 1, 65_535, 65_536, 65_537, 300_000] {
            let content: Vec<u8> =
                (0..size).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            assert_eq!(inflate(&gzip_member(&content, 0), 1 << 20).unwrap(), content, "{size}");
        }
    }

    #[test]
    fn concatenates_members_and_ignores_trailing_bytes() {
        let two = [gzip_member(b"ab", 0), gzip_member(b"cd", 8)].concat();
        assert_eq!(inflate(&two, 10).unwrap(), b"abcd");
        assert_eq!(inflate(&[&two[..], b"\0\0\0tail"].concat(), 10).unwrap(), b"abcd");
        assert_eq!(inflate(&two, 4).unwrap(), b"abcd");
        assert_eq!(inflate(&two, 3), Err(GzipError::TooLarge(3)));
        let empty = gzip_member(b"", 0);
        assert_eq!(inflate(&empty.repeat(MAX_MEMBERS), 0).unwrap(), b"");
        assert_eq!(inflate(&empty.repeat(MAX_MEMBERS + 1), 0), Err(GzipError::TooManyMembers));
    }

    #[test]
    fn reads_output_of_gzip() {
        // python3 -c "import gzip; print(list(gzip.compress(b'x\n', mtime=0)))"
        let bytes = [31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 224, 2, 0, 31, 8, 234, 70, 2, 0, 0, 0];
        assert_eq!(inflate(&bytes, 10).unwrap(), b"x\n");
    }

    #[test]
    fn truncated_and_corrupted_input_is_rejected() {
        let good = gzip_member(b"some content that is long enough to compress, compress, compress", 31);
        for end in 0..good.len() {
            assert!(inflate(&good[..end], 1000).is_err(), "cut at {end}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x55;
            // Name, comment and time may change freely; nothing may panic, and content is never silently wrong.
            let is_header_crc = (28..30).contains(&place);
            if let Ok(content) = inflate(&bad, 1000) {
                assert!(content.starts_with(b"some content") && !is_header_crc, "flipped at {place}");
            }
        }
        assert_eq!(inflate(b"", 10), Err(GzipError::NotGzip));
        assert_eq!(inflate(b"hello", 10), Err(GzipError::NotGzip));
    }

    #[test]
    fn decompression_bomb_stops_at_the_limit() {
        let bomb = gzip_member(&vec![0; 50 << 20], 0);
        assert!(bomb.len() < 100 << 10);
        assert_eq!(inflate(&bomb, 1 << 20), Err(GzipError::TooLarge(1 << 20)));
    }

    #[test]
    fn large_data_has_no_spare_memory() {
        let sizes = [SMALL - 1, SMALL, SMALL + 1, 5 << 20];
        for size in sizes {
            let two = [gzip_member(&vec![7; size], 0), gzip_member(b"end", 0)].concat();
            let out = inflate(&two, size + 3).unwrap();
            assert!(out.len() == size + 3 && out.ends_with(b"\x07end"), "{size}");
            assert!(size < SMALL || out.capacity() == out.len(), "{size}: {}", out.capacity());
            assert_eq!(inflate(&two, size + 2), Err(GzipError::TooLarge(size + 2)));
        }
    }

    #[test]
    fn mutated_input_does_not_panic() {
        let good = [gzip_member(&[b'a'; 3000], 31), gzip_member(b"some other content", 0)].concat();
        let intact = scratch::mutations(&good, 20_000).filter(|bad| inflate(bad, 5000).is_ok()).count();
        assert!(intact < 10_000, "{intact}");
    }
}
