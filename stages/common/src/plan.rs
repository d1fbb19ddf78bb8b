//! What a stage of a plan would do, as the JSON that `cloud-init plan` reads: `SCRATCH/STAGE.json`.
//!
//! ```text
//! {"stage": "init-local", "errors": ["…"], "warnings": ["…"],
//!  "effects": [{"step": "write_files", "key": "write_files[0]", "do": "write", "path": "/etc/x", …}, …]}
//! ```

use std::path::Path;

use serde_json::{Value, json};
use system::{Change, Effect, Level, Noted, System};

/// A door that changes nothing if the arguments ask for a plan.
pub(crate) fn door(root: &str, scratch: Option<&str>) -> System {
    match scratch {
        Some(scratch) => System::planning(root, Path::new(scratch)),
        None => System::new(root),
    }
}

/// Leaves the account.
pub(crate) fn leave(sys: &System, scratch: &str, stage: &str, errors: &[String]) -> std::io::Result<()> {
    let warnings: Vec<String> = sys
        .log()
        .noticed()
        .into_iter()
        .filter(|(level, text)| *level >= Level::Warning && !errors.contains(text))
        .map(|(_, text)| text)
        .collect();
    let effects: Vec<Value> = sys.noted().iter().map(effect).collect();
    let account = json!({"stage": stage, "errors": errors, "warnings": warnings, "effects": effects});
    std::fs::write(Path::new(scratch).join(format!("{stage}.json")), account.to_string())
}

fn effect(noted: &Noted) -> Value {
    let mut what = match &noted.effect {
        Effect::Write { path, mode, owner, change } => {
            let is_new = *change == Change::Created;
            json!({"do": "write", "path": path, "mode": format!("{mode:04o}"), "new": is_new,
                   "uid": owner.0, "gid": owner.1})
        }
        Effect::Remove { path } => json!({"do": "remove", "path": path}),
        Effect::Directory { path } => json!({"do": "directory", "path": path}),
        Effect::Link { path, target } => json!({"do": "link", "path": path, "target": target}),
        Effect::Run { command, .. } => json!({"do": "run", "command": command}),
        Effect::Other { what } => json!({"do": "other", "what": what}),
    };
    what["step"] = noted.cause.step.clone().into();
    what["key"] = noted.cause.key.clone().into();
    what
}
