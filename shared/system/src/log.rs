//! The log: kept in memory until a stage knows where to, then written to its sinks, line by line.
//! What is WARNING or worse is remembered too, because status.json lists it.

use std::cell::RefCell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::log_time;

/// As upstream numbers them: DEPRECATED stands between WARNING and ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Deprecated = 35,
    Error = 40,
    Critical = 50,
}

impl Level {
    /// As it stands in a line of the log.
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

    /// The level of that name, in any case; `WARN` and `FATAL` are the old spellings.
    pub fn named(name: &str) -> Option<Level> {
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

/// Where lines go.
enum Sink {
    File(File),
    Stderr,
    Socket(std::os::unix::net::UnixDatagram),
}

#[derive(Default)]
struct Inner {
    /// Before any sink is known; bounded, since a program that never opens a log must not grow.
    early: Vec<Record>,
    sinks: Vec<(Level, Sink)>,
    noticed: Vec<(Level, String)>,
    /// Where lines for standard error go too.
    copy: Option<PathBuf>,
}

/// See the module. Lines are `2024-05-01 10:20:30,123 - write_files.rs[WARNING]: text`.
#[derive(Default)]
pub struct Log(RefCell<Inner>);

const MOST_EARLY: usize = 2000;

impl Log {
    /// Writes one message to every sink of its level. Use the `debug!` … `error!` macros.
    pub fn record(&self, level: Level, file: &'static str, text: fmt::Arguments<'_>) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let source = file.rsplit('/').next().unwrap_or(file);
        let record = Record { wall, level, source, text: text.to_string() };
        let inner = &mut *self.0.borrow_mut();
        if level >= Level::Warning {
            inner.noticed.push((level, record.text.clone()));
        }
        for (least, sink) in &mut inner.sinks {
            if level >= *least {
                write(sink, &record);
                if let (Sink::Stderr, Some(path)) = (&*sink, &inner.copy) {
                    copy(path, &record);
                }
            }
        }
        if inner.sinks.is_empty() && inner.early.len() < MOST_EARLY {
            inner.early.push(record);
        }
    }

    /// Lines of `least` and worse go to this file from now on.
    pub fn to_file(&self, least: Level, file: File) {
        self.add(least, Sink::File(file));
    }

    /// Lines of `least` and worse go to standard error from now on.
    pub fn to_stderr(&self, least: Level) {
        self.add(least, Sink::Stderr);
    }

    /// Lines of `least` and worse go to the system log (`/dev/log`) from now on.
    pub fn to_syslog(&self, least: Level, socket: std::os::unix::net::UnixDatagram) {
        self.add(least, Sink::Socket(socket));
    }

    /// Lines for standard error go to the end of that file too, which is there: the output of a stage that has no `tee`
    /// running for its own lines.
    pub(crate) fn copy_stderr_to(&self, path: Option<PathBuf>) {
        self.0.borrow_mut().copy = path;
    }

    fn add(&self, least: Level, mut sink: Sink) {
        let mut inner = self.0.borrow_mut();
        for record in inner.early.iter().filter(|r| r.level >= least) {
            write(&mut sink, record);
        }
        inner.sinks.push((least, sink));
    }

    /// Forgets the sinks, for a stage whose configuration names others.
    pub fn close(&self) {
        let mut inner = self.0.borrow_mut();
        inner.sinks.clear();
    }

    /// The early lines were given to every sink that matters.
    pub fn early_done(&self) {
        self.0.borrow_mut().early = Vec::new();
    }

    /// What was logged at WARNING or worse since the start, in order.
    pub fn noticed(&self) -> Vec<(Level, String)> {
        self.0.borrow().noticed.clone()
    }
}

fn line(Record { wall, level, source, text }: &Record) -> String {
    format!("{} - {source}[{}]: {text}\n", log_time(*wall), level.name())
}

fn copy(path: &Path, record: &Record) {
    // As below: there is nowhere left to complain.
    let _ = OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line(record).as_bytes()));
}

fn write(sink: &mut Sink, record: &Record) {
    let Record { level, source, text, .. } = record;
    // A full disk must not end a boot, and there is nowhere left to complain: the results are dropped.
    let _ = match sink {
        Sink::File(file) => file.write_all(line(record).as_bytes()),
        Sink::Stderr => std::io::stderr().lock().write_all(line(record).as_bytes()),
        Sink::Socket(socket) => {
            // Facility user (1), as upstream; severities of RFC 5424.
            let severity = match level {
                Level::Debug => 7,
                Level::Info => 6,
                Level::Warning | Level::Deprecated => 4,
                Level::Error => 3,
                Level::Critical => 2,
            };
            socket
                .send(format!("<{}>[CLOUDINIT] {source}[{}]: {text}", 8 + severity, level.name()).as_bytes())
                .map(drop)
        }
    };
}

#[macro_export]
macro_rules! debug {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Debug, file!(), format_args!($($text)*)) };
}

#[macro_export]
macro_rules! info {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Info, file!(), format_args!($($text)*)) };
}

#[macro_export]
macro_rules! warning {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Warning, file!(), format_args!($($text)*)) };
}

#[macro_export]
macro_rules! deprecated {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Deprecated, file!(), format_args!($($text)*)) };
}

#[macro_export]
macro_rules! error {
    ($sys:expr, $($text:tt)*) => { $sys.log().record($crate::Level::Error, file!(), format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use crate::System;
    use scratch::Scratch;

    #[test]
    fn early_lines_reach_a_late_file() {
        let top = Scratch::new();
        let path = top.join("log");
        let sys = System::new("/nonexistent");
        crate::warning!(sys, "bad {}", 1);
        crate::debug!(sys, "small");
        sys.log().to_file(crate::Level::Info, std::fs::File::create(&path).unwrap());
        crate::info!(sys, "late");
        let text = std::fs::read_to_string(&path).unwrap();
        let ends: Vec<_> = text.lines().map(|l| l.split_once(" - ").unwrap().1).collect();
        assert_eq!(ends, ["log.rs[WARNING]: bad 1", "log.rs[INFO]: late"]);
        assert_eq!(sys.log().noticed().len(), 1);
    }
}
