//! The CRC-32 of gzip with a table of 1 KiB, in place of the registry's crc32fast, of which flate2 uses the type `Hasher`: that
//! crate's tables and vector code are 20 KiB in each program, for data of which a boot reads a few kilobytes.

/// The remainders of all bytes, for the reflected polynomial.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut rest, mut bit) = (byte as u32, 0);
        while bit < 8 {
            rest = (rest >> 1) ^ (0xedb8_8320 & (rest & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// Computes the checksum of the bytes that it is given.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    sum: u32,
    length: u64,
}

impl Hasher {
    /// Returns the hasher of no bytes.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let step = |rest: u32, byte: &u8| TABLE[usize::from(rest as u8 ^ byte)] ^ (rest >> 8);
        self.sum = !bytes.iter().fold(!self.sum, step);
        self.length += bytes.len() as u64;
    }

    /// Returns the checksum.
    pub fn finalize(self) -> u32 {
        self.sum
    }

    /// Forgets all bytes.
    pub fn reset(&mut self) {
        *self = Hasher::default();
    }

    /// Adds the bytes of another hasher, in steps of their number.
    pub fn combine(&mut self, other: &Hasher) {
        let shifted =
            (0..other.length).fold(self.sum, |rest, _| TABLE[usize::from(rest as u8)] ^ (rest >> 8));
        self.sum = shifted ^ other.sum;
        self.length += other.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(bytes: &[u8]) -> Hasher {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher
    }

    #[test]
    fn the_check_value_is_that_of_the_catalogue() {
        assert_eq!(sum_of(b"123456789").finalize(), 0xcbf4_3926);
        assert_eq!(sum_of(b"").finalize(), 0);
    }

    #[test]
    fn pieces_and_combined_sums_are_the_sum_of_all() {
        let mut pieces = sum_of(b"1234");
        pieces.update(b"56789");
        assert_eq!(pieces.finalize(), 0xcbf4_3926);
        let mut combined = sum_of(b"12");
        combined.combine(&sum_of(b"3456789"));
        assert_eq!(combined.clone().finalize(), 0xcbf4_3926);
        combined.reset();
        assert_eq!(combined.finalize(), 0);
    }
}
