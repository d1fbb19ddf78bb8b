//! The final stage: runs the modules of `cloud_final_modules` (packages, users' scripts), and writes result.json.

use std::process::ExitCode;

use stage::StageName;

fn main() -> ExitCode {
    stage::run(StageName::Final, |stage| {
        let Some(mut found) = stage.cached_instance() else {
            return stage.report_no_datasource(&stage::cannot_apply_message("final"));
        };
        stage.set_datasource(&found.instance.description);
        stage.catch_up(&mut found);
        stage.run_modules(&found.instance, "final");
    })
}
