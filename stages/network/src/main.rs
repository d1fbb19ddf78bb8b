//! The network stage: with networking. Finds the instance if the local stage could not, reads user-data and
//! vendor-data, runs the init modules. After a local stage that did not come to its end it does that one's work too,
//! and after the boot it sees to NICs that come later.

use std::process::ExitCode;

use stage::StageName;

fn main() -> ExitCode {
    stage::run_guarded(stage::decide, StageName::Network, |stage| {
        if let Some(asked) = stage.args.hotplug.clone() {
            return stage.hotplug(&asked);
        }
        if let Some(before) = stage.args.catch_up.clone() {
            return stage.run_catch_up(&before);
        }
        stage.prepare_directories();
        if stage.replaces_local() {
            stage.remove_boot_finished();
        }
        let Some(mut found) = stage.find_instance() else {
            stage.apply_network(None);
            return stage.report_no_instance();
        };
        let is_done = found.is_cached && found.instance.dsmode == "local" && !stage.is_unconsumed();
        if is_done && !stage.replaces_local() {
            stage.set_datasource(&found.instance.description);
            stage
                .log_step(&format!("[net] Exiting. datasource {} in local mode", found.instance.description));
            return;
        }
        stage.activate(&found);
        stage.set_hostname(&found);
        stage.apply_network(Some(&found));
        stage.consume(&mut found);
        stage.run_modules(&found.instance, "init");
    })
}
