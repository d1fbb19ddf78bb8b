//! What is wrong with the words, said as argparse said it: scripts read these lines.

use super::commands::{Command, Devel, DevelCommand, HotplugAction};

/// Choices that argparse checked.
pub fn bad_choice(command: &Command) -> Option<String> {
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
const OUTPUT_KINDS: &[&str] = &["eni", "netplan", "networkd", "sysconfig", "network-manager"];

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
const BELOW: [(&str, &[&str]); 2] = [
    ("analyze", &["blame", "show", "dump", "boot"]),
    ("devel", &["hotplug-hook", "net-convert", "render", "make-mime"]),
];

/// The complaint about a first word that is no subcommand, or about a second that is none of the first.
pub fn unknown_subcommand(words: &[&str]) -> Option<String> {
    let mut words = words.iter().filter(|w| !w.starts_with('-'));
    let first = words.next()?;
    let (word, choices) = match BELOW.iter().find(|(command, _)| command == first) {
        Some((_, choices)) => (words.next()?, *choices),
        None => (first, &SUBCOMMANDS[..]),
    };
    if choices.contains(word) || *word == "dhclient-hook" {
        return None;
    }
    let list = choices.iter().map(|c| format!("'{c}'")).collect::<Vec<_>>().join(", ");
    Some(format!("argument subcommand: invalid choice: '{word}' (choose from {list})"))
}

/// argh's complaint in one line, in argparse's words where they are the same complaint.
pub fn usage_message(output: &str) -> String {
    let line = output.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("bad arguments");
    if let Some(word) = line.strip_prefix("Unrecognized argument: ") {
        return format!("unrecognized arguments: {word}");
    }
    if line.starts_with("One of the following subcommands must be present") {
        return "the following arguments are required: subcommand".into();
    }
    if line == "Required options not provided:" {
        let names: Vec<&str> = output.lines().skip(1).map(str::trim).filter(|l| l.starts_with('-')).collect();
        let argparses = |n: &&str| {
            match *n {
                "--name" => "--name/-n",
                "--network-data" => "-p/--network-data",
                "--kind" => "-k/--kind",
                "--directory" => "-d/--directory",
                "--distro" => "-D/--distro",
                "--output-kind" => "-O/--output-kind",
                other => other,
            }
            .to_string()
        };
        let names: Vec<String> = names.iter().map(argparses).collect();
        return format!("the following arguments are required: {}", names.join(", "));
    }
    line.trim_end_matches(':').to_string()
}
