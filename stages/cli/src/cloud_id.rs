//! `cloud-id`: which cloud this is, in one word.

use std::process::ExitCode;

use serde_json::Value;

use crate::arguments::CloudId;
use crate::machine::Machine;
use crate::status::{self, State};

pub fn run(machine: &Machine, args: &CloudId) -> ExitCode {
    if args.instance_data.is_none() {
        match status::Report::of(machine).state {
            State::Disabled => {
                println!("disabled");
                return ExitCode::from(2);
            }
            State::NotStarted => {
                println!("not started");
                return ExitCode::from(3);
            }
            State::Running | State::Done | State::Error => {}
        }
    }
    let path = args.instance_data.clone().unwrap_or_else(|| machine.layout.run("instance-data.json"));
    let data = match machine.json(&path) {
        Ok(data) => data,
        Err(e) if e.is_absent() => {
            eprintln!(
                "Error:\nFile not found '{path}'. Provide a path to instance data json file using --instance-data"
            );
            return ExitCode::FAILURE;
        }
        Err(e) => {
            eprintln!("Error:\nFile '{path}' is not valid json. {e}");
            return ExitCode::FAILURE;
        }
    };
    let v1 = data.get("v1").cloned().unwrap_or_default();
    let text = |key: &str| v1.get(key).and_then(Value::as_str);
    let region = text("region");
    let id =
        state::cloud_id(text("cloud_name").unwrap_or_default(), region, text("platform").unwrap_or_default());
    if args.json {
        let mut all = v1;
        if let Some(map) = all.as_object_mut() {
            map.insert("cloud_id".into(), id.into());
        }
        eprintln!("DEPRECATED: Use: cloud-init query v1");
        print!("{}", state::json_text(&all, 1));
    } else if args.long {
        println!("{id}\t{}", region.unwrap_or("None"));
    } else {
        println!("{id}");
    }
    ExitCode::SUCCESS
}
