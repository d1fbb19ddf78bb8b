//! Synopses and option lists of the manual pages. A page marks where each of them goes:
//!
//!     .\" generated synopsis: cloud-init status
//!     .\" end
//!
//! with the words of the command; `generated options` is the list of its options. `generated list: exit codes` and
//! `generated list: files` are tables of the reference.

use super::super::help::{description, option_names, usage_words};
use super::super::spec::CommandSpec;
use super::reference;
use super::table::{offered, paths, words};

const MARK: &str = ".\\\" generated ";
const END: &str = ".\\\" end";

/// Returns a page with its generated parts replaced.
pub fn update(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some((kind, name)) = line.strip_prefix(MARK).and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let list = match (kind, name) {
            ("list", "exit codes") => entries(&reference::exit_codes(), 'B'),
            ("list", "files") => entries(&reference::files(), 'I'),
            _ => String::new(),
        };
        if !list.is_empty() {
            assert!(lines.any(|line| line == END), "{name} has no `end`");
            text.push_str(&format!("{list}{END}\n"));
            continue;
        }
        let Some(path) = paths().into_iter().find(|path| words(path) == name) else { continue };
        match kind {
            "synopsis" => text.push_str(&synopsis(&path)),
            "options" if path.len() == 1 => text.push_str(&options(path[0])),
            // Indented below the paragraph of the command.
            "options" => text.push_str(&format!(".RS\n{}.RE\n", options(path[path.len() - 1]))),
            _ => {}
        }
        assert!(lines.any(|line| line == END), "{name}: `generated {kind}` has no `end`");
        text.push_str(&format!("{END}\n"));
    }
    text
}

fn entries(pairs: &[(String, &str)], font: char) -> String {
    let entry = |(name, meaning): &(String, &str)| {
        let parts = meaning.split('`').enumerate();
        let meaning: String = parts
            .map(|(i, part)| if i % 2 == 1 { format!("\\fB{}\\fR", escaped(part)) } else { escaped(part) })
            .collect();
        format!(".TP\n\\f{font}{}\\fR\n{meaning}\n", escaped(name))
    };
    pairs.iter().map(entry).collect()
}

fn synopsis(path: &[&CommandSpec]) -> String {
    let Some(command) = path.last() else { return String::new() };
    // Below cloud-init, whose page has a section for the commands.
    let name = if path.len() > 1 { words(&path[1..]) } else { words(path) };
    let head = if path.len() > 1 { ".TP\n" } else { "" };
    let usage: Vec<String> = usage_words(command).iter().map(|word| marked_up(word)).collect();
    let blank = if usage.is_empty() { "" } else { " " };
    format!("{head}\\fB{}\\fR{blank}{}\n", escaped(&name), usage.join(" "))
}

/// Formats `[--format FORMAT]` with literal text in bold and placeholders in italics.
fn marked_up(word: &str) -> String {
    let mut text = String::new();
    for (number, part) in word.split(' ').enumerate() {
        if number > 0 {
            text.push(' ');
        }
        let core = part.trim_matches(['[', ']', '.']);
        let font = if core.starts_with('-') { 'B' } else { 'I' };
        text.push_str(&part.replacen(core, &format!("\\f{font}{}\\fR", escaped(core)), 1));
    }
    text
}

fn options(command: &'static CommandSpec) -> String {
    let mut text = String::new();
    for option in offered(command).skip(1) {
        let names = option_names(option);
        let names: Vec<String> = names.split_whitespace().map(marked_up).collect();
        text.push_str(&format!(".TP\n{}\n{}\n", names.join(" "), escaped(&description(option))));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga")
}
