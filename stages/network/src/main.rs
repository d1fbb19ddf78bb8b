//! The network stage, which runs with networking. Finds the instance if the local stage could not, consumes user-data and
//! vendor-data, and runs the init modules. If the local stage did not complete, it runs that stage's steps as well. After
//! the boot the same program configures NICs that are plugged in.

use std::process::ExitCode;

use stage::{StageName, Task};

fn main() -> ExitCode {
    stage::run_guarded(stage::decide, StageName::Network, |stage| {
        match stage.args.task.clone() {
            Task::Hotplug(task) => return stage.hotplug(&task),
            Task::CatchUp(before) => return stage.run_catch_up(&before),
            _ => {}
        }
        stage.prepare_directories();
        stage.remove_boot_finished();
        stage.print_network();
        let Some(mut found) = stage.find_instance() else {
            stage.apply_network(None);
            return stage.report_no_instance();
        };
        if stage.is_completed_by_local(&found) {
            return;
        }
        stage.activate(&found);
        stage.set_hostname(&found);
        stage.apply_network(Some(&found));
        stage.process_user_data(&mut found);
        stage.run_modules(&found.instance, "init");
    })
}
