//! The local stage: before networking. Finds the instance with what the machine itself has, names the machine,
//! writes its network configuration.

use std::process::ExitCode;

use stage::Name;

fn main() -> ExitCode {
    stage::run_behind(stage::decide, Name::Local, |stage| {
        stage.prepare_directories();
        stage.forget_last_boot();
        let Some(mut found) = stage.find_instance() else {
            stage.step("No local datasource found");
            // Networking comes up all the same: the network stage may find the instance through it.
            stage.apply_network(None);
            stage.step("[local] Exiting without datasource");
            return;
        };
        stage.adopt(&found);
        stage.name_machine(&found);
        stage.apply_network(Some(&found));
        let description = found.instance.description.clone();
        if found.instance.dsmode == "local" {
            stage.step(&format!("[local] {description} is in local mode, will apply init modules now."));
            stage.consume(&mut found);
            stage.run_modules(&found.instance, "init");
        } else {
            stage.step(&format!("[local] Exiting. datasource {description} not in local mode."));
        }
    })
}
