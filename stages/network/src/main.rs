//! The network stage, which runs with networking. Finds the instance if the local stage could not, consumes user-data and
//! vendor-data, and runs the init modules. If the local stage did not complete, it runs that stage's steps as well. After
//! the boot the same program configures NICs that are plugged in.

use std::process::ExitCode;

use stage::{Mode, StageName, Task};

fn main() -> ExitCode {
    stage::run_guarded(stage::decide, StageName::Network, |boot, record| {
        match boot.args.task.clone() {
            Task::Hotplug(task) => return stage::hotplug(boot, record, &task),
            Task::CatchUp(before) => return stage::run_catch_up(boot, record, before),
            _ => {}
        }
        stage::prepare_directories(boot, record);
        stage::remove_boot_finished(boot, record);
        stage::print_network(boot);
        let mut found = match stage::find_instance(boot, record) {
            Ok(found) => found,
            Err(not_found) => {
                stage::apply_network_without_instance(boot, record, &not_found);
                return stage::report_no_instance(boot, record, &not_found);
            }
        };
        if stage::is_completed_by_local(boot, record, &found) {
            return;
        }
        stage::activate(boot, record, &mut found);
        stage::set_hostname(boot, &found);
        stage::apply_network(boot, record, &found);
        stage::process_user_data(boot, record, &mut found);
        stage::run_modules(boot, record, &found, Mode::Init);
    })
}
