//! The arguments of a stage's program. They come from systemd units and from `cloud-init`, which has checked them.

/// The arguments of a stage's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// The root directory of the machine to configure.
    pub root: String,
    /// Additional configuration files; they override all others.
    pub files: Vec<String>,
    /// Log everything to standard error.
    pub debug: bool,
    /// Continue without a datasource.
    pub force: bool,
    /// Change nothing; leave what would be done in this directory (`cloud-init plan`).
    pub plan: Option<String>,
    /// What to do.
    pub task: Task,
}

/// What a stage's program is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// The stage itself, as a part of the boot: the only task that is recorded in status.json.
    Boot,
    /// Run the module list of this mode (`cloud-init modules --mode init`).
    Mode(String),
    /// Run one module (`cloud-init single`).
    Single(Single),
    /// Handle NICs that are plugged in while the machine runs (`cloud-init devel hotplug-hook`).
    Hotplug(Hotplug),
    /// Remove the network for metadata that a stopped or killed stage left. The stage's unit has it in ExecStopPost=, so that
    /// the network service starts without leftovers.
    UndoNetwork,
    /// Consume the instance's user-data, which the network stage could not, and run the modules that waited for it, up to
    /// those of this mode: the stage of that mode starts this.
    CatchUp(String),
    /// Record that the signal of this name ended the stage: what a stage's process becomes on that signal.
    Interrupted(String),
}

impl Task {
    /// Returns whether a person or a udev event asked for this, rather than the boot.
    pub fn is_manual(&self) -> bool {
        matches!(self, Task::Mode(_) | Task::Single(_) | Task::Hotplug(_))
    }
}

/// A task of `cloud-init devel hotplug-hook`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hotplug {
    /// Print whether hotplug is enabled.
    Query,
    /// Enable hotplug.
    Enable,
    /// Handle one event.
    Handle {
        /// The path of the device below /sys.
        path: String,
        /// The ACTION of the udev event.
        action: String,
    },
    /// Handle every event that udev's hook has queued.
    Listen,
}

/// The arguments of `cloud-init single`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Single {
    /// The module.
    pub name: String,
    /// The frequency that overrides the module's own.
    pub frequency: Option<String>,
    /// Send the events to the handlers of `reporting:`.
    pub report: bool,
    /// Arguments for the module.
    pub args: Vec<String>,
}

/// Reads the arguments of this process.
///
/// # Errors
/// Returns the text of a usage error.
pub fn from_env() -> Result<Args, String> {
    let words = std::env::args_os().skip(1).map(|word| {
        word.into_string().map_err(|word| format!("argument {}: not valid UTF-8", word.to_string_lossy()))
    });
    parse(words.collect::<Result<Vec<_>, _>>()?.into_iter())
}

/// Parses an argument list; options take `--key=value` or `--key value`.
///
/// # Errors
/// Returns the text of a usage error.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args {
        root: "/".into(),
        files: Vec::new(),
        debug: false,
        force: false,
        plan: None,
        task: Task::Boot,
    };
    // The option that chose the task.
    let mut chosen: Option<String> = None;
    let (mut frequency, mut report, mut module_args) = (None, false, Vec::new());
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let (key, inline) = match word.split_once('=') {
            Some((key, value)) if key.starts_with("--") => (key.to_string(), Some(value.to_string())),
            _ => (word, None),
        };
        let mut value = || {
            inline.clone().or_else(|| words.next()).ok_or(format!("argument {key}: expected one argument"))
        };
        let task = match key.as_str() {
            "--root" => {
                args.root = value()?;
                continue;
            }
            "-f" | "--file" => {
                args.files.push(value()?);
                continue;
            }
            "-d" | "--debug" => {
                args.debug = true;
                continue;
            }
            "--force" => {
                args.force = true;
                continue;
            }
            "--plan" => {
                args.plan = Some(value()?);
                continue;
            }
            "--frequency" => {
                frequency = Some(value()?);
                continue;
            }
            "--report" => {
                report = true;
                continue;
            }
            "--" => {
                module_args = words.by_ref().collect();
                continue;
            }
            "--mode" => Task::Mode(value()?),
            "--single" => Task::Single(Single { name: value()?, ..Single::default() }),
            "--undo-network" => Task::UndoNetwork,
            "--catch-up" => Task::CatchUp(value()?),
            "--interrupted" => Task::Interrupted(value()?),
            "--hotplug-query" => Task::Hotplug(Hotplug::Query),
            "--hotplug-enable" => Task::Hotplug(Hotplug::Enable),
            "--hotplug-listen" => Task::Hotplug(Hotplug::Listen),
            "--hotplug-handle" => {
                let value = value()?;
                let (action, path) =
                    value.split_once(':').ok_or("argument --hotplug-handle: expected ACTION:PATH")?;
                Task::Hotplug(Hotplug::Handle { path: path.into(), action: action.into() })
            }
            _ => return Err(format!("unrecognized arguments: {key}")),
        };
        if let Some(other) = chosen.filter(|other| *other != key) {
            return Err(format!("argument {key}: not allowed with argument {other}"));
        }
        args.task = task;
        chosen = Some(key);
    }
    match &mut args.task {
        Task::Single(single) => {
            (single.frequency, single.report, single.args) = (frequency, report, module_args);
        }
        _ if report => return Err("argument --report: only allowed with --single".into()),
        _ if frequency.is_some() => return Err("argument --frequency: only allowed with --single".into()),
        _ if !module_args.is_empty() => {
            return Err(format!("unrecognized arguments: {}", module_args.join(" ")));
        }
        _ => {}
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Args, String> {
        parse(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn options_with_and_without_equals_sign() {
        let args =
            parse_line("--root=/x --file a -f b --single ssh --report --frequency=always -- p q").unwrap();
        assert_eq!((args.root.as_str(), args.files.len()), ("/x", 2));
        let frequency = Some("always".to_string());
        let args_of_module = vec!["p".into(), "q".into()];
        let single = Single { name: "ssh".into(), frequency, report: true, args: args_of_module };
        assert_eq!(args.task, Task::Single(single));
    }

    #[test]
    fn arguments_select_one_task() {
        let handle = Hotplug::Handle { path: "/devices/a:b".into(), action: "add".into() };
        for (line, task) in [
            ("", Task::Boot),
            ("--force -d", Task::Boot),
            ("--mode init", Task::Mode("init".into())),
            ("--mode init --mode=config", Task::Mode("config".into())),
            ("--undo-network", Task::UndoNetwork),
            ("--catch-up config", Task::CatchUp("config".into())),
            ("--root / --debug --interrupted SIGTERM", Task::Interrupted("SIGTERM".into())),
            ("--hotplug-query", Task::Hotplug(Hotplug::Query)),
            ("--hotplug-handle add:/devices/a:b", Task::Hotplug(handle)),
        ] {
            assert_eq!(parse_line(line).unwrap().task, task, "{line}");
        }
    }

    #[test]
    fn conflicting_arguments_are_rejected() {
        for (line, message) in [
            ("--hotplug-handle add", "argument --hotplug-handle: expected ACTION:PATH"),
            ("--root", "argument --root: expected one argument"),
            ("--what", "unrecognized arguments: --what"),
            ("--mode init --single ssh", "argument --single: not allowed with argument --mode"),
            (
                "--undo-network --catch-up init",
                "argument --catch-up: not allowed with argument --undo-network",
            ),
            ("--frequency always", "argument --frequency: only allowed with --single"),
            ("--report", "argument --report: only allowed with --single"),
            ("--mode init -- x", "unrecognized arguments: x"),
        ] {
            assert_eq!(parse_line(line).unwrap_err(), message, "{line}");
        }
    }
}
