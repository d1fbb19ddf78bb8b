//! `device_aliases`: the user's names for devices. mounts and disk_setup resolve them.

use std::collections::BTreeMap;

use config::schema::{STR, Type, key, map_of};
use config::{FromNode, Node, Reader};

use crate::accounts::user_keys::SingleLine;

/// Names and their devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aliases(pub BTreeMap<String, String>);

impl FromNode for Aliases {
    const SCHEMA: &'static [Type] = &[map_of(&key("<alias>", &[STR]).doc("The path of the device."))];
    fn read(node: &Node, reader: &mut Reader) -> Option<Aliases> {
        let named = reader.named::<SingleLine>(node, "a map of names to devices")?;
        Some(Aliases(sort::collect(named.into_iter().map(|(name, SingleLine(device))| (name, device)))))
    }
}

config::keys! {
    /// The key, for modules that do not document it.
    pub struct Keys {
        /// Aliases for devices.
        device_aliases: Option<Aliases>;
    }
}
