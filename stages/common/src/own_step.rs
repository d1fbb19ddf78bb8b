//! The step that is the stage itself, and the start and end of the handlers of `reporting:` with it.

use std::collections::BTreeMap;
use std::time::Duration;

use system::{Level, StepResult};

use crate::reporting::{UNSENT_FILE, is_last, read_unsent, store_unsent};
use crate::status::Record;
use crate::{Boot, StageName, Task};

/// The time that handlers get for their last events. The next stage sends what an earlier one could not send.
// Wait: reporting | the server of a webhook, at the end of a stage | -
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
// Wait: reporting | the server of a webhook, at the end of the final stage | -
const LAST_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Record {
    /// Starts, replaces and stops handlers according to `reporting:` of the current settings. Unchanged ones continue.
    pub(crate) fn configure_reporting(&mut self, boot: &Boot) {
        let findings = self.reporting.configure(boot, boot.settings.merged.get("reporting"));
        self.report_once(boot, findings);
    }

    /// Starts, in the local stage of a later boot once the instance is known, the handlers that an earlier boot stored for
    /// it. They get the events of this stage so far as well.
    pub(crate) fn configure_stored_reporting(&mut self, boot: &Boot, instance: &state::Instance) {
        let stored = boot.stored_settings(instance, &["reporting"]);
        let config = stored.as_ref().and_then(|settings| settings.merged.get("reporting"));
        let findings = self.reporting.configure(boot, config);
        self.report_once(boot, findings);
    }

    /// Begins the stage's own step, with the handlers of the machine's configuration.
    pub(crate) fn begin_reporting(&mut self, boot: &Boot) {
        self.reporting.unsent = take_unsent(boot);
        if boot.stage == StageName::Local {
            boot.sys.events().keep();
        }
        if !matches!(boot.args.task, Task::Single(_)) {
            self.configure_reporting(boot);
        }
        self.reporting.step = Some(boot.sys.begin_step(own_event(boot), own_description(boot)));
    }

    /// Ends the stage's own step and waits for its handlers, for a limited time.
    pub(crate) fn end_reporting(&mut self, boot: &Boot) {
        let events = boot.sys.events();
        let has_failed = !self.own.errors.is_empty() || events.has_failure();
        let result = if has_failed { StepResult::Fail } else { StepResult::Success };
        if let Some(step) = self.reporting.step.take() {
            step.end(&boot.sys, result, own_description(boot));
        }
        events.close(&boot.sys, if is_last(boot) { LAST_CLOSE_TIMEOUT } else { CLOSE_TIMEOUT });
        if !is_last(boot) {
            // Events of handlers that only a later stage starts.
            for (name, events) in std::mem::take(&mut self.reporting.unsent) {
                store_unsent(&boot.sys, &boot.layout.run(UNSENT_FILE), &name, &events);
            }
        }
    }
}

/// Returns the name of the stage's own step.
pub(crate) fn own_event(boot: &Boot) -> String {
    match &boot.args.task {
        Task::Single(single) => format!("single/{}", single.name),
        _ => boot.stage.event_name().into(),
    }
}

fn own_description(boot: &Boot) -> String {
    match &boot.args.task {
        Task::Single(single) => format!("running single module {}", single.name),
        _ => boot.stage.description().into(),
    }
}

/// Reads and removes what earlier stages could not send.
fn take_unsent(boot: &Boot) -> BTreeMap<String, Vec<String>> {
    if !boot.is_recorded() || boot.stage == StageName::Local {
        return BTreeMap::new();
    }
    let path = boot.layout.run(UNSENT_FILE);
    let unsent = read_unsent(&boot.sys, &path);
    if !unsent.is_empty() {
        boot.sys.log_error(Level::Debug, boot.sys.remove(&path));
    }
    unsent
}
