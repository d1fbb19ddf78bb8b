//! What a stage knows of the instance of this boot.

use state::Instance;

use crate::Boot;

/// The instance of this boot.
pub struct FoundInstance {
    /// The instance.
    pub instance: Instance,
    /// The machine was another instance before, or this is its first boot.
    pub is_new: bool,
    /// It comes from the cache; no metadata was fetched.
    pub is_cached: bool,
    /// The instance could not be recorded: the files on disk are missing or belong to another instance.
    pub is_unrecorded: bool,
}

impl FoundInstance {
    pub(crate) fn cached(instance: Instance) -> FoundInstance {
        FoundInstance { instance, is_new: false, is_cached: true, is_unrecorded: false }
    }

    /// Returns the instance's directory: the link to it, unless that is missing or leads to another instance.
    pub(crate) fn directory(&self, boot: &Boot) -> String {
        match self.is_unrecorded {
            true => boot.layout.instance_dir(&self.instance.id),
            false => boot.layout.instance(""),
        }
    }

    /// Returns whether the local stage completes the instance, without networking.
    pub fn is_local(&self) -> bool {
        self.instance.dsmode == state::DsMode::Local
    }
}

/// The result of a search without an instance.
#[derive(Default)]
pub struct NotFound {
    /// In the local stage: the cached instance of this machine, which only the network stage can find.
    pub(crate) expected: Option<Box<Instance>>,
    /// The failures of datasources.
    pub(crate) failures: Vec<String>,
}
