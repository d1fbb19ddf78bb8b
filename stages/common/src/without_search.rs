//! Modules that run before any stage has searched: `cloud-init single` in a container or while an image is built.

use datasource::{is_name, none_instance};
use state::{Status, write_instance_data};
use system::{info, warning};

use crate::{FoundInstance, Stage, StageName, platform};

/// Files in the run directory that the generator writes in each boot.
const GENERATOR_LOGS: [&str; 2] = ["cloud-init-generator.log", "ds-identify.log"];

impl Stage {
    /// Returns the instance of the datasource None if that is listed and no stage of this boot has searched. After a
    /// search that failed or was killed, the machine may be on a cloud, so None is not used. As in upstream, the instance
    /// is not recorded: there is no link, no cache and no previous instance, only semaphores and instance-data.
    pub(crate) fn instance_without_search(&mut self) -> Option<FoundInstance> {
        let status = Status::read(&self.sys, &self.layout);
        let has_begun = |stage: StageName| status.get(stage.status_key()).start.is_some();
        let is_listed = self.datasource_list().iter().any(|entry| is_name(entry, "None"));
        // In a boot the generator has run, and the stages that search may have been killed before they began.
        let is_boot = !self.args.task.is_manual()
            && GENERATOR_LOGS.iter().any(|log| self.sys.exists(self.layout.run(log)));
        if !is_listed || is_boot || has_begun(StageName::Local) || has_begun(StageName::Network) {
            return None;
        }
        let instance = none_instance(self.settings.system.at_path(&["datasource", "None"]));
        info!(self.sys, "Loaded datasource {0} - {0}", instance.description);
        self.layout = self.layout.clone().with_unlinked_instance(&instance.id);
        if !self.sys.exists(self.layout.instance_data()) {
            let config = self.settings.system.to_json();
            let platform = platform::platform(&self.sys);
            if let Err(e) = write_instance_data(&self.sys, &self.layout, &instance, &platform, &config) {
                warning!(self.sys, "{e}");
            }
        }
        Some(FoundInstance { instance, is_new: false, is_cached: true })
    }
}
