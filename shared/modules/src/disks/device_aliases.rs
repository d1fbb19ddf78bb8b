//! `device_aliases`: the user's names for devices. mounts and disk_setup resolve them.

use std::collections::BTreeMap;

use config::schema::{STR, Type, key, map_of};
use config::{FromNode, Node, Reader, Value};

use crate::accounts::user_keys::SingleLine;

/// Names and their devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aliases(pub BTreeMap<String, String>);

impl FromNode for Aliases {
    const SCHEMA: &'static [Type] = &[map_of(&key("<alias>", &[STR]).doc("The path of the device."))];
    fn read(node: &Node, reader: &mut Reader) -> Option<Aliases> {
        let Value::Map(map) = &node.value else {
            return reader.type_error(node, "a map of names to devices");
        };
        let read = |(name, device): (&Node, &Node)| {
            let name = name.scalar_text()?;
            let device = reader.nested(&name, |r| SingleLine::read(device, r))?;
            Some((name, device.0))
        };
        Some(Aliases(map.iter().filter_map(read).collect()))
    }
}
