//! The rows of the picture: stages, their steps, and the details of a step, each with its time and its place in the log.

use super::super::event::Event;
use super::super::record::{Record, Step};
use super::super::time::SECOND;
use super::Kind;
use super::details::Detail;
use super::units::UnitTimes;

/// One bar. Times are microseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub kind: Kind,
    pub depth: usize,
    pub begin: i64,
    /// `None` if the log has no end.
    pub end: Option<i64>,
    pub label: String,
    /// The text shown under the pointer, without times and place.
    pub description: String,
    pub is_failure: bool,
    /// The first and the last line of the log; `None` for what is not from a log.
    pub lines: Option<(usize, usize)>,
}

impl Row {
    /// Returns a row that is not from a log.
    fn new(kind: Kind, begin: i64, end: Option<i64>, label: &str, description: String) -> Row {
        let (label, lines) = (label.to_string(), None);
        Row { kind, depth: 0, begin, end, label, description, is_failure: false, lines }
    }

    fn is_detail(&self) -> bool {
        matches!(self.kind, Kind::Command | Kind::Request | Kind::Wait)
    }

    /// Returns the duration, zero if the clock was set back.
    pub fn duration(&self) -> Option<i64> {
        Some((self.end? - self.begin).max(0))
    }
}

/// The maximum number of rows; the shortest ones are left out.
pub const MAX_ROWS: usize = 800;
/// A longer gap between two stages means that the clock was set.
const MAX_GAP: i64 = 3600 * SECOND;
/// Shorter times between two stages are not shown.
const MIN_GAP: i64 = 10_000;
/// Units of other programs that are shown for one wait.
const MAX_UNITS: usize = 5;

/// Returns the rows of a boot in order, and the number of rows left out. `units` are the times of systemd, empty if unknown.
pub fn rows(record: &Record<'_>, details: &[Detail], units: &UnitTimes) -> (Vec<Row>, usize) {
    let mut rows = of_events(record);
    let range = rows.iter().filter_map(|row| row.lines);
    let (first, last) = range.fold((usize::MAX, 0), |(a, b), (from, to)| (a.min(from), b.max(to)));
    let inside = details.iter().filter(|detail| (first..=last).contains(&detail.lines.0));
    rows.extend(inside.map(of_detail));
    // The longer one first, if two begin in the same line.
    sort::sort_by_key(&mut rows, |row| row.lines.map(|(from, to)| (from, std::cmp::Reverse(to))));
    set_depths(&mut rows);
    skip_clock_steps(&mut rows);
    let mut rows = fold_short(rows);
    let left_out = drop_short(&mut rows);
    (with_gaps(rows, units), left_out)
}

/// Makes one row of neighbours that are shorter than a thousandth of the boot.
fn fold_short(rows: Vec<Row>) -> Vec<Row> {
    let begin = rows.iter().map(|row| row.begin).min().unwrap_or_default();
    let total = rows.iter().filter_map(|row| row.end).max().unwrap_or(begin) - begin;
    let is_short = |row: &Row| {
        row.kind != Kind::Stage && !row.is_failure && row.duration().is_some_and(|took| took * 1000 < total)
    };
    let mut all: Vec<Row> = Vec::with_capacity(rows.len());
    let mut rest = rows.into_iter().peekable();
    while let Some(row) = rest.next() {
        let mut folded = Vec::new();
        while let Some(next) =
            rest.next_if(|next| is_short(&row) && is_short(next) && next.depth >= row.depth)
        {
            folded.push(next);
        }
        let Some(last) = folded.last() else {
            all.push(row);
            continue;
        };
        let (end, to) = (last.end, last.lines.map_or(usize::MAX, |lines| lines.1));
        let names: Vec<&str> = [&row].into_iter().chain(&folded).map(|row| row.label.as_str()).collect();
        let label = format!("{} rows below 0.1 %", names.len());
        let description = format!("{label}: {}", names.join(", "));
        let lines = row.lines.map(|(from, _)| (from, to));
        all.push(Row { kind: Kind::Step, end, label, description, lines, ..row });
    }
    all
}

fn of_events(record: &Record<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for step in &record.steps {
        match step {
            Step::Begin(start) => rows.push(of_step(start, None)),
            Step::Part(start, finish) => rows.push(of_step(start, Some(finish))),
            Step::End(start, finish) => {
                // They are in the order of their lines.
                let at = rows.partition_point(|row| row.lines.is_some_and(|lines| lines.0 < start.line));
                if let Some(row) = rows.get_mut(at) {
                    *row = of_step(start, Some(finish));
                }
            }
        }
    }
    rows
}

fn of_step(start: &Event, finish: Option<&Event>) -> Row {
    let (kind, label) = label(&start.name);
    let (text, result) = match finish {
        Some(finish) => (&finish.description, finish.result.as_str()),
        None => (&start.description, "did not end"),
    };
    let description = format!("{}: {text}\n{result}", start.name);
    let lines = Some((start.line, finish.map_or(usize::MAX, |finish| finish.line)));
    let row = Row::new(kind, start.at, finish.map(|finish| finish.at), &label, description);
    Row { is_failure: result == "FAIL", lines, ..row }
}

/// Returns the kind and the label for the name of an event.
fn label(name: &str) -> (Kind, String) {
    let Some((_, part)) = name.rsplit_once('/') else {
        let stage = match name {
            "init-local" => "local stage",
            "init-network" => "network stage",
            "modules-config" => "config stage",
            "modules-final" => "final stage",
            other => other,
        };
        return (Kind::Stage, stage.into());
    };
    if let Some(datasource) = part.strip_prefix("search-") {
        return (Kind::Search, format!("search {datasource}"));
    }
    let text = match (part.strip_prefix("config-"), part.strip_prefix("consume-")) {
        (Some(module), _) => module.to_string(),
        (_, Some(data)) => format!("consume {data}"),
        _ => part.to_string(),
    };
    (Kind::Step, text)
}

fn of_detail(detail: &Detail) -> Row {
    let label = match detail.kind {
        Kind::Command => words(&detail.text),
        Kind::Wait => format!("wait for {}", detail.text),
        _ => detail.text.clone(),
    };
    let description = format!("{label}\n{}", detail.result).trim_end_matches('\n').to_string();
    let row = Row::new(detail.kind, detail.begin, Some(detail.end), &label, description);
    Row { is_failure: detail.is_failure, lines: Some(detail.lines), ..row }
}

/// Returns the words of an argument vector as it is logged, `['a', 'b c']`.
fn words(vector: &str) -> String {
    match vector.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(words) => {
            let words = words.strip_prefix('\'').unwrap_or(words);
            let words = words.strip_suffix('\'').unwrap_or(words).split("', '");
            words.map(|word| if word.is_empty() { "''" } else { word }).collect::<Vec<_>>().join(" ")
        }
        None => vector.to_string(),
    }
}

/// Sets how deep each row is: a row is inside of the steps before it whose last line is not before its first one. Commands may
/// run beside later steps and have no parts.
fn set_depths(rows: &mut [Row]) {
    let mut ends: Vec<usize> = Vec::new();
    for row in rows {
        let Some((from, to)) = row.lines else { continue };
        // A stage is not a part of another one, even if that has no end.
        let is_outer = |end: &usize| *end > from && row.kind != Kind::Stage;
        while ends.last().is_some_and(|end| !is_outer(end)) {
            ends.pop();
        }
        row.depth = ends.len();
        if !row.is_detail() {
            ends.push(to);
        }
    }
}

/// Removes the shortest details beyond the limit, then the shortest rows.
fn drop_short(rows: &mut Vec<Row>) -> usize {
    let too_many = rows.len().saturating_sub(MAX_ROWS);
    if too_many == 0 {
        return 0;
    }
    let rank = |row: &Row| (row.kind == Kind::Stage, !row.is_detail(), row.duration().unwrap_or(i64::MAX));
    let mut order: Vec<usize> = (0..rows.len()).collect();
    sort::sort_by_key(&mut order, |i| rank(&rows[*i]));
    let dropped: std::collections::HashSet<usize> = order.into_iter().take(too_many).collect();
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        !dropped.contains(&(index - 1))
    });
    too_many
}

/// Moves the stages after a time that no boot takes, or that is negative, to the end of the stage before: the clock was set.
fn skip_clock_steps(rows: &mut [Row]) {
    let (mut latest, mut moved) = (None::<i64>, 0);
    for row in rows.iter_mut() {
        if row.kind == Kind::Stage
            && let Some(latest) = latest
        {
            let gap = row.begin - moved - latest;
            if !(-SECOND..MAX_GAP).contains(&gap) {
                moved += gap;
                row.description += "\nthe clock was set before this stage";
            }
        }
        row.begin -= moved;
        row.end = row.end.map(|end| end - moved);
        latest = latest.max(Some(row.end.unwrap_or(row.begin).max(row.begin)));
    }
}

/// Adds the time before the first stage and between two stages, with the units that systemd started meanwhile.
fn with_gaps(rows: Vec<Row>, units: &UnitTimes) -> Vec<Row> {
    let mut all = Vec::with_capacity(rows.len() + 8);
    let mut latest = None::<i64>;
    for row in rows {
        if row.kind == Kind::Stage {
            let from = latest.or_else(|| units.spans.iter().map(|span| span.1).min());
            if let Some(from) = from.filter(|from| row.begin - from >= MIN_GAP) {
                add_gap(&mut all, from, row.begin, latest.is_none(), units);
            }
        }
        latest = latest.max(Some(row.end.unwrap_or(row.begin).max(row.begin)));
        all.push(row);
    }
    all
}

fn add_gap(all: &mut Vec<Row>, from: i64, to: i64, is_first: bool, units: &UnitTimes) {
    if is_first {
        for (name, begin, end) in &units.spans {
            all.push(Row::new(Kind::System, *begin, Some(*end), name, format!("{name} (from systemd)")));
        }
    } else {
        let text = "between two stages: systemd starts other units".to_string();
        all.push(Row::new(Kind::Wait, from, Some(to), "wait for systemd", text));
    }
    let shared = |begin: i64, end: i64| end.min(to) - begin.max(from);
    let mut found: Vec<_> = units.units.iter().filter(|u| shared(u.1, u.2) >= MIN_GAP).collect();
    sort::sort_by_key(&mut found, |u| (-shared(u.1, u.2), u.0.as_str()));
    found.truncate(MAX_UNITS);
    sort::sort_by_key(&mut found, |u| (u.1, u.0.as_str()));
    for (name, begin, end) in found {
        let row = Row::new(Kind::System, *begin, Some(*end), name, format!("{name}: started by systemd"));
        all.push(Row { depth: 1, ..row });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{event, record};
    use super::super::details;
    use super::*;

    const NOW: i64 = 1_930_392_000 * SECOND;

    fn lines(log: &str) -> Vec<String> {
        let log: String = log
            .lines()
            .map(|line| {
                let (at, text) = line.split_once(' ').unwrap();
                format!("2031-03-04 {at} - x.py[DEBUG]: {text}\n")
            })
            .collect();
        let (events, _) = event::from_log(&log, NOW);
        let records = record::records(&events);
        let details = details::from_log(&log, NOW);
        let units = UnitTimes {
            spans: Vec::new(),
            units: vec![("wait-online.service".into(), 1_930_367_162 * SECOND, 1_930_367_164 * SECOND)],
        };
        let (rows, left_out) = rows(records.last().unwrap(), &details, &units);
        assert_eq!(left_out, 0);
        let show = |row: &Row| {
            let at = |t: i64| (t - 1_930_367_160 * SECOND) / 1000;
            let end = row.end.map(|end| at(end).to_string()).unwrap_or_default();
            let failed = if row.is_failure { "!" } else { "" };
            format!("{}{:?} {} {}-{end}{failed}", " ".repeat(row.depth), row.kind, row.label, at(row.begin))
        };
        rows.iter().map(show).collect()
    }

    #[test]
    fn rows_are_steps_details_and_gaps() {
        let log = "05:06:00,000 start: init-local: x\n\
            05:06:00,100 start: init-local/search-Ec2: x\n\
            05:06:00,900 http://192.0.2.1/a: 200, 5 bytes, try 1, after 0.500 s\n\
            05:06:01,000 finish: init-local/search-Ec2: FAIL: y\n\
            05:06:01,200 Running command ['ip', 'link'] with allowed return codes [0] (shell=False)\n\
            05:06:01,300 Running ['ip', 'link'] took 0.100 seconds, exit code 0\n\
            05:06:01,300 Running command ['a', '', 'b'] with allowed return codes [0] (shell=False)\n\
            05:06:01,400 start: init-local/search-None: x\n\
            05:06:01,401 finish: init-local/search-None: SUCCESS: y\n\
            05:06:01,402 start: init-local/check: x\n\
            05:06:01,403 finish: init-local/check: SUCCESS: y\n\
            05:06:01,450 Running ['a', '', 'b'] took 0.150 seconds, exit code 0\n\
            05:06:01,500 finish: init-local: SUCCESS: y\n\
            05:06:04,000 start: modules-final: x\n\
            05:06:04,000 start: modules-final/config-runcmd: x\n\
            05:06:05,000 start: modules-final/config-late: x\n";
        assert_eq!(
            lines(log),
            [
                "Stage local stage 0-1500",
                " Search search Ec2 100-1000!",
                "  Request http://192.0.2.1/a 400-900",
                " Command ip link 1200-1300",
                " Command a '' b 1300-1450",
                " Step 2 rows below 0.1 % 1400-1403",
                "Wait wait for systemd 1500-4000",
                " System wait-online.service 2000-4000",
                "Stage final stage 4000-",
                " Step runcmd 4000-",
                "  Step late 5000-",
            ]
        );
    }

    #[test]
    fn a_clock_that_is_set_between_two_stages_is_no_wait() {
        let log = "05:06:00,000 start: init-local: x\n\
            05:06:01,000 finish: init-local: SUCCESS: y\n\
            12:06:01,000 start: init-network: x\n\
            12:06:03,000 finish: init-network: SUCCESS: y\n\
            05:06:02,000 start: modules-config: x\n\
            05:06:03,000 finish: modules-config: SUCCESS: y\n";
        assert_eq!(
            lines(log),
            ["Stage local stage 0-1000", "Stage network stage 1000-3000", "Stage config stage 3000-4000"]
        );
    }
}
