//! The arguments of a stage. They are few, and come from units and from `cloud-init`, which has checked them.

/// What a stage was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    pub root: String,
    /// Further configuration, of the highest precedence.
    pub files: Vec<String>,
    pub debug: bool,
    /// Go on without a datasource.
    pub force: bool,
    /// Run the list of another mode (`cloud-init modules --mode init`).
    pub mode: Option<String>,
    /// Run one module instead of the list.
    pub single: Option<Single>,
    /// Do nothing; leave what would be done in this scratch directory.
    pub plan: Option<String>,
    /// Instead of the stage, see to NICs that come while the machine runs (`cloud-init devel hotplug-hook`).
    pub hotplug: Option<Hotplug>,
    /// Instead of the stage, undo what one that was stopped or killed left of its network for metadata. Its unit says so
    /// in ExecStopPost=, so that the network service finds nothing of it.
    pub undo_network: bool,
    /// Instead of the stage, consume the instance's user-data, which it could not, and run the modules that waited for that
    /// in the stages before this one, which starts it.
    pub catch_up: Option<String>,
    /// Instead of the stage, record that the signal of this name has ended it: what a stage becomes that gets one.
    pub interrupted: Option<String>,
}

/// What is asked about NICs that come while the machine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hotplug {
    /// Whether they are configured.
    Query,
    /// From now on they are.
    Enable,
    /// One event: the device's path below /sys, and udev's word for what happened.
    Handle { path: String, action: String },
    /// Every event that udev's hook has left in the queue.
    Listen,
}

/// `cloud-init single`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Single {
    pub name: String,
    pub frequency: Option<String>,
    pub args: Vec<String>,
}

/// Reads the arguments of this process.
pub fn from_env() -> Result<Args, String> {
    let words = std::env::args_os().skip(1).map(|word| {
        word.into_string().map_err(|word| format!("argument {}: not valid UTF-8", word.to_string_lossy()))
    });
    parse(words.collect::<Result<Vec<_>, _>>()?.into_iter())
}

/// Reads an argument list, `--key=value` or `--key value`; an error is a usage error.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args {
        root: "/".into(),
        files: Vec::new(),
        debug: false,
        force: false,
        mode: None,
        single: None,
        plan: None,
        hotplug: None,
        undo_network: false,
        catch_up: None,
        interrupted: None,
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let (key, inline) = match word.split_once('=') {
            Some((key, value)) if key.starts_with("--") => (key.to_string(), Some(value.to_string())),
            _ => (word, None),
        };
        let mut value = || {
            inline.clone().or_else(|| words.next()).ok_or(format!("argument {key}: expected one argument"))
        };
        let single = |args: &mut Args| std::mem::take(args.single.get_or_insert_default());
        match key.as_str() {
            "--root" => args.root = value()?,
            "-f" | "--file" => args.files.push(value()?),
            "-d" | "--debug" => args.debug = true,
            "--force" => args.force = true,
            "--plan" => args.plan = Some(value()?),
            "--mode" => args.mode = Some(value()?),
            "--single" => args.single = Some(Single { name: value()?, ..single(&mut args) }),
            "--frequency" => args.single = Some(Single { frequency: Some(value()?), ..single(&mut args) }),
            "--undo-network" => args.undo_network = true,
            "--catch-up" => args.catch_up = Some(value()?),
            "--interrupted" => args.interrupted = Some(value()?),
            "--hotplug-query" => args.hotplug = Some(Hotplug::Query),
            "--hotplug-enable" => args.hotplug = Some(Hotplug::Enable),
            "--hotplug-listen" => args.hotplug = Some(Hotplug::Listen),
            "--hotplug-handle" => {
                let (action, path) = value()?
                    .split_once(':')
                    .map(|(a, p)| (a.to_string(), p.to_string()))
                    .ok_or("argument --hotplug-handle: expected ACTION:PATH")?;
                args.hotplug = Some(Hotplug::Handle { path, action });
            }
            "--" => {
                let rest = words.by_ref().collect();
                args.single = Some(Single { args: rest, ..single(&mut args) });
            }
            _ => return Err(format!("unrecognized arguments: {key}")),
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_and_without_equals_sign() {
        let parse = |text: &str| parse(text.split_whitespace().map(Into::into));
        let args = parse("--root=/x --file a -f b --single ssh --frequency=always -- p q").unwrap();
        assert_eq!((args.root.as_str(), args.files.len()), ("/x", 2));
        let single = args.single.unwrap();
        assert_eq!((single.name.as_str(), single.args.len()), ("ssh", 2));
        assert_eq!(single.frequency.as_deref(), Some("always"));
        let handle = Hotplug::Handle { path: "/devices/a:b".into(), action: "add".into() };
        assert_eq!(parse("--hotplug-handle add:/devices/a:b").unwrap().hotplug, Some(handle));
        assert!(parse("--undo-network").unwrap().undo_network);
        assert!(parse("--hotplug-handle add").is_err());
        assert!(parse("--root").is_err());
        assert!(parse("--what").is_err());
    }
}
