//! The arguments of a stage's program. They come from our units and from `cloud-init`, which has checked them.

use state::Frequency;

use crate::Mode;

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
    /// Change nothing; write the planned files and effects to this directory (`cloud-init plan`).
    pub plan: Option<String>,
    /// The task.
    pub task: Task,
}

/// The task of a stage's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// The stage itself, as a part of the boot: the only task that is recorded in status.json.
    Boot,
    /// Run the module list of this mode (`cloud-init modules --mode init`).
    Mode(Mode),
    /// Run one module (`cloud-init single`).
    Single(Single),
    /// Handle NICs that are plugged in while the machine runs (`cloud-init devel hotplug-hook`).
    Hotplug(Hotplug),
    /// Remove the network for metadata that a stopped or killed stage left. The stage's unit has it in ExecStopPost=, so that
    /// the network service starts without leftovers.
    UndoNetwork,
    /// Consume user-data after the network stage failed to, and run the deferred modules of the modes before this one. The
    /// stage of this mode starts the program for that.
    CatchUp(Mode),
    /// Confirm the work of this boot. The config stage starts the program for that at its end, and does not wait for it.
    Confirm,
    /// Record that the signal of this name ended the stage. A stage's process executes this when it gets the signal.
    Interrupted(String),
}

impl Task {
    /// Returns whether a person or a udev event started the task, and not the boot.
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
    pub frequency: Option<Frequency>,
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

/// Parses an argument list. A value is an argument of its own, and the options of `--single` follow it.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let (root, task) = ("/".into(), Task::Boot);
    let mut args = Args { root, files: Vec::new(), debug: false, force: false, plan: None, task };
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("argument {option}: expected one argument"));
        let mode =
            |name: String| Mode::from_word(&name).ok_or_else(|| format!("argument {option}: no mode {name}"));
        match (option.as_str(), &mut args.task) {
            ("--root", _) => args.root = value()?,
            ("--file", _) => args.files.push(value()?),
            ("--debug", _) => args.debug = true,
            ("--force", _) => args.force = true,
            ("--plan", _) => args.plan = Some(value()?),
            ("--mode", task) => *task = Task::Mode(mode(value()?)?),
            ("--catch-up", task) => *task = Task::CatchUp(mode(value()?)?),
            ("--undo-network", task) => *task = Task::UndoNetwork,
            ("--confirm", task) => *task = Task::Confirm,
            ("--interrupted", task) => *task = Task::Interrupted(value()?),
            ("--hotplug-query", task) => *task = Task::Hotplug(Hotplug::Query),
            ("--hotplug-enable", task) => *task = Task::Hotplug(Hotplug::Enable),
            ("--hotplug-listen", task) => *task = Task::Hotplug(Hotplug::Listen),
            ("--hotplug-handle", task) => {
                let value = value()?;
                let (action, path) =
                    value.split_once(':').ok_or("argument --hotplug-handle: expected ACTION:PATH")?;
                *task = Task::Hotplug(Hotplug::Handle { path: path.into(), action: action.into() });
            }
            ("--single", task) => *task = Task::Single(Single { name: value()?, ..Single::default() }),
            ("--frequency", Task::Single(single)) => {
                let word = value()?;
                let known = Frequency::parse(&word);
                single.frequency = Some(known.ok_or_else(|| format!("unknown frequency {word}"))?);
            }
            ("--report", Task::Single(single)) => single.report = true,
            ("--", Task::Single(single)) => single.args = words.by_ref().collect(),
            _ => return Err(format!("unrecognized arguments: {option}")),
        }
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
    fn arguments_select_a_task() {
        let handle = Hotplug::Handle { path: "/devices/a:b".into(), action: "add".into() };
        let args = vec!["p".into(), "--report".into()];
        let single = Single { name: "ssh".into(), frequency: Some(Frequency::Always), report: true, args };
        for (line, task) in [
            ("", Task::Boot),
            ("--force --debug", Task::Boot),
            ("--mode init", Task::Mode(Mode::Init)),
            ("--undo-network", Task::UndoNetwork),
            ("--confirm", Task::Confirm),
            ("--catch-up config", Task::CatchUp(Mode::Config)),
            ("--interrupted SIGTERM --root / --debug", Task::Interrupted("SIGTERM".into())),
            ("--hotplug-handle add:/devices/a:b", Task::Hotplug(handle)),
            ("--root /x --single ssh --frequency always --report -- p --report", Task::Single(single)),
        ] {
            assert_eq!(parse_line(line).unwrap().task, task, "{line}");
        }
        let args = parse_line("--root /x --file a --file b").unwrap();
        assert_eq!((args.root.as_str(), args.files.join(" ")), ("/x", "a b".into()));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for (line, message) in [
            ("--hotplug-handle add", "argument --hotplug-handle: expected ACTION:PATH"),
            ("--root", "argument --root: expected one argument"),
            ("--what", "unrecognized arguments: --what"),
            ("--mode what", "argument --mode: no mode what"),
            ("--frequency always", "unrecognized arguments: --frequency"),
            ("--single ssh --frequency daily", "unknown frequency daily"),
            ("--mode init -- x", "unrecognized arguments: --"),
        ] {
            assert_eq!(parse_line(line).unwrap_err(), message, "{line}");
        }
    }
}
