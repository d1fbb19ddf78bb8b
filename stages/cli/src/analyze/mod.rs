//! `analyze`: shows the time that each part of a boot took, from the log. `show` and `blame` print it, `dump` writes JSON,
//! `boot` adds the times of the kernel and systemd, `plot` draws a picture, `metrics` prints them for Prometheus.

mod boot;
pub mod event;
mod metrics;
pub mod plot;
mod record;
pub mod time;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use system::{Command, System, WriteOptions, warning};

pub use plot::svg::escape;

use crate::arguments::{Analysis, AnalyzeFiles, DEFAULT_LOG};
use crate::exit::exit_code;
use crate::machine::{Machine, output_path};

/// The limit for the input, in bytes: as for files that `System` reads.
const MAX_INPUT: u64 = 64 << 20;
// Wait: analyze | systemctl | -
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(25);
/// Invalid lines that are reported one by one; only the number of others is.
const MAX_BAD_LINES: usize = 5;

/// Runs a subcommand. `format` is that of an event, for `show`.
pub fn run(machine: &Machine, analysis: Analysis, files: &AnalyzeFiles, format: Option<&str>) -> ExitCode {
    exit_code("", analyze(machine, analysis, files, format))
}

fn analyze(
    machine: &Machine,
    analysis: Analysis,
    files: &AnalyzeFiles,
    format: Option<&str>,
) -> Result<(), String> {
    let input = read(machine, &files.infile)?;
    let now = machine.sys.clock().wall().as_micros() as i64;
    // A dump is kept as it is, with keys that this version does not know.
    let dump = match state::parse_json("the input", input.as_bytes()) {
        Ok(Value::Array(entries)) => Some(entries),
        Err(e) if e.is_too_large() && input.trim_start().starts_with('[') => return Err(e.to_string()),
        _ => None,
    };
    let (events, bad) = match &dump {
        Some(entries) => (event::from_dump(entries), Vec::new()),
        None => event::from_log(&input, now),
    };
    for line in bad.iter().take(MAX_BAD_LINES) {
        warning!(machine.sys, "line {line}: event without a valid name, result or time");
    }
    if bad.len() > MAX_BAD_LINES {
        warning!(machine.sys, "{} more lines like this", bad.len() - MAX_BAD_LINES);
    }
    let is_picture = matches!(analysis, Analysis::Plot);
    let text = match analysis {
        Analysis::Show => record::show(&record::records(&events), format.unwrap_or(record::DEFAULT_FORMAT)),
        Analysis::Blame => record::blame(&record::records(&events)),
        Analysis::Dump => state::json_text(&dump.map_or_else(|| event::to_dump(&events), Value::from), 1),
        Analysis::Boot => boot::report(&machine.sys, &events, now)
            .map_err(|e| format!("Cannot determine the times of this boot: {e}"))?,
        Analysis::Metrics => metrics::text(&events, &input, now)
            .ok_or_else(|| format!("{}: no start of a stage or step", files.infile))?,
        Analysis::Plot => {
            let log = dump.is_none().then_some(input.as_str());
            // Another log may be of another machine.
            let machine = (files.infile == DEFAULT_LOG).then_some(&machine.sys);
            plot::draw(&plot::Input { events: &events, log, name: &files.infile, machine, now })
                .ok_or_else(|| format!("{}: no start of a stage or step", files.infile))?
        }
    };
    let text = if is_picture { text.into() } else { system::printable(&text) };
    write(&files.outfile, &text)
}

/// Returns the picture of the last boot in the machine's log, `None` if there is none.
pub fn picture(machine: &Machine) -> Option<String> {
    let path = machine.log_files().into_iter().next()?;
    let log = read(machine, &path).ok()?;
    let now = machine.sys.clock().wall().as_micros() as i64;
    let (events, _) = event::from_log(&log, now);
    let live = Some(&machine.sys).filter(|sys| sys.is_live());
    plot::draw(&plot::Input { events: &events, log: Some(&log), name: &path, machine: live, now })
}

/// Returns properties of systemd or of these units, with times in UTC and microseconds.
fn systemctl_show(sys: &System, properties: &[&str], units: &[&str]) -> system::Result<String> {
    let properties = format!("--property={}", properties.join(","));
    let words =
        ["systemctl", "show", "--timestamp=us+utc", &properties].into_iter().chain(units.iter().copied());
    Ok(sys.run(&Command::new(words).timeout(SYSTEMCTL_TIMEOUT).read_only())?.text())
}

/// Reads the whole input as text; `-` is standard input. Fails with a message.
fn read(machine: &Machine, name: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let shown = match name {
        "-" => {
            let stdin = std::io::stdin();
            if stdin.is_terminal() {
                eprintln!("reading a log from standard input");
            }
            let read = stdin.lock().take(MAX_INPUT).read_to_end(&mut bytes);
            read.map_err(|e| format!("Cannot read standard input: {e}"))?;
            "<stdin>"
        }
        name => {
            let (file_sys, file_path) = machine.resolve(name);
            let read = file_sys.read_at_most(file_path, MAX_INPUT);
            bytes = read.map_err(|e| format!("Cannot open file {name}: {e}"))?;
            name
        }
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
    };
    if text.trim().is_empty() { Err(format!("Empty file {shown}")) } else { Ok(text) }
}

fn write(name: &str, text: &str) -> Result<(), String> {
    if name == "-" {
        // A closed pipe (`| head`) is not a failure.
        return match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("Cannot write: {e}")),
            _ => Ok(()),
        };
    }
    // A file of this machine, whatever the root.
    let path = output_path(name);
    let sys = System::new("/");
    if !sys.is_dir(std::path::Path::new(&path).parent().unwrap_or("/".as_ref())) {
        return Err(format!("Cannot open file {name}: the directory does not exist"));
    }
    sys.write(&path, text, WriteOptions::default())
        .map(drop)
        .map_err(|e| format!("Cannot open file {name}: {e}"))
}
