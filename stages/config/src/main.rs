//! The config stage: runs the modules of `cloud_config_modules`. The same program runs one module for `cloud-init single`,
//! and the list of another mode for `cloud-init modules --mode init`.

use std::process::ExitCode;

use stage::{StageName, Task};

fn main() -> ExitCode {
    stage::run(StageName::Config, |stage| {
        let task = stage.args.task.clone();
        let mode = if let Task::Mode(mode) = &task { mode } else { "config" };
        let Some(mut found) = stage.cached_instance() else {
            let message = match task {
                Task::Single(_) => "Failed to fetch your datasource, likely bad things to come!".to_string(),
                _ => stage::cannot_apply_message(mode),
            };
            return stage.report_no_datasource(&message);
        };
        stage.set_datasource(&found.instance.description);
        stage.catch_up(&mut found);
        match &task {
            Task::Single(single) => stage.run_single(&found.instance, single),
            _ => stage.run_modules(&found.instance, mode),
        }
    })
}
