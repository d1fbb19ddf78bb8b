//! Processes user-data between the setup and the activation of the datasource, which some datasources have.

use config::Node;
use datasource::{Hook, Search, datasource};
use system::{Result, StepResult};

use crate::consume::{consume, is_unconsumed};
use crate::di_report;
use crate::status::Record;
use crate::{Boot, FoundInstance};

/// Sets up the datasource, consumes the instance's user-data and vendor-data, and activates the datasource.
pub fn process_user_data(boot: &mut Boot, record: &mut Record, found: &mut FoundInstance) {
    let is_new = is_unconsumed(boot, found);
    set_up_datasource(boot, record, found, is_new);
    consume(boot, record, found);
    activate_datasource(boot, record, found, is_new);
    if !is_unconsumed(boot, found) {
        di_report::check(boot, &found.instance);
    }
}

fn set_up_datasource(boot: &Boot, record: &mut Record, found: &mut FoundInstance, is_new: bool) {
    let hook = datasource(&found.instance.datasource).and_then(|row| row.setup);
    in_event(boot, record, "setup-datasource", "setting up datasource", || {
        let Some(hook) = hook else { return Ok(()) };
        let (result, is_changed) = run_hook(boot, hook, found, is_new, &boot.settings.system);
        if is_changed {
            found.instance.store(&boot.sys, &boot.layout)?;
            boot.write_instance_data(&found.instance)?;
        }
        result
    });
}

/// Activates the datasource. If user-data could not be consumed, it is not activated, as this may depend on user-data.
pub(crate) fn activate_datasource(boot: &Boot, record: &mut Record, found: &mut FoundInstance, is_new: bool) {
    if is_unconsumed(boot, found) {
        return;
    }
    let hook = datasource(&found.instance.datasource).and_then(|row| row.activate);
    in_event(boot, record, "activate-datasource", "activating datasource", || {
        let Some(hook) = hook else { return Ok(()) };
        let (result, is_changed) = run_hook(boot, hook, found, is_new, &boot.settings.merged);
        if is_changed {
            found.instance.store_without_raw_data(&boot.sys, &boot.layout)?;
        }
        result
    });
}

/// Runs a hook. Returns its result, and whether the instance changed and can be stored: also after an error, as the
/// change may record what was done before.
fn run_hook(
    boot: &Boot,
    hook: Hook,
    found: &mut FoundInstance,
    is_new: bool,
    config: &Node,
) -> (Result<()>, bool) {
    let before = found.instance.to_json();
    let result = hook(&Search { config, ..boot.search_context() }, &mut found.instance, is_new);
    (result, found.instance.to_json() != before && !found.is_unrecorded)
}

/// Runs a step between its start and finish events. An error is recorded as one of the stage.
fn in_event(
    boot: &Boot,
    record: &mut Record,
    name: &str,
    description: &str,
    step: impl FnOnce() -> Result<()>,
) {
    let stage = boot.stage.event_name();
    boot.sys.set_cause("datasource", "");
    let event = boot.sys.begin_step(format!("{stage}/{name}"), description);
    let result = step();
    event.end(&boot.sys, StepResult::from(&result), description);
    if let Err(e) = result {
        record.fail(boot, format!("{description}: {e}"));
    }
}
