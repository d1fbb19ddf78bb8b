//! Errors. Their messages name the action and the thing: "reading /etc/hostname: Permission denied".

use std::fmt;
use std::io;

/// The result of the fallible methods of [`crate::System`].
pub type Result<T> = std::result::Result<T, Error>;

/// A failure with its context. The kind is kept, so that callers can tell "does not exist" from "unknown".
#[derive(Debug, Clone)]
pub struct Error {
    message: String,
    kind: Option<io::ErrorKind>,
    is_permanent: bool,
    is_system_failure: bool,
}

/// Errors of a machine that may be repaired at the next boot: a full, broken or read-only disk, missing privileges, no more
/// descriptors or memory.
const SYSTEM_FAILURES: [i32; 8] = [
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EIO,
    libc::EROFS,
    libc::EPERM,
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOMEM,
];

impl Error {
    /// Returns an error with only a message.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: None, is_permanent: false, is_system_failure: false }
    }

    /// Returns an error with a message and a kind, by which callers recognise it.
    pub fn with_kind(kind: io::ErrorKind, message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: Some(kind), is_permanent: false, is_system_failure: false }
    }

    /// Returns the error for something larger than `limit` bytes; `size` is `None` if it is unknown.
    pub fn too_large(what: impl fmt::Display, size: Option<u64>, limit: u64) -> Error {
        let message = match size {
            Some(size) => format!("{what}: larger than {limit} bytes ({size} bytes)"),
            None => format!("{what}: larger than {limit} bytes"),
        };
        Error::with_kind(io::ErrorKind::FileTooLarge, message).into_permanent()
    }

    /// Returns the error for a failed system call; `context` names the action and the thing.
    pub fn io(context: impl fmt::Display, cause: &io::Error) -> Error {
        Error {
            message: format!("{context}: {}", reason(cause)),
            kind: Some(cause.kind()),
            is_permanent: false,
            is_system_failure: cause.raw_os_error().is_some_and(|code| SYSTEM_FAILURES.contains(&code)),
        }
    }

    /// Prepends the action during which the error occurred.
    pub fn context(self, what: impl fmt::Display) -> Error {
        Error { message: format!("{what}: {}", self.message), ..self }
    }

    /// Marks the error as permanent: a retry would fail in the same way.
    pub fn into_permanent(self) -> Error {
        Error { is_permanent: true, ..self }
    }

    /// Returns whether a retry would fail in the same way.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// Makes this the error for several failures: it is a failure of the system if one of the causes is.
    pub fn with_causes<'a>(self, causes: impl IntoIterator<Item = &'a Error>) -> Error {
        let is_system_failure = self.is_system_failure || causes.into_iter().any(Error::is_system_failure);
        Error { is_system_failure, ..self }
    }

    /// Returns whether the machine caused the failure (a full or read-only disk), so that the next boot may succeed.
    pub fn is_system_failure(&self) -> bool {
        self.is_system_failure
    }

    /// Returns whether the thing exists but is larger than the limit.
    pub fn is_too_large(&self) -> bool {
        self.kind == Some(io::ErrorKind::FileTooLarge)
    }

    /// Returns the kind; `None` for an error with only a message.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.kind
    }

    /// Returns whether the thing does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}

/// Returns the text of the cause without Rust's " (os error 2)".
fn reason(cause: &io::Error) -> String {
    let text = cause.to_string();
    if cause.raw_os_error().is_none() && cause.kind() == io::ErrorKind::NotFound {
        return "not found".into();
    }
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Adds context to results, also to those of system calls: `result.context("reading /etc/x")`.
pub trait ResultExt<T> {
    /// Prepends the action to the error's message.
    ///
    /// # Errors
    /// Fails if the result is an error.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> ResultExt<T> for io::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Error::io(what, &e))
    }
}

impl<T> ResultExt<T> for nix::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Error::io(what, &io::Error::from(e)))
    }
}

impl<T> ResultExt<T> for Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| e.context(what))
    }
}
