//! What is wrong with the words, said as argparse said it: scripts read these lines.

use netconfig::render::OUTPUT_KINDS;

use super::commands::{Command, Devel, DevelCommand, HotplugAction};

/// Choices that argparse checked.
pub fn invalid_choice(command: &Command) -> Option<String> {
    let check = |option: &str, value: &str, choices: &[&str]| {
        (!choices.contains(&value)).then(|| {
            let list = choices.iter().map(|c| format!("'{c}'")).collect::<Vec<_>>().join(", ");
            format!("argument {option}: invalid choice: '{value}' (choose from {list})")
        })
    };
    match command {
        Command::Modules(m) => check("--mode/-m", &m.mode, &["init", "config", "final"]),
        Command::Plan(p) => check("--format", &p.format, &["text", "json"]),
        Command::Query(q) if q.identify => {
            q.format.as_deref().and_then(|f| check("--format", f, &["text", "json"]))
        }
        Command::Schema(s) => {
            let kinds = &["cloud-config", "network-config"];
            s.schema_type.as_deref().and_then(|t| check("-t/--schema-type", t, kinds))
        }
        Command::Status(s) => check("--format", &s.format, &["json", "tabular", "yaml"]),
        Command::Single(s) => {
            s.frequency.as_deref().and_then(|f| check("--frequency", f, &["instance", "always", "once"]))
        }
        Command::Clean(c) => c
            .configs
            .iter()
            .find_map(|t| check("-c/--configs", t, &["all", "ssh_config", "network", "datasource", "fstab"])),
        Command::Devel(Devel { command: DevelCommand::NetConvert(n) }) => [
            ("-k/--kind", &n.kind, KINDS),
            ("-D/--distro", &n.distro, DISTROS),
            ("-O/--output-kind", &n.output_kind, OUTPUT_KINDS),
        ]
        .iter()
        .find_map(|(option, value, choices)| check(option, value, choices)),
        Command::Devel(Devel { command: DevelCommand::HotplugHook(h) }) => {
            check("-s/--subsystem", &h.subsystem, &["net"]).or_else(|| match &h.action {
                HotplugAction::Handle(h) => check("-u/--udevaction", &h.udevaction, &["add", "remove"]),
                _ => None,
            })
        }
        _ => None,
    }
}

const KINDS: &[&str] = &["eni", "yaml", "azure-imds", "network_data.json", "vmware-imc"];

/// Every distribution that upstream knows, in its order.
#[rustfmt::skip]
const DISTROS: &[&str] = &[
    "alpine", "aosc", "arch", "debian", "ubuntu", "raspberry-pi-os", "freebsd", "dragonfly", "gentoo", "cos",
    "netbsd", "openbsd", "almalinux", "amazon", "azurelinux", "centos", "cloudlinux", "eurolinux", "fedora",
    "mariner", "miraclelinux", "openmandriva", "photon", "rhel", "rocky", "virtuozzo", "opensuse", "opensuse-leap",
    "opensuse-microos", "opensuse-tumbleweed", "sle_hpc", "sle-micro", "sles", "suse", "openeuler", "OpenCloudOS",
    "TencentOS",
];

const SUBCOMMANDS: [&str; 14] = [
    "init",
    "modules",
    "single",
    "query",
    "features",
    "analyze",
    "schema",
    "collect-logs",
    "clean",
    "status",
    "cloud-id",
    "plan",
    "apply",
    "devel",
];

/// Subcommands that have subcommands.
const NESTED_SUBCOMMANDS: [(&str, &[&str]); 2] = [
    ("analyze", &["blame", "show", "dump", "boot"]),
    ("devel", &["hotplug-hook", "net-convert", "render", "make-mime"]),
];

/// The complaint about a first word that is no subcommand, or about a second that is none of the first.
pub fn unknown_subcommand(words: &[&str]) -> Option<String> {
    let mut words = words.iter().filter(|w| !w.starts_with('-'));
    let first = words.next()?;
    let (word, choices) = match NESTED_SUBCOMMANDS.iter().find(|(command, _)| command == first) {
        Some((_, choices)) => (words.next()?, *choices),
        None => (first, &SUBCOMMANDS[..]),
    };
    if choices.contains(word) || *word == "dhclient-hook" {
        return None;
    }
    let list = choices.iter().map(|c| format!("'{c}'")).collect::<Vec<_>>().join(", ");
    Some(format!("argument subcommand: invalid choice: '{word}' (choose from {list})"))
}

/// argh's complaint in one line, in argparse's words where they are the same complaint. `help` is that of the command
/// which the words are for.
pub fn usage_message(output: &str, words: &[&str], help: &str) -> String {
    let line = output.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("bad arguments");
    if let Some(word) = unrecognized(output) {
        return format!("unrecognized arguments: {word}");
    }
    let name = |option: &str| full_name(option, words, help);
    if let Some(option) =
        line.strip_prefix("No value provided for option '").and_then(|l| l.split('\'').next())
    {
        let wanted = if option.ends_with("-configs") { "at least one argument" } else { "one argument" };
        return format!("argument {}: expected {wanted}", name(option));
    }
    let missing = if words.contains(&"hotplug-hook") { "hotplug_action" } else { "subcommand" };
    if line.starts_with("One of the following subcommands must be present") {
        return format!("the following arguments are required: {missing}");
    }
    let listed = output.lines().skip(1).map(str::trim).filter(|l| !l.is_empty());
    if line.starts_with("Required positional arguments not provided") {
        return format!("the following arguments are required: {}", listed.collect::<Vec<_>>().join(", "));
    }
    if line == "Required options not provided:" {
        let mut names: Vec<String> = listed.filter(|l| l.starts_with('-')).map(name).collect();
        // argh tells one kind of what is missing, argparse all.
        if missing == "hotplug_action" && !["query", "handle", "enable"].iter().any(|w| words.contains(w)) {
            names.push(missing.to_string());
        }
        return format!("the following arguments are required: {}", names.join(", "));
    }
    line.trim_end_matches(':').to_string()
}

/// The word that argh did not know.
pub fn unrecognized(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.trim().strip_prefix("Unrecognized argument: "))
}

/// The long options of a command's help, each with its letter.
fn options(help: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    help.lines().filter_map(|line| {
        let line = line.trim_start();
        let (letter, rest) = match line.split_once(", ") {
            Some((letter, rest)) if letter.len() == 2 && letter.starts_with('-') => (Some(letter), rest),
            _ => (None, line),
        };
        let long = rest.split_whitespace().next().filter(|word| word.starts_with("--"))?;
        Some((letter, long))
    })
}

/// An option by all its names, in the order in which argparse has them.
fn full_name(option: &str, words: &[&str], help: &str) -> String {
    let found = options(help).find(|(letter, long)| *letter == Some(option) || *long == option);
    // The stages' own commands declare the long name first.
    let long_first = words.iter().find(|w| !w.starts_with('-')).is_some_and(|w| STAGES.contains(w));
    match found {
        Some((Some(letter), long)) if long_first => format!("{long}/{letter}"),
        Some((Some(letter), long)) => format!("{letter}/{long}"),
        Some((None, long)) => long.to_string(),
        None => option.to_string(),
    }
}

const STAGES: [&str; 3] = ["init", "modules", "single"];

/// What an abbreviated long option stands for, as argparse has it: the only one that begins so. An error names those
/// that it could be.
pub fn expand_abbreviation(word: &str, help: &str) -> Result<Option<String>, String> {
    if !word.starts_with("--") || word.len() < 3 {
        return Ok(None);
    }
    let found: Vec<&str> =
        options(help).map(|(_, long)| long).filter(|long| long.starts_with(word)).collect();
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.to_string())),
        _ => Err(format!("ambiguous option: {word} could match {}", found.join(", "))),
    }
}
