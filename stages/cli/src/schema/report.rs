//! The result of `schema` as text.
//!
//! Scripts parse upstream's sentences, so standard output has them, and standard error begins with them unless it is a
//! terminal. Each finding follows on a line of its own, with the line of the source. The source may contain secrets, and
//! output that does not go to a terminal may be a log that others read; there only the first key of the line is shown.

use std::io::IsTerminal as _;

use config::{Finding, FindingKind};
use modules::schema;
use system::single_line;

use super::validation::{Document, Validation};
use crate::arguments::Schema;
use crate::book;
use crate::finding::Severity;

/// The maximum number of characters of a line that are shown.
const MAX_WIDTH: usize = 120;

pub fn print(result: &Validation, part: &Document, args: &Schema, several: bool, indent: &str) {
    for note in &result.notes {
        println!("{indent}{note}");
    }
    let is_person = std::io::stderr().is_terminal();
    let is_annotated = args.annotate
        && !result.is_other_type
        && result.findings.iter().any(|f| f.kind != FindingKind::Duplicate);
    if is_annotated {
        for warning in &result.warnings {
            eprintln!("{indent}WARNING: {warning}");
        }
        print_annotated(result, indent);
        if !result.is_valid() {
            return;
        }
    } else {
        if result.is_other_type {
            println!("Invalid {}", part.name);
            eprintln!("Error: {} {} is not a YAML dict.\n", part.schema_type.word(), part.path);
        } else {
            print_sentences(result, part, indent, is_person);
        }
        let style = Style { colour: is_person && has_colour(), shows_values: is_person };
        let lines: Vec<Vec<String>> = result.sources.iter().map(|source| lines(&source.text)).collect();
        // A document on one line may have thousands of findings there.
        let mut last = None;
        for (finding, severity) in result.by_position() {
            let source = result.source(finding);
            let name = source.map_or(&*part.path, |(_, source)| &*source.name);
            let place = source.map(|(at, _)| at).zip((finding.at.line as usize).checked_sub(1));
            if last.as_ref().is_none_or(|(at, _)| *at != place) {
                let text = place.and_then(|(source, line)| lines.get(source)?.get(line));
                last = Some((place, text.map(|text| Line::new(text))));
            }
            let line = last.as_ref().and_then(|(_, line)| line.as_ref());
            for line in excerpt(finding, &result.key(finding), severity, name, line, style) {
                // Escaped already; it may have colours.
                std::eprintln!("{indent}{line}");
            }
        }
        if let Some(place) = reference(result) {
            eprintln!("{indent}See: {place}");
        }
    }
    if result.is_valid() {
        let what = if several || args.system { part.name } else { &part.path };
        println!("{indent}Valid schema {what}");
    }
}

/// Returns the entry of the book for a key that belongs in another configuration than a cloud-config.
pub fn entry(path: &str) -> Option<String> {
    let (first, below) = path.split_once('.').unwrap_or((path, ""));
    let (page, anchor) = match first {
        // Keys of devices have the names of devices in them.
        "network" => ("network-config.html", ""),
        "datasource"
            if below.split_once('.').is_some_and(|(name, key)| super::base::is_setting(name, key)) =>
        {
            ("datasources.html#", below)
        }
        "system_info" if !below.is_empty() => {
            let end = below.find('.').unwrap_or(below.len());
            ("image-config.html#", &path[..path.len() - below.len() + end])
        }
        _ if modules::where_key_belongs(first)?.ends_with("/etc/cloud") => ("image-config.html#", first),
        _ => return None,
    };
    Some(format!("docs/reference/{page}{anchor}"))
}

/// Returns the lines of a text as YAML counts them: a carriage return alone ends one, too.
fn lines(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    text.lines().map(str::to_string).collect()
}

/// Returns where the key of the first finding, errors first, is documented.
fn reference(result: &Validation) -> Option<String> {
    // A search for each finding of a large file takes longer than its check.
    let mut found = result.errors().chain(&result.findings).chain(&result.warnings).take(100);
    found.find_map(|finding| {
        let key = result.key(finding);
        if let Some(entry) = entry(&key) {
            return Some(book::place(&entry));
        }
        let mut path = &*key;
        loop {
            if let Ok(docs) = schema::key_docs(path) {
                // Up to a name of the user's own, which a shell would not take.
                let key = docs.lines().next()?.split(".<").next()?;
                return Some(format!("cloud-init explain {key}, {}", book::place(&schema::entry(&docs)?)));
            }
            path = path.rsplit_once('.')?.0;
        }
    })
}

/// Prints upstream's messages: one for each kind, with all findings of that kind.
fn print_sentences(result: &Validation, part: &Document, indent: &str, is_person: bool) {
    let list = |findings: Vec<String>| findings.join(", ");
    let deprecated = list(result.of_kind(FindingKind::Deprecated).map(line).collect());
    if !(deprecated.is_empty() || is_person && std::io::stdout().is_terminal()) {
        println!("{indent}Cloud config schema deprecations: {deprecated}");
    }
    if result.is_valid() {
        return;
    }
    println!("{indent}Invalid {} {}", part.name, part.path);
    if !is_person {
        let errors = list(error_lines(result.errors()));
        eprintln!("{indent}Error: Cloud config schema errors: {errors}\n");
    }
}

fn has_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}

/// The abilities of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Style {
    colour: bool,
    /// The line is shown as it is, not only its first key.
    shows_values: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// A line of a source, prepared for the places of many findings.
struct Line<'a> {
    text: &'a str,
    /// Where in the text each character begins.
    characters: Vec<usize>,
    /// Where the first `{` is.
    brace: Option<usize>,
}

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Line<'a> {
        Line { text, characters: text.char_indices().map(|(at, _)| at).collect(), brace: text.find('{') }
    }

    /// Returns where the character at a column, which counts from 0, begins, or the end of the text.
    fn at(&self, column: usize) -> usize {
        self.characters.get(column).copied().unwrap_or(self.text.len())
    }
}

/// Returns the finding, its line of the source and a mark below its place.
fn excerpt(
    finding: &Finding,
    key: &str,
    severity: Severity,
    path: &str,
    line: Option<&Line<'_>>,
    style: Style,
) -> Vec<String> {
    let colour = if severity == Severity::Error { "1;31" } else { "1;33" };
    let place = match finding.at.line {
        0 => path.to_string(),
        line => format!("{path}:{line}:{}", finding.at.column),
    };
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    let word = style.paint(colour, severity.as_str());
    let (place, text) = (single_line(&place), format!("{key}{}", finding.message));
    let mut lines = vec![format!("{}: {word}: {}", style.paint("1", &place), single_line(&text))];
    if let Some(line) = line {
        let column = (finding.at.column as usize).saturating_sub(1);
        let is_of_key = !finding.key.starts_with("format-l");
        let shown = match style.shows_values {
            true => Some(window(line, column)),
            false => keys(line, column, is_of_key),
        };
        let Some((shown, at, width)) = shown else { return lines };
        let number = finding.at.line.to_string();
        let margin = " ".repeat(number.len());
        lines.push(format!(" {number} | {shown}"));
        lines.push(format!(" {margin} | {}{}", " ".repeat(at), style.paint(colour, &"^".repeat(width))));
    }
    lines
}

/// Returns the part of a line around a column without control characters, the column in that part, and the length of the
/// word there.
fn window(line: &Line<'_>, column: usize) -> (String, usize, usize) {
    let start = if column < MAX_WIDTH - 20 { 0 } else { column - MAX_WIDTH / 2 };
    let printable = |c: char| match c {
        '\t' => ' ',
        c if system::is_unprintable(c) => '\u{fffd}',
        c => c,
    };
    let shown = line.text[line.at(start)..].chars().take(MAX_WIDTH).map(printable).collect();
    let after = line.text[line.at(column)..].chars().take(MAX_WIDTH / 2);
    let word = after.take_while(|c| !c.is_whitespace() && !":,[]{}".contains(*c));
    (shown, column - start, word.count().max(1))
}

/// Returns the first key of a line and, if a key is meant (`is_of_key`), that of the place, with an ellipsis for what is not shown, and
/// where the mark goes: below the key if that is meant, otherwise below the ellipsis. `None` if there is no key.
fn keys(line: &Line<'_>, column: usize, is_of_key: bool) -> Option<(String, usize, usize)> {
    let text = line.text;
    let body = text.trim_start_matches([' ', '-']);
    let start = text.len() - body.len();
    let blank = text.get(..start.min(MAX_WIDTH))?;
    let first = name_at(body).map(|name| format!("{blank}{name}:"));
    if column <= start {
        return Some((format!("{} …", first?), blank.len(), name_at(body)?.len()));
    }
    let (before, after) = text.split_at(line.at(column));
    let is_in_braces = is_of_key && line.brace.is_some_and(|brace| brace < before.len());
    let begin = format!("{} … ", first.as_deref().unwrap_or(blank.trim_end()));
    if let Some(name) = name_at(after).filter(|_| is_in_braces) {
        return Some((format!("{begin}{name}: …"), begin.chars().count(), name.len()));
    }
    let key = before.trim_end().strip_suffix(':').filter(|_| is_in_braces).and_then(|before| {
        let (rest, name) = before.split_at(before.trim_end_matches(is_name).len());
        // Otherwise it is the end of a text that may be a secret: `password:hunter2: {}`.
        (!name.is_empty() && rest.trim_end().ends_with(['{', ','])).then_some(name)
    });
    let shown =
        key.map_or_else(|| first.map(|first| first + " "), |name| Some(format!("{begin}{name}: ")))?;
    Some((format!("{shown}…"), shown.chars().count(), 1))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the key with which text begins.
fn name_at(text: &str) -> Option<&str> {
    let name = &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())];
    let after = &text[name.len()..];
    let is_key = after == ":" || after.starts_with(": ");
    (is_key && (1..=MAX_WIDTH).contains(&name.len())).then_some(name)
}

/// Prints each text with marks behind its lines, followed by their messages.
fn print_annotated<'a>(result: &'a Validation, indent: &str) {
    let of_sources = |findings: &mut dyn Iterator<Item = &'a Finding>| {
        let mut found = vec![Vec::new(); result.sources.len()];
        for finding in findings {
            let places = result.source(finding).map_or(0..found.len(), |(at, _)| at..at + 1);
            found[places].iter_mut().for_each(|own: &mut Vec<_>| own.push(finding));
        }
        found
    };
    let errors = of_sources(&mut result.errors());
    let deprecated = of_sources(&mut result.of_kind(FindingKind::Deprecated));
    for (source, (errors, deprecated)) in result.sources.iter().zip(errors.into_iter().zip(deprecated)) {
        if result.sources.len() > 1 {
            println!("{indent}# {}", source.name);
        }
        print_source(&source.text, errors, deprecated, indent);
    }
}

fn print_source(text: &str, errors: Vec<&Finding>, deprecated: Vec<&Finding>, indent: &str) {
    let marked = |kind: char, findings: Vec<&Finding>| -> Vec<(u32, String, String)> {
        let blank = if kind == 'D' { " " } else { "" };
        let mark = |(i, f): (usize, &Finding)| {
            let message = if is_unknown_key(f) { unexpected(&[&f.key]) } else { f.message.clone() };
            (f.at.line, format!("{kind}{}", i + 1), format!("{blank}{message}"))
        };
        let mut findings = findings;
        sort::sort_by_key(&mut findings, |f| (f.at.line, f.at.column));
        findings.into_iter().enumerate().map(mark).collect()
    };
    let (errors, deprecated) = (marked('E', errors), marked('D', deprecated));
    let lines = lines(text);
    let mut marks_of = vec![Vec::new(); lines.len() + 1];
    for (line, mark, _) in errors.iter().chain(&deprecated) {
        if let Some(marks) = marks_of.get_mut(*line as usize) {
            marks.push(mark.as_str());
        }
    }
    for (text, marks) in lines.iter().zip(&marks_of[1..]) {
        match marks.is_empty() {
            true => println!("{indent}{text}"),
            false => println!("{indent}{text}\t\t# {}", marks.join(",")),
        }
    }
    println!();
    for (title, marks) in [("Errors", &errors), ("Deprecations", &deprecated)] {
        if !marks.is_empty() {
            println!("{indent}# {title}: -------------");
            marks.iter().for_each(|(_, mark, text)| println!("{indent}# {mark}: {text}"));
            println!("\n");
        }
    }
}

fn is_unknown_key(finding: &Finding) -> bool {
    finding.kind == FindingKind::Unknown && finding.message.starts_with("unknown key")
}

/// Upstream's words for unknown keys of one map, for which programs look.
fn unexpected(keys: &[&str]) -> String {
    let name = |key: &&str| format!("'{}'", key.rsplit_once('.').map_or(*key, |(_, name)| name));
    let names: Vec<String> = keys.iter().map(name).collect();
    let verb = if keys.len() == 1 { "was" } else { "were" };
    format!("Additional properties are not allowed ({} {verb} unexpected)", names.join(", "))
}

/// Returns the lines of errors; unknown keys of one map are one line, `users.0: Additional properties … (a.yaml:3:9, a.yaml:3:12)`.
fn error_lines<'a>(errors: impl Iterator<Item = &'a Finding>) -> Vec<String> {
    let (unknown, others): (Vec<_>, Vec<_>) = errors.partition(|finding| is_unknown_key(finding));
    let mut maps: sort::Named<Vec<&Finding>> = sort::Named::default();
    for finding in unknown {
        let parent = finding.key.rsplit_once('.').map_or("", |(parent, _)| parent);
        maps.entry(&parent.replace('[', ".").replace(']', "")).push(finding);
    }
    let mut lines: Vec<String> = others.into_iter().map(line).collect();
    lines.extend(maps.entries.into_iter().map(|(parent, findings)| {
        let keys: Vec<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
        let places: Vec<String> = findings.iter().map(|finding| finding.at.to_string()).collect();
        // As upstream: a single key of the top level is its own place.
        let place = if parent.is_empty() && keys.len() == 1 { keys[0] } else { &parent };
        format!("{place}: {} ({})", unexpected(&keys), places.join(", "))
    }));
    sort::sort(&mut lines);
    lines
}

/// `users.0.name: expected a string, found a list (a.yaml:3:9)`.
fn line(finding: &Finding) -> String {
    let key = finding.key.replace('[', ".").replace(']', "");
    match finding.kind {
        FindingKind::Invalid if key.starts_with("format-l") => format!("{key}: {}", finding.message),
        // With two blanks, as upstream prints it.
        FindingKind::Deprecated => format!("{key}:  {} ({})", finding.message, finding.at),
        _ => format!("{key}: {} ({})", finding.message, finding.at),
    }
}

#[cfg(test)]
mod tests {
    use config::Position;

    use super::*;

    fn shown(text: &str, column: u32, style: Style) -> String {
        let at = Position { source: Some("f".into()), line: 2, column };
        let finding =
            Finding { kind: FindingKind::Unknown, at, key: "k".into(), message: "unknown key".into() };
        excerpt(&finding, "k", Severity::Error, "f", Some(&Line::new(text)), style).join("\n")
    }

    const LOG: Style = Style { colour: false, shows_values: false };
    const TERMINAL: Style = Style { colour: false, shows_values: true };

    #[test]
    fn excerpts_of_a_log_have_no_values() {
        for (text, column, wanted) in [
            ("pasword: S", 1, " 2 | pasword: …\n   | ^^^^^^^"),
            ("  - passwd: [S]", 13, " 2 |   - passwd: …\n   |             ^"),
            ("a: [S, T]", 8, " 2 | a: …\n   |    ^"),
            ("a: {b: S, c: 1}", 11, " 2 | a: … c: …\n   |      ^"),
            ("a: {b: S, c: 1}", 14, " 2 | a: … c: …\n   |         ^"),
            ("- {é: S, cd: 1}", 10, " 2 | - … cd: …\n   |     ^^"),
            ("- root:S", 3, ""),
            ("S", 1, ""),
            ("\"S\": 1", 1, ""),
            ("- {b: S T}", 7, " 2 | - … b: …\n   |        ^"),
            ("a: {b:S: {}}", 10, " 2 | a: …\n   |    ^"),
            ("a: {b S: {}}", 10, " 2 | a: …\n   |    ^"),
            ("- [S]", 4, ""),
        ] {
            let text_of =
                |shown: &str| format!("f:2:{column}: error: k: unknown key\n{shown}").trim_end().to_string();
            assert_eq!(shown(text, column, LOG), text_of(wanted), "{text}");
        }
        // The place of a syntax error may be in a value.
        let (text, column) = ("a: {b: S: T}", 9);
        assert_eq!(keys(&Line::new(text), column, false), Some(("a: …".into(), 3, 1)));
    }

    #[test]
    fn excerpts_fit_a_terminal() {
        let text = shown("a:\t{b: \x1b[2J, foo: é}", 16, TERMINAL);
        assert_eq!(
            text,
            "f:2:16: error: k: unknown key\n 2 | a: {b: \u{fffd}[2J, foo: é}\n   |                ^"
        );
        let long = shown(&format!("a: [{}, foo]", "x".repeat(500)), 507, TERMINAL);
        assert!(long.lines().all(|line| line.chars().count() <= MAX_WIDTH + 6), "{long}");
        assert!(long.ends_with("^^^"), "{long}");
        let red = shown("foo: 1", 1, Style { colour: true, shows_values: true });
        assert!(red.contains("\x1b[1;31merror\x1b[0m") && red.ends_with("\x1b[1;31m^^^\x1b[0m"), "{red:?}");
        // A position outside of the text.
        assert_eq!(shown("", 1, TERMINAL).lines().count(), 3);
    }
}
