//! ds-identify.log: plain lines, as bug reports and tests of images expect them. Lines are buffered and written together;
//! warnings and errors are also written to standard error.

use std::cell::{Cell, RefCell};
use std::io::Write as _;

use system::WriteOptions;

use crate::paths::{Env, RootedPath, Roots};
use system::{printable, redacted_urls};

/// The destination of the lines.
#[derive(Default)]
enum Sink {
    #[default]
    Discard,
    Stderr,
    File(RootedPath),
}

/// The log of one run.
#[derive(Default)]
pub struct Log {
    sink: Sink,
    /// Lines above this level are discarded; upstream's DEBUG_LEVEL.
    level: u32,
    lines: RefCell<String>,
    to_stderr: Cell<bool>,
    /// All warnings and errors.
    warnings: RefCell<Vec<String>>,
}

impl Log {
    /// Opens the log that the variable `DI_LOG` names, else the one in the directory `run`.
    pub fn new(env: &Env, run: &RootedPath) -> Log {
        let sink = match env.get("DI_LOG").map(String::as_str) {
            Some("stderr") => Sink::Stderr,
            Some(path) if !path.is_empty() => Sink::File(RootedPath::on_host(path)),
            _ => Sink::File(run.join("ds-identify.log")),
        };
        let level = env.get("DEBUG_LEVEL").and_then(|l| l.parse().ok()).unwrap_or(1);
        Log { sink, level, ..Log::default() }
    }

    /// Returns a log that only collects warnings, for `--explain`, which writes nothing.
    pub fn silent() -> Log {
        Log::default()
    }

    /// Returns the warnings and errors so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Logs a line at a level: 0 always, 1 by default, 2 for debugging.
    pub fn line(&self, level: u32, text: impl AsRef<str>) {
        if level <= self.level {
            let mut lines = self.lines.borrow_mut();
            lines.push_str(&printable(&redacted_urls(text.as_ref())));
            lines.push('\n');
        }
    }

    /// Logs a warning.
    pub fn warning(&self, text: impl AsRef<str>) {
        self.problem("WARN", text.as_ref());
    }

    /// Logs an error.
    pub fn error(&self, text: impl AsRef<str>) {
        self.problem("ERROR", text.as_ref());
    }

    fn problem(&self, kind: &str, text: &str) {
        let line = printable(&format!("{kind}: {text}")).into_owned();
        if matches!(self.sink, Sink::File(_)) && !self.to_stderr.get() {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        self.warnings.borrow_mut().push(line.clone());
        self.line(0, line);
    }

    /// Logs each file that could not be read, once.
    pub fn report_read_errors(&self, roots: &Roots) {
        let mut problems = roots.read_errors.take();
        problems.dedup();
        problems.iter().for_each(|problem| self.error(problem));
    }

    /// Writes the buffered lines. Called before anything that may take long, and at the end.
    pub fn flush(&self, roots: &Roots) {
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        if lines.is_empty() || matches!(self.sink, Sink::Discard) {
            return;
        }
        if let (Sink::File(path), false) = (&self.sink, self.to_stderr.get()) {
            match roots.of(path).append(path, &lines, WriteOptions::default().in_place()) {
                Ok(()) => return,
                // From now on standard error is the log; the manager records it.
                Err(e) => {
                    self.to_stderr.set(true);
                    let _ = writeln!(std::io::stderr(), "ERROR: {e}");
                }
            }
        }
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }
}
