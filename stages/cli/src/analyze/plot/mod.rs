//! `analyze plot`: a picture of the last boot in a log, with the same times as `show` and `blame`.

pub mod details;
mod rows;
pub mod svg;
mod units;

use system::System;

use super::event::Event;
use super::record;

/// What a row or a detail shows, by which it has its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kernel, systemd and its units.
    System,
    Stage,
    Search,
    Step,
    Command,
    Request,
    Wait,
}

/// The input of a picture.
pub struct Input<'a> {
    pub events: &'a [Event],
    /// The text of the log; `None` for a dump, which has events only.
    pub log: Option<&'a str>,
    /// The name of the log, for positions.
    pub name: &'a str,
    /// The machine, if it is to be asked for the times of systemd.
    pub machine: Option<&'a System>,
    pub now: i64,
}

/// Returns the requests of a log in order: URL, milliseconds and outcome.
pub fn requests(log: &str, now: i64) -> Vec<(String, i64, String)> {
    let all = details::from_log(log, now).into_iter().filter(|detail| detail.kind == Kind::Request);
    all.map(|detail| (detail.text, (detail.end - detail.begin) / 1000, detail.result)).collect()
}

/// Returns the picture as SVG, `None` if there is no event.
pub fn draw(input: &Input<'_>) -> Option<String> {
    let records = record::records(input.events);
    let last = records.last().filter(|record| !record.steps.is_empty())?;
    let details = input.log.map(|log| details::from_log(log, input.now)).unwrap_or_default();
    let units = input.machine.map(|sys| units::read(sys, last.begin, input.now)).unwrap_or_default();
    let (rows, left_out) = rows::rows(last, &details, &units);
    let which = match records.len() {
        1 => String::new(),
        n => format!("boot {n} of {n} in the log"),
    };
    let head = svg::Head {
        begin: last.begin,
        total: last.total,
        which,
        log: input.name.to_string(),
        has_lines: input.log.is_some(),
        left_out,
    };
    Some(svg::draw(&rows, &head))
}
