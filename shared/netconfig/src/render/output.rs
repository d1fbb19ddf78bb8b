//! The result of a renderer: files, and findings about the configuration.

use config::{Findings, Position};

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The absolute path on the target.
    pub path: String,
    /// The mode of a new file; `keep_stricter_mode` and `keep_mode` concern existing ones.
    pub mode: u32,
    /// Whether an existing file keeps its mode if that grants less than `mode`.
    pub keep_stricter_mode: bool,
    /// Whether an existing file keeps its mode.
    pub keep_mode: bool,
    /// The user and group to own the file, if a user of this name exists.
    pub owner: Option<&'static str>,
    /// The network works without this file (udev rules, resolv.conf): failing to write it is a warning, and the
    /// other files stay.
    pub optional: bool,
    /// The whole content.
    pub content: String,
}

impl File {
    /// Returns a required, world-readable file (mode 0644).
    pub fn new(path: &str, content: String) -> File {
        File {
            path: path.into(),
            mode: 0o644,
            keep_stricter_mode: false,
            keep_mode: false,
            owner: None,
            optional: false,
            content,
        }
    }
}

/// The result of rendering.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The files, in the order in which they are written.
    pub files: Vec<File>,
    /// Invalid or unknown parts of the configuration, and keys that the renderer's format cannot express and that change what
    /// is reachable, with their positions.
    pub findings: Findings,
    /// Other keys that the renderer's format cannot express, with their positions.
    pub unsupported: Findings,
}

impl Rendered {
    /// Returns a result without findings.
    pub(super) fn new(files: Vec<File>) -> Rendered {
        Rendered { files, ..Rendered::default() }
    }

    /// Reports something that is not written although the format could express it.
    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.findings.invalid(&Position::default(), "network", message);
    }
}

/// The result of a render function. The error says why no file may be written.
pub type RenderResult = Result<Rendered, String>;
