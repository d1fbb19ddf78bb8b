//! The final stage: packages, users' scripts, the last word. Writes result.json.

use std::process::ExitCode;

use stage::Name;

fn main() -> ExitCode {
    stage::run(Name::Final, |stage| {
        let Some(found) = stage.cached_instance() else {
            return stage.no_datasource(&stage::cannot_apply("final"));
        };
        stage.set_datasource(&found.instance.description);
        stage.run_modules(&found.instance, "final");
    })
}
