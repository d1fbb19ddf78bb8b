//! The network stage: with networking. Finds the instance if the local stage could not, reads user-data and
//! vendor-data, runs the init modules.

use std::process::ExitCode;

use stage::Name;

fn main() -> ExitCode {
    stage::run(Name::Network, |stage| {
        stage.prepare_directories();
        let Some(found) = stage.find_instance() else {
            return stage.no_datasource("no datasource in datasource_list has an instance for this machine");
        };
        if found.is_cached && found.instance.dsmode == "local" {
            stage.set_datasource(&found.instance.description);
            return;
        }
        stage.adopt(&found);
        stage.name_machine(&found);
        stage.apply_network(Some(&found));
        stage.consume(&found);
        stage.run_modules(&found.instance, "init");
    })
}
