//! What a cloud-config and a network configuration may hold: one table each, from which come the checks at boot and
//! of `cloud-init schema`, the documentation of keys, and the JSON schema that editors use.
//!
//! The modules' own typed declarations (`config::keys!`) say what a module reads; a test holds the two against each
//! other, so that neither has a key, an old spelling or a version that the other does not have.

mod check;
mod docs;
mod format;
mod json;
mod table;

pub use check::{cloud_config, network};
pub use docs::{docs, names};
pub use json::{cloud_config_schema, network_schema};
pub use table::{Field, Fields, Of, Old, Section, Table, Type};

/// Whether there is a module of that name, here or upstream; dashes and underscores are the same.
pub(crate) fn is_known(name: &str) -> bool {
    let name = name.replace('-', "_");
    let sections =
        include_str!("keys.txt").lines().filter_map(|line| line.strip_prefix('[')?.split_once(']'));
    let mut known = sections.into_iter().map(|(known, _)| known).filter(|known| *known != "base");
    // An old name that lists may still have.
    name == "ubuntu_advantage" || known.any(|known| known == name)
}

#[cfg(test)]
mod tests;
