//! snap: acknowledges assertions and runs commands of snap(8).

use config::schema::{STR, Type, key, list, map_of};
use config::{FromNode, Node, Reader, Value};
use system::{Command, Error, OutputMode, Result, WriteOptions, debug, warning};

use crate::services::snap_seeding::wait_until_seeded;
use crate::values::text_values::in_key_order;
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module = Module::if_set::<Keys>("snap", Frequency::Instance, run).on(&["ubuntu"]);

config::keys! {
    pub struct Snap {
        /// Assertions for `snap ack`.
        assertions: Option<Assertions>;
        /// Commands to run: strings for the shell, or lists of arguments, with or without `snap` in front.
        commands: Option<Commands>;
    }
    pub struct Keys {
        /// Snap assertions and commands.
        snap: Option<Snap>, within min(1);
    }
}

/// Reads the values of a list, or those of a map in the order of its keys if it is sorted; one invalid value makes all invalid.
fn values<T>(
    node: &Node,
    sorted: bool,
    reader: &mut Reader,
    read: fn(&Node, &mut Reader) -> Option<T>,
) -> Option<Vec<T>> {
    let values = match &node.value {
        Value::Seq(items) => reader.items(items, read),
        Value::Map(map) => {
            let entries = if sorted { in_key_order(map) } else { map.iter().collect() };
            reader.entries(entries, |_, _, value, reader| read(value, reader))
        }
        _ => return reader.type_error(node, "a list or a map"),
    };
    values.into_iter().collect()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Assertions(Vec<String>);

impl FromNode for Assertions {
    const SCHEMA: &'static [Type] = &[
        map_of(&key("<name>", &[STR]).doc("The text of an assertion. The name is ignored.")).min(1),
        list(&[STR]).min(1).unique(),
    ];

    fn read(node: &Node, reader: &mut Reader) -> Option<Assertions> {
        values(node, false, reader, String::read).map(Assertions)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Shell(String),
    Words(Vec<String>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Commands(Vec<Line>);

impl FromNode for Commands {
    const SCHEMA: &'static [Type] = &[
        list(&[STR, list(&[STR])]).min(1),
        map_of(
            &key("<name>", &[STR, list(&[STR])]).doc("A command. Commands run in the order of their names."),
        )
        .min(1),
    ];

    fn read(node: &Node, reader: &mut Reader) -> Option<Commands> {
        values(node, true, reader, read_line).map(Commands)
    }
}

fn read_line(node: &Node, reader: &mut Reader) -> Option<Line> {
    match &node.value {
        Value::Str(text) if !text.contains('\0') => Some(Line::Shell(text.clone())),
        Value::Seq(items) => {
            // A leading null marks a command that is intentionally not one of snap.
            let (is_other, items) = match items.split_first() {
                Some((first, rest)) if first.is_null() => (true, rest),
                _ => (false, &items[..]),
            };
            let mut words = reader.items(items, String::read).into_iter().collect::<Option<Vec<_>>>()?;
            if words.is_empty() || words.iter().any(|word| word.contains('\0')) {
                return reader.type_error(node, "a command and its arguments");
            }
            if !is_other && words[0] != "snap" {
                words.insert(0, "snap".into());
            }
            Some(Line::Words(words))
        }
        _ => reader.type_error(node, "a command (a string, or a list of strings)"),
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    // One invalid item makes the whole list invalid: an incomplete installation is worse than no installation.
    let Some(snap) = context.fully_valid_key(|k: Keys| k.snap)? else { return Ok(()) };
    let sys = context.sys;
    if context.config.get("snap").is_none_or(Node::is_falsy) {
        debug!(sys, "snap is empty; skipping");
        return Ok(());
    }
    wait_until_seeded(context)?;
    let Assertions(assertions) = snap.assertions.unwrap_or_default();
    if !assertions.is_empty() {
        let path = context.layout.instance("snapd.assertions");
        sys.write(&path, assertions.join("\n"), WriteOptions::default())?;
        sys.run(&Command::new(["snap", "ack", &path]))?;
    }
    let mut failed = Vec::new();
    for (i, line) in snap.commands.unwrap_or_default().0.iter().enumerate() {
        let command = match line {
            Line::Shell(text) => {
                if !text.starts_with("snap ") {
                    warning!(sys, "snap.commands: command {} does not begin with snap", i + 1);
                }
                Command::shell(text)
            }
            Line::Words(words) => Command::of_user(words),
        };
        let command = command.output(OutputMode::Inherit).timeout(context.script_timeout);
        if or_warn!(sys, sys.run(&command), "snap.commands: command {}", i + 1).is_none() {
            failed.push((i + 1).to_string());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("snap.commands failed: {}", failed.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn words_of_failed_commands_are_not_shown() {
        let sandbox =
            Sandbox::new("snap: {commands: [snap login geheim, [login, geheim, --otp=geheim, --classic]]}");
        sandbox.stub("snap", "test $1 = wait");
        assert!(sandbox.run(&MODULE).is_err());
        let shown = [sandbox.logged_warnings(), sandbox.commands()].concat().join("\n");
        for command in ["/bin/sh -c REDACTED", "snap REDACTED REDACTED --otp=REDACTED --classic"] {
            assert!(shown.contains(command) && !shown.contains("geheim"), "{shown}");
        }
        assert!(sandbox.calls().ends_with("\nsnap login geheim\nsnap login geheim --otp=geheim --classic\n"));
    }
}
