//! What a module is given.

use std::time::Duration;

use config::{Finding, FromNode, Kind, Node, Origins, Reader};
use distro::Distro;
use state::{Instance, Layout};
use system::{Error, Result, System, debug, deprecated, warning};

/// The one key that a module lives from: `None` when it is null, an error when it cannot be used (what is wrong
/// with it is logged with its place by then).
pub fn required<K, T>(
    context: &Context<'_>,
    key: &str,
    read: fn(&Node, &mut Reader) -> Option<K>,
    pick: fn(K) -> Option<T>,
) -> Result<Option<T>> {
    let value = context.read_known(read).and_then(pick);
    let given = context.config.get(key).is_some_and(|n| !n.is_null());
    if value.is_none() && given {
        return Err(Error::new(format!("{key} cannot be used as it is written; nothing was done")));
    }
    Ok(value)
}

/// The door, the paths, the configuration and the instance. A module takes nothing from anywhere else.
pub struct Context<'a> {
    pub sys: &'a System,
    pub layout: &'a Layout,
    pub instance: &'a Instance,
    pub distro: &'static Distro,
    /// The merged cloud-config. Of its `system_info` modules take nothing but through the next field.
    pub config: &'a Node,
    /// Where its values were written, for messages.
    pub origins: &'a Origins,
    /// `system_info` of the merged configuration (default_user, package_mirrors, ssh_svcname, …).
    pub system_info: &'a Node,
    /// Arguments from the module list or the command line.
    pub args: &'a [Node],
    /// How long one script of a user may take (`timeouts.script`, one hour unless the merged configuration says otherwise).
    pub script_timeout: Duration,
    pub hotplug: Hotplug,
}

/// What the instance's datasource has to say of NICs that are plugged in later.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hotplug {
    /// They are configured unless the user says otherwise.
    pub wanted: bool,
    /// Which of them: further conditions of a udev rule, or nothing for all.
    pub only: &'static str,
}

impl Context<'_> {
    /// Reads a struct of top-level keys. What is wrong, unknown or old is logged with its place; keys that are
    /// wrong have their defaults. `None` when a required key is missing.
    pub fn read_known<T>(&self, read: fn(&Node, &mut Reader) -> Option<T>) -> Option<T> {
        let mut reader = Reader::new();
        let value = read(self.config, &mut reader);
        for finding in reader.into_findings().iter() {
            self.report(finding);
        }
        value
    }

    /// Reads the value of one top-level key as `T`; `None` when it is missing or cannot be used.
    pub fn read_key<T: FromNode>(&self, key: &str) -> Option<T> {
        let node = self.config.get(key)?;
        let mut reader = Reader::new();
        let value = reader.below(key, |r| T::read(node, r));
        for finding in reader.into_findings().iter() {
            self.report(finding);
        }
        value
    }

    /// Logs a finding at the place that the user knows, unless the check of user and vendor data has told it already.
    pub fn report(&self, finding: &Finding) {
        let source = finding.at.source.as_deref().unwrap_or_default();
        let is_of_instance = source.starts_with(&self.layout.instance(""));
        let finding = Finding { at: self.origins.of(self.sys, &finding.at), ..finding.clone() };
        match finding.kind {
            Kind::Unknown | Kind::Deprecated if is_of_instance => debug!(self.sys, "{finding}"),
            Kind::Wrong if self.origins.told(self.sys, &finding.at) => debug!(self.sys, "{finding}"),
            Kind::Deprecated => deprecated!(self.sys, "{finding}"),
            _ => warning!(self.sys, "{finding}"),
        }
    }

    /// The first argument as text, where a module lets it override its key.
    pub fn first_arg(&self) -> Option<String> {
        self.args.first().and_then(Node::scalar_text)
    }
}
