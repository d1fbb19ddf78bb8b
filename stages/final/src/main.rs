//! The final stage: packages, users' scripts, the last word. Writes result.json.

use std::process::ExitCode;

use stage::Name;

fn main() -> ExitCode {
    stage::run(Name::Final, |stage| {
        let Some(mut found) = stage.cached_instance() else {
            return stage.no_datasource(&stage::cannot_apply("final"));
        };
        stage.set_datasource(&found.instance.description);
        stage.catch_up(&mut found);
        stage.run_modules(&found.instance, "final");
    })
}
