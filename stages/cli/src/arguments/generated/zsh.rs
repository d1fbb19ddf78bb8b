//! Completion for zsh.

use super::super::spec::{Arity, CommandSpec, Count, OptionSpec, ValueKind};
use super::table::{SOURCE, datasources, offered, paths, words};

const HELPERS: &str = r#"
_cloud_init_list_modules() {
    # The modules that this machine's configuration names.
    local -a modules
    modules=(${(f)"$(sed -n 's/^ *- *\([a-z][a-z0-9_-]*\) *$/\1/p' /etc/cloud/cloud.cfg 2>/dev/null | sort -u)"})
    compadd -a modules
}

_cloud_init_list_variables() {
    # The names of instance data below the one that was typed.
    local parent
    [[ $PREFIX != *.* ]] || parent=${PREFIX%.*}
    local -a names
    names=(${parent:+$parent.}${^${(f)"$(cloud-init query --list-keys $parent 2>/dev/null)"}})
    compadd -a names
}

_cloud_init_list_keys() {
    local -a keys
    keys=(${(f)"$(cloud-init explain 2>/dev/null)"})
    compadd -a keys
}
"#;

pub fn completion() -> String {
    let mut text = format!("#compdef cloud-init cloud-id\n# {SOURCE}\n{HELPERS}");
    for path in paths().iter().rev() {
        text.push_str(&command_function(path));
    }
    text + "\ncase $service in\n    cloud-id) _cloud_id \"$@\" ;;\n    *) _cloud_init \"$@\" ;;\nesac\n"
}

fn function_name(path: &[&CommandSpec]) -> String {
    format!("_{}", words(path).replace([' ', '-'], "_"))
}

fn command_function(path: &[&'static CommandSpec]) -> String {
    let Some(command) = path.last() else { return String::new() };
    let options: Vec<String> = offered(command).map(option_words).collect();
    let name = function_name(path);
    if command.commands.is_empty() {
        let positional = positional(command).map(|positional| vec![positional]).unwrap_or_default();
        let lines = [options, positional].concat().join(" \\\n        ");
        return format!("\n{name}() {{\n    _arguments \\\n        {lines}\n}}\n");
    }
    let mut text =
        format!("\n{name}() {{\n    local curcontext=$curcontext state line\n    local -a commands\n");
    text.push_str("    typeset -A opt_args\n    commands=(\n");
    for command in command.listed_commands() {
        text.push_str(&format!("        '{}:{}'\n", command.name, command.about.replace('\'', "'\\''")));
    }
    text.push_str(&format!("    )\n    _arguments -C \\\n        {} \\\n", options.join(" \\\n        ")));
    text.push_str("        ': :->command' \\\n        '*:: :->arguments'\n    case $state in\n");
    text.push_str("        command) _describe -t commands command commands ;;\n        arguments)\n");
    text.push_str("            case $words[1] in\n");
    for command in command.listed_commands() {
        let inner = function_name(&[path, &[command]].concat());
        text.push_str(&format!("                {}) {inner} ;;\n", command.name));
    }
    text + "            esac ;;\n    esac\n}\n"
}

fn option_words(option: &OptionSpec) -> String {
    let about = format!("[{}]", escaped(option.help));
    let value = match option.arity {
        Arity::Nothing => String::new(),
        Arity::One(value) | Arity::OneOrMore(value) => format!(":{}:{}", value.name, action(value.kind)),
        Arity::AtMostOne(value, _) => format!("::{}:{}", value.name, action(value.kind)),
    };
    // `+` and `=`: the value may also stand in the same word.
    let (plus, equals) = if value.is_empty() { ("", "") } else { ("+", "=") };
    match (option.letter, option.repeatable) {
        (Some(letter), true) => {
            format!("'*'{{-{letter}{plus},--{}{equals}}}'{about}{value}'", option.long)
        }
        (Some(letter), false) => {
            format!("'(-{letter} --{0})'{{-{letter}{plus},--{0}{equals}}}'{about}{value}'", option.long)
        }
        (None, true) => format!("'*--{}{equals}{about}{value}'", option.long),
        (None, false) => format!("'--{}{equals}{about}{value}'", option.long),
    }
}

fn positional(command: &CommandSpec) -> Option<String> {
    let positional = command.positional?;
    let colons = match positional.count {
        Count::Optional => "::",
        Count::One => ":",
        Count::Many | Count::Rest => "*:",
    };
    Some(format!("'{colons}{}:{}'", positional.name, action(positional.kind)))
}

fn action(kind: ValueKind) -> String {
    match kind {
        ValueKind::Text => " ".to_string(),
        ValueKind::File => "_files".to_string(),
        ValueKind::Directory => "_files -/".to_string(),
        ValueKind::Choices(choices) => format!("({})", choices.join(" ")),
        ValueKind::Module => "_cloud_init_list_modules".to_string(),
        ValueKind::InstanceData => "_cloud_init_list_variables".to_string(),
        ValueKind::Key => "_cloud_init_list_keys".to_string(),
        ValueKind::Datasource => format!("({})", datasources()),
    }
}

/// Text within an option's brackets, inside single quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace('\'', "'\\''")
}
