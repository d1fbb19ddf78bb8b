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
    /// The reader of these keys, for some modules; for tests that compare it with the table of all.
    pub read: Option<fn(&config::Node, &mut config::Reader)>,
}

/// The modules whose readers reject values that upstream's schema accepts, and that `schema` therefore runs. Those of all modules
/// would make the program a tenth larger.
const STRICT: [&str; 13] = [
    "ansible",
    "keyboard",
    "locale",
    "mounts",
    "package_update_upgrade_install",
    "puppet",
    "rsyslog",
    "set_hostname",
    "set_passwords",
    "ssh",
    "timezone",
    "users_groups",
    "write_files",
];

/// Returns whether a module is one of [`STRICT`]; for constants, in which strings cannot be compared otherwise.
const fn is_strict(name: &str) -> bool {
    let mut i = 0;
    while i < STRICT.len() {
        let (known, name) = (STRICT[i].as_bytes(), name.as_bytes());
        let mut same = 0;
        while same < known.len() && same < name.len() && known[same] == name[same] {
            same += 1;
        }
        if same == known.len() && same == name.len() {
            return true;
        }
        i += 1;
    }
    false
}

impl Section {
    /// Returns a section whose keys no code in this crate reads.
    pub const fn new(name: &'static str, about: &'static str, keys: &'static [Field]) -> Section {
        Section { name, about, keys, schedule: None, read: None }
    }

    /// Returns the section of a module that reads its keys as `K`, or has a description because it has none.
    pub const fn of<K: KeyStruct>(name: &'static str, list: &'static str, frequency: Frequency) -> Section {
        Section {
            schedule: Some((list, frequency)),
            read: match cfg!(test) || is_strict(name) {
                true => Some(|node, reader| drop(K::read_known(node, reader))),
                false => None,
            },
            ..Section::new(name, if K::TABLE.is_empty() { K::ABOUT } else { "" }, K::TABLE)
        }
    }
}
