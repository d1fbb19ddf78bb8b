//! The network stage: with networking. Finds the instance if the local stage could not, reads user-data and
//! vendor-data, runs the init modules. After a local stage that did not come to its end it does that one's work too,
//! and after the boot it sees to NICs that come later.

use std::process::ExitCode;

use stage::Name;

fn main() -> ExitCode {
    stage::run_behind(stage::decide, Name::Network, |stage| {
        if let Some(asked) = stage.args.hotplug.clone() {
            return stage.hotplug(&asked);
        }
        if let Some(before) = stage.args.catch_up.clone() {
            return stage.consume_late(&before);
        }
        stage.prepare_directories();
        if stage.stands_in() {
            stage.forget_last_boot();
        }
        let Some(mut found) = stage.find_instance() else {
            stage.apply_network(None);
            return stage.no_instance();
        };
        let is_done = found.is_cached && found.instance.dsmode == "local" && !stage.is_open();
        if is_done && !stage.stands_in() {
            stage.set_datasource(&found.instance.description);
            stage.step(&format!("[net] Exiting. datasource {} in local mode", found.instance.description));
            return;
        }
        stage.adopt(&found);
        stage.name_machine(&found);
        stage.apply_network(Some(&found));
        stage.consume(&mut found);
        stage.run_modules(&found.instance, "init");
    })
}
