//! Parses arguments by the option table, as argparse did: long options may be abbreviated or have their value after `=`,
//! letters may share a dash, options and positional arguments may be mixed. Scripts match argparse's error messages.

use std::collections::VecDeque;

use super::spec::{Arity, CommandSpec, Count, OptionSpec, ValueKind};

/// The values of one command, and of its subcommand.
pub struct Matches {
    spec: &'static CommandSpec,
    values: Vec<(&'static str, String)>,
    positionals: Vec<String>,
    pub command: Option<Box<Matches>>,
}

/// Why parsing ended early.
pub enum Stop {
    Help,
    Version,
    /// An error message as argparse writes it.
    Error(String),
    /// One about an unknown word, and the known one that is most similar.
    Similar(String, String),
}

impl Matches {
    /// Returns the names of this command and of its subcommands.
    pub fn path(&self) -> Vec<&'static str> {
        let below = self.command.iter().flat_map(|command| command.path());
        std::iter::once(self.spec.name).chain(below).collect()
    }

    /// Returns the values of the innermost subcommand.
    pub fn last(&self) -> &Matches {
        self.command.as_ref().map_or(self, |command| command.last())
    }

    fn option(&self, long: &str) -> Option<&'static OptionSpec> {
        self.spec.options.iter().find(|option| option.long == long)
    }

    /// Returns whether an option was given.
    pub fn flag(&self, long: &str) -> bool {
        self.values.iter().any(|(name, _)| *name == long)
    }

    /// Returns every value of an option or of the positional argument, in order.
    pub fn values(&self, long: &str) -> Vec<String> {
        if self.spec.positional.is_some_and(|positional| positional.name.replace('_', "-") == long) {
            return self.positionals.clone();
        }
        debug_assert!(self.option(long).is_some(), "--{long} is not in the table");
        self.values.iter().filter(|(name, _)| *name == long).map(|(_, value)| value.clone()).collect()
    }

    /// Returns the last value of an option, or the default that the table has for it.
    pub fn value(&self, long: &str) -> Option<String> {
        let default = || self.option(long)?.value()?.default.map(str::to_string);
        self.values(long).pop().or_else(default)
    }

    /// Returns a warning for each option that has no effect with another option that was given.
    pub fn unused_options(&self) -> Vec<String> {
        let is_given = |other: &&&str| match other.split_once('=') {
            Some((name, value)) => self.values.iter().any(|(long, text)| *long == name && text == value),
            None => self.values.iter().any(|(long, _)| long == *other),
        };
        let options = self.spec.options.iter().filter(|option| self.flag(option.long));
        let options = options.map(|option| (format!("--{}", option.long), option.ignored_with));
        let positional = self.spec.positional.filter(|_| !self.positionals.is_empty());
        let positional = positional.map(|given| (given.name.to_string(), given.ignored_with));
        let unused = options.chain(positional).filter_map(|(name, others)| {
            let other = others.iter().find(is_given)?.replace('=', " ");
            Some(format!("argument {name}: ignored, has no effect with --{other}"))
        });
        unused.chain(self.command.iter().flat_map(|command| command.unused_options())).collect()
    }
}

pub struct Parser {
    words: VecDeque<String>,
    /// The commands that were entered, for the help beside an error.
    pub path: Vec<&'static CommandSpec>,
    /// Unknown arguments. They are reported at the end, as by argparse.
    unknown: Vec<String>,
    /// After `--`, where no argument is an option.
    no_more_options: bool,
}

/// An argument that is an option.
struct Given {
    option: &'static OptionSpec,
    /// The value after `=`, or the letters after the first one.
    rest: Option<String>,
    is_letter: bool,
}

impl Parser {
    pub fn new(words: Vec<String>) -> Parser {
        Parser { words: words.into(), path: Vec::new(), unknown: Vec::new(), no_more_options: false }
    }

    /// Parses the arguments of a command. Returns an error for a usage error and for `--help` and `--version`.
    pub fn parse(&mut self, spec: &'static CommandSpec) -> Result<Matches, Stop> {
        let matches = self.command(spec)?;
        if self.unknown.is_empty() {
            return Ok(matches);
        }
        let message = format!("unrecognized arguments: {}", self.unknown.join(" "));
        let known = self.path.iter().flat_map(|command| command.all_options()).map(|option| option.long);
        let typed = self.unknown[0].strip_prefix("--").and_then(|word| word.split('=').next());
        Err(match typed.and_then(|name| config::did_you_mean(name, known)) {
            Some(near) => Stop::Similar(message, format!("--{near}")),
            None => Stop::Error(message),
        })
    }

    fn command(&mut self, spec: &'static CommandSpec) -> Result<Matches, Stop> {
        self.path.push(spec);
        let mut matches = Matches { spec, values: Vec::new(), positionals: Vec::new(), command: None };
        while let Some(word) = self.words.pop_front() {
            if !self.no_more_options {
                if word == "--" {
                    self.no_more_options = true;
                    continue;
                }
                if let Some(given) = resolve(spec, &word)? {
                    self.option(spec, &mut matches, given)?;
                    continue;
                }
                if looks_like_option(&word) {
                    self.unknown.push(word);
                    continue;
                }
            }
            if !spec.commands.is_empty() {
                let choices: Vec<&str> = spec.listed_commands().map(|c| c.name).collect();
                let Some(command) = spec.subcommand(&word) else {
                    // `plot` for `analyze plot`.
                    let is_below = |command: &&CommandSpec| command.commands.iter().any(|c| c.name == word);
                    return Err(
                        match (
                            invalid_choice(spec.commands_name, &word, &choices),
                            spec.commands.iter().find(is_below),
                        ) {
                            (Stop::Error(message), Some(above)) => {
                                Stop::Similar(message, format!("{} {word}", above.name))
                            }
                            (stop, _) => stop,
                        },
                    );
                };
                matches.command = Some(Box::new(self.command(command)?));
            } else {
                self.positional(spec, &mut matches, word);
            }
        }
        // A missing subcommand is reported by the caller.
        check_required(spec, &matches, self.path.len() == 1)?;
        Ok(matches)
    }

    fn positional(&mut self, spec: &CommandSpec, matches: &mut Matches, word: String) {
        match spec.positional.map(|positional| positional.count) {
            Some(Count::Rest) => {
                matches.positionals.push(word);
                matches.positionals.extend(self.words.drain(..));
            }
            Some(Count::Many) => matches.positionals.push(word),
            Some(_) if matches.positionals.is_empty() => matches.positionals.push(word),
            _ => self.unknown.push(word),
        }
    }

    fn option(
        &mut self,
        spec: &'static CommandSpec,
        matches: &mut Matches,
        given: Given,
    ) -> Result<(), Stop> {
        let Given { option, rest, is_letter } = given;
        let error = |problem: &str| {
            Err(Stop::Error(format!("argument {}: {problem}", option.display_name(spec.long_first))))
        };
        let (value, most, default) = match option.arity {
            Arity::Nothing => {
                if let Some(rest) = rest {
                    // `-lw`: the next letter is an option of its own.
                    let next = rest.chars().next().filter(|_| is_letter);
                    if !next.is_some_and(|letter| spec.all_options().any(|o| o.letter == Some(letter))) {
                        return error(&format!("ignored explicit argument '{rest}'"));
                    }
                    self.words.push_front(format!("-{rest}"));
                }
                match option.long {
                    "help" => return Err(Stop::Help),
                    "version" => return Err(Stop::Version),
                    long => matches.values.push((long, String::new())),
                }
                return Ok(());
            }
            Arity::One(value) => (value, 1, None),
            Arity::OneOrMore(value) => (value, usize::MAX, None),
            Arity::AtMostOne(value, default) => (value, 1, Some(default)),
        };
        let rest = rest.map(|rest| match rest.strip_prefix('=') {
            Some(value) if is_letter => value.to_string(),
            _ => rest,
        });
        let mut given = Vec::new();
        if let Some(rest) = rest {
            given.push(rest);
        } else {
            while given.len() < most && self.words.front().is_some_and(|word| !is_option(spec, word)) {
                given.extend(self.words.pop_front());
            }
        }
        match default {
            _ if !given.is_empty() => {}
            Some(default) => given.push(default.to_string()),
            None if most > 1 => return error("expected at least one argument"),
            None => return error("expected one argument"),
        }
        for text in given {
            if let ValueKind::Choices(choices) = value.kind
                && !choices.contains(&text.as_str())
            {
                return Err(invalid_choice(&option.display_name(spec.long_first), &text, choices));
            }
            matches.values.push((option.long, text));
        }
        Ok(())
    }
}

/// Finds the option that an argument names. Fails if an abbreviation is ambiguous.
fn resolve(spec: &'static CommandSpec, word: &str) -> Result<Option<Given>, Stop> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, rest) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (long, None),
        };
        if name.is_empty() {
            return Ok(None);
        }
        let found = |option| Ok(Some(Given { option, rest: rest.clone(), is_letter: false }));
        if let Some(option) = spec.all_options().find(|option| option.long == name) {
            return found(option);
        }
        let candidates: Vec<&OptionSpec> = spec.all_options().filter(|o| o.long.starts_with(name)).collect();
        return match candidates[..] {
            [] => Ok(None),
            [option] => found(option),
            _ => {
                let names: Vec<String> = candidates.iter().map(|o| format!("--{}", o.long)).collect();
                Err(Stop::Error(format!("ambiguous option: --{name} could match {}", names.join(", "))))
            }
        };
    }
    let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
    let Some(letter) = letters.next() else { return Ok(None) };
    let rest = Some(letters.as_str().to_string()).filter(|rest| !rest.is_empty());
    let option = spec.all_options().find(|option| option.letter == Some(letter));
    Ok(option.map(|option| Given { option, rest, is_letter: true }))
}

/// Returns whether an argument ends the values of the option before it.
fn is_option(spec: &'static CommandSpec, word: &str) -> bool {
    word == "--" || !matches!(resolve(spec, word), Ok(None)) || looks_like_option(word)
}

/// Returns whether argparse takes an unknown argument for an option: not a dash alone, a negative number or one with blanks.
fn looks_like_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.contains(' ') && encoding::float::parse(word).is_none()
}

fn check_required(spec: &CommandSpec, matches: &Matches, is_program: bool) -> Result<(), Stop> {
    let mut missing: Vec<String> = spec
        .options
        .iter()
        .filter(|option| option.required && !matches.flag(option.long))
        .map(|option| option.display_name(spec.long_first))
        .collect();
    if let Some(positional) = spec.positional
        && positional.count == Count::One
        && matches.positionals.is_empty()
    {
        missing.push(positional.name.to_string());
    }
    if !spec.commands.is_empty() && matches.command.is_none() && !is_program {
        missing.push(spec.commands_name.to_string());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Stop::Error(format!("the following arguments are required: {}", missing.join(", "))))
}

/// Returns argparse's error about a value that is not one of the choices.
pub fn invalid_choice(argument: &str, value: &str, choices: &[&str]) -> Stop {
    let list = choices.iter().map(|choice| format!("'{choice}'")).collect::<Vec<_>>().join(", ");
    let message = format!("argument {argument}: invalid choice: '{value}' (choose from {list})");
    let mut near: Vec<&str> =
        choices.iter().copied().filter(|choice| value.len() > 1 && choice.starts_with(value)).collect();
    if near.is_empty() {
        near.extend(config::did_you_mean(value, choices.iter().copied()));
    }
    if near.is_empty() { Stop::Error(message) } else { Stop::Similar(message, near.join("' or '")) }
}
