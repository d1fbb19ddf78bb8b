//! The final stage: runs the modules of `cloud_final_modules` (packages, users' scripts), and writes result.json.

use std::process::ExitCode;

use stage::{Mode, StageName};

fn main() -> ExitCode {
    stage::run(StageName::Final, |boot, record| {
        let Some(mut found) = stage::cached_instance(boot, record) else {
            return stage::report_no_datasource(boot, record, &stage::cannot_apply_message(Mode::Final));
        };
        record.set_datasource(&found.instance.description);
        stage::catch_up(boot, record, &mut found);
        stage::run_modules(boot, record, &found, Mode::Final);
        stage::queue_missed_nics(boot);
    })
}
