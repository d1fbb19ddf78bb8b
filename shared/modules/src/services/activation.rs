//! Putting written configuration into effect (restarting a service, regenerating a store), only when a change requires it.

use system::{Change, Result, WriteOptions, info};

use crate::Context;
use crate::or_debug;

/// The activation of a module's configuration. It is due if the configuration changed, and also unless it succeeded before
/// with the same settings in this instance: the first time, after a failure, and after a boot that was cut off between
/// writing a file and the restart.
pub struct Activation<'a> {
    context: &'a Context<'a>,
    /// The record of the last success.
    path: String,
    /// Its content.
    record: String,
    /// Whether the activation succeeded before with the same settings.
    was_done: bool,
}

impl<'a> Activation<'a> {
    /// Forgets that an activation succeeded, so that the next run repeats it.
    pub fn forget(context: &Context<'_>, name: &str) -> Result<()> {
        context.sys.remove(context.layout.instance(&format!("applied/{name}"))).map(drop)
    }

    /// Begins an activation, before anything is written. `name` is a file name that begins with the module's. `settings`
    /// are what the activation depends on besides the written files; they are stored in a file, so they must not be secret.
    pub fn begin(context: &'a Context<'a>, name: &str, settings: &[&str]) -> Activation<'a> {
        let sys = context.sys;
        let path = context.layout.instance(&format!("applied/{name}"));
        let record: String = settings.iter().map(|text| format!("{text}\n")).collect();
        let before = sys.read_text_if_exists(&path).ok().flatten();
        let mut was_done = before.as_ref() == Some(&record);
        // The record is removed until the activation succeeds: after a power cut, the next run must not treat unchanged files
        // as applied.
        if before.is_some() {
            was_done &= or_debug!(sys, sys.remove(&path)).is_some();
        }
        Activation { context, path, record, was_done }
    }

    /// Returns whether the activation is due even if nothing changes now.
    pub fn is_due(&self) -> bool {
        !self.was_done
    }

    /// Calls `activate` if the configuration changed or the activation is due, and records its success. `activate` returns
    /// whether the configuration is in effect.
    ///
    /// # Errors
    /// Fails if `activate` does; the next run then repeats it.
    pub fn finish(self, is_changed: bool, activate: impl FnOnce() -> Result<bool>) -> Result<()> {
        let sys = self.context.sys;
        if self.was_done && !is_changed {
            info!(sys, "already applied; to apply it again, remove {} and repeat the module", self.path);
        } else if !activate()? {
            return Ok(());
        }
        // Without the record the next run repeats the activation.
        or_debug!(sys, sys.write(&self.path, &self.record, WriteOptions::default()));
        Ok(())
    }
}

/// Returns whether a file was written.
pub fn is_changed(change: Change) -> bool {
    change != Change::Unchanged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;
    use system::Error;

    /// Runs an activation; returns whether it was called.
    fn run(sandbox: &Sandbox, settings: &str, is_changed: bool, result: Result<bool>) -> bool {
        sandbox.with_context(|context| {
            let mut is_called = false;
            let activation = Activation::begin(context, "module", &[settings]);
            let fails = result.is_err();
            let finished = activation.finish(is_changed, || {
                is_called = true;
                result
            });
            assert_eq!(finished.is_err(), fails && is_called);
            is_called
        })
    }

    #[test]
    fn activation_is_repeated_only_when_required() {
        let sandbox = Sandbox::new("{}");
        assert!(run(&sandbox, "a", false, Ok(true)), "the first time");
        assert!(!run(&sandbox, "a", false, Ok(true)), "nothing changed");
        assert!(run(&sandbox, "a", true, Ok(true)), "a file changed");
        assert!(run(&sandbox, "b", false, Ok(true)), "other settings");
        assert!(run(&sandbox, "b", true, Err(Error::new("failed"))));
        assert!(run(&sandbox, "b", false, Ok(false)), "after a failure");
        assert!(run(&sandbox, "b", false, Ok(true)), "not in effect");
        assert!(!run(&sandbox, "b", false, Ok(true)));
        sandbox.sys.remove(sandbox.layout.instance("applied/module")).unwrap();
        assert!(run(&sandbox, "b", false, Ok(true)), "the record was removed");
    }

    #[test]
    fn activation_is_repeated_after_a_power_cut() {
        let sandbox = Sandbox::new("{}");
        run(&sandbox, "a", true, Ok(true));
        // Begun, and never finished.
        sandbox.with_context(|context| drop(Activation::begin(context, "module", &["a"])));
        assert!(run(&sandbox, "a", false, Ok(true)));
    }
}
