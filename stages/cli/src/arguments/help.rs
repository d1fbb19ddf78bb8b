//! `--help` and usage lines, from the option table.

use super::spec::{Arity, CommandSpec, Count, OptionSpec, ValueKind};

/// The column at which descriptions begin, and the width of the text.
const INDENT: usize = 30;
const WIDTH: usize = 100;
/// Choices are listed beside an option up to this length.
const MAX_CHOICES: usize = 60;

/// Returns the help of the last command of `path`; the first is the program.
pub fn help(path: &[&CommandSpec]) -> String {
    let Some(command) = path.last() else { return String::new() };
    let names: Vec<&str> = path.iter().map(|command| command.name).collect();
    let mut text = format!("Usage: {}", names.join(" "));
    let indent = text.len() + 1;
    let words = usage_words(command);
    push_words(&mut text, indent - 1, indent, words.iter().map(String::as_str));
    text.push_str(&format!("\n{}\n", command.about));
    if let Some(positional) = command.positional {
        text.push_str("\nArguments:\n");
        push_row(&mut text, &format!("  {}", positional.name.to_uppercase()), positional.help);
    }
    text.push_str("\nOptions:\n");
    for option in command.all_options() {
        push_row(&mut text, &option_names(option), &description(option));
    }
    if path.len() > 1 && path[0].options.iter().any(|option| option.long == "root") {
        text.push_str(&format!("\nAlso --root DIR: see {} --help.\n", path[0].name));
    }
    if command.listed_commands().next().is_some() {
        text.push_str("\nCommands:\n");
        for command in command.listed_commands() {
            push_row(&mut text, &format!("  {}", command.name), command.about);
        }
    }
    text
}

/// Returns what may follow a command's name, `--help` aside: `[-l] --name MODULE [ARGUMENT...]`.
pub fn usage_words(command: &CommandSpec) -> Vec<String> {
    let mut words: Vec<String> =
        command.options.iter().filter(|option| !option.ignored).map(usage_of_option).collect();
    if let Some(positional) = command.positional {
        let name = positional.name.to_uppercase();
        words.push(match positional.count {
            Count::Optional => format!("[{name}]"),
            Count::One => name,
            Count::Many | Count::Rest => format!("[{name}...]"),
        });
    }
    if !command.commands.is_empty() {
        words.push("COMMAND".to_string());
        if command.commands.iter().any(|c| !c.options.is_empty()) {
            words.push("[OPTION...]".to_string());
        }
    }
    words
}

fn usage_of_option(option: &OptionSpec) -> String {
    let text = format!("--{}{}", option.long, value_name(option));
    let dots = if option.repeatable && !matches!(option.arity, Arity::OneOrMore(_)) { "..." } else { "" };
    if option.required { format!("{text}{dots}") } else { format!("[{text}]{dots}") }
}

fn value_name(option: &OptionSpec) -> String {
    match option.arity {
        Arity::Nothing => String::new(),
        Arity::One(value) => format!(" {}", value.name),
        Arity::AtMostOne(value, _) => format!(" [{}]", value.name),
        Arity::OneOrMore(value) => format!(" {}...", value.name),
    }
}

/// Returns the names of an option and of its value: `  -f, --file FILE`.
pub fn option_names(option: &OptionSpec) -> String {
    let letter = option.letter.map_or("    ".to_string(), |letter| format!("-{letter}, "));
    format!("  {letter}--{}{}", option.long, value_name(option))
}

/// Returns the help of an option with its choices, its default, and whether it is repeatable.
pub fn description(option: &OptionSpec) -> String {
    let mut notes = Vec::new();
    if let Some(value) = option.value() {
        if let ValueKind::Choices(choices) = value.kind {
            let list = choices.join(", ");
            match choices.len() {
                1 => notes.push(format!("must be {list}")),
                _ if list.len() <= MAX_CHOICES => notes.push(format!("one of {list}")),
                _ => {}
            }
        }
        notes.extend(value.default.map(|default| format!("default: {default}")));
    }
    if option.repeatable && option.value().is_some() {
        notes.push("repeatable".to_string());
    }
    if notes.is_empty() {
        option.help.to_string()
    } else {
        format!("{} ({}).", option.help.trim_end_matches('.'), notes.join("; "))
    }
}

/// Adds a row of two columns, wrapped at [`WIDTH`].
fn push_row(text: &mut String, name: &str, about: &str) {
    text.push_str(name);
    let mut column = name.len();
    if column + 2 > INDENT {
        text.push('\n');
        column = 0;
    }
    push_words(text, column, INDENT, about.split(' '));
}

/// Ends a line, which has `column` characters, with words that begin at `indent` and are wrapped at [`WIDTH`].
fn push_words<'a>(text: &mut String, mut column: usize, indent: usize, words: impl Iterator<Item = &'a str>) {
    for word in words {
        if column > indent && column + 1 + word.len() > WIDTH {
            text.push('\n');
            column = 0;
        }
        let blanks = indent.saturating_sub(column).max(1);
        text.extend(std::iter::repeat_n(' ', blanks));
        text.push_str(word);
        column += blanks + word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use crate::arguments::generated::table::paths;

    use super::*;

    #[test]
    fn choices_are_shown_with_the_default() {
        let of =
            |path: &[&str]| crate::arguments::help(path).split_whitespace().collect::<Vec<_>>().join(" ");
        let schema = of(&["schema"]);
        let kinds = "Type of the file (one of cloud-config, network-config; default: cloud-config).";
        assert!(schema.contains(kinds), "{schema}");
        let hook = of(&["devel", "hotplug-hook"]);
        assert!(hook.contains("Subsystem of the device (must be net)."), "{hook}");
        let status = of(&["status"]);
        assert!(status.contains("(one of json, tabular, yaml; default: tabular)."), "{status}");
    }

    #[test]
    fn help_is_wrapped() {
        for path in paths() {
            let text = help(&path);
            assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
            // The words of a usage that takes several lines are below one another.
            let usage: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
            let indent = "Usage: ".len() + path.iter().map(|command| command.name.len() + 1).sum::<usize>();
            for line in &usage[1..] {
                assert_eq!(line.len() - line.trim_start().len(), indent, "{text}");
            }
        }
    }
}
