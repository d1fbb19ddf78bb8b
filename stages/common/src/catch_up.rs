//! The retry of user-data that the network stage could not consume, before the modules of a later stage.

use std::time::Duration;

use state::{Cached, Instance};
use system::{Command, Level, OutputMode, System, info};

use crate::consume::{consume, is_unconsumed};
use crate::find::cached_instance;
use crate::hooks::activate_datasource;
use crate::module_list::run_modules;
use crate::prepare::report_no_datasource;
use crate::status::Record;
use crate::{Boot, FoundInstance, Mode, StageName, error_prefix, settings};

/// The time limit of the network stage's own unit.
// Wait: config and final stage | the network stage's program, if user-data is incomplete | -
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1800);

/// Starts, before a later stage's modules and if user-data is not consumed yet, the network stage's program to retry.
/// On success it also runs the deferred modules of the stages before this one.
pub fn catch_up(boot: &mut Boot, record: &mut Record, found: &mut FoundInstance) {
    let is_boot = !boot.args.task.is_manual() && !boot.is_plan();
    if !is_boot || found.is_unrecorded || !is_unconsumed(boot, found) {
        return;
    }
    let Some(program) = system::libexec::find("cloud-init-network") else { return };
    info!(boot.sys, "user-data of this instance is not consumed yet; retrying");
    let program = program.to_string_lossy().into_owned();
    let files = boot.args.files.iter().flat_map(|file| ["--file", file]);
    let words = [program.as_str(), "--catch-up", boot.stage.mode().as_str(), "--root", &boot.args.root];
    let words = words.into_iter().chain(files);
    let words = words.chain(boot.args.debug.then_some("--debug"));
    // The program is the host's; it works on the root that it gets.
    let command = Command::new(words).output(OutputMode::Inherit).accept_all().timeout(CATCH_UP_TIMEOUT);
    let ended = System::new("/").run(&command);
    if is_unconsumed(boot, found) {
        boot.sys.log_error(Level::Warning, ended);
        return;
    }
    match ended.map(|ended| ended.code) {
        Ok(0) => {}
        Ok(code) => {
            record.fail(boot, format!("{code} deferred modules of earlier stages failed; see the log"))
        }
        Err(e) => record.fail(boot, e.to_string()),
    }
    record.clear_errors(boot, StageName::Network, error_prefix::UNCONSUMED);
    record.clear_errors(boot, StageName::Config, error_prefix::UNCONSUMED);
    if let Some(again) = cached_instance(boot, record) {
        *found = again;
    }
    settings::reload(boot, record, found, Vec::new());
}

/// Runs what [`catch_up`] starts before the modules of the mode `before`.
pub fn run_catch_up(boot: &mut Boot, record: &mut Record, before: Mode) {
    let Cached::Instance(instance) = Instance::load(&boot.sys, &boot.layout) else {
        let message = "user-data cannot be consumed: no instance was found in this boot";
        return report_no_datasource(boot, record, message);
    };
    let mut found = FoundInstance::cached(*instance);
    settings::reload(boot, record, &found, Vec::new());
    consume(boot, record, &mut found);
    activate_datasource(boot, record, &mut found, true);
    if !is_unconsumed(boot, &found) {
        for mode in [Mode::Init, Mode::Config].into_iter().take_while(|mode| *mode != before) {
            run_modules(boot, record, &found, mode);
        }
    }
}
