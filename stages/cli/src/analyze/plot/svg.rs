//! Draws the rows as SVG: one file without scripts and references. Horizontal positions are percentages, so that the picture
//! uses the width of the window and the text keeps its size.

use super::super::time::{self, SECOND};
use super::Kind;
use super::rows::Row;

/// The head of the picture.
pub struct Head {
    /// The start of the boot, microseconds since the epoch.
    pub begin: i64,
    /// The sum that `analyze show` prints, in microseconds.
    pub total: i64,
    /// `boot 2 of 3`, or empty for the only one.
    pub which: String,
    /// The name of the log, for positions.
    pub log: String,
    /// Whether places are lines of a log, and not entries of a dump.
    pub has_lines: bool,
    /// The number of rows that are not drawn.
    pub left_out: usize,
}

/// The height of a row.
const ROW: usize = 20;
/// The height above the first row: title, legend, axis.
const TOP: usize = 92;
/// The start and the length of the time axis, in percent of the width. Durations are in a column at the right.
const AXIS: (f64, f64) = (31.0, 59.0);
/// The maximum number of characters of a label, and of a string under the pointer.
const MAX_LABEL: usize = 40;
const MAX_TITLE: usize = 400;
/// The maximum number of ticks of the axis.
const MAX_TICKS: i64 = 11;

/// The kinds in the legend, with their class and text.
const LEGEND: [(Kind, &str, &str); 7] = [
    (Kind::Stage, "stage", "stage"),
    (Kind::Search, "search", "search for the datasource"),
    (Kind::Step, "step", "step or module"),
    (Kind::Command, "command", "command"),
    (Kind::Request, "request", "request"),
    (Kind::Wait, "wait", "wait"),
    (Kind::System, "system", "kernel and systemd"),
];

const STYLE: &str = "\
:root{--bg:#fff;--fg:#1f2328;--dim:#656d76;--grid:#d8dee4;--band:#f3f5f8;--stage:#57606a;--search:#8250df;--step:#2f6fd0;\
--command:#1a8a6b;--request:#b35900;--wait:#e3b341;--system:#9aa4b0;--failed:#cf222e}\
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#8d96a0;--grid:#2b3138;--band:#161c24;\
--stage:#8b949e;--search:#b083f0;--step:#4c8dff;--command:#35b58d;--request:#e08a3c;--wait:#c69026;--system:#59636e;\
--failed:#ff6b62}}\
svg{background:var(--bg);font:12px system-ui,'DejaVu Sans',sans-serif}text{fill:var(--fg);white-space:pre}\
.dim{fill:var(--dim)}.time{font-variant-numeric:tabular-nums}.title{font-size:17px;font-weight:600}.bold{font-weight:600}\
.grid{stroke:var(--grid)}.page{fill:var(--bg)}.band{fill:var(--band)}.hit{fill:transparent}g:hover>.hit{fill:var(--fg);fill-opacity:.07}\
.stage{fill:var(--stage);stroke:var(--stage)}.search{fill:var(--search);stroke:var(--search)}\
.step{fill:var(--step);stroke:var(--step)}.command{fill:var(--command);stroke:var(--command)}\
.request{fill:var(--request);stroke:var(--request)}.wait{fill:var(--wait);stroke:var(--wait)}\
.system{fill:var(--system);stroke:var(--system)}.failed{fill:var(--failed);stroke:var(--failed)}\
text.failed{stroke:none}\
@media (max-width:700px){svg{font-size:10px}.title{font-size:11px}.legend,.odd{display:none}.bar{fill-opacity:.4;stroke-opacity:.4}}\
.open{fill-opacity:.35;stroke-dasharray:3 2}";

/// Returns the picture.
pub fn draw(rows: &[Row], head: &Head) -> String {
    let begin = rows.iter().map(|row| row.begin).min().unwrap_or(head.begin);
    let end = rows.iter().map(|row| row.end.unwrap_or(row.begin).max(row.begin)).max().unwrap_or(begin);
    let scale = Scale { begin, length: (end - begin).max(1000) };
    let height = TOP + rows.len() * ROW + 40;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height}\" role=\"img\">\n<style>{STYLE}</style>\n"
    );
    let which = if head.which.is_empty() { String::new() } else { format!(", {}", head.which) };
    let started = time::format(head.begin);
    let title = format!("cloud-init: boot of {} UTC{which}", started.get(..19).unwrap_or(&started));
    out += &format!("<title>{}</title>\n", escape(&title, MAX_TITLE));
    // Viewers that ignore the background of the root element.
    out.push_str("<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
    out += &format!("<text class=\"title\" x=\"16\" y=\"28\">{}</text>\n", escape(&title, MAX_TITLE));
    let mut facts = format!("stages: {}   shown: {}", duration(head.total), duration(end - begin));
    let steps = rows.iter().filter(|row| matches!(row.kind, Kind::Step | Kind::Search));
    let longest = steps.filter_map(|row| Some((row, row.duration()?))).max_by_key(|(_, took)| *took);
    let longest = longest.map_or(String::new(), |(row, took)| {
        format!("longest step: {}, {}   ", shorten(&row.label, MAX_LABEL), duration(took))
    });
    if head.left_out > 0 {
        facts += &format!("   {} shorter rows are not shown", head.left_out);
    }
    out += &format!(
        "<text class=\"dim\" x=\"16\" y=\"48\">{}<tspan class=\"legend\">{}</tspan></text>\n",
        escape(&longest, MAX_TITLE),
        escape(&facts, MAX_TITLE)
    );
    draw_legend(&mut out, rows);
    for (i, _) in rows.iter().enumerate().filter(|(_, row)| row.depth == 0) {
        let y = TOP + i * ROW;
        out += &format!("<rect class=\"band\" y=\"{y}\" width=\"100%\" height=\"{ROW}\"/>\n");
    }
    draw_axis(&mut out, &scale, rows.len());
    for (i, row) in rows.iter().enumerate() {
        draw_row(&mut out, &scale, row, TOP + i * ROW, end, head);
    }
    out + "</svg>\n"
}

struct Scale {
    begin: i64,
    length: i64,
}

impl Scale {
    /// Returns the position of a time in percent of the width.
    fn x(&self, at: i64) -> f64 {
        AXIS.0 + self.width(at - self.begin)
    }

    fn width(&self, micros: i64) -> f64 {
        micros.clamp(0, self.length) as f64 / self.length as f64 * AXIS.1
    }

    /// Returns the time between two ticks: 1, 2 or 5 times a power of ten below a minute, then parts of minutes and hours.
    fn tick(&self) -> i64 {
        let decimal = (3..=7).flat_map(|power| [1, 2, 5].map(|n| n * 10_i64.pow(power)));
        let minutes = [60, 120, 300, 600, 900, 1800, 3600].map(|s| s * SECOND);
        let mut steps = decimal.filter(|step| *step <= 30 * SECOND).chain(minutes);
        steps.find(|step| self.length / step <= MAX_TICKS).unwrap_or(self.length / MAX_TICKS)
    }
}

fn draw_legend(out: &mut String, rows: &[Row]) {
    let mut x = 16;
    out.push_str("<g class=\"legend\">");
    let mut entry = |class: &str, text: &str| {
        *out += &format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"60\" width=\"10\" height=\"10\" rx=\"2\"/>\
                 <text class=\"dim\" x=\"{}\" y=\"69\">{text}</text>\n",
            x + 16
        );
        x += 38 + text.len() * 7;
    };
    for (_, class, text) in LEGEND.iter().filter(|(kind, ..)| rows.iter().any(|row| row.kind == *kind)) {
        entry(class, text);
    }
    if rows.iter().any(|row| row.is_failure) {
        entry("failed", "failed");
    }
    out.push_str("</g>\n");
}

fn draw_axis(out: &mut String, scale: &Scale, rows: usize) {
    let bottom = TOP + rows * ROW;
    let tick = scale.tick().max(1);
    for n in 0..=scale.length / tick {
        let (at, odd) = (n * tick, if n % 2 == 1 { " odd" } else { "" });
        let (x, text) = (scale.x(scale.begin + at), tick_label(at, tick));
        *out += &format!("<line class=\"grid\" x1=\"{x:.3}%\" x2=\"{x:.3}%\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        for y in [TOP - 6, bottom + 16] {
            *out += &format!(
                "<text class=\"dim time{odd}\" x=\"{x:.3}%\" y=\"{y}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        out.push('\n');
    }
}

fn draw_row(out: &mut String, scale: &Scale, row: &Row, y: usize, end: i64, head: &Head) {
    let class = LEGEND.iter().find(|(kind, ..)| *kind == row.kind).map_or("step", |(_, class, _)| class);
    let class = if row.is_failure && row.kind != Kind::Stage { "failed" } else { class };
    let open = if row.end.is_none() { " open" } else { "" };
    let (x, to) = (scale.x(row.begin), row.end.unwrap_or(end).max(row.begin));
    let width = scale.width(to - row.begin);
    // A bar without a width is not drawn.
    let drawn = width.max(0.04);
    let took = match row.duration() {
        Some(took) => duration(took),
        None => "did not end".into(),
    };
    *out += &format!("<g><title>{}</title>", hover_text(row, &took, scale.begin, head));
    *out += &format!("<rect class=\"hit\" y=\"{y}\" width=\"100%\" height=\"{ROW}\"/>");
    let weight = match (row.kind == Kind::Stage, row.is_failure) {
        (true, true) => " class=\"bold failed\"",
        (true, false) => " class=\"bold\"",
        (false, true) => " class=\"failed\"",
        (false, false) => "",
    };
    *out += &format!(
        "<rect class=\"bar {class}{open}\" x=\"{x:.3}%\" y=\"{}\" width=\"{drawn:.3}%\" height=\"10\" rx=\"1\"/>",
        y + 5
    );
    // Above the bar, which it covers in a narrow window.
    *out += &format!(
        "<text{weight} x=\"{}\" y=\"{}\">{}</text>",
        16 + row.depth.min(6) * 14,
        y + 14,
        escape(&shorten(&row.label, MAX_LABEL - 2 * row.depth.min(6)), MAX_LABEL)
    );
    *out += &format!(
        "<text class=\"dim time\" x=\"100%\" dx=\"-20\" y=\"{}\" text-anchor=\"end\">{took}</text></g>\n",
        y + 14
    );
}

/// Returns the escaped text under the pointer: what it is, when, and the place in the log.
fn hover_text(row: &Row, took: &str, zero: i64, head: &Head) -> String {
    let place = match row.lines {
        Some((from, to)) if head.has_lines && (to == usize::MAX || from == to) => {
            format!("\n{}:{from}", head.log)
        }
        Some((from, to)) if head.has_lines => format!("\n{}:{from}-{to}", head.log),
        Some((from, _)) => format!("\n{}: entry {from}", head.log),
        None => String::new(),
    };
    let times = format!("\n{took}, from {}", duration(row.begin - zero));
    format!("{}{times}{}", escape(&row.description, MAX_TITLE), escape(&place, MAX_TITLE))
}

/// Formats a time to the millisecond, rounded half up.
fn duration(micros: i64) -> String {
    let millis = (micros.max(0) + 500) / 1000;
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    match minutes {
        0 => format!("{}.{:03} s", rest / 1000, rest % 1000),
        _ => format!("{minutes} min {:02}.{:03} s", rest / 1000, rest % 1000),
    }
}

/// Formats the time of a tick with as many decimals as the ticks need.
fn tick_label(at: i64, tick: i64) -> String {
    let (minutes, rest) = (at / (60 * SECOND), at % (60 * SECOND));
    let decimals = [(SECOND, 0), (SECOND / 10, 1), (SECOND / 100, 2)];
    let decimals = decimals.iter().find(|(unit, _)| tick % unit == 0).map_or(3, |(_, n)| *n);
    let seconds = rest as f64 / SECOND as f64;
    match (minutes, rest) {
        (0, _) => format!("{seconds:.decimals$} s"),
        (_, 0) => format!("{minutes} min"),
        _ => format!("{minutes}:{seconds:02.decimals$}"),
    }
}

/// Returns the beginning and the end of a label that is too long: the end of a command line names its object.
fn shorten(label: &str, most: usize) -> String {
    let length = label.chars().count();
    if length <= most {
        return label.to_string();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    label.chars().take(head).chain(['…']).chain(label.chars().skip(length - tail)).collect()
}

/// Returns at most `most` characters of a string for XML and HTML; characters that XML does not allow become U+FFFD.
pub fn escape(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most) + 16);
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push('…');
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_adapts_to_the_length() {
        for (millis, tick, labels) in [
            (1, 1_000, ["0.000 s", "0.001 s"]),
            (1_000, 100_000, ["0.0 s", "0.1 s"]),
            (13_000, 2_000_000, ["0 s", "2 s"]),
            (60_000, 10_000_000, ["0 s", "10 s"]),
            (600_000, 60_000_000, ["0 s", "1 min"]),
            (7_200_000, 900_000_000, ["0 s", "15 min"]),
        ] {
            let scale = Scale { begin: 0, length: millis * 1000 };
            assert_eq!(scale.tick(), tick, "{millis}");
            assert_eq!([tick_label(0, tick), tick_label(tick, tick)], labels);
            assert!(scale.length / scale.tick() <= MAX_TICKS);
        }
        assert_eq!(tick_label(90 * SECOND, 30 * SECOND), "1:30");
        let day = Scale { begin: 0, length: 86_400 * 30 * SECOND };
        assert!(day.length / day.tick() <= MAX_TICKS);
    }

    #[test]
    fn texts_are_escaped_and_shortened() {
        assert_eq!(duration(1_234_567), "1.235 s");
        assert_eq!(duration(-5), "0.000 s");
        assert_eq!(duration(62_000_499), "1 min 02.000 s");
        assert_eq!(escape("<a href='&\u{1}\"\u{0}>", 100), "&lt;a href=&#39;&amp;\u{fffd}&quot;\u{fffd}&gt;");
        assert_eq!(escape("abcdef", 3), "abc…");
        assert_eq!((shorten("abcdef", 6).as_str(), shorten("abcdefgh", 6).as_str()), ("abcdef", "abc…gh"));
    }
}
