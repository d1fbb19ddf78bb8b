//! The config stage: runs the modules of `cloud_config_modules`. The same program runs one module for `cloud-init single`,
//! and the list of another mode for `cloud-init modules --mode init`.

use std::process::ExitCode;

use stage::{Mode, StageName, Task};

fn main() -> ExitCode {
    stage::run(StageName::Config, |boot, record| {
        let task = boot.args.task.clone();
        let mode = if let Task::Mode(mode) = task { mode } else { Mode::Config };
        let Some(mut found) = stage::cached_instance(boot, record) else {
            let message = match task {
                Task::Single(_) => "Failed to fetch your datasource, likely bad things to come!".to_string(),
                _ => stage::cannot_apply_message(mode),
            };
            return stage::report_no_datasource(boot, record, &message);
        };
        record.set_datasource(&found.instance.description);
        stage::catch_up(boot, record, &mut found);
        match &task {
            Task::Single(single) => stage::run_single(boot, record, &found, single),
            _ => stage::run_modules(boot, record, &found, mode),
        }
    })
}
