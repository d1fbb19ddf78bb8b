//! Modules that run before any stage has searched: `cloud-init single` in a container or while an image is built.

use datasource::{is_name, none_instance};
use state::Status;
use system::{info, warning};

use crate::{Boot, FoundInstance, StageName};

/// Files in the run directory that the generator writes in each boot.
const GENERATOR_LOGS: [&str; 2] = ["cloud-init-generator.log", "ds-identify.log"];

/// Returns the instance of the datasource None if that is listed and no stage of this boot has searched. After a
/// search that failed or was killed, the machine may be on a cloud, so None is not used. As in upstream, the instance
/// is not recorded: only its semaphores and instance-data are written, no link, cache or previous instance.
pub(crate) fn find(boot: &mut Boot) -> Option<FoundInstance> {
    let status = Status::read(&boot.sys, &boot.layout);
    let has_begun = |stage: StageName| status.get(stage.status_key()).start.is_some();
    let is_listed = boot.datasource_list().iter().any(|entry| is_name(entry, "None"));
    // In a boot the generator has run, and the stages that search may have been killed before they began.
    let is_boot =
        !boot.args.task.is_manual() && GENERATOR_LOGS.iter().any(|log| boot.sys.exists(boot.layout.run(log)));
    if !is_listed || is_boot || has_begun(StageName::Local) || has_begun(StageName::Network) {
        return None;
    }
    let instance = none_instance(boot.settings.system.at_path(&["datasource", "None"]));
    info!(boot.sys, "Loaded datasource {0} - {0}", instance.description);
    boot.layout = boot.layout.clone().with_unlinked_instance(&instance.id);
    if !boot.sys.exists(boot.layout.instance_data())
        && let Err(e) = boot.write_instance_data(&instance)
    {
        warning!(boot.sys, "{e}");
    }
    Some(FoundInstance::cached(instance))
}
