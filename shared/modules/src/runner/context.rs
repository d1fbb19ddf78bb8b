//! The input of a module.

use std::time::Duration;

use config::settings::Layer;
use config::{Finding, FindingKind, Findings, Key, KeyStruct, Node, Position, Reader, SourceMap};
use distro::Distro;
use state::{Instance, Layout};
use system::{Error, Result, System, debug, deprecated, warning};

/// Returns the value of a result; an error is logged as a warning (`or_warn!(sys, result)`), after its context if there is one
/// (`or_warn!(sys, result, "format", …)`), and does not stop the module.
macro_rules! or_warn {
    ($sys:expr, $result:expr) => { $result.inspect_err(|e| system::warning!($sys, "{e}")).ok() };
    ($sys:expr, $result:expr, $($what:tt)+) => {
        $result.inspect_err(|e| system::warning!($sys, "{}: {e}", format_args!($($what)+))).ok()
    };
}
pub(crate) use or_warn;

/// Does the same as `or_warn!` at level DEBUG.
macro_rules! or_debug {
    ($sys:expr, $result:expr) => {
        $result.inspect_err(|e| system::debug!($sys, "{e}")).ok()
    };
}
pub(crate) use or_debug;

/// Returns the last failure of several steps, with the others as its causes.
///
/// # Errors
/// Fails if there is a failure.
pub fn last_failure(mut failed: Vec<Error>) -> Result<()> {
    failed.pop().map_or(Ok(()), |e| Err(e.with_causes(&failed)))
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
    /// The layers of the configuration, in ascending order of precedence.
    pub layers: &'a [Layer],
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
    pub fn read_keys<K: KeyStruct>(&self) -> Option<K> {
        self.read_keys_and_findings().0
    }

    /// Does the same as [`Context::read_keys`] and also returns the findings: for keys whose defaults change or
    /// destroy something, which an invalid value must not cause.
    pub fn read_keys_and_findings<K: KeyStruct>(&self) -> (Option<K>, Findings) {
        let mut reader = Reader::new();
        let value = K::read_known(self.config, &mut reader);
        let findings = reader.into_findings();
        findings.iter().for_each(|finding| self.log_finding(finding));
        (value, findings)
    }

    /// Returns the value of the one key that a module needs; `None` if the key is null or not set.
    ///
    /// # Errors
    /// Fails if the value is invalid. The reason and its position have then been logged.
    pub fn valid_key<K: KeyStruct, T>(&self, pick: fn(K) -> Option<T>) -> Result<Option<T>> {
        let (keys, _) = self.read_keys_and_findings();
        self.require(K::KEYS, keys.and_then(pick))
    }

    /// Does the same as [`Context::valid_key`] for a key whose defaults change or destroy something: one invalid value below
    /// the key invalidates all of it.
    ///
    /// # Errors
    /// Fails if the value, or one below it, is invalid.
    pub fn fully_valid_key<K: KeyStruct, T>(&self, pick: fn(K) -> Option<T>) -> Result<Option<T>> {
        let (keys, findings) = self.read_keys_and_findings();
        let is_valid = !K::KEYS.iter().flat_map(Key::names).any(|key| findings.has_invalid(key));
        self.require(K::KEYS, keys.and_then(pick).filter(|_| is_valid))
    }

    /// Returns the value of keys; fails without one if a key is set.
    fn require<T>(&self, keys: &[Key], value: Option<T>) -> Result<Option<T>> {
        let is_set = |key: &&str| self.config.get(key).is_some_and(|node| !node.is_null());
        match keys.iter().flat_map(Key::names).find(is_set).filter(|_| value.is_none()) {
            Some(key) => Err(Error::new(format!("{key} is invalid; module skipped"))),
            None => Ok(value),
        }
    }

    /// Logs a finding with the user's position, unless the check of user-data and vendor-data or another module has reported it
    /// already.
    pub fn log_finding(&self, finding: &Finding) {
        let source = finding.at.source.as_deref().unwrap_or_default();
        let is_of_instance = source.starts_with(&self.layout.instance(""));
        let finding = Finding { at: self.source_map.resolve(self.sys, &finding.at), ..finding.clone() };
        match finding.kind {
            FindingKind::Unknown | FindingKind::Deprecated if is_of_instance => debug!(self.sys, "{finding}"),
            FindingKind::Invalid
                if self.source_map.was_reported(self.sys, &finding.at)
                    || !self.source_map.is_new(finding.to_string()) =>
            {
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
