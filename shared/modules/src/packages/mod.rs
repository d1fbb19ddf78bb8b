//! Installation of packages, files of repositories, and installers that are downloaded as scripts.

use crate::Distros;

pub mod downloaded_script;
pub mod ini_repository;
pub mod package_sources;

/// The distributions that have apt, for the modules that upstream supports there.
pub const APT: Distros = Distros::Named(&["debian", "raspberry-pi-os", "ubuntu"]);
