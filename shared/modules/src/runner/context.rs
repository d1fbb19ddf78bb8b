//! The input of a module.

use std::time::Duration;

use config::{Finding, FindingKind, FromNode, Node, Position, Reader, SourceMap};
use distro::Distro;
use state::{Instance, Layout};
use system::{Error, Result, System, debug, deprecated, warning};

/// Returns the value of the one key that a module needs; `None` if the key is null or not set.
///
/// # Errors
/// Fails if the value is invalid. The reason and its position have then been logged.
pub fn valid_key<K, T>(
    context: &Context<'_>,
    key: &str,
    read: fn(&Node, &mut Reader) -> Option<K>,
    pick: fn(K) -> Option<T>,
) -> Result<Option<T>> {
    let value = context.read_keys(read).and_then(pick);
    let given = context.config.get(key).is_some_and(|n| !n.is_null());
    if value.is_none() && given {
        return Err(Error::new(format!("{key} is invalid; module skipped")));
    }
    Ok(value)
}

/// Does the same as [`valid_key`] for a key whose defaults change or destroy something: one invalid value below the key
/// invalidates all of it. `keys` are the key and its other spellings.
///
/// # Errors
/// Fails if the value, or one below it, is invalid.
pub fn fully_valid_key<K, T>(
    context: &Context<'_>,
    keys: &[&str],
    read: fn(&Node, &mut Reader) -> Option<K>,
    pick: fn(K) -> Option<T>,
) -> Result<Option<T>> {
    let (value, invalid) = context.read_keys_and_errors(read);
    let given = keys.iter().find(|key| context.config.get(key).is_some_and(|n| !n.is_null()));
    match (value.and_then(pick), given) {
        (Some(value), _) if !keys.iter().any(|key| invalid.contains(key)) => Ok(Some(value)),
        (_, Some(key)) => Err(Error::new(format!("{key} is invalid; module skipped"))),
        _ => Ok(None),
    }
}

/// Returns the last failure of several steps, with the others as its causes.
///
/// # Errors
/// Fails if there is a failure.
pub fn last_failure(mut failed: Vec<Error>) -> Result<()> {
    match failed.pop() {
        Some(e) => Err(e.with_causes(&failed)),
        None => Ok(()),
    }
}

/// The dotted paths of invalid values.
#[derive(Debug, Default)]
pub struct InvalidKeys(Vec<String>);

impl InvalidKeys {
    /// Returns whether the value of a key, or one below it, is invalid.
    pub fn contains(&self, key: &str) -> bool {
        let is_below = |path: &String| {
            path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().any(is_below)
    }
}

/// The machine, the paths, the configuration and the instance. A module uses no other input.
pub struct Context<'a> {
    /// The machine.
    pub sys: &'a System,
    /// The paths of the state.
    pub layout: &'a Layout,
    /// The instance.
    pub instance: &'a Instance,
    /// The distribution.
    pub distro: &'static Distro,
    /// The merged cloud-config. Modules read its `system_info` only through the field of that name.
    pub config: &'a Node,
    /// The positions of its values, for messages.
    pub source_map: &'a SourceMap,
    /// `system_info` of the merged configuration (default_user, package_mirrors, ssh_svcname, …).
    pub system_info: &'a Node,
    /// Arguments from the module list or the command line.
    pub args: &'a [Node],
    /// The time limit for each script of a user (`timeouts.script`; one hour unless the merged configuration sets it).
    pub script_timeout: Duration,
    /// The module began in an earlier boot, whose changes may be incomplete.
    pub is_repeat: bool,
    /// The datasource's policy for hotplugged NICs.
    pub hotplug: HotplugPolicy<'a>,
}

/// The datasource's policy for NICs that are plugged in while the machine runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct HotplugPolicy<'a> {
    /// Whether hotplugged NICs are configured by default.
    pub enabled: bool,
    /// Further conditions of the udev rule; empty for all NICs.
    pub udev_match: &'a str,
}

impl Context<'_> {
    /// Reads a struct of top-level keys. Invalid, unknown and deprecated keys are logged with their positions; invalid
    /// keys have their defaults. Returns `None` if a required key is missing.
    pub fn read_keys<T>(&self, read: fn(&Node, &mut Reader) -> Option<T>) -> Option<T> {
        self.read_keys_and_errors(read).0
    }

    /// Does the same as [`Context::read_keys`] and also returns the invalid values: for keys whose defaults change or
    /// destroy something, which an invalid value must not cause.
    pub fn read_keys_and_errors<T>(
        &self,
        read: fn(&Node, &mut Reader) -> Option<T>,
    ) -> (Option<T>, InvalidKeys) {
        let mut reader = Reader::new();
        let value = read(self.config, &mut reader);
        let findings = reader.into_findings();
        findings.iter().for_each(|finding| self.log_finding(finding));
        (
            value,
            InvalidKeys(findings.of_kind(FindingKind::Invalid).map(|finding| finding.key.clone()).collect()),
        )
    }

    /// Reads the value of one top-level key as `T`; `None` if it is missing or invalid.
    pub fn read_key<T: FromNode>(&self, key: &str) -> Option<T> {
        let node = self.config.get(key)?;
        let mut reader = Reader::new();
        let value = reader.nested(key, |r| T::read(node, r));
        for finding in reader.into_findings().iter() {
            self.log_finding(finding);
        }
        value
    }

    /// Logs a finding with the user's position, unless the check of user-data and vendor-data has reported it already.
    pub fn log_finding(&self, finding: &Finding) {
        let source = finding.at.source.as_deref().unwrap_or_default();
        let is_of_instance = source.starts_with(&self.layout.instance(""));
        let finding = Finding { at: self.source_map.resolve(self.sys, &finding.at), ..finding.clone() };
        match finding.kind {
            FindingKind::Unknown | FindingKind::Deprecated if is_of_instance => debug!(self.sys, "{finding}"),
            FindingKind::Invalid if self.source_map.was_reported(self.sys, &finding.at) => {
                debug!(self.sys, "{finding}")
            }
            FindingKind::Deprecated => deprecated!(self.sys, "{finding}"),
            _ => warning!(self.sys, "{finding}"),
        }
    }

    /// Returns the place of a value for messages: `FILE:LINE:COLUMN: KEY`.
    pub fn place(&self, at: &Position, key: &str) -> String {
        format!("{}: {key}", self.source_map.resolve(self.sys, at))
    }

    /// Returns the first argument as text, for modules in which it overrides a key.
    pub fn first_arg(&self) -> Option<String> {
        self.args.first().and_then(Node::scalar_text)
    }
}
