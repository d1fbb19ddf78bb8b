//! The schema of a cloud-config and of a network configuration: constant tables, from which the checks at boot and of
//! `cloud-init schema`, the documentation of keys, and the JSON schema for editors are derived.
//!
//! The keys of a module come from the declaration that reads them (`config::keys!`); `tables` has the keys that no module
//! reads.

mod advice;
mod check;
mod docs;
mod json;
mod section;
mod tables;
mod usable;

pub use advice::{OF_NOBODY, advice, keys_of_nobody};
pub use check::{check_cloud_config, check_network};
pub use docs::{entry, key_docs, key_paths, module_docs};
pub use json::{cloud_config_schema, network_schema};
pub use section::Section;
pub use tables::module_names;
pub(crate) use usable::NOWHERE;
pub use usable::{Target, check_usable, check_values};

/// Checks the keys that only an image's configuration has.
pub fn check_image(root: &config::Node) -> config::Findings {
    let mut reader = config::Reader::new();
    check::check_value(&mut reader, &[tables::boot::IMAGE], root);
    reader.into_findings()
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
