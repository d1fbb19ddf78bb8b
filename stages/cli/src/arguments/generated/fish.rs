//! Completion for fish.

use super::super::spec::{Arity, CommandSpec, OptionSpec, ValueKind};
use super::table::{SOURCE, datasources, offered, paths, words};

pub fn completion() -> String {
    let mut text = format!("# fish completion for cloud-init(1) and cloud-id(1)\n# {SOURCE}\n\n");
    text.push_str(
        "function __cloud_init_path --description 'Print the commands that the line has so far'\n    \
         set -l path cloud-init\n    for word in (commandline -opc)[2..-1]\n        switch \"$path $word\"\n            \
         case",
    );
    for path in paths().iter().filter(|path| path.len() > 1) {
        text.push_str(&format!(" {}", quoted(&words(path))));
    }
    text.push_str(
        "\n                set path \"$path $word\"\n        end\n    end\n    echo $path\nend\n\n\
         function __cloud_init_modules --description 'Print the modules that the configuration names'\n    \
         string match -rg '^ *- *([a-z][a-z0-9_-]*) *$' </etc/cloud/cloud.cfg 2>/dev/null | sort -u\nend\n\n\
         function __cloud_init_variables --description 'Print the names of instance data below the one that was typed'\n    \
         set -l parent (string match -r '.*(?=\\.)' -- (commandline -ct))\n    \
         cloud-init query --list-keys $parent 2>/dev/null | string replace -r '^' \"$(string join '' $parent.)\"\nend\n\n\
         complete -c cloud-init -c cloud-id -f\n",
    );
    for path in paths() {
        let Some(command) = path.last() else { continue };
        let prefix = match path[0].name {
            "cloud-id" => "complete -c cloud-id".to_string(),
            _ => format!("complete -c cloud-init -n {}", quoted(&condition(&words(&path)))),
        };
        for option in offered(command) {
            text.push_str(&format!("{prefix}{}\n", option_words(option)));
        }
        for command in command.listed_commands() {
            text.push_str(&format!("{prefix} -a {} -d {}\n", command.name, quoted(command.about)));
        }
        text.push_str(&positional(&prefix, command));
    }
    text
}

fn condition(path: &str) -> String {
    format!("test (__cloud_init_path) = \"{path}\"")
}

fn option_words(option: &OptionSpec) -> String {
    let letter = option.letter.map(|letter| format!(" -s {letter}")).unwrap_or_default();
    let value = match (option.arity, option.value().map(|value| value.kind)) {
        (_, None) => String::new(),
        // fish would take an optional value behind `=` only.
        (Arity::AtMostOne(..), Some(kind)) => values(kind),
        (_, Some(kind)) => format!(" -r{}", values(kind)),
    };
    format!("{letter} -l {}{value} -d {}", option.long, quoted(option.help))
}

fn values(kind: ValueKind) -> String {
    match kind {
        ValueKind::Text => String::new(),
        ValueKind::File => " -F".to_string(),
        ValueKind::Directory => " -a '(__fish_complete_directories)'".to_string(),
        ValueKind::Choices(choices) => format!(" -a {}", quoted(&choices.join(" "))),
        ValueKind::Module => " -a '(__cloud_init_modules)'".to_string(),
        ValueKind::InstanceData => " -a '(__cloud_init_variables)'".to_string(),
        ValueKind::Key => " -a '(cloud-init explain 2>/dev/null)'".to_string(),
        ValueKind::Datasource => format!(" -a {}", quoted(&datasources())),
    }
}

fn positional(prefix: &str, command: &CommandSpec) -> String {
    match command.positional.map(|positional| positional.kind) {
        None | Some(ValueKind::Text) => String::new(),
        Some(kind) => format!("{prefix}{}\n", values(kind)),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
