//! The command line: argh's structs, and before them the spellings that argparse took and argh does not
//! (`--mode=final`, `-lw`, `--root` anywhere).

use argh::{EarlyExit, FromArgs};

/// What the words ask for.
pub enum Parsed {
    Run {
        top: Top,
        command: Command,
    },
    /// Help or the version.
    Print(String),
    /// A usage error: its message, and the help that goes with it.
    Usage(String, String),
}

/// Options before the subcommand.
#[derive(Debug, Clone, Default)]
pub struct Top {
    pub root: String,
    pub debug: bool,
    pub force: bool,
}

/// Sets up a cloud machine at boot.
#[derive(FromArgs)]
struct CloudInit {
    /// print the version and exit
    #[argh(switch, short = 'v')]
    version: bool,
    /// more logging, on standard error
    #[argh(switch, short = 'd')]
    debug: bool,
    /// go on without a datasource
    #[argh(switch)]
    force: bool,
    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(FromArgs)]
#[argh(subcommand)]
#[allow(dead_code)]
pub enum Command {
    Init(Init),
    Modules(Modules),
    Single(Single),
    Status(Status),
    Query(Query),
    Clean(Clean),
    CloudId(CloudId),
    Plan(Plan),
    Apply(Apply),
    Features(Features),
    Schema(Schema),
    DhclientHook(DhclientHook),
    Devel(Devel),
}

/// Run the local or the network stage.
#[derive(FromArgs)]
#[argh(subcommand, name = "init")]
pub struct Init {
    /// the local stage: datasources that need no network
    #[argh(switch, short = 'l')]
    pub local: bool,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
}

/// Run the modules of a stage.
#[derive(FromArgs)]
#[argh(subcommand, name = "modules")]
pub struct Modules {
    /// init, config or final
    #[argh(option, short = 'm', default = "\"config\".to_string()")]
    pub mode: String,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
}

/// Run one module.
#[derive(FromArgs)]
#[argh(subcommand, name = "single")]
pub struct Single {
    /// the module: ssh, cc_ssh
    #[argh(option, short = 'n')]
    pub name: String,
    /// instance, always or once; the module's own when left out
    #[argh(option)]
    pub frequency: Option<String>,
    /// accepted as ever; events are in the log with and without it
    #[argh(switch)]
    #[allow(dead_code)]
    report: bool,
    /// further configuration, of the highest precedence
    #[argh(option, short = 'f')]
    pub file: Vec<String>,
    /// arguments for the module
    #[argh(positional, greedy)]
    pub argument: Vec<String>,
}

/// Report what cloud-init is doing, or how it went.
#[derive(FromArgs)]
#[argh(subcommand, name = "status")]
pub struct Status {
    /// json, tabular or yaml
    #[argh(option, default = "\"tabular\".to_string()")]
    pub format: String,
    /// more than one line
    #[argh(switch, short = 'l')]
    pub long: bool,
    /// wait until cloud-init has finished
    #[argh(switch, short = 'w')]
    pub wait: bool,
}

/// Show what is known of the instance.
#[derive(FromArgs)]
#[argh(subcommand, name = "query")]
pub struct Query {
    /// instance data to read instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
    /// user-data to read instead of this machine's
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// vendor-data to read instead of this machine's
    #[argh(option, short = 'v')]
    pub vendor_data: Option<String>,
    /// a template to render, such as '{{ v1.region }}'
    #[argh(option, short = 'f')]
    pub format: Option<String>,
    /// accepted as ever; what a template lacks is always said
    #[argh(switch, short = 'd')]
    #[allow(dead_code)]
    debug: bool,
    /// everything
    #[argh(switch, short = 'a')]
    pub all: bool,
    /// the keys below VARNAME
    #[argh(switch, short = 'l')]
    pub list_keys: bool,
    /// why cloud-init runs here, or does not: each datasource with the evidence for or against it, looked for
    /// anew (--format text or json)
    #[argh(switch)]
    pub identify: bool,
    /// print where a configuration key's value comes from, what it replaced and what was dropped
    #[argh(option)]
    pub explain: Option<String>,
    /// the old way to give VARNAME
    #[argh(option, short = 'n')]
    pub name: Option<String>,
    /// a dotted path: v1.region, ds.meta_data.uuid
    #[argh(positional)]
    pub varname: Option<String>,
}

/// Remove what earlier boots left, so that the next one is a first one.
#[derive(FromArgs)]
#[argh(subcommand, name = "clean")]
pub struct Clean {
    /// also the logs
    #[argh(switch, short = 'l')]
    pub logs: bool,
    /// also the seed directory
    #[argh(switch, short = 's')]
    pub seed: bool,
    /// also /etc/machine-id
    #[argh(switch)]
    pub machine_id: bool,
    /// also configuration that was generated: all, ssh_config, network, datasource, fstab
    #[argh(option, short = 'c')]
    pub configs: Vec<String>,
    /// then reboot
    #[argh(switch, short = 'r')]
    pub reboot: bool,
}

/// Print the id of the cloud.
#[derive(FromArgs)]
#[argh(subcommand, name = "cloud-id")]
pub struct CloudId {
    /// all of v1 as JSON
    #[argh(switch, short = 'j')]
    pub json: bool,
    /// the region too
    #[argh(switch, short = 'l')]
    pub long: bool,
    /// instance data to read instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
}

/// Show what the next boot would do, and do nothing.
#[derive(FromArgs)]
#[argh(subcommand, name = "plan")]
pub struct Plan {
    /// the boot of a new instance with this user-data
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// the datasource to find, instead of what the machine shows
    #[argh(option)]
    pub datasource: Option<String>,
    /// the boot of a new instance
    #[argh(switch)]
    pub fresh: bool,
    /// text or json
    #[argh(option, default = "\"text\".to_string()")]
    pub format: String,
    /// show what is in files that not everybody may read
    #[argh(switch)]
    pub sensitive: bool,
}

/// Do a boot's work on an image's tree, which --root names.
#[derive(FromArgs)]
#[argh(subcommand, name = "apply")]
pub struct Apply {
    /// user-data to apply, instead of what the tree's seed has
    #[argh(option, short = 'u')]
    pub user_data: Option<String>,
    /// the datasource to find
    #[argh(option)]
    pub datasource: Option<String>,
}

/// Check a configuration's keys and values, or explain what may stand in one.
#[derive(FromArgs)]
#[argh(subcommand, name = "schema")]
pub struct Schema {
    /// a cloud-config or network-config file to check
    #[argh(option, short = 'c')]
    pub config_file: Option<String>,
    /// what the file is: cloud-config (the default) or network-config
    #[argh(option, short = 't')]
    pub schema_type: Option<String>,
    /// instance data for a file that is a template, instead of this machine's
    #[argh(option, short = 'i')]
    pub instance_data: Option<String>,
    /// check what this instance was given
    #[argh(switch)]
    pub system: bool,
    /// print the file with marks at what is wrong or deprecated
    #[argh(switch)]
    pub annotate: bool,
    /// print the keys of a module, or of all
    #[argh(option)]
    pub docs: Option<String>,
    /// print where a key's value comes from, or every key's
    #[argh(option)]
    pub explain: Option<String>,
}

/// List what configuration formats are understood.
#[derive(FromArgs)]
#[argh(subcommand, name = "features")]
pub struct Features {}

/// Tools for people who write configurations and images.
#[derive(FromArgs)]
#[argh(subcommand, name = "devel")]
pub struct Devel {
    #[argh(subcommand)]
    pub command: DevelCommand,
}

#[derive(FromArgs)]
#[argh(subcommand)]
pub enum DevelCommand {
    NetConvert(NetConvert),
    HotplugHook(HotplugHook),
}

/// Convert a network configuration into the files of a network service.
#[derive(FromArgs)]
#[argh(subcommand, name = "net-convert")]
pub struct NetConvert {
    /// the configuration to read
    #[argh(option, short = 'p')]
    pub network_data: String,
    /// its format: eni, yaml, azure-imds, network_data.json, vmware-imc
    #[argh(option, short = 'k')]
    pub kind: String,
    /// where to write; made if it isn't there
    #[argh(option, short = 'd')]
    pub directory: String,
    /// the distribution whose paths and headers to use
    #[argh(option, short = 'D')]
    pub distro: String,
    /// NAME,MAC: a NIC's name by its address; may be repeated
    #[argh(option, short = 'm')]
    pub mac: Vec<String>,
    /// more on standard error: the configuration that was read
    #[argh(switch)]
    pub debug: bool,
    /// the files to write: eni, netplan, networkd, sysconfig, network-manager
    #[argh(option, short = 'O')]
    pub output_kind: String,
}

/// See to network devices that come while the machine runs.
#[derive(FromArgs)]
#[argh(subcommand, name = "hotplug-hook")]
pub struct HotplugHook {
    /// the kind of device: net
    #[argh(option, short = 's')]
    pub subsystem: String,
    #[argh(subcommand)]
    pub action: HotplugAction,
}

#[derive(FromArgs)]
#[argh(subcommand)]
pub enum HotplugAction {
    Query(HotplugQuery),
    Handle(HotplugHandle),
    Enable(HotplugEnable),
}

/// Print whether they are configured.
#[derive(FromArgs)]
#[argh(subcommand, name = "query")]
pub struct HotplugQuery {}

/// Configure one that came.
#[derive(FromArgs)]
#[argh(subcommand, name = "handle")]
pub struct HotplugHandle {
    /// its path below /sys
    #[argh(option, short = 'd')]
    pub devpath: String,
    /// what happened to it: add
    #[argh(option, short = 'u')]
    pub udevaction: String,
}

/// From now on configure them.
#[derive(FromArgs)]
#[argh(subcommand, name = "enable")]
pub struct HotplugEnable {}

/// Does nothing (removed upstream; old hooks call it).
#[derive(FromArgs)]
#[argh(subcommand, name = "dhclient-hook")]
pub struct DhclientHook {
    #[argh(positional, greedy)]
    #[allow(dead_code)]
    rest: Vec<String>,
}

/// Reads the words behind the program's name, which is as it was called.
pub fn parse(called: &str, words: Vec<String>) -> Parsed {
    let is_id = called.rsplit('/').next() == Some("cloud-id");
    let name = if is_id { "cloud-id" } else { "cloud-init" };
    let (root, mut words) = match take_root(words) {
        Ok(taken) => taken,
        Err(message) => return Parsed::Usage(message, help(name, &[])),
    };
    if is_id {
        words.insert(0, "cloud-id".into());
    }
    let words = normalise(words);
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let parsed = match CloudInit::from_args(&["cloud-init"], &texts) {
        Ok(parsed) => parsed,
        Err(EarlyExit { output, status: Ok(()) }) => return Parsed::Print(output),
        Err(EarlyExit { output, .. }) => {
            let message = unknown_subcommand(&texts).unwrap_or_else(|| usage_message(&output));
            return Parsed::Usage(message, help(name, &texts));
        }
    };
    if parsed.version {
        return Parsed::Print(format!("{called} {}", env!("CARGO_PKG_VERSION")));
    }
    let Some(command) = parsed.command else {
        return Parsed::Usage("a subcommand is required".into(), help(name, &[]));
    };
    if let Some(message) = bad_choice(&command) {
        return Parsed::Usage(message, help(name, &texts));
    }
    Parsed::Run { top: Top { root, debug: parsed.debug, force: parsed.force }, command }
}

/// Takes `--root DIR` out, wherever it stands before `--`.
fn take_root(words: Vec<String>) -> Result<(String, Vec<String>), String> {
    let (mut root, mut rest) = ("/".to_string(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word);
            rest.extend(words.by_ref());
        } else if word == "--root" {
            root = words.next().ok_or("argument --root: expected one argument")?;
        } else if let Some(dir) = word.strip_prefix("--root=") {
            root = dir.to_string();
        } else {
            rest.push(word);
        }
    }
    Ok((root, rest))
}

/// `--key=value` in two words, `-lw` as `-l -w`, `-mfinal` as `-m final`, and the subcommands of older articles.
fn normalise(words: Vec<String>) -> Vec<String> {
    let has = |name: &str| words.iter().any(|w| w == name);
    let with_value = match (has("net-convert"), has("hotplug-hook")) {
        (true, _) => "pkdDmO",
        (_, true) => "sdu",
        _ => "fmniucvt",
    };
    let mut result: Vec<String> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            result.extend(words.by_ref());
        } else if word == "-h" {
            result.push("--help".into());
        } else if let (true, Some((key, value))) = (word.starts_with("--"), word.split_once('=')) {
            result.extend([key.to_string(), value.to_string()]);
        } else if let Some(letters) =
            word.strip_prefix('-').filter(|w| !w.starts_with('-') && w.chars().count() > 1)
        {
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                result.push(format!("-{letter}"));
                let rest = letters.as_str();
                if with_value.contains(letter) && !rest.is_empty() && !result.is_empty() {
                    result.push(rest.trim_start_matches('=').to_string());
                    break;
                }
            }
        } else {
            result.push(word);
        }
    }
    // `devel schema` was its name once; --docs and schema's --explain may stand without a value.
    if result.first().is_some_and(|w| w == "devel") && result.get(1).is_some_and(|w| w == "schema") {
        result.remove(0);
    }
    if result.iter().any(|w| w == "schema") {
        for (option, usual) in [("--docs", "all"), ("--explain", "")] {
            if let Some(at) = result.iter().position(|w| w == option)
                && result.get(at + 1).is_none_or(|next| next.starts_with('-'))
            {
                result.insert(at + 1, usual.to_string());
            }
        }
    }
    // argparse's nargs="+": every word behind --configs is one more.
    if result.iter().any(|w| w == "clean") {
        let mut spread = Vec::new();
        let mut in_configs = false;
        for word in result {
            if in_configs && !word.starts_with('-') {
                if spread.last().is_none_or(|w: &String| w != "--configs") {
                    spread.push("--configs".to_string());
                }
                spread.push(word);
                continue;
            }
            in_configs = word == "-c" || word == "--configs";
            spread.push(if in_configs { "--configs".into() } else { word });
        }
        return spread;
    }
    result
}

/// Choices that argparse checked.
fn bad_choice(command: &Command) -> Option<String> {
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

const SUBCOMMANDS: [&str; 12] = [
    "init", "modules", "single", "query", "features", "schema", "clean", "status", "cloud-id", "plan",
    "apply", "devel",
];

/// The complaint about a first word that is no subcommand.
fn unknown_subcommand(words: &[&str]) -> Option<String> {
    let first = words.iter().find(|w| !w.starts_with('-'))?;
    if SUBCOMMANDS.contains(first) || *first == "dhclient-hook" {
        return None;
    }
    let list = SUBCOMMANDS.map(|c| format!("'{c}'")).join(", ");
    Some(format!("argument subcommand: invalid choice: '{first}' (choose from {list})"))
}

/// argh's complaint in one line, in argparse's words where they are the same complaint.
fn usage_message(output: &str) -> String {
    let line = output.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("bad arguments");
    if let Some(word) = line.strip_prefix("Unrecognized argument: ") {
        return format!("unrecognized arguments: {word}");
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

pub fn help(name: &str, words: &[&str]) -> String {
    let ask = |words: &[&str]| match CloudInit::from_args(&[name], words) {
        Err(exit) if exit.status.is_ok() => Some(exit.output),
        _ => None,
    };
    let subcommand = words.iter().find(|w| !w.starts_with('-')).copied();
    if subcommand == Some("devel") && words.contains(&"net-convert") {
        return ask(&["devel", "net-convert", "--help"]).unwrap_or_default();
    }
    subcommand.and_then(|s| ask(&[s, "--help"])).or_else(|| ask(&["--help"])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn the_spellings_of_argparse() {
        for (given, wanted) in [
            ("modules --mode=final", "modules --mode final"),
            ("status -lw", "status -l -w"),
            ("modules -mfinal", "modules -m final"),
            (
                "devel hotplug-hook -snet handle --devpath=/x -uadd",
                "devel hotplug-hook -s net handle --devpath /x -u add",
            ),
            ("single -n ssh -- -x --y=z", "single -n ssh -x --y=z"),
            ("clean --configs all network --logs", "clean --configs all --configs network --logs"),
        ] {
            assert_eq!(normalise(words(given)), words(wanted), "{given}");
        }
    }

    #[test]
    fn usage_errors() {
        let message = |text: &str| match parse("cloud-init", words(text)) {
            Parsed::Usage(message, help) => {
                assert!(!help.is_empty());
                message
            }
            Parsed::Print(_) | Parsed::Run { .. } => "no error".into(),
        };
        assert_eq!(message(""), "a subcommand is required");
        assert_eq!(message("status --what"), "unrecognized arguments: --what");
        assert!(message("modules -m x").starts_with("argument --mode/-m: invalid choice: 'x'"));
        assert!(message("single").starts_with("the following arguments are required: "));
        assert_eq!(message("status --wait --long"), "no error");
        assert_eq!(message("devel hotplug-hook --subsystem=net query"), "no error");
        assert_eq!(message("devel hotplug-hook -s net handle -d /x -u add"), "no error");
        let block = message("devel hotplug-hook -s block query");
        assert!(block.starts_with("argument -s/--subsystem: invalid choice: 'block'"), "{block}");
        assert_eq!(message("init -l --root /x"), "no error");
        let convert = |kind: &str, distro: &str, output: &str| {
            message(&format!("devel net-convert -p a -k{kind} --directory=b -D {distro} -O {output}"))
        };
        assert_eq!(convert("yaml", "TencentOS", "eni"), "no error");
        assert!(convert("xml", "debian", "eni").starts_with("argument -k/--kind: invalid choice: 'xml'"));
        assert!(convert("yaml", "plan9", "eni").starts_with("argument -D/--distro: invalid choice: 'plan9'"));
        assert!(convert("yaml", "debian", "x").starts_with("argument -O/--output-kind: invalid choice: 'x'"));
        let missing = message("devel net-convert -p a");
        assert_eq!(
            missing,
            "the following arguments are required: -k/--kind, -d/--directory, -D/--distro, -O/--output-kind"
        );
    }
}
