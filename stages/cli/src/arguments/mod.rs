//! The command line: argh's structs in `commands`; what argparse took besides in `spelling`, what it said in `complaint`.

mod commands;
mod complaint;
mod spelling;

use argh::{EarlyExit, FromArgs};

pub use commands::*;
use complaint::{bad_choice, unknown_subcommand, usage_message};
use spelling::{normalise, take_root};

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

/// Reads the words behind the program's name, which is as it was called.
pub fn parse(called: &str, words: Vec<String>) -> Parsed {
    let is_id = called.rsplit('/').next() == Some("cloud-id");
    // By its own name the command is the whole of the program's.
    let name: &[&str] = if is_id { &[] } else { &["cloud-init"] };
    let taken = take_root(words).and_then(|(root, words)| Ok((directory(&root)?, words)));
    let (root, mut words) = match taken {
        Ok(taken) => taken,
        Err(message) => return Parsed::Usage(message, help(name, &[])),
    };
    if is_id {
        words.insert(0, "cloud-id".into());
    }
    let words = normalise(words);
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let parsed = match CloudInit::from_args(name, &texts) {
        Ok(parsed) => parsed,
        Err(EarlyExit { output, status: Ok(()) }) => return Parsed::Print(output),
        Err(EarlyExit { output, .. }) => {
            let message = unknown_subcommand(&texts).unwrap_or_else(|| usage_message(&output));
            return Parsed::Usage(message, help(name, &texts));
        }
    };
    if parsed.all_stages {
        let units = "each stage has a unit of its own here: cloud-init-local, cloud-init-network, cloud-config and \
                     cloud-final; nothing is left for a unit that runs all of them";
        return Parsed::Usage(format!("argument --all-stages: {units}"), help(name, &[]));
    }
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

/// The directory of `--root` as every program of ours sees it, whatever its working directory: absolute, without
/// links. So `.` below an image means the image, and a link to `/` this machine.
pub fn directory(root: &str) -> Result<String, String> {
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
    let below = |s| second.and_then(|below| ask(&[s, below, "--help"])).or_else(|| ask(&[s, "--help"]));
    first.and_then(below).or_else(|| ask(&["--help"])).unwrap_or_default()
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
        let Parsed::Usage(_, help) = parse("/usr/bin/cloud-id", words("--bogus")) else { panic!("no error") };
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
