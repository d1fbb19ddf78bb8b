//! Content that a key `encoding` describes.

/// The encoding of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    Base64,
    Gzip,
    /// Gzip in base64.
    GzipBase64,
}

/// Decodes content. `limit` is its largest size in bytes.
///
/// # Errors
/// Fails if the content is not valid in its encoding, or too large.
pub fn decode(mut bytes: Vec<u8>, encoding: Encoding, limit: usize) -> Result<Vec<u8>, String> {
    if matches!(encoding, Encoding::Base64 | Encoding::GzipBase64) {
        bytes = encoding::base64::decode_like_python(&bytes).ok_or("no base64")?;
    }
    if matches!(encoding, Encoding::Gzip | Encoding::GzipBase64) {
        bytes = encoding::gzip::inflate(&bytes, limit).map_err(|e| e.to_string())?;
    }
    Ok(bytes)
}
