//! The line that `status --wait` keeps up to date on a terminal, instead of upstream's dots.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use super::report::Report;

/// The width of the line: a longer one would wrap on a terminal of 80 columns, and could not be overwritten.
const WIDTH: usize = 79;

/// The line. It is erased when the value is dropped.
pub struct LiveLine {
    began: Instant,
    shown: String,
}

impl LiveLine {
    /// Returns a line if `is_wanted` and standard output is a terminal that can erase a line.
    pub fn on_terminal(is_wanted: bool) -> Option<LiveLine> {
        let can_erase = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        (is_wanted && can_erase && std::io::stdout().is_terminal())
            .then(|| LiveLine { began: Instant::now(), shown: String::new() })
    }

    pub fn show(&mut self, report: &Report) {
        let new = line(report, self.began.elapsed().as_secs());
        if new != self.shown {
            put(&format!("\r\x1b[K{new}"));
            self.shown = new;
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            put("\r\x1b[K");
        }
    }
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that was closed ends the command by a signal.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the line after a wait of so many seconds.
fn line(report: &Report, seconds: u64) -> String {
    let mut text = format!("{} ({seconds} s)", report.extended_status());
    if let Some(stage) = report.stages.get("stage").and_then(|stage| stage.as_str()) {
        text += &format!(": {stage}");
    }
    for (what, seconds) in &report.activities {
        text += &format!(": {what} {} s", seconds.floor());
    }
    let text = system::single_line(&text);
    match text.chars().count() > WIDTH {
        true => text.chars().take(WIDTH - 1).chain(['…']).collect(),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::report::tests::report;

    #[test]
    fn line_shows_the_activities_and_fits_the_terminal() {
        let text = r#"{"v1": {"stage": "modules-final", "modules-final": {"start": 1}}}"#;
        let mut running = report(text);
        running.activities = vec![("running runcmd".into(), 12.7), ("waiting for a lock".into(), 3.0)];
        assert_eq!(
            line(&running, 75),
            "running (75 s): modules-final: running runcmd 12 s: waiting for a lock 3 s"
        );
        running.activities[0].0 = "x".repeat(100);
        assert_eq!(line(&running, 75).chars().count(), 79);
    }
}
