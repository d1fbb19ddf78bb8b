//! Content that a key `encoding` describes: base64, gzip, or gzip in base64.

/// Decodes content. `limit` is its largest size in bytes.
///
/// # Errors
/// Fails if the content is not valid in its encoding, or too large.
pub fn decode(mut bytes: Vec<u8>, base64: bool, gzip: bool, limit: usize) -> Result<Vec<u8>, String> {
    if base64 {
        bytes = encoding::base64::decode_like_python(&bytes).ok_or("no base64")?;
    }
    if gzip {
        bytes = encoding::gzip::inflate(&bytes, limit).map_err(|e| e.to_string())?;
    }
    Ok(bytes)
}
