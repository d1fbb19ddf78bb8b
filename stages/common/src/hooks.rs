//! The processing of user-data between the datasource's own steps, where its row has some.

use config::Node;
use datasource::{Hook, Search, datasource};
use state::write_instance_data;
use system::{Result, StepResult};

use crate::{FoundInstance, Stage, platform};

impl Stage {
    /// Sets up the datasource, consumes the instance's user-data and vendor-data, and activates the datasource.
    pub fn process_user_data(&mut self, found: &mut FoundInstance) {
        let is_new = self.is_unconsumed();
        self.set_up_datasource(found, is_new);
        self.consume(found);
        self.activate_datasource(found, is_new);
        if !self.is_unconsumed() {
            self.check_di_report(&found.instance);
        }
    }

    fn set_up_datasource(&mut self, found: &mut FoundInstance, is_new: bool) {
        let hook = datasource(&found.instance.datasource).and_then(|row| row.setup);
        self.in_event("setup-datasource", "setting up datasource", |stage| {
            let Some(hook) = hook else { return Ok(()) };
            let (result, is_changed) = stage.run_hook(hook, found, is_new, &stage.settings.system);
            if is_changed {
                let (sys, layout, instance) = (&stage.sys, &stage.layout, &found.instance);
                instance.store(sys, layout)?;
                let config = stage.settings.system.to_json();
                write_instance_data(sys, layout, instance, &platform::platform(sys), &config)?;
            }
            result
        });
    }

    /// Activates the datasource, unless user-data could not be consumed: what it does may depend on it.
    pub(crate) fn activate_datasource(&mut self, found: &mut FoundInstance, is_new: bool) {
        if self.is_unconsumed() {
            return;
        }
        let hook = datasource(&found.instance.datasource).and_then(|row| row.activate);
        self.in_event("activate-datasource", "activating datasource", |stage| {
            let Some(hook) = hook else { return Ok(()) };
            let (result, is_changed) = stage.run_hook(hook, found, is_new, &stage.settings.merged);
            if is_changed {
                found.instance.store_without_raw_data(&stage.sys, &stage.layout)?;
            }
            result
        });
    }

    /// Runs a hook. Returns its result, and whether the instance changed and can be stored: also after an error, as the
    /// change may record what was done before.
    fn run_hook(
        &self,
        hook: Hook,
        found: &mut FoundInstance,
        is_new: bool,
        config: &Node,
    ) -> (Result<()>, bool) {
        let before = found.instance.to_json();
        let result = hook(&Search { config, ..self.search_context() }, &mut found.instance, is_new);
        (result, found.instance.to_json() != before && !self.activation_failed)
    }

    /// Takes a step between its two lines in the log. An error is one of the stage.
    fn in_event(&mut self, name: &str, description: &str, step: impl FnOnce(&Stage) -> Result<()>) {
        let stage = self.name.event_name();
        self.sys.set_cause("datasource", "");
        let event = self.sys.begin_step(format!("{stage}/{name}"), description);
        let result = step(self);
        event.end(&self.sys, StepResult::from(&result), description);
        if let Err(e) = result {
            self.fail(format!("{description}: {e}"));
        }
    }
}
