//! Gzip (RFC 1952). Decompression verifies checksums and limits the output; compression works in pieces.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const INITIAL_OUTPUT: usize = 64 << 10;

/// Why gzip data cannot be decompressed.
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
}

impl std::fmt::Display for GzipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GzipError::NotGzip => f.write_str("not gzip"),
            GzipError::Truncated => f.write_str("truncated gzip data"),
            GzipError::Damaged => f.write_str("damaged gzip data"),
            GzipError::TooLarge(limit) => write!(f, "gzip data exceeds {limit} bytes when decompressed"),
        }
    }
}

impl std::error::Error for GzipError {}

/// Returns whether data begins with gzip's magic number.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Decompresses all members to at most `limit` bytes in all. Bytes after the last member are ignored, as by gzip(1).
///
/// # Errors
/// Fails if the data is not gzip, is truncated or damaged, or exceeds the limit.
pub fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, GzipError> {
    let mut out = Vec::new();
    let mut rest = bytes;
    loop {
        let body = skip_header(rest)?;
        let begin = out.len();
        let used = inflate_member(body, &mut out, limit)?;
        let (trailer, after) = body[used..].split_first_chunk::<8>().ok_or(GzipError::Truncated)?;
        let [a, b, c, d, e, f, g, h] = *trailer;
        let content = &out[begin..];
        if u32::from_le_bytes([a, b, c, d]) != crc32(content)
            || u32::from_le_bytes([e, f, g, h]) != content.len() as u32
        {
            return Err(GzipError::Damaged);
        }
        if !is_gzip(after) {
            return Ok(out);
        }
        rest = after;
    }
}

/// Returns what follows a member's header.
fn skip_header(bytes: &[u8]) -> Result<&[u8], GzipError> {
    if !is_gzip(bytes) {
        return Err(GzipError::NotGzip);
    }
    let (fixed, mut rest) = bytes.split_first_chunk::<10>().ok_or(GzipError::Truncated)?;
    let flags = fixed[3];
    if fixed[2] != 8 || flags & 0xe0 != 0 {
        return Err(GzipError::Damaged);
    }
    if flags & 4 != 0 {
        let (length, after) = rest.split_first_chunk::<2>().ok_or(GzipError::Truncated)?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..).ok_or(GzipError::Truncated)?;
    }
    // The original name, then a comment, each ended by NUL.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = rest.iter().position(|b| *b == 0).ok_or(GzipError::Truncated)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & 2 != 0 { rest.get(2..).ok_or(GzipError::Truncated) } else { Ok(rest) }
}

/// Appends one member's content to `out`, and returns the number of bytes read.
fn inflate_member(bytes: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<usize, GzipError> {
    let begin = out.len();
    let mut state = Box::new(DecompressorOxide::new());
    let (mut read, mut written) = (0, begin);
    let mut room = INITIAL_OUTPUT.max(bytes.len().saturating_mul(2));
    loop {
        // One byte beyond the limit shows that the data exceeds it.
        out.resize(begin.saturating_add(room).min(limit.saturating_add(1)).max(written), 0);
        let (status, taken, given) = decompress(
            &mut state,
            &bytes[read..],
            &mut out[begin..],
            written - begin,
            TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
        );
        read += taken;
        written += given;
        if written > limit {
            return Err(GzipError::TooLarge(limit));
        }
        match status {
            TINFLStatus::Done => {
                out.truncate(written);
                return Ok(read);
            }
            TINFLStatus::HasMoreOutput => room = room.saturating_mul(2),
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => {
                return Err(GzipError::Truncated);
            }
            _ => return Err(GzipError::Damaged),
        }
    }
}

// Computed at compile time: see docs/small-binaries.md, "Code".
const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC_TABLE: [u32; 256] = crc_table();

/// Returns the CRC-32 of gzip, zip and Ethernet.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32_update(0, bytes)
}

/// Returns the CRC-32 of data whose CRC-32 is `before`, followed by `bytes`.
fn crc32_update(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |crc: u32, b| crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ b)])
}

/// Compresses data in pieces to one member without a name and a time.
pub struct GzipEncoder {
    state: Box<CompressorOxide>,
    out: Vec<u8>,
    crc: u32,
    length: u32,
}

impl Default for GzipEncoder {
    fn default() -> GzipEncoder {
        // Logs shrink well at any level; a negative window means no header of zlib's.
        let flags = create_comp_flags_from_zip_params(3, -15, 0);
        let out = vec![MAGIC[0], MAGIC[1], 8, 0, 0, 0, 0, 0, 0, 0xff];
        GzipEncoder { state: Box::new(CompressorOxide::new(flags)), out, crc: 0, length: 0 }
    }
}

impl GzipEncoder {
    /// Compresses a piece.
    pub fn write(&mut self, bytes: &[u8]) {
        self.crc = crc32_update(self.crc, bytes);
        self.length = self.length.wrapping_add(bytes.len() as u32);
        self.deflate(bytes, TDEFLFlush::None);
    }

    /// Returns the approximate number of compressed bytes so far.
    pub fn compressed_len(&self) -> usize {
        self.out.len()
    }

    /// Returns the whole member.
    pub fn finish(mut self) -> Vec<u8> {
        self.deflate(&[], TDEFLFlush::Finish);
        self.out.extend(self.crc.to_le_bytes());
        self.out.extend(self.length.to_le_bytes());
        self.out
    }

    fn deflate(&mut self, mut bytes: &[u8], flush: TDEFLFlush) {
        let mut piece = [0; 8 << 10];
        loop {
            let (status, taken, given) = compress(&mut self.state, bytes, &mut piece, flush);
            bytes = &bytes[taken..];
            self.out.extend_from_slice(&piece[..given]);
            let no_progress = taken == 0 && given == 0;
            if status != TDEFLStatus::Okay || no_progress || bytes.is_empty() && flush == TDEFLFlush::None {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        // No data; data that shrinks to little; data that does not shrink and is longer than every buffer.
        let mut noise = 1_u32;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(300_000)
        .collect();
        for (content, piece) in [(&b""[..], 1), (&[7; 200_000], 4096), (&random, 70_001), (b"abc", 1)] {
            let mut encoder = GzipEncoder::default();
            content.chunks(piece).for_each(|part| encoder.write(part));
            let packed = encoder.finish();
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
            out.extend_from_slice(b"xx");
        }
        out.extend(miniz_oxide::deflate::compress_to_vec(content, 6));
        out.extend(crc32(content).to_le_bytes());
        out.extend((content.len() as u32).to_le_bytes());
        out
    }

    #[test]
    fn optional_header_fields_and_sizes() {
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
    }

    #[test]
    fn reads_output_of_gzip() {
        // python3 -c "import gzip; print(list(gzip.compress(b'x\n', mtime=0)))"
        let bytes = [31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 224, 2, 0, 31, 8, 234, 70, 2, 0, 0, 0];
        assert_eq!(inflate(&bytes, 10).unwrap(), b"x\n");
    }

    #[test]
    fn truncated_and_corrupted_input() {
        let good = gzip_member(b"some content that is long enough to compress, compress, compress", 31);
        for end in 0..good.len() {
            assert!(inflate(&good[..end], 1000).is_err(), "cut at {end}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x55;
            // Name, comment and time may change freely; nothing may panic, and content is never silently wrong.
            if let Ok(content) = inflate(&bad, 1000) {
                assert!(content.starts_with(b"some content"), "flipped at {place}");
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
}
