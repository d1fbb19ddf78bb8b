//! SHA-1 and SHA-2, for key fingerprints, password hashes and generated identifiers.

pub use ::sha1::Sha1;
use sha2::Digest;
pub use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

/// Returns the digest of an algorithm that the caller chooses: `digest::<Sha384>(bytes)`.
pub fn digest<D: Digest>(bytes: &[u8]) -> Vec<u8> {
    D::digest(bytes).to_vec()
}

/// Returns the SHA-1 digest.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

/// Returns the SHA-256 digest.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-512 digest.
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    Sha512::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Outputs of `openssl dgst` for "abc".
    #[test]
    fn digests_match_openssl() {
        let text = b"abc";
        for (digest, expected) in [
            (sha1(text).to_vec(), "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (sha256(text).to_vec(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                sha512(text).to_vec(),
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (digest::<Sha224>(text), "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
            (
                digest::<Sha384>(text),
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (digest::<Sha512_224>(text), "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
            (digest::<Sha512_256>(text), "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        ] {
            assert_eq!(hex(&digest), expected);
        }
    }
}
