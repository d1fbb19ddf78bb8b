//! The log. Lines are kept in memory until a stage has read its configuration, then written to its sinks. Lines of WARNING and
//! above are also kept for status.json.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::log_time;
use crate::syslog::Syslog;

/// The level of a log line, with upstream's numbers: DEPRECATED is between WARNING and ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For debugging.
    Debug = 10,
    /// Normal progress.
    Info = 20,
    /// A problem; the work continues. The status becomes "degraded".
    Warning = 30,
    /// The use of a deprecated key or option.
    Deprecated = 35,
    /// A failure of a part of the work.
    Error = 40,
    /// A failure that stops the stage.
    Critical = 50,
}

impl Level {
    /// Returns the name in log lines.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Deprecated => "DEPRECATED",
            Level::Error => "ERROR",
            Level::Critical => "CRITICAL",
        }
    }

    /// Returns the level of that name, in any case. `WARN` and `FATAL` are old spellings.
    pub fn from_name(name: &str) -> Option<Level> {
        Some(match name.to_ascii_uppercase().as_str() {
            "DEBUG" | "NOTSET" => Level::Debug,
            "INFO" => Level::Info,
            "WARNING" | "WARN" => Level::Warning,
            "DEPRECATED" => Level::Deprecated,
            "ERROR" => Level::Error,
            "CRITICAL" | "FATAL" => Level::Critical,
            _ => return None,
        })
    }
}

struct Record {
    wall: Duration,
    level: Level,
    source: &'static str,
    text: String,
}

/// A destination of log lines.
enum Sink {
    File(File),
    /// Standard error or, with a file, standard output and that file, as with tee(1) of both streams.
    Stderr(Option<File>),
    Syslog(Syslog),
}

#[derive(Default)]
struct Inner {
    /// The lines before the first sink, at most [`MAX_EARLY`].
    early: Vec<Record>,
    sinks: Vec<(Level, Sink)>,
    logged_warnings: Vec<(Level, String)>,
    /// The time and the line of each request that has ended, if they are kept.
    requests: Option<Vec<(Duration, String)>>,
}

/// The log of a stage. Lines have the form `2024-05-01 10:20:30,123 - write_files.rs[WARNING]: text`.
/// Copies write to the same sinks.
#[derive(Default, Clone)]
pub struct Log(Arc<Mutex<Inner>>);

const MAX_EARLY: usize = 2000;

impl Log {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a message to every sink of its level, as a single line (see [`crate::single_line`]). Use the macros `debug!` to `error!`.
    pub fn record(&self, level: Level, file: &'static str, text: fmt::Arguments<'_>) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let source = file.rsplit('/').next().unwrap_or(file);
        let text = crate::single_line(&text.to_string()).into_owned();
        let record = Record { wall, level, source, text };
        let mut inner = self.inner();
        if level >= Level::Warning {
            inner.logged_warnings.push((level, record.text.clone()));
        }
        if let Some(kept) = &mut inner.requests
            && kept.len() < MAX_EARLY
            && record.text.contains("http")
            && record.text.contains(" after ")
        {
            kept.push((wall, record.text.clone()));
        }
        for (min_level, sink) in &mut inner.sinks {
            if level >= *min_level {
                write(sink, &record);
            }
        }
        if inner.sinks.is_empty() && inner.early.len() < MAX_EARLY {
            inner.early.push(record);
        }
    }

    /// Adds a file as a sink for lines of `min_level` and above, including the earlier ones.
    pub fn to_file(&self, min_level: Level, file: File) {
        self.add(min_level, Sink::File(file));
    }

    /// Adds standard error as a sink for lines of `min_level` and above, including the earlier ones.
    pub fn to_stderr(&self, min_level: Level) {
        self.add(min_level, Sink::Stderr(None));
    }

    /// Sends the lines for standard error to standard output and this file, or to standard error again.
    pub(crate) fn tee_stderr(&self, file: Option<File>) {
        let mut inner = self.inner();
        for (_, sink) in &mut inner.sinks {
            if let Sink::Stderr(tee) = sink {
                *tee = file.as_ref().and_then(|file| file.try_clone().ok());
            }
        }
    }

    /// Adds the system log (`/dev/log`) as a sink for lines of `min_level` and above, including the earlier ones.
    pub(crate) fn to_syslog(&self, min_level: Level, syslog: Syslog) {
        self.add(min_level, Sink::Syslog(syslog));
    }

    fn add(&self, min_level: Level, mut sink: Sink) {
        let mut inner = self.inner();
        for record in inner.early.iter().filter(|r| r.level >= min_level) {
            write(&mut sink, record);
        }
        inner.sinks.push((min_level, sink));
    }

    /// Removes all sinks, for a stage whose configuration names others.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.sinks.clear();
    }

    /// Drops the early lines, once all sinks have been added.
    pub fn discard_early(&self) {
        self.inner().early = Vec::new();
    }

    /// Keeps the lines about requests from now on, for [`Log::take_requests`].
    pub fn keep_requests(&self) {
        self.inner().requests.get_or_insert_default();
    }

    /// Returns the lines that may be about requests since the last call, each with its time since the epoch.
    pub fn take_requests(&self) -> Vec<(Duration, String)> {
        self.inner().requests.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the messages of WARNING and above since the start, in order.
    pub fn logged_warnings(&self) -> Vec<(Level, String)> {
        self.inner().logged_warnings.clone()
    }
}

fn write(sink: &mut Sink, record: &Record) {
    let Record { wall, level, source, text } = record;
    // A full disk must not stop a boot, and there is no place left to report it: the results are ignored.
    let _ = match sink {
        Sink::File(file) => {
            file.write_all(format!("{} - {source}[{}]: {text}\n", log_time(*wall), level.name()).as_bytes())
        }
        Sink::Stderr(tee) => {
            let line = format!("{} - {source}[{}]: {text}\n", log_time(*wall), level.name());
            match tee {
                Some(file) => {
                    let shown = std::io::stdout().lock().write_all(line.as_bytes());
                    shown.and(file.write_all(line.as_bytes()))
                }
                None => std::io::stderr().lock().write_all(line.as_bytes()),
            }
        }
        Sink::Syslog(syslog) => {
            // Facility user (1), as upstream; severities of RFC 5424.
            let severity = match level {
                Level::Debug => 7,
                Level::Info => 6,
                Level::Warning | Level::Deprecated => 4,
                Level::Error => 3,
                Level::Critical => 2,
            };
            syslog
                .send(format!("<{}>[CLOUDINIT] {source}[{}]: {text}", 8 + severity, level.name()).as_bytes())
        }
    };
}

/// Logs a message at level DEBUG, with the source file's name: `debug!(sys, "format", …)`.
#[macro_export]
macro_rules! debug {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Debug, file!(), format_args!($($text)*)) };
}

/// Logs a message at level INFO, with the source file's name: `info!(sys, "format", …)`.
#[macro_export]
macro_rules! info {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Info, file!(), format_args!($($text)*)) };
}

/// Logs a message at level WARNING, with the source file's name: `warning!(sys, "format", …)`.
#[macro_export]
macro_rules! warning {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Warning, file!(), format_args!($($text)*)) };
}

/// Logs a message at level DEPRECATED, with the source file's name: `deprecated!(sys, "format", …)`.
#[macro_export]
macro_rules! deprecated {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Deprecated, file!(), format_args!($($text)*)) };
}

/// Logs a message at level ERROR, with the source file's name: `error!(sys, "format", …)`.
#[macro_export]
macro_rules! error {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Error, file!(), format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use crate::System;
    use scratch::TempDir;

    #[test]
    fn value_does_not_become_an_entry() {
        let top = TempDir::new();
        top.put("/dev/null", "");
        let daemon = std::os::unix::net::UnixDatagram::bind(top.join("dev/log")).unwrap();
        let sys = System::new(&top);
        let path = top.join("log");
        crate::warning!(sys, "early {}", "x\n- y.rs[ERROR]: z");
        sys.log().to_file(crate::Level::Debug, std::fs::File::create(&path).unwrap());
        sys.log_to_syslog(crate::Level::Debug).unwrap();
        crate::warning!(sys, "late {}", "x\r\n- y.rs[ERROR]: z");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("early x\\n- y.rs") && text.contains("late x\\r\\n- y.rs"), "{text}");
        let mut message = [0; 200];
        for _ in 0..2 {
            let length = daemon.recv(&mut message).unwrap();
            assert!(!message[..length].contains(&b'\n'));
        }
        assert!(sys.log().logged_warnings().iter().all(|(_, text)| !text.contains('\n')));
    }

    #[test]
    fn early_lines_are_written_to_a_file_opened_later() {
        let top = TempDir::new();
        let path = top.join("log");
        let sys = System::new("/nonexistent");
        crate::warning!(sys, "bad {}", 1);
        crate::debug!(sys, "small");
        sys.log().to_file(crate::Level::Info, std::fs::File::create(&path).unwrap());
        crate::info!(sys, "late");
        let text = std::fs::read_to_string(&path).unwrap();
        let ends: Vec<_> = text.lines().map(|l| l.split_once(" - ").unwrap().1).collect();
        assert_eq!(ends, ["log.rs[WARNING]: bad 1", "log.rs[INFO]: late"]);
        assert_eq!(sys.log().logged_warnings().len(), 1);
    }
}
