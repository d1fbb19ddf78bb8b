//! The local stage, which runs before networking. Finds the instance without a network or with a temporary one, sets the
//! hostname and writes the network configuration.

use std::process::ExitCode;

use stage::StageName;

fn main() -> ExitCode {
    stage::run_guarded(stage::decide, StageName::Local, |stage| {
        stage.prepare_directories();
        stage.remove_boot_finished();
        let Some(mut found) = stage.find_instance() else {
            stage.log_step("No local datasource found");
            // With the fallback network configuration the network stage may find the instance.
            stage.apply_network(None);
            stage.log_step("[local] Exiting without datasource");
            return;
        };
        stage.activate(&found);
        stage.set_hostname(&found);
        stage.apply_network(Some(&found));
        let description = found.instance.description.clone();
        if found.instance.dsmode == "local" {
            stage.log_step(&format!("[local] {description} is in local mode, will apply init modules now."));
            stage.process_user_data(&mut found);
            stage.run_modules(&found.instance, "init");
        } else {
            stage.log_step(&format!("[local] Exiting. datasource {description} not in local mode."));
        }
    })
}
