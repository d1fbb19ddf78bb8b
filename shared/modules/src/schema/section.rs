//! A section of the schema: a module and its top-level keys.

use config::KeyStruct;
use config::schema::Field;
use state::Frequency;

/// A module and its top-level keys.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The module's name.
    pub name: &'static str,
    /// The description of a module that its keys do not describe. May be empty.
    pub about: &'static str,
    /// The top-level keys.
    pub keys: &'static [Field],
    /// The module list of the packaged cloud.cfg that has the module, and how often it runs.
    pub schedule: Option<(&'static str, Frequency)>,
    /// The reader of these keys, for tests that compare it with the table.
    #[cfg(test)]
    pub read: Option<fn(&config::Node, &mut config::Reader)>,
}

impl Section {
    /// Returns a section whose keys no code in this crate reads.
    pub const fn new(name: &'static str, about: &'static str, keys: &'static [Field]) -> Section {
        Section {
            name,
            about,
            keys,
            schedule: None,
            #[cfg(test)]
            read: None,
        }
    }

    /// Returns the section of a module that reads its keys as `K`, or has a description because it has none.
    pub const fn of<K: KeyStruct>(name: &'static str, list: &'static str, frequency: Frequency) -> Section {
        Section {
            schedule: Some((list, frequency)),
            #[cfg(test)]
            read: Some(|node, reader| drop(K::read_known(node, reader))),
            ..Section::new(name, if K::TABLE.is_empty() { K::ABOUT } else { "" }, K::TABLE)
        }
    }
}
