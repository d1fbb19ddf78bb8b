//! Errors say what we were doing and to which thing: "reading /etc/hostname: permission denied".

use std::fmt;
use std::io;

/// What every method of [`crate::System`] that can fail returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure with its context. `kind` is kept so that callers can tell "not there" from "cannot tell".
#[derive(Debug, Clone)]
pub struct Error {
    message: String,
    kind: Option<io::ErrorKind>,
    is_permanent: bool,
    is_system_failure: bool,
}

/// What a machine answers that cannot do now what was asked: a disk that is full, broken or read-only, a right that is
/// missing, no descriptor or memory left. Another boot may find it repaired.
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
    /// An error of our own judgement: the message is all there is.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: None, is_permanent: false, is_system_failure: false }
    }

    /// An error of our own judgement that callers tell from others by its kind.
    pub fn with_kind(kind: io::ErrorKind, message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: Some(kind), is_permanent: false, is_system_failure: false }
    }

    /// An error because the thing has more bytes than the limit; `size` is `None` if it is not known.
    pub fn too_large(what: impl fmt::Display, size: Option<u64>, limit: u64) -> Error {
        let message = match size {
            Some(size) => format!("{what}: larger than {limit} bytes ({size} bytes)"),
            None => format!("{what}: larger than {limit} bytes"),
        };
        Error::with_kind(io::ErrorKind::FileTooLarge, message).into_permanent()
    }

    /// An error of the operating system: `context` says what we were doing, to which thing.
    pub fn io(context: impl fmt::Display, cause: &io::Error) -> Error {
        Error {
            message: format!("{context}: {}", reason(cause)),
            kind: Some(cause.kind()),
            is_permanent: false,
            is_system_failure: cause.raw_os_error().is_some_and(|code| SYSTEM_FAILURES.contains(&code)),
        }
    }

    /// The same error with what we were doing before it.
    pub fn context(self, what: impl fmt::Display) -> Error {
        Error { message: format!("{what}: {}", self.message), ..self }
    }

    /// The same error, of something that another try would not change.
    pub fn into_permanent(self) -> Error {
        Error { is_permanent: true, ..self }
    }

    /// Whether another try would end in the same way.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// The same error, of several things that failed: it counts as the machine's if one of theirs does.
    pub fn with_causes<'a>(self, causes: impl IntoIterator<Item = &'a Error>) -> Error {
        let is_system_failure = self.is_system_failure || causes.into_iter().any(Error::is_system_failure);
        Error { is_system_failure, ..self }
    }

    /// Whether the machine could not do it (a full disk, a read-only one), and what was asked may be right: another boot
    /// may succeed.
    pub fn is_system_failure(&self) -> bool {
        self.is_system_failure
    }

    /// Whether the thing is there, and larger than the caller takes.
    pub fn is_too_large(&self) -> bool {
        self.kind == Some(io::ErrorKind::FileTooLarge)
    }

    /// The operating system's kind of it; `None` for one of our own judgement.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.kind
    }

    /// The thing does not exist: an answer, not a failure to get one.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}

/// The cause without Rust's " (os error 2)", which helps nobody who reads a boot log.
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

/// `result.context("reading /etc/x")`, for results of system calls.
pub trait ResultExt<T> {
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
