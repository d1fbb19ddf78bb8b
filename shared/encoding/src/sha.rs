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

    /// Outputs of sha1sum, sha256sum and sha512sum.
    #[test]
    fn matches_coreutils() {
        for (text, one, two, three) in [
            (
                "".to_string(),
                "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            ),
            (
                "abc".to_string(),
                "a9993e364706816aba3e25717850c26c9cd0d89d",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (
                "a".repeat(64),
                "0098ba824b5c16427bd7a1122a5a442a25ec644d",
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
                "01d35c10c6c38c2dcf48f7eebb3235fb5ad74a65ec4cd016e2354c637a8fb49b695ef3c1d6f7ae4cd74d78cc9c9bcac9d4f23a73019998a7f73038a5c9b2dbde",
            ),
            (
                "a".repeat(1000),
                "291e9a6c66994949b57ba5e650361e98fc36b1ba",
                "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
                "67ba5535a46e3f86dbfbed8cbbaf0125c76ed549ff8b0b9e03e0c88cf90fa634fa7b12b47d77b694de488ace8d9a65967dc96df599727d3292a8d9d447709c97",
            ),
        ] {
            let bytes = text.as_bytes();
            assert_eq!(hex(&sha1(bytes)), one, "{}", text.len());
            assert_eq!(hex(&sha256(bytes)), two, "{}", text.len());
            assert_eq!(hex(&sha512(bytes)), three, "{}", text.len());
        }
    }
    /// Outputs of `openssl dgst` for "abc".
    #[test]
    fn shorter_variants_match_openssl() {
        for (digest, expected) in [
            (digest::<Sha224>(b"abc"), "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
            (
                digest::<Sha384>(b"abc"),
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (digest::<Sha512_224>(b"abc"), "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
            (
                digest::<Sha512_256>(b"abc"),
                "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23",
            ),
        ] {
            assert_eq!(hex(&digest), expected);
        }
    }
}
