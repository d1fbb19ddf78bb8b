//! The config stage: the modules of `cloud_config_modules`. Also runs one module for `cloud-init single`, and the
//! list of another mode for `cloud-init modules --mode init`.

use std::process::ExitCode;

use stage::StageName;

fn main() -> ExitCode {
    stage::run(StageName::Config, |stage| {
        let mode = stage.args.mode.clone().unwrap_or_else(|| "config".into());
        let Some(mut found) = stage.cached_instance() else {
            let message = match stage.args.single {
                Some(_) => "Failed to fetch your datasource, likely bad things to come!".to_string(),
                None => stage::cannot_apply_message(&mode),
            };
            return stage.report_no_datasource(&message);
        };
        stage.set_datasource(&found.instance.description);
        stage.catch_up(&mut found);
        match stage.args.single.clone() {
            Some(single) => stage.run_single(&found.instance, &single),
            None => stage.run_modules(&found.instance, &mode),
        }
    })
}
