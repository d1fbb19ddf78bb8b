//! `cloud-id`: prints the identifier of the cloud.

use std::process::ExitCode;

use config::{Map, Node, Value};

use crate::arguments::CloudId;
use crate::exit::exit_code;
use crate::machine::Machine;
use crate::query;
use crate::status::{self, State};

/// Printed for keys that the instance data does not have.
const UNKNOWN: &str = "unknown";

pub fn run(machine: &Machine, args: &CloudId) -> ExitCode {
    match status::Report::read(machine).state {
        State::Disabled => {
            println!("disabled");
            ExitCode::from(2)
        }
        State::NotStarted => {
            println!("not started");
            ExitCode::from(3)
        }
        State::Running | State::Done => exit_code("Error:\n", print_id(machine, args)),
    }
}

fn print_id(machine: &Machine, args: &CloudId) -> Result<(), String> {
    let path = args.instance_data.clone().unwrap_or_else(|| machine.layout.instance_data());
    let (file_sys, file_path) = machine.resolve(&path);
    let is_disk = args.instance_data.is_none() && !machine.sys.is_live();
    let data = match Machine::read_json(&file_sys, &file_path) {
        Ok(data) => data,
        Err(e) if e.is_not_found() => {
            let of_disk = is_disk.then(|| query::of_disk(machine)).flatten();
            of_disk.map(Node::from).ok_or_else(|| {
                format!(
                    "File not found '{path}'. Provide a path to instance data json file using --instance-data"
                )
            })?
        }
        Err(e) => return Err(format!("File '{path}' is not valid json. {e}")),
    };
    if data.as_map().is_none() {
        return Err(format!("File '{path}': expected a map, found {}", data.kind()));
    }
    let v1 = data.get("v1").and_then(Node::as_map).cloned().unwrap_or_default();
    // A missing key is unknown, but a key may be null.
    let text = |key: &str| v1.get(key).map_or(Some(UNKNOWN), Node::as_str);
    let name = |key: &str| text(key).filter(|name| !name.is_empty()).unwrap_or(UNKNOWN);
    let region = text("region");
    let id = state::cloud_id(name("cloud_name"), region, name("platform"));
    if args.json {
        let mut all: Map = v1.clone();
        all.insert("cloud_id", id);
        eprintln!("DEPRECATED: Use: cloud-init query v1");
        print!("{}", config::json::to_text(&Node::from(Value::Map(all)), 1));
    } else if args.long {
        println!("{id}\t{}", region.unwrap_or("None"));
    } else {
        println!("{id}");
    }
    Ok(())
}
