//! The schema of a cloud-config and of a network configuration: constant tables, from which the checks at boot and of
//! `cloud-init schema`, the documentation of keys, and the JSON schema for editors are derived.
//!
//! The keys of a module come from the declaration that reads them (`config::keys!`); `tables` has the keys that no module
//! reads.

mod check;
mod docs;
mod json;
mod section;
mod tables;

pub use check::{check_cloud_config, check_network};
pub use docs::{module_docs, module_names};
pub use json::{cloud_config_schema, network_schema};
pub use section::Section;

use config::schema::Field;

/// Returns the sections of a cloud-config: `base` first, then the modules by name.
fn sections() -> Vec<&'static Section> {
    let mut all: Vec<&Section> = tables::SECTIONS.into_iter().flatten().chain(crate::DOCS).collect();
    sort::sort_by_key(&mut all, |section| (section.name != "base", section.name));
    all
}

/// Returns the top-level keys of a cloud-config.
fn top_level() -> impl Iterator<Item = &'static Field> {
    sections().into_iter().flat_map(|section| section.keys)
}

/// Returns whether cloud-init has a module of that name, here or upstream. Dashes and underscores are equivalent.
fn is_module_name(name: &str) -> bool {
    let name = name.replace('-', "_");
    // A former name, which lists may still have.
    name == "ubuntu_advantage" || module_names().contains(&name.as_str())
}

#[cfg(test)]
pub(crate) mod case_coverage;
#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod reference;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
