//! The commands, requests and waits in a log of this program or of Python's cloud-init.

use super::super::event;
use super::super::time::{self, SECOND};
use super::Kind;

/// A part of a step that only the log's text describes. Times are microseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub kind: Kind,
    pub begin: i64,
    pub end: i64,
    /// The command line, the URL, or the reason of the wait.
    pub text: String,
    /// The outcome, as the log has it; empty if it has none.
    pub result: String,
    pub is_failure: bool,
    /// The first and the last line.
    pub lines: (usize, usize),
}

/// A command or a request without an end so far.
struct Open {
    detail: Detail,
    /// `allowed return codes`.
    accepted: String,
}

/// The commands and requests that can be open at the same time; older ones have no end in the log.
const MAX_OPEN: usize = 100;
/// Each line with a detail contains at least one of these strings.
const MARKS: [&str; 6] = ["Running ", " after ", "Waited ", "open '", "Read from http", "Please wait "];

/// Returns the details of a log in the order of their first lines.
pub fn from_log(log: &str, now: i64) -> Vec<Detail> {
    let (mut all, mut open): (Vec<Detail>, Vec<Open>) = (Vec::new(), Vec::new());
    for (index, line) in log.lines().enumerate() {
        // A command that logs no end has ended before the next line.
        let has_undated = open.iter().any(|o| o.detail.end == i64::MIN);
        if !has_undated && !MARKS.iter().any(|mark| line.contains(mark)) {
            continue;
        }
        let Some((stamp, message)) = event::split(line) else { continue };
        let Some(at) = time::parse(stamp, now) else { continue };
        for earlier in open.iter_mut().filter(|o| o.detail.end == i64::MIN) {
            earlier.detail.end = at;
        }
        read_line(message, at, index + 1, &mut all, &mut open);
        while open.len() > MAX_OPEN {
            all.push(open.remove(0).detail);
        }
    }
    all.extend(open.into_iter().map(|o| Detail { end: o.detail.end.max(o.detail.begin), ..o.detail }));
    sort::sort_by_key(&mut all, |detail| detail.lines);
    all
}

fn read_line(message: &str, at: i64, line: usize, all: &mut Vec<Detail>, open: &mut Vec<Open>) {
    let detail = |kind, text: &str| {
        let (text, result, lines) = (text.to_string(), String::new(), (line, line));
        Detail { kind, begin: at, end: i64::MIN, text, result, is_failure: false, lines }
    };
    if let Some((command, accepted)) = begin_of_command(message) {
        open.push(Open { detail: detail(Kind::Command, command), accepted: accepted.into() });
    } else if let Some((command, took, code)) = end_of_command(message) {
        let found = open.iter().rposition(|o| o.detail.kind == Kind::Command && o.detail.text == command);
        let (begun, accepted) = match found.map(|at| open.remove(at)) {
            Some(Open { detail, accepted }) => (detail, accepted),
            // Upstream logs the time of other functions in the same words.
            None if code.is_none() => return,
            None => (Detail { begin: at - took, ..detail(Kind::Command, command) }, String::new()),
        };
        let code = code.unwrap_or_default();
        all.push(Detail {
            end: begun.begin.saturating_add(took),
            result: if code.is_empty() { String::new() } else { format!("exit code {code}") },
            is_failure: !is_accepted(code, &accepted),
            lines: (begun.lines.0, line),
            ..begun
        });
    } else if let Some((url, took, is_failure, result)) = finished_request(message) {
        let (begin, end, result) = (at - took, at, result.to_string());
        all.push(Detail { begin, end, is_failure, result, ..detail(Kind::Request, url) });
    } else if let Some((what, took)) = finished_wait(message) {
        all.push(Detail { begin: at - took, end: at, ..detail(Kind::Wait, what) });
    } else if let Some(url) = message.split_once("] open '").and_then(|(_, rest)| rest.split_once('\'')) {
        end_request(open, all, at, line, "", true);
        open.push(Open { detail: detail(Kind::Request, url.0), accepted: String::new() });
    } else if let Some(result) = message.strip_prefix("Read from http").and_then(|r| r.split_once(' ')) {
        end_request(open, all, at, line, result.1, false);
    } else if let Some(pause) = message.strip_prefix("Please wait ").and_then(micros_of) {
        end_request(open, all, at, line, "", true);
        all.push(Detail { end: at + pause, ..detail(Kind::Wait, "the next try") });
    }
}

/// Ends the last open request of upstream's, which has one at a time.
fn end_request(
    open: &mut Vec<Open>,
    all: &mut Vec<Detail>,
    at: i64,
    line: usize,
    result: &str,
    failed: bool,
) {
    if let Some(found) = open.iter().rposition(|o| o.detail.kind == Kind::Request) {
        let begun = open.remove(found).detail;
        let lines = (begun.lines.0, line);
        all.push(Detail { end: at, result: result.into(), is_failure: failed, lines, ..begun });
    }
}

/// `Running command ['a', 'b'] with allowed return codes [0] (…)`: the command and the codes.
fn begin_of_command(message: &str) -> Option<(&str, &str)> {
    let (command, rest) =
        message.strip_prefix("Running command ")?.split_once(" with allowed return codes ")?;
    Some((command, rest.split(" (shell=").next()?))
}

/// `Running ['a', 'b'] took 0.5 seconds, exit code 0`; upstream logs no exit code.
fn end_of_command(message: &str) -> Option<(&str, i64, Option<&str>)> {
    let (command, rest) = message.strip_prefix("Running ")?.rsplit_once(" took ")?;
    let code = rest.split_once(", exit code ").map(|(_, code)| code.trim());
    Some((command, micros_of(rest)?, code))
}

/// `URL: 200, 5 bytes, try 1, after 0.012 s`, `fetching URL: ERROR after 0.012 s; try 2 of 4 follows` or
/// `URL: ERROR after 0.012 s; 3 retries left`: the URL, the time, whether it failed, and the outcome.
fn finished_request(message: &str) -> Option<(&str, i64, bool, &str)> {
    let rest = message.strip_prefix("fetching ").unwrap_or(message);
    if !rest.starts_with("http://") && !rest.starts_with("https://") {
        return None;
    }
    let (before, after) = rest.rsplit_once(" after ")?;
    let (url, result) = before.split_once(' ')?;
    let took = micros_of(after)?;
    Some((url.trim_end_matches(':'), took, after.contains(" s; "), result.trim_end_matches(',')))
}

/// `Waited 3.200 s for WHAT`.
fn finished_wait(message: &str) -> Option<(&str, i64)> {
    let (time, what) = message.strip_prefix("Waited ")?.split_once(" s for ")?;
    Some((what, micros_of(time)?))
}

/// Returns the microseconds of the seconds at the beginning of a string, at most a year.
fn micros_of(text: &str) -> Option<i64> {
    let number = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let seconds = encoding::float::parse(number)?;
    (seconds < 31_536_000.0).then(|| (seconds * SECOND as f64).round() as i64)
}

/// Returns whether an exit code is in a list as it is logged: `[0, 2]` or `any`.
fn is_accepted(code: &str, accepted: &str) -> bool {
    let codes = accepted.trim_start_matches('[').trim_end_matches(']');
    code.is_empty() || code == "0" || accepted == "any" || codes.split(", ").any(|one| one == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(log: &str) -> Vec<String> {
        let log: String = log
            .lines()
            .map(|line| {
                let (seconds, text) = line.split_once(' ').unwrap();
                format!("2031-03-04 05:06:{seconds} - x.py[DEBUG]: {text}\n")
            })
            .collect();
        let show = |d: &Detail| {
            let at = |t: i64| (t - 1_930_367_160 * SECOND) / 1000;
            let failed = if d.is_failure { "!" } else { "" };
            format!("{:?} {}-{} {} ({}){failed}", d.kind, at(d.begin), at(d.end), d.text, d.result)
        };
        from_log(&log, 1_930_392_000 * SECOND).iter().map(show).collect()
    }

    #[test]
    fn commands_have_their_duration_and_exit_code() {
        let log = "01,000 Running command ['a', 'b'] with allowed return codes [0, 2] (shell=False, capture=True)\n\
            01,500 Running ['a', 'b'] took 0.498 seconds, exit code 2\n\
            02,000 Running command chpasswd (password) with allowed return codes [0] (shell=False, capture=True)\n\
            02,100 Running chpasswd (password) took 0.100 seconds, exit code 1\n\
            03,000 Running command ['quick'] with allowed return codes [0] (shell=False, capture=True)\n\
            03,250 anything\n\
            04,000 Running ['lost'] took 0.500 seconds, exit code 0\n\
            05,000 Running stage took 5 seconds\n\
            06,000 Running command ['last'] with allowed return codes any (shell=False, capture=True)\n";
        assert_eq!(
            shown(log),
            [
                "Command 1000-1498 ['a', 'b'] (exit code 2)",
                "Command 2000-2100 chpasswd (password) (exit code 1)!",
                "Command 3000-3250 ['quick'] ()",
                "Command 3500-4000 ['lost'] (exit code 0)",
                "Command 6000-6000 ['last'] ()",
            ]
        );
    }

    #[test]
    fn requests_and_waits_have_their_duration() {
        let log = "01,000 http://192.0.2.1/a: 200, 5 bytes, try 1, after 0.250 s\n\
            02,000 fetching http://192.0.2.1/b: timed out after 5 s after 0.500 s; try 2 of 4 follows\n\
            03,000 http://192.0.2.1/c: refused after 0.001 s; 3 retries left\n\
            04,000 http://192.0.2.1/d answered (7 bytes) after 1.000 s\n\
            05,000 Waited 0.750 s for apt's lock\n\
            06,000 [0/1] open 'http://192.0.2.1/e' with {'url': 'x'} configuration\n\
            06,100 Please wait 1 seconds while we wait to try again\n\
            07,200 [1/1] open 'http://192.0.2.1/e' with {'url': 'x'} configuration\n\
            07,300 Read from http://192.0.2.1/e (200, 5b) after 1 attempts\n\
            08,000 Waited x s for y\n\
            08,000 http://192.0.2.1/x after never\n";
        assert_eq!(
            shown(log),
            [
                "Request 750-1000 http://192.0.2.1/a (200, 5 bytes, try 1)",
                "Request 1500-2000 http://192.0.2.1/b (timed out after 5 s)!",
                "Request 2999-3000 http://192.0.2.1/c (refused)!",
                "Request 3000-4000 http://192.0.2.1/d (answered (7 bytes))",
                "Wait 4250-5000 apt's lock ()",
                "Request 6000-6100 http://192.0.2.1/e ()!",
                "Wait 6100-7100 the next try ()",
                "Request 7200-7300 http://192.0.2.1/e ((200, 5b) after 1 attempts)",
            ]
        );
    }
}
