//! The rows of the option table. Parser, `--help`, completions and the manual page's synopses read these rows;
//! `commands` has them.

/// A command with its options, its positional argument or its subcommands.
pub struct CommandSpec {
    pub name: &'static str,
    /// One sentence for `--help` and completions.
    pub about: &'static str,
    pub options: &'static [OptionSpec],
    pub positional: Option<Positional>,
    pub commands: &'static [CommandSpec],
    /// The name of the choice of a subcommand in argparse's errors.
    pub commands_name: &'static str,
    /// Accepted, but neither in help nor in completions.
    pub hidden: bool,
    /// Upstream declared the long names of this command's options first, and its errors name them in that order.
    pub long_first: bool,
}

/// Returns a command.
pub const fn command(name: &'static str, about: &'static str, options: &'static [OptionSpec]) -> CommandSpec {
    let (positional, commands, commands_name, hidden, long_first) = (None, &[], "subcommand", false, false);
    CommandSpec { name, about, options, positional, commands, commands_name, hidden, long_first }
}

/// An option, by its long name.
pub struct OptionSpec {
    pub long: &'static str,
    pub letter: Option<char>,
    pub arity: Arity,
    pub help: &'static str,
    pub required: bool,
    /// May be given more than once; otherwise the last one counts.
    pub repeatable: bool,
    /// Accepted for compatibility: without effect, and not offered by completions.
    pub ignored: bool,
    /// Options (`NAME` or `NAME=VALUE`) that make this one have no effect; a warning reports it.
    pub ignored_with: &'static [&'static str],
}

/// The number of values an option takes.
#[derive(Clone, Copy)]
pub enum Arity {
    Nothing,
    One(ValueSpec),
    /// At most one; without it the option means this value.
    AtMostOne(ValueSpec, &'static str),
    OneOrMore(ValueSpec),
}

#[derive(Clone, Copy)]
pub struct ValueSpec {
    /// For the usage line, in upper case.
    pub name: &'static str,
    pub kind: ValueKind,
    pub default: Option<&'static str>,
}

/// The kind of an option's value: the parser checks choices, completions offer them.
#[derive(Clone, Copy)]
pub enum ValueKind {
    Text,
    File,
    Directory,
    Choices(&'static [&'static str]),
    /// A module of this machine's cloud.cfg.
    Module,
    /// A name of the instance data.
    InstanceData,
    /// A dotted key of a cloud-config.
    Key,
    Datasource,
}

/// The positional arguments of a command.
#[derive(Clone, Copy)]
pub struct Positional {
    pub name: &'static str,
    /// For completions.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests generate completions"))]
    pub kind: ValueKind,
    pub help: &'static str,
    pub count: Count,
    /// As for an option.
    pub ignored_with: &'static [&'static str],
}

/// Returns the positional arguments of a command.
pub const fn positional(name: &'static str, kind: ValueKind, help: &'static str, count: Count) -> Positional {
    Positional { name, kind, help, count, ignored_with: &[] }
}

impl Positional {
    /// Is ignored together with one of these options.
    pub const fn ignored_with(self, others: &'static [&'static str]) -> Positional {
        Positional { ignored_with: others, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Optional,
    One,
    /// Any number, also between options.
    Many,
    /// All arguments from the first one on, whether or not they look like options.
    Rest,
}

/// Returns an option without a value.
pub const fn flag(long: &'static str, letter: Option<char>, help: &'static str) -> OptionSpec {
    let (arity, required, repeatable, ignored, ignored_with) = (Arity::Nothing, false, false, false, &[]);
    OptionSpec { long, letter, arity, help, required, repeatable, ignored, ignored_with }
}

/// Returns an option with one value.
pub const fn option(
    long: &'static str,
    letter: Option<char>,
    name: &'static str,
    kind: ValueKind,
    help: &'static str,
) -> OptionSpec {
    let arity = Arity::One(ValueSpec { name, kind, default: None });
    OptionSpec { arity, ..flag(long, letter, help) }
}

/// Returns an option whose value is the name of a file.
pub const fn file(long: &'static str, letter: Option<char>, help: &'static str) -> OptionSpec {
    option(long, letter, "FILE", ValueKind::File, help)
}

/// Returns an option whose value is one of these words.
pub const fn choice(
    long: &'static str,
    letter: Option<char>,
    name: &'static str,
    words: &'static [&'static str],
    help: &'static str,
) -> OptionSpec {
    option(long, letter, name, ValueKind::Choices(words), help)
}

impl OptionSpec {
    pub const fn required(self) -> OptionSpec {
        OptionSpec { required: true, ..self }
    }

    pub const fn repeatable(self) -> OptionSpec {
        OptionSpec { repeatable: true, ..self }
    }

    pub const fn ignored(self) -> OptionSpec {
        OptionSpec { ignored: true, ..self }
    }

    /// Is ignored together with one of these options.
    pub const fn ignored_with(self, others: &'static [&'static str]) -> OptionSpec {
        OptionSpec { ignored_with: others, ..self }
    }

    /// Sets the value that the command assumes without this option.
    pub const fn default(self, default: &'static str) -> OptionSpec {
        match self.arity {
            Arity::One(value) => {
                OptionSpec { arity: Arity::One(ValueSpec { default: Some(default), ..value }), ..self }
            }
            _ => self,
        }
    }

    /// Makes the value optional.
    pub const fn optional_value(self, meaning: &'static str) -> OptionSpec {
        match self.arity {
            Arity::One(value) => OptionSpec { arity: Arity::AtMostOne(value, meaning), ..self },
            _ => self,
        }
    }

    /// Takes every argument up to the next option.
    pub const fn one_or_more(self) -> OptionSpec {
        match self.arity {
            Arity::One(value) => OptionSpec { arity: Arity::OneOrMore(value), repeatable: true, ..self },
            _ => self,
        }
    }

    /// Returns the description of its value.
    pub fn value(&self) -> Option<ValueSpec> {
        match self.arity {
            Arity::Nothing => None,
            Arity::One(value) | Arity::AtMostOne(value, _) | Arity::OneOrMore(value) => Some(value),
        }
    }

    /// Returns the names as argparse writes them in errors: `-f/--format`, `--mode/-m`.
    pub fn display_name(&self, long_first: bool) -> String {
        match self.letter {
            Some(letter) if long_first => format!("--{}/-{letter}", self.long),
            Some(letter) => format!("-{letter}/--{}", self.long),
            None => format!("--{}", self.long),
        }
    }
}

/// An option of every command.
pub const HELP: OptionSpec = flag("help", Some('h'), "Print this help and exit.");

impl CommandSpec {
    pub const fn positional(self, positional: Positional) -> CommandSpec {
        CommandSpec { positional: Some(positional), ..self }
    }

    pub const fn commands(self, commands: &'static [CommandSpec]) -> CommandSpec {
        CommandSpec { commands, ..self }
    }

    pub const fn commands_name(self, commands_name: &'static str) -> CommandSpec {
        CommandSpec { commands_name, ..self }
    }

    pub const fn long_first(self) -> CommandSpec {
        CommandSpec { long_first: true, ..self }
    }

    pub const fn hidden(self) -> CommandSpec {
        CommandSpec { hidden: true, ..self }
    }

    /// Returns every option, `--help` first.
    pub fn all_options(&self) -> impl Iterator<Item = &OptionSpec> {
        std::iter::once(&HELP).chain(self.options)
    }

    /// Returns the subcommands that help and completions show.
    pub fn listed_commands(&self) -> impl Iterator<Item = &CommandSpec> {
        self.commands.iter().filter(|command| !command.hidden)
    }

    /// Returns the subcommand of this name.
    pub fn subcommand(&self, name: &str) -> Option<&'static CommandSpec> {
        self.commands.iter().find(|command| command.name == name)
    }
}
