//! Installation of packages, files of repositories, and installers that are downloaded as scripts.

pub mod downloaded_script;
pub mod ini_repository;
pub mod package_sources;

/// The distributions that have apt, for the modules that upstream supports there.
pub const APT: &[&str] = &["debian", "raspberry-pi-os", "ubuntu"];
