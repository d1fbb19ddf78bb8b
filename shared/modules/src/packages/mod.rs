//! Package sources, and installers that are no packages.

pub mod downloaded_script;
pub mod ini_repository;
pub mod package_sources;
