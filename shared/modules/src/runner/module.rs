//! A module, as the runner sees it: a row of the table.

use config::{Findings, Key, KeyStruct, Node};
use distro::Distro;
use state::Frequency;
use system::Result;

use crate::Context;
use crate::schema::Target;
use crate::user_scripts::{ScriptDirectory, WrittenScript};

/// A module, as the runner sees it.
pub struct Module {
    /// The name in module lists, with underscores: `write_files`.
    pub name: &'static str,
    /// The frequency, unless the module list has another one.
    pub frequency: Frequency,
    /// The distributions that it supports.
    pub distros: Distros,
    /// Properties that the runner depends on.
    pub flags: &'static [ModuleFlag],
    /// Whether it runs only if a key is set.
    pub activation: Activation,
    /// The top-level keys that it reads; `cloud-init plan` shows them as the cause of an effect.
    pub keys: &'static [&'static [Key]],
    /// Former names, which module lists may still have, each with the version that deprecates it.
    pub former_names: &'static [(&'static str, &'static str)],
    /// Work that may start while the previous module runs.
    pub start_ahead: Option<StartAhead>,
    /// The scripts that it runs.
    pub scripts: Option<ScriptDirectory>,
    /// The script that it writes and another module runs.
    pub written_script: Option<WrittenScript>,
    /// Reports what `run` would, from the configuration alone or with the files of a machine.
    pub check: Option<Check>,
    /// Does the work.
    pub run: fn(&Context<'_>) -> Result<()>,
}

/// Adds what a module would report of a configuration.
pub type Check = for<'n> fn(Target<'n>, &'n Node, &mut Findings);

/// Work of a module that may start while the previous module of the list runs.
#[derive(Debug, Clone, Copy)]
pub struct StartAhead {
    /// The previous module.
    pub during: &'static str,
    /// Starts the work.
    pub start: fn(&Context<'_>),
}

/// Properties of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleFlag {
    /// Safe to repeat after an interruption. Without this flag, an interrupted module is reported and does not run again.
    Repeatable,
    /// It lets the owner of the machine log in, so it runs even if user-data could not be consumed.
    GrantsLogin,
    /// It runs at every boot and applies what the user configured, so it waits until user-data has been consumed.
    NeedsUserData,
}

/// The keys of which one must be set for a module to run.
#[derive(Debug, Clone, Copy)]
pub enum Activation {
    /// None: it always runs.
    Always,
    /// One of those that it reads.
    AnyKey,
    /// One of these.
    Keys(&'static [&'static str]),
}

impl Module {
    /// Returns a module for all distributions that always runs and reads no key.
    pub const fn new(
        name: &'static str,
        frequency: Frequency,
        run: fn(&Context<'_>) -> Result<()>,
    ) -> Module {
        Module {
            name,
            frequency,
            distros: Distros::All,
            flags: &[],
            activation: Activation::Always,
            keys: &[],
            former_names: &[],
            start_ahead: None,
            scripts: None,
            written_script: None,
            check: None,
            run,
        }
    }

    /// Returns the same for a module that reads its keys as `K`.
    pub const fn of<K: KeyStruct>(
        name: &'static str,
        frequency: Frequency,
        run: fn(&Context<'_>) -> Result<()>,
    ) -> Module {
        Module { keys: const { &[K::KEYS] }, ..Module::new(name, frequency, run) }
    }

    /// Returns the same for a module that runs only if one of its keys is set.
    pub const fn if_set<K: KeyStruct>(
        name: &'static str,
        frequency: Frequency,
        run: fn(&Context<'_>) -> Result<()>,
    ) -> Module {
        Module { activation: Activation::AnyKey, ..Module::of::<K>(name, frequency, run) }
    }

    /// Runs the module only if one of these keys is set.
    pub const fn activated_by(self, keys: &'static [&'static str]) -> Module {
        Module { activation: Activation::Keys(keys), ..self }
    }

    /// Runs the module on the distributions with these names only.
    pub const fn on(self, names: &'static [&'static str]) -> Module {
        Module { distros: Distros::Named(names), ..self }
    }

    /// Runs the module on the distributions that meet a condition only.
    pub const fn where_distro(self, condition: fn(&Distro) -> bool) -> Module {
        Module { distros: Distros::Where(condition), ..self }
    }

    /// Sets the properties of the module.
    pub const fn flags(self, flags: &'static [ModuleFlag]) -> Module {
        Module { flags, ..self }
    }

    /// Marks the module as [`ModuleFlag::Repeatable`], its only property.
    pub const fn repeatable(self) -> Module {
        self.flags(&[ModuleFlag::Repeatable])
    }

    /// Sets the check.
    pub const fn checked_by(self, check: Check) -> Module {
        Module { check: Some(check), ..self }
    }

    /// Returns the keys that activate the module; none if it always runs.
    pub fn activating_keys(&self) -> Vec<&'static str> {
        match self.activation {
            Activation::Always => Vec::new(),
            Activation::AnyKey => self.key_names().collect(),
            Activation::Keys(names) => names.to_vec(),
        }
    }

    /// Returns whether the configuration activates the module.
    pub(crate) fn is_active(&self, config: &Node) -> bool {
        let keys = self.activating_keys();
        keys.is_empty() || keys.iter().any(|key| config.get(key).is_some())
    }

    /// Returns the keys of the module in all spellings.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().copied().flatten().flat_map(Key::names)
    }

    /// Returns the version that deprecates a name of the module; `None` for its current name.
    pub(crate) fn deprecated_name(&self, name: &str) -> Option<&'static str> {
        self.former_names.iter().find(|(former, _)| *former == name).map(|(_, version)| *version)
    }

    /// Returns whether the module has a property.
    pub fn has(&self, flag: ModuleFlag) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns the module's keys that are set, separated by commas: the cause of its effects.
    pub(crate) fn configured_keys(&self, config: &Node) -> String {
        let names = self.keys.iter().copied().flatten().map(|key| key.name);
        names.filter(|name| config.get(name).is_some()).collect::<Vec<_>>().join(", ")
    }
}

/// The distributions that a module supports.
#[derive(Debug, Clone, Copy)]
pub enum Distros {
    /// Every distribution.
    All,
    /// The distributions with these names.
    Named(&'static [&'static str]),
    /// The distributions whose row in the table meets the condition.
    Where(fn(&Distro) -> bool),
}

impl Distros {
    /// Returns whether the module supports a distribution.
    pub fn contains(self, distro: &Distro) -> bool {
        match self {
            Distros::All => true,
            Distros::Named(names) => names.contains(&distro.name),
            Distros::Where(condition) => condition(distro),
        }
    }
}
