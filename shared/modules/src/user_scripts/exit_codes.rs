//! Exit codes by which a script requests a reboot or another run, as cloudbase-init has them: `scripts: {exit_codes:
//! cloudbase}`. A process has 8 bits for its exit code, so that 1001 is 233, 1002 is 234 and 1003 is 235.
//!
//! The scripts run at most once per boot, and the reboot waits for the end of the final stage. Reboots are counted, so that a
//! script which always requests one does not reboot a machine forever.

use config::{KeyStruct, Reader};
use state::Frequency;
use system::{Error, Result, WriteOptions, debug, info, warning};

use crate::{Context, Module, or_warn};

/// The reboots of one instance that scripts may request.
const MAX_REBOOTS: u32 = 10;
/// The file below the run directory that names the script which requested the reboot of this boot.
const REQUEST: &str = "script-reboot";
/// The file of the instance with the number of reboots so far.
const COUNT: &str = "script-reboots";
const MAX_COUNT_FILE: u64 = 16;

config::string_enum! {
    /// The exit codes with a meaning.
    pub enum ExitCodes { Cloudbase = "cloudbase" }
}

config::keys! {
    /// The settings that control how scripts are run.
    pub struct Scripts {
        /// Exit statuses with a special meaning. With `cloudbase`, 1001 (233) reboots after this boot, 1002 (234) runs the
        /// script again in the next boot, 1003 (235) does both. Applies to scripts that run once: user-data,
        /// vendor-data, runcmd, scripts/per-instance and scripts/per-once. Limited to 10 reboots per instance.
        exit_codes: Option<ExitCodes>;
    }
    /// The key of the modules that run scripts.
    pub struct Keys {
        /// Settings for scripts.
        scripts: Option<Scripts>;
    }
}

/// The requests of an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    reboots: bool,
    runs_again: bool,
}

fn request(code: i32) -> Option<Request> {
    match code {
        233 => Some(Request { reboots: true, runs_again: false }),
        234 => Some(Request { reboots: false, runs_again: true }),
        235 => Some(Request { reboots: true, runs_again: true }),
        _ => None,
    }
}

/// Returns whether exit codes of a module's scripts have a meaning: it is configured, and the scripts run once.
pub fn are_enabled(context: &Context<'_>, module: &Module) -> bool {
    // Findings are reported by the module that has the key.
    let keys = Keys::read_known(context.config, &mut Reader::new());
    let codes = keys.and_then(|keys| keys.scripts).and_then(|scripts| scripts.exit_codes);
    module.frequency != Frequency::Always && codes == Some(ExitCodes::Cloudbase)
}

/// Returns the name of the semaphore of a script that is to run again.
pub fn semaphore(module: &Module, script: &str) -> String {
    format!("again.{}.{script}", module.name)
}

/// Does what the exit code of a script requests.
///
/// # Errors
/// Fails if it is another code than 0, or if the request cannot be recorded.
pub fn apply(context: &Context<'_>, module: &Module, script: &str, code: i32) -> Result<()> {
    let (sys, layout) = (context.sys, context.layout);
    let Some(directory) = module.scripts else { return Ok(()) };
    let path = format!("{}/{script}", (directory.path)(layout));
    let Some(Request { reboots, runs_again }) = request(code) else {
        return match code {
            0 => Ok(()),
            _ => Err(Error::new(format!("running {path}: exit code {code}"))),
        };
    };
    if runs_again {
        info!(sys, "{path}: exit code {code}; it runs again at the next boot");
        state::acquire(sys, layout, &semaphore(module, script), module.frequency)?;
    }
    if reboots {
        info!(sys, "{path}: exit code {code}; the machine reboots after the boot");
        sys.write(layout.run(REQUEST), format!("{path}\n"), WriteOptions::default())?;
    }
    Ok(())
}

/// Returns the scripts of a module that run again at this boot.
pub fn requested_reruns(context: &Context<'_>, module: &Module) -> Vec<String> {
    let Some(directory) = module.scripts.filter(|_| are_enabled(context, module)) else { return Vec::new() };
    let (sys, layout) = (context.sys, context.layout);
    let is_due = |name: &String| state::has_run(sys, layout, &semaphore(module, name), module.frequency);
    sys.list((directory.path)(layout)).unwrap_or_default().into_iter().filter(is_due).collect()
}

/// Withdraws the reboot that a script has requested, because `power_state` takes precedence.
pub fn withdraw_reboot(context: &Context<'_>) {
    let path = context.layout.run(REQUEST);
    if context.sys.exists(&path) {
        info!(context.sys, "power_state overrides the reboot that a script requested");
        or_warn!(context.sys, context.sys.remove(&path));
    }
}

/// Removes the request of a script for a reboot, counts it, and returns the script's path; `None` without a request, and after
/// too many reboots.
///
/// # Errors
/// Fails if the reboot cannot be counted.
pub fn take_reboot_request(context: &Context<'_>) -> Result<Option<String>> {
    let (sys, request) = (context.sys, context.layout.run(REQUEST));
    let Some(script) = sys.read_text_if_exists(&request)? else { return Ok(None) };
    let script = script.trim().to_string();
    sys.remove(&request)?;
    let file = context.layout.instance(COUNT);
    let text = sys.read_at_most(&file, MAX_COUNT_FILE);
    let count = match &text {
        Ok(text) => {
            std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(MAX_REBOOTS)
        }
        Err(e) if e.is_not_found() => 0,
        // The number is unknown: assume the maximum.
        Err(_) => MAX_REBOOTS,
    };
    if count >= MAX_REBOOTS {
        warning!(
            sys,
            "{script} requests a reboot; ignored after {MAX_REBOOTS} reboots of this instance (to allow more, remove {file})"
        );
        return Ok(None);
    }
    // First: a reboot that is not counted could be the first of endless ones.
    sys.write(&file, format!("{}\n", count + 1), WriteOptions::default().durable())?;
    debug!(sys, "reboot {} of at most {MAX_REBOOTS} that scripts requested", count + 1);
    Ok(Some(script))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;
    use crate::{find_module, reboot_if_requested};

    const ON: &str = "scripts: {exit_codes: cloudbase}";
    /// The boots of scripts_user are tested with the whole programs (tests/tests/exit_codes.rs).
    #[test]
    fn exit_codes_have_a_meaning_for_scripts_that_run_once() {
        for (module, has_meaning) in [
            ("scripts_user", true),
            ("scripts_vendor", true),
            ("scripts_per_instance", true),
            ("scripts_per_once", true),
            ("scripts_per_boot", false),
        ] {
            let (sandbox, module) = (Sandbox::live(ON), find_module(module).unwrap());
            let path = (module.scripts.unwrap().path)(&sandbox.layout);
            let script = "#!/bin/sh\nexit 235\n";
            sandbox.sys.write(format!("{path}/x"), script, WriteOptions::mode(0o700)).unwrap();
            assert_eq!(sandbox.run(module).is_ok(), has_meaning, "{path}");
            assert_eq!(sandbox.sys.exists(sandbox.layout.run(REQUEST)), has_meaning, "{path}");
            let reruns = sandbox.with_context(|context| requested_reruns(context, module));
            assert_eq!(reruns == ["x"], has_meaning, "{path}");
        }
    }

    #[test]
    fn reboots_are_counted() {
        let sandbox = Sandbox::new(ON);
        let reboots = || {
            let (sys, layout) = (&sandbox.sys, &sandbox.layout);
            sys.write(layout.run(REQUEST), "/x\n", WriteOptions::default()).unwrap();
            let before = sandbox.logged_warnings().len();
            let count = sys.read_text_if_exists(layout.instance(COUNT)).unwrap();
            sandbox.with_context(reboot_if_requested).unwrap();
            let is_counted = count != sys.read_text_if_exists(layout.instance(COUNT)).unwrap();
            assert!(!sys.exists(layout.run(REQUEST)));
            (is_counted, sandbox.logged_warnings().len() - before)
        };
        for number in 1..=MAX_REBOOTS {
            assert_eq!(reboots(), (true, 0));
            let count = sandbox.sys.read_text(sandbox.layout.instance(COUNT)).unwrap();
            assert_eq!(count, format!("{number}\n"));
        }
        assert_eq!(reboots(), (false, 1));
        for unreadable in ["", "many", "99999999999999999999"] {
            sandbox.sys.write(sandbox.layout.instance(COUNT), unreadable, WriteOptions::default()).unwrap();
            assert_eq!(reboots(), (false, 1), "{unreadable}");
        }
        sandbox.sys.remove(sandbox.layout.run(REQUEST)).unwrap();
        sandbox.with_context(reboot_if_requested).unwrap();
    }
}
