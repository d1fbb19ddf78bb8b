//! The command line: argh's structs in `commands`; what argparse took besides in `spelling`, what it said in `usage_error`.

mod commands;
mod spelling;
mod usage_error;

use argh::{EarlyExit, FromArgs};

pub use commands::*;
use spelling::{extract_root, normalise};
use usage_error::{expand_abbreviation, invalid_choice, unknown_subcommand, unrecognized, usage_message};

/// What the words ask for.
pub enum Parsed {
    Run {
        global: GlobalOptions,
        command: Command,
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

/// Reads the words behind the program's name, which is as it was called.
pub fn parse(called: &str, words: Vec<String>) -> Parsed {
    let is_id = called.rsplit('/').next() == Some("cloud-id");
    // By its own name the command is the whole of the program's.
    let name: &[&str] = if is_id { &[] } else { &["cloud-init"] };
    let taken = extract_root(words).and_then(|(root, words)| Ok((resolve_root(&root)?, words)));
    let (root, mut words) = match taken {
        Ok(taken) => taken,
        Err(message) => return Parsed::UsageError(message, help(name, &[])),
    };
    if is_id {
        words.insert(0, "cloud-id".into());
    }
    let mut words = normalise(words);
    let parsed = loop {
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        let (output, is_help) = match CloudInit::from_args(name, &texts) {
            Ok(parsed) => break parsed,
            Err(EarlyExit { output, status }) => (output, status.is_ok()),
        };
        if is_help {
            return Parsed::Print(output);
        }
        let command_help = help(name, &texts);
        // `--form json`, which argh does not know.
        let abbreviated = unrecognized(&output).map(|word| {
            // Before the subcommand stand the options of all.
            let is_first = texts.iter().find(|w| !w.starts_with('-') || **w == word) == Some(&word);
            let listed = if is_first { help(name, &[]) } else { command_help.clone() };
            (word, expand_abbreviation(word, &listed))
        });
        let message = match abbreviated {
            Some((word, Ok(Some(whole)))) => {
                let place = words.iter().position(|w| w == word);
                match place {
                    Some(place) => words[place] = whole,
                    None => {
                        return Parsed::UsageError(
                            usage_message(&output, &texts, &command_help),
                            command_help,
                        );
                    }
                }
                continue;
            }
            Some((_, Err(message))) => message,
            _ => unknown_subcommand(&texts).unwrap_or_else(|| usage_message(&output, &texts, &command_help)),
        };
        return Parsed::UsageError(message, command_help);
    };
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    if parsed.all_stages {
        let units = "each stage has a unit of its own here: cloud-init-local, cloud-init-network, cloud-config and \
                     cloud-final; nothing is left for a unit that runs all of them";
        return Parsed::UsageError(format!("argument --all-stages: {units}"), help(name, &[]));
    }
    if parsed.version {
        return Parsed::Print(format!("{} {}", program_path(called), env!("CARGO_PKG_VERSION")));
    }
    let Some(command) = parsed.command else {
        return Parsed::UsageError("a subcommand is required".into(), help(name, &[]));
    };
    if let Some(message) = invalid_choice(&command) {
        return Parsed::UsageError(message, help(name, &texts));
    }
    Parsed::Run { global: GlobalOptions { root, debug: parsed.debug, force: parsed.force }, command }
}

/// The path of the program that was called by this name: a script sees its own path, and so do its readers.
pub fn program_path(called: &str) -> String {
    let found = || {
        let path = std::env::var("PATH").ok()?;
        path.split(':').map(|dir| format!("{dir}/{called}")).find(|path| std::path::Path::new(path).is_file())
    };
    if called.contains('/') { called.to_string() } else { found().unwrap_or_else(|| called.to_string()) }
}

/// The directory of `--root` as every program of ours sees it, whatever its working directory: absolute, without
/// links. So `.` below an image means the image, and a link to `/` this machine.
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

pub fn help(name: &[&str], words: &[&str]) -> String {
    let ask = |words: &[&str]| match CloudInit::from_args(name, words) {
        Err(exit) if exit.status.is_ok() => Some(exit.output),
        _ => None,
    };
    let mut commands = words.iter().filter(|w| !w.starts_with('-')).copied();
    let (first, second) = (commands.next(), commands.next());
    let nested = |s| second.and_then(|second| ask(&[s, second, "--help"])).or_else(|| ask(&[s, "--help"]));
    first.and_then(nested).or_else(|| ask(&["--help"])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn usage_errors() {
        let message = |text: &str| match parse("cloud-init", words(text)) {
            Parsed::UsageError(message, help) => {
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
        for (words, said) in [
            ("status --form json --lon", "no error"),
            ("status --form=json", "no error"),
            ("clean --log --machine", "no error"),
            ("--deb status", "no error"),
            ("query --list", "no error"),
            ("schema --s", "ambiguous option: --s could match --schema-type, --system"),
            ("status --format", "argument --format: expected one argument"),
            ("query -f", "argument -f/--format: expected one argument"),
            ("schema -c", "argument -c/--config-file: expected one argument"),
            ("modules -m", "argument --mode/-m: expected one argument"),
            ("init --file", "argument --file/-f: expected one argument"),
            ("clean -c", "argument -c/--configs: expected at least one argument"),
            ("devel render", "the following arguments are required: user_data"),
            ("devel hotplug-hook", "the following arguments are required: -s/--subsystem, hotplug_action"),
            ("devel hotplug-hook -s net", "the following arguments are required: hotplug_action"),
            ("devel hotplug-hook query", "the following arguments are required: -s/--subsystem"),
        ] {
            assert_eq!(message(words), said, "{words}");
        }
        assert_eq!(message("analyze show -f%I%d --infile=- -ox"), "no error");
        assert_eq!(message("collect-logs -vvr -t x"), "no error");
        assert_eq!(message("analyze"), "the following arguments are required: subcommand");
        assert_eq!(
            message("analyze x"),
            "argument subcommand: invalid choice: 'x' (choose from 'blame', 'show', 'dump', 'boot')"
        );
        assert!(
            message("--all-stages").starts_with("argument --all-stages: each stage has a unit of its own")
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
