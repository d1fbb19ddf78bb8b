//! The command line. `commands` has the option table, `spec` the types of its rows; `parser` and `help` read it, and `args`
//! has the arguments that the commands receive. Options, completions and synopses have one source and cannot differ.

mod args;
mod commands;
#[cfg(test)]
mod generated;
mod help;
mod parser;
mod spec;

pub use args::*;
pub use commands::DEFAULT_LOG;
use commands::{CLOUD_ID, CLOUD_INIT};
pub use parser::Matches;
use parser::{Parser, Stop, invalid_choice};
use spec::CommandSpec;

/// The exit code of a usage error, as of Python's argparse.
pub const USAGE: u8 = 2;

static CLOUD_ID_PROGRAM: CommandSpec = CLOUD_ID;

/// The request of the command line.
pub enum Parsed {
    Run {
        global: GlobalOptions,
        command: Box<Matches>,
        /// Warnings about options that have no effect with another option.
        warnings: Vec<String>,
    },
    /// Help or the version.
    Print(String),
    /// A usage error: its message, and the help that goes with it.
    UsageError(String, String),
}

/// Options before the subcommand.
#[derive(Debug, Clone, Default)]
pub struct GlobalOptions {
    pub root: String,
    pub debug: bool,
    pub force: bool,
}

/// Parses the arguments after the program name. `called` is the name as it was typed: `cloud-id` is a program of its own.
pub fn parse(called: &str, words: Vec<String>) -> Parsed {
    let program = if called.rsplit('/').next() == Some("cloud-id") { &CLOUD_ID_PROGRAM } else { &CLOUD_INIT };
    let mut words = words;
    if program.name == CLOUD_INIT.name && words.first().is_some_and(|word| word == "help") {
        words.remove(0);
        words.push("--help".to_string());
    }
    let mut parser = Parser::new(Vec::new());
    let parsed = extract_root(words).map_err(Stop::Error).and_then(|(root, words)| {
        parser = Parser::new(words);
        run(&mut parser, program, root)
    });
    if parser.path.is_empty() {
        parser.path.push(program);
    }
    match parsed {
        Ok((global, command, warnings)) => Parsed::Run { global, command, warnings },
        Err(Stop::Help) => Parsed::Print(help::help(&parser.path)),
        Err(Stop::Version) => Parsed::Print(format!("{} {}", program_path(called), system::VERSION)),
        Err(Stop::Error(message)) => Parsed::UsageError(message, help::help(&parser.path)),
        Err(Stop::Similar(message, near)) => {
            let is_misplaced = message.ends_with(&format!(": {near}"));
            let hint = match is_misplaced {
                true => format!("'{near}' goes before the command"),
                false => format!("did you mean '{near}'?"),
            };
            Parsed::UsageError(message, hint)
        }
    }
}

fn run(
    parser: &mut Parser,
    program: &'static CommandSpec,
    root: Option<String>,
) -> Result<(GlobalOptions, Box<Matches>, Vec<String>), Stop> {
    let matches = parser.parse(program)?;
    let warnings = matches.unused_options();
    // `cloud-id` does not have the global options.
    let is_program = std::ptr::eq(program, &CLOUD_INIT);
    if is_program && matches.flag("all-stages") {
        let units = "cloud-init-local, cloud-init-network, cloud-config and cloud-final";
        return Err(Stop::Error(format!(
            "argument --all-stages: not supported: each stage is a separate unit ({units})"
        )));
    }
    // An abbreviated --root, which `extract_root` leaves to the table.
    let root = root.or_else(|| if is_program { matches.value("root") } else { None });
    let root = resolve_root(root.as_deref().unwrap_or("/")).map_err(Stop::Error)?;
    let (debug, force) = (is_program && matches.flag("debug"), is_program && matches.flag("force"));
    let command = if is_program { matches.command } else { Some(Box::new(matches)) };
    let command = command.ok_or_else(|| Stop::Error("a subcommand is required".to_string()))?;
    if command.path() == ["query"]
        && command.flag("identify")
        && let Some(format) = command.value("format")
        && !Format::WORDS.contains(&format.as_str())
    {
        return Err(invalid_choice("-f/--format", &format, Format::WORDS));
    }
    Ok((GlobalOptions { root, debug, force }, command, warnings))
}

/// Removes `--root DIR` from the arguments, at any position before `--`.
fn extract_root(words: Vec<String>) -> Result<(Option<String>, Vec<String>), String> {
    let (mut root, mut rest) = (None, Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word);
            rest.extend(words.by_ref());
        } else if word == "--root" {
            root = Some(words.next().ok_or("argument --root: expected one argument")?);
        } else if let Some(dir) = word.strip_prefix("--root=") {
            root = Some(dir.to_string());
        } else {
            rest.push(word);
        }
    }
    Ok((root, rest))
}

/// Returns the path of the program that was called by this name, as `--version` prints it: upstream is a script, which
/// sees its full path.
pub fn program_path(called: &str) -> String {
    let found = || {
        let path = std::env::var("PATH").ok()?;
        path.split(':').map(|dir| format!("{dir}/{called}")).find(|path| std::path::Path::new(path).is_file())
    };
    if called.contains('/') { called.to_string() } else { found().unwrap_or_else(|| called.to_string()) }
}

/// Returns the directory of `--root` as an absolute path without symbolic links, so that it does not depend on a program's
/// working directory, and a link to `/` means this machine. Fails if it is not an existing directory.
pub fn resolve_root(root: &str) -> Result<String, String> {
    if root == "/" {
        return Ok(root.into());
    }
    let problem = |why: &str| format!("argument --root: {root}: {why}");
    let real = std::fs::canonicalize(root).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => problem("no such directory"),
        std::io::ErrorKind::PermissionDenied => problem("permission denied"),
        _ => problem(&e.to_string()),
    })?;
    if !real.is_dir() {
        return Err(problem("not a directory"));
    }
    real.into_os_string().into_string().map_err(|_| problem("expected a path in UTF-8"))
}

/// Returns the help of a command by its name, for example `devel make-mime`.
pub fn help(words: &[&str]) -> String {
    let mut path: Vec<&CommandSpec> = vec![&CLOUD_INIT];
    for word in words {
        path.extend(path.last().and_then(|command| command.subcommand(word)));
    }
    help::help(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(Into::into).collect()
    }

    /// Options that have no effect with another option are reported.
    #[test]
    fn options_without_effect_are_reported() {
        let warnings = |text: &str| match parse("cloud-init", words(text)) {
            Parsed::Run { warnings, .. } => warnings,
            Parsed::UsageError(message, _) | Parsed::Print(message) => vec![message],
        };
        for (words, expected) in [
            ("query -a -i f", &[][..]),
            ("query --identify -a", &["argument --all: ignored, has no effect with --identify"]),
            ("query --explain users v1.region", &["argument varname: ignored, has no effect with --explain"]),
            ("query -f x -l", &["argument --list-keys: ignored, has no effect with --format"]),
            ("schema -c f --annotate", &[]),
            (
                "schema -c f --format json --annotate",
                &["argument --annotate: ignored, has no effect with --format json"],
            ),
            ("schema -c f --docs ssh", &["argument --config-file: ignored, has no effect with --docs"]),
            ("schema --explain users -c f", &[]),
            (
                "devel schema --explain users --format json",
                &["argument --format: ignored, has no effect with --explain"],
            ),
            (
                "devel net-convert -p a -k vmware-imc -d b -D debian -O eni -m e0,02:00:00:00:00:01",
                &["argument --mac: ignored, has no effect with --kind vmware-imc"],
            ),
            (
                "devel make-mime -l -a f:cloud-config",
                &["argument --attach: ignored, has no effect with --list-types"],
            ),
            ("plan --user-data f --fresh --sensitive", &[]),
        ] {
            assert_eq!(warnings(words), expected, "{words}");
        }
    }

    #[test]
    fn mistyped_words_have_a_suggestion_in_place_of_the_help() {
        for (text, near) in [
            ("statsu", "status"),
            ("status --lnog", "--long"),
            ("devel redner", "render"),
            ("status --format jsno", "json"),
            ("help plna", "plan"),
            ("stat", "status' or 'state"),
            ("devel mak", "make-mime"),
            ("plot", "analyze plot"),
        ] {
            let Parsed::UsageError(message, help) = parse("cloud-init", words(text)) else {
                panic!("{text}")
            };
            assert_eq!(help, format!("did you mean '{near}'?"), "{text}: {message}");
        }
        let Parsed::Print(text) = parse("cloud-init", words("help devel make-mime")) else {
            panic!("no help")
        };
        assert!(text.starts_with("Usage: cloud-init devel make-mime "), "{text}");
    }

    /// The options that the table names for `ignored_with` exist in the same command, with such a value.
    #[test]
    fn options_are_compared_only_with_existing_ones() {
        fn check(command: &CommandSpec) {
            let positional = command.positional.iter().flat_map(|positional| positional.ignored_with);
            for other in command.options.iter().flat_map(|option| option.ignored_with).chain(positional) {
                let (name, value) = other.split_once('=').unwrap_or((other, ""));
                let option = command.options.iter().find(|option| option.long == name);
                let choices = option.and_then(|option| option.value()).map(|value| value.kind);
                let is_choice = match choices {
                    Some(spec::ValueKind::Choices(choices)) => value.is_empty() || choices.contains(&value),
                    _ => value.is_empty(),
                };
                assert!(option.is_some() && is_choice, "{}: {other}", command.name);
            }
            command.commands.iter().for_each(check);
        }
        check(&CLOUD_INIT);
        check(&CLOUD_ID);
    }

    #[test]
    fn invalid_command_lines_are_usage_errors() {
        let message = |text: &str| match parse("cloud-init", words(text)) {
            Parsed::UsageError(message, help) => {
                assert!(!help.is_empty());
                message
            }
            Parsed::Print(_) | Parsed::Run { .. } => "no error".into(),
        };
        assert!(
            message("nocmd")
                .starts_with("argument subcommand: invalid choice: 'nocmd' (choose from 'init', ")
        );
        assert!(message("clean -c x").starts_with("argument -c/--configs: invalid choice: 'x'"));
        for (words, expected) in [
            ("status --wait --long", "no error"),
            ("status extra", "unrecognized arguments: extra"),
            (
                "modules --mode=x",
                "argument --mode/-m: invalid choice: 'x' (choose from 'init', 'config', 'final')",
            ),
            (
                "single -n ssh --frequency x",
                "argument --frequency: invalid choice: 'x' (choose from 'instance', 'always', 'once')",
            ),
            ("status --form json --lon", "no error"),
            ("status --form=json", "no error"),
            ("clean --log --machine", "no error"),
            ("--deb status", "no error"),
            ("query --list", "no error"),
            ("dhclient-hook", "no error"),
            ("schema --s", "ambiguous option: --s could match --schema-type, --system"),
            ("status --format", "argument --format: expected one argument"),
            ("query -f", "argument -f/--format: expected one argument"),
            ("schema -c", "argument -c/--config-file: expected one argument"),
            ("modules -m", "argument --mode/-m: expected one argument"),
            ("init --file", "argument --file/-f: expected one argument"),
            // Another command's name as a value, and values in the same argument.
            ("query -n analyze -u/x", "no error"),
            ("query -n clean -c", "unrecognized arguments: -c"),
            ("query -f=x -i=y", "no error"),
            ("single -n ssh -- -x --y=z", "no error"),
            ("clean --configs all network --logs", "no error"),
            ("status --long=x", "argument -l/--long: ignored explicit argument 'x'"),
            ("status -lx", "argument -l/--long: ignored explicit argument 'x'"),
            ("status --what x", "unrecognized arguments: --what x"),
            ("status --format --long", "argument --format: expected one argument"),
            (
                "status --format xml --format json",
                "argument --format: invalid choice: 'xml' (choose from 'json', 'tabular', 'yaml')",
            ),
            ("status --format yaml --format json", "no error"),
            ("schema --docs --system", "no error"),
            ("devel schema -c x", "no error"),
            (
                "query --identify -f x",
                "argument -f/--format: invalid choice: 'x' (choose from 'text', 'json')",
            ),
            ("clean -c", "argument -c/--configs: expected at least one argument"),
            ("devel render", "the following arguments are required: user_data"),
            ("devel hotplug-hook", "the following arguments are required: -s/--subsystem, hotplug_action"),
            ("devel hotplug-hook -s net", "the following arguments are required: hotplug_action"),
            ("devel hotplug-hook query", "the following arguments are required: -s/--subsystem"),
        ] {
            assert_eq!(message(words), expected, "{words}");
        }
        let Parsed::Run { command, .. } = parse("cloud-init", words("single -n ssh -- -x --y=z")) else {
            panic!("not parsed")
        };
        assert_eq!(command.values("argument"), ["-x", "--y=z"]);
        assert_eq!(message("analyze show -f%I%d --infile=- -ox"), "no error");
        assert_eq!(message("collect-logs -vvr -t x"), "no error");
        assert_eq!(message("analyze"), "the following arguments are required: subcommand");
        assert_eq!(
            message("analyze x"),
            "argument subcommand: invalid choice: 'x' (choose from 'blame', 'show', 'dump', 'boot', 'plot', 'metrics')"
        );
        assert!(
            message("--all-stages")
                .starts_with("argument --all-stages: not supported: each stage is a separate unit")
        );
        assert_eq!(message("devel hotplug-hook --subsystem=net query"), "no error");
        assert_eq!(message("devel hotplug-hook -s net handle -d /x -u add"), "no error");
        let block = message("devel hotplug-hook -s block query");
        assert!(block.starts_with("argument -s/--subsystem: invalid choice: 'block'"), "{block}");
        assert_eq!(message("init -l --root /tmp/."), "no error");
        let Parsed::UsageError(_, help) = parse("/usr/bin/cloud-id", words("--bogus")) else {
            panic!("no error")
        };
        assert!(help.starts_with("Usage: cloud-id ["), "{help}");
        let convert = |kind: &str, distro: &str, output: &str| {
            message(&format!("devel net-convert -p a -k{kind} --directory=b -D {distro} -O {output}"))
        };
        // Every row of the tables is accepted as a value.
        for distro in distro::Distro::all() {
            assert_eq!(convert("yaml", distro.name, "eni"), "no error");
        }
        for kind in netconfig::parse::INPUT_KINDS {
            assert_eq!(convert(kind, "openbsd", "networkd"), "no error", "{kind}");
        }
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
