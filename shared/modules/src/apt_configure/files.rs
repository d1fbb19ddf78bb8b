//! How files of apt are written.

use system::{Result, System, WriteOptions};

/// Returns the mode of a file of apt. A file with a password in a URL is readable by root only, who fetches packages; apt
/// skips it with a warning for other users.
pub fn mode_for(text: &str) -> WriteOptions {
    let has_password = text.split("://").skip(1).any(|rest| {
        let place = rest.split(|c: char| c == '/' || c == '"' || c.is_whitespace()).next();
        place.and_then(|place| place.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
    });
    WriteOptions::mode(if has_password { 0o600 } else { 0o644 })
}

/// Writes a file. An empty text removes the file, unless `keep` is set because the configured text is invalid.
///
/// # Errors
/// Fails if the file cannot be written or removed.
pub fn write_or_remove(sys: &System, path: &str, text: &str, keep: bool) -> Result<()> {
    match text.is_empty() {
        false => sys.write(path, text, mode_for(text)).map(drop),
        true if keep || !sys.is_file(path) => Ok(()),
        true => sys.remove(path).map(drop),
    }
}
