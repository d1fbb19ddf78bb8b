//! Machines with the state that commands read.

use serde_json::{Value, json};

use crate::common::{CommandResult, Machine, split};

pub fn enabled() -> Machine {
    let machine = Machine::new();
    machine.put("run/cloud-init/enabled", "");
    machine
}

pub fn run_as(name: &str, root: Option<&std::path::Path>, words: &str) -> CommandResult {
    crate::common::run_as(name, root, &split(words))
}

/// Creates a machine with these records of its stages, and with a result if `finished`.
pub fn with_status(stages: Value, finished: bool) -> Machine {
    let machine = enabled();
    let mut v1 = json!({"datasource": "DataSourceNoCloud [seed=/dev/vdb]", "stage": null});
    for name in ["init-local", "init", "modules-config", "modules-final"] {
        let mut stage = json!({"errors": [], "recoverable_errors": {}, "start": 1.5, "finished": 8.75});
        if let Some(own) = stages.get(name).and_then(Value::as_object) {
            stage.as_object_mut().unwrap().extend(own.clone());
        }
        v1[name] = stage;
    }
    for key in ["datasource", "stage"] {
        if let Some(value) = stages.get(key) {
            v1[key] = value.clone();
        }
    }
    status_file(&machine, &json!({ "v1": v1 }).to_string());
    if finished {
        machine.put("run/cloud-init/result.json", "{}");
    }
    machine.put("run/cloud-init/instance-data.json", DATA);
    machine.put("run/cloud-init/instance-data-sensitive.json", DATA);
    machine
}

pub fn status_file(machine: &Machine, text: &str) {
    machine.put("var/lib/cloud/data/status.json", text);
    machine.put("run/cloud-init/status.json", text);
}

const DATA: &str = r#"{"ds": {"meta_data": {"local-hostname": "h", "v1.0": {"a-b": [1, {"c": null}]}, "t": true}},
    "v1": {"cloud_name": "unknown", "platform": "nocloud", "region": null, "public_ssh_keys": ["a"],
           "local_hostname": "h"}}"#;

pub fn done() -> Machine {
    with_status(json!({}), true)
}
