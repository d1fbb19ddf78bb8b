//! Completion for bash.

use super::super::spec::{CommandSpec, OptionSpec, ValueKind};
use super::table::{SOURCE, datasources, offered, paths, words};

const HEAD: &str = r#"
_cloud_init_modules() {
    # The modules that this machine's configuration names.
    sed -n 's/^ *- *\([a-z][a-z0-9_-]*\) *$/\1/p' /etc/cloud/cloud.cfg 2>/dev/null | sort -u
}

_cloud_init_variables() {
    # The names of instance data below the one that was typed.
    local parent=
    [[ $1 != *.* ]] || parent=${1%.*}
    cloud-init query --list-keys ${parent:+"$parent"} 2>/dev/null | sed "s/^/${parent:+$parent.}/"
}

_cloud_init() {
    local word previous path words i
    COMPREPLY=()
    word=${COMP_WORDS[COMP_CWORD]}
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    # bash splits --option=value at the sign.
    if [[ $word == = ]]; then
        word=
    elif [[ $previous == = && $COMP_CWORD -ge 2 ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    path=${COMP_WORDS[0]##*/}
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${COMP_WORDS[i]}" in
            *' --root') ((i++)) ;;
"#;

const TAIL: &str = r#"    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _cloud_init cloud-init
complete -F _cloud_init cloud-id
"#;

const VARIABLES: &str = "$(_cloud_init_variables \"$word\")";
const KEYS: &str = "$(cloud-init explain 2>/dev/null | grep -v '<')";

pub fn completion() -> String {
    let mut text = format!("# bash completion for cloud-init(1) and cloud-id(1)\n# {SOURCE}\n{HEAD}");
    for path in paths().iter().filter(|path| path.len() > 1) {
        text.push_str(&format!("            '{}') path='{0}' ;;\n", words(path)));
    }
    text.push_str("        esac\n    done\n\n    if [[ $word != -* ]]; then\n");
    text.push_str("        case $path,$previous in\n");
    text.push_str("            *,--root) mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return ;;\n");
    for path in paths() {
        for option in offered(path[path.len() - 1]) {
            if option.long != "root" {
                text.push_str(&value_row(&words(&path), option));
            }
        }
    }
    text.push_str("        esac\n    fi\n    [[ -z $words ]] || path=\n    case $path in\n        '') ;;\n");
    for path in paths() {
        text.push_str(&format!("        '{}') {} ;;\n", words(&path), words_of(path[path.len() - 1])));
    }
    text + TAIL
}

fn value_row(path: &str, option: &OptionSpec) -> String {
    let Some(value) = option.value() else { return String::new() };
    let letter = option.letter.map(|letter| format!("'{path},-{letter}' | ")).unwrap_or_default();
    let action = match value.kind {
        ValueKind::Text => "return".to_string(),
        ValueKind::File => "mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return".to_string(),
        ValueKind::Directory => "mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return".to_string(),
        ValueKind::Choices(choices) => format!("words='{}'", choices.join(" ")),
        ValueKind::Module => "words=$(_cloud_init_modules)".to_string(),
        ValueKind::InstanceData => format!("words={VARIABLES}"),
        ValueKind::Key => format!("words={KEYS}"),
        ValueKind::Datasource => format!("words='{}'", datasources()),
    };
    format!("            {letter}'{path},--{}') {action} ;;\n", option.long)
}

/// The options of a command, and its subcommands or the values of its positional argument.
fn words_of(command: &'static CommandSpec) -> String {
    let mut words: Vec<String> = offered(command).map(|option| format!("--{}", option.long)).collect();
    words.extend(command.listed_commands().map(|command| command.name.to_string()));
    let words = format!("words='{}'", words.join(" "));
    match command.positional.map(|positional| positional.kind) {
        Some(ValueKind::File) => format!(
            "{words}\n            [[ $word == -* ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n            \
             [[ $word == -* ]] || return"
        ),
        Some(kind @ (ValueKind::InstanceData | ValueKind::Key)) => {
            let found = if matches!(kind, ValueKind::Key) { KEYS } else { VARIABLES };
            format!("{words}\n            [[ $word == -* ]] || words+=\" {found}\"")
        }
        _ => words,
    }
}
