//! What a cloud-config and a network configuration may hold: one table each, from which come the checks at boot and
//! of `cloud-init schema`, the documentation of keys, and the JSON schema that editors use.
//!
//! What a module reads comes from its own declaration (`config::keys!`), with which it reads; `keys.txt` has the keys
//! that no module here reads.

mod check;
mod docs;
mod format;
mod grammar;
mod json;
mod table;

pub use check::{check_cloud_config, check_network};
pub use docs::{module_docs, module_names};
pub use json::{cloud_config_schema, network_schema};
pub use table::{BaseType, Deprecation, Field, MapFields, Section, Table, Type};

/// Whether there is a module of that name, here or upstream; dashes and underscores are the same.
pub(crate) fn is_module_name(name: &str) -> bool {
    let name = name.replace('-', "_");
    let sections =
        include_str!("keys.txt").lines().filter_map(|line| line.strip_prefix('[')?.split_once(']'));
    let others = sections.map(|(known, _)| known).filter(|known| *known != "base");
    let mut known = crate::MODULE_DOCS.iter().map(|(known, _)| *known).chain(others);
    // An old name that lists may still have.
    name == "ubuntu_advantage" || known.any(|known| known == name)
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
