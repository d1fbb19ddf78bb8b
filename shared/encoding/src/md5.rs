//! MD5, for file names and key fingerprints only: upstream names the cached response of a URL by the URL's MD5.

use ::md5::{Digest, Md5};

/// Returns the digest.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Returns the digest in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    crate::hex::encode(&digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn digest_is_that_of_rfc_1321() {
        assert_eq!(super::hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }
}
