//! The local stage, which runs before networking. Finds the instance without a network or with a temporary one, sets the
//! hostname and writes the network configuration.

use std::process::ExitCode;

use stage::{Mode, StageName};

fn main() -> ExitCode {
    stage::run_guarded(stage::decide, StageName::Local, |boot, record| {
        stage::prepare_directories(boot, record);
        stage::remove_boot_finished(boot, record);
        let mut found = match stage::find_instance(boot, record) {
            Ok(found) => found,
            Err(not_found) => {
                boot.log_step("No local datasource found");
                stage::apply_network_without_instance(boot, record, &not_found);
                boot.log_step("[local] Exiting without datasource");
                return;
            }
        };
        stage::activate(boot, record, &mut found);
        stage::set_hostname(boot, &found);
        stage::apply_network(boot, record, &found);
        let description = found.instance.description.clone();
        if found.is_local() {
            boot.log_step(&format!("[local] {description} is in local mode, will apply init modules now."));
            stage::process_user_data(boot, record, &mut found);
            stage::run_modules(boot, record, &found, Mode::Init);
        } else {
            boot.log_step(&format!("[local] Exiting. datasource {description} not in local mode."));
        }
    })
}
