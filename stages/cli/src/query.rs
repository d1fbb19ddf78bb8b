//! `query`: prints instance data, complete for root and redacted for other users.

use std::process::ExitCode;

use config::{Map, Node, Value};
use state::layout::RAW_DATA;
use state::{Cached, Instance, SysInfo};
use system::{error, warning};
use template::UndefinedVariable;

use crate::arguments::Query;
use crate::machine::Machine;

pub fn run(machine: &Machine, args: &Query) -> ExitCode {
    let varname = args.varname.as_ref().or(args.name.as_ref());
    if varname.is_none() && !args.all && !args.list_keys && args.format.is_none() {
        error!(machine.sys, "Expected one of the options: --all, --format, --list-keys or varname");
        println!("{}", crate::arguments::help(&["query"]).trim_end());
        return ExitCode::FAILURE;
    }
    machine.exit_code(query(machine, args, varname))
}

fn query(machine: &Machine, args: &Query, varname: Option<&String>) -> Result<ExitCode, String> {
    let data = read(machine, args)?;
    if let Some(template) = &args.format {
        return render(machine, template, &data);
    }
    let data = Node::from(template::standardized(&data));
    let value = varname.map_or(Ok(&data), |path| lookup(&data, path))?;
    if !args.list_keys {
        match &value.value {
            Value::Str(text) => std::println!("{text}"),
            _ => print!("{}", config::json::to_text(value, 1)),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Value::Map(map) = &value.value else {
        let path = varname.map(String::as_str).unwrap_or_default();
        return Err(format!("--list-keys provided but '{path}' is not a dict"));
    };
    let mut keys: Vec<&str> = map.iter().filter_map(|(key, _)| key.as_str()).collect();
    sort::sort(&mut keys);
    for key in keys {
        println!("{}", system::single_line(key));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the rendered text of a template and the names without a value. Fails with a message if the template is invalid, or takes
/// more steps.
pub fn render_text(text: &str, data: &Node, steps: &mut u64) -> Result<template::Rendered, String> {
    let rendered = template::render_within(text, &template::variables(data), steps);
    rendered.map_err(|e| format!("line {}: {}", e.line, e.message))
}

/// Renders a template with the data and prints it. An empty result is a failure, for scripts.
fn render(machine: &Machine, template: &str, data: &Node) -> Result<ExitCode, String> {
    // Users omit the header on the command line.
    let text = format!("## template: jinja\n{template}");
    let rendered = template::render(&text, &template::variables(data)).map_err(|e| {
        // The first line is the added header.
        let line = e.line.saturating_sub(1).max(1);
        format!("Failed to render templated data. line {line}: {}", e.message)
    })?;
    if !rendered.undefined.is_empty() {
        // Without their positions: the template is an argument.
        let name = |u: &UndefinedVariable| {
            let near = u.near.as_ref().map(|near| format!(" (did you mean '{near}'?)"));
            format!("'{}'{}", u.name, near.unwrap_or_default())
        };
        let names = rendered.undefined.iter().map(name).collect::<Vec<_>>().join(", ");
        warning!(
            machine.sys,
            "Could not render jinja template variables in file 'query command line': {names}"
        );
    }
    if rendered.text.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    std::println!("{}", rendered.text);
    Ok(ExitCode::SUCCESS)
}

/// The rest of the message that there is no instance data, unless a file was named: templates are tried on other machines too.
pub const SAMPLES: &str =
    "; samples for --instance-data are in /usr/share/doc/cloud-init/examples/instance-data";

/// Returns the instance data with the keys that `query` adds.
fn read(machine: &Machine, args: &Query) -> Result<Node, String> {
    let is_root = Machine::is_root();
    let path = args.instance_data.clone().unwrap_or_else(|| machine.instance_data_or_warning());
    let (file_sys, file_path) = machine.resolve(&path);
    let mut data = match Machine::read_json(&file_sys, &file_path) {
        Ok(Node { value: Value::Map(map), .. }) => map,
        Ok(other) => return Err(format!("{path}: expected a map, found {}", other.kind())),
        Err(e) if e.is_not_found() && args.instance_data.is_none() && !machine.sys.is_live() => {
            of_disk(machine).ok_or_else(|| format!("Missing instance-data file: {path}{SAMPLES}"))?
        }
        Err(e) if e.is_not_found() || file_sys.is_dir(&file_path) => {
            let samples = if args.instance_data.is_none() { SAMPLES } else { "" };
            return Err(format!("Missing instance-data file: {path}{samples}"));
        }
        Err(e) if e.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            return Err(format!("No read permission on '{path}'. Try sudo"));
        }
        Err(e) => return Err(e.to_string()),
    };
    let given =
        |file: &Option<String>, name: &str| file.clone().unwrap_or_else(|| machine.layout.instance(name));
    for (key, file) in [
        ("userdata", given(&args.user_data, RAW_DATA[0])),
        ("vendordata", given(&args.vendor_data, RAW_DATA[1])),
    ] {
        let value = match is_root {
            true => read_raw(machine, &file).map_err(|e| e.to_string())?,
            false => redacted_text(&file),
        };
        data.insert(key, value);
    }
    let combined = machine.layout.combined_config();
    let value = match is_root.then(|| Machine::read_json(&machine.sys, &combined)) {
        None => redacted_text(&combined),
        Some(Ok(value)) => value,
        Some(Err(e)) => {
            // The local stage does not write it.
            if !e.is_not_found() {
                warning!(machine.sys, "combined_cloud_config is not available: {e}");
            }
            Node::default()
        }
    };
    data.insert("combined_cloud_config", value);
    Ok(Node::from(data))
}

/// Returns the instance data of a disk, which has no /run: that of the cached instance. The kernel's names are those of a running
/// machine, and empty.
pub fn of_disk(machine: &Machine) -> Option<Map> {
    let Cached::Instance(instance) = Instance::load(&machine.sys, &machine.layout) else { return None };
    let system = SysInfo { uname: Default::default(), ..SysInfo::read(&machine.sys) };
    let config = machine.settings.system.to_json();
    match Node::from_json(&state::instance_data(&instance, &system, &config)).value {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

fn redacted_text(file: &str) -> Node {
    format!("<redacted for non-root user> file:{file}").into()
}

/// Returns raw data as text: decompressed if it is gzip, as base64 with the prefix `ci-b64:` if it is not text.
fn read_raw(machine: &Machine, file: &str) -> system::Result<Node> {
    let (file_sys, file_path) = machine.resolve(file);
    let bytes = match file_sys.read(&file_path) {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e),
    };
    let bytes = match encoding::gzip::is_gzip(&bytes) {
        true => encoding::gzip::inflate(&bytes, 64 << 20).unwrap_or(bytes),
        false => bytes,
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(bad) => format!("ci-b64:{}", encoding::base64::encode(bad.as_bytes())).into(),
    })
}

/// Returns the value at a dotted path. A key with operators is also found with `_` in their place. Fails with upstream's
/// message if a key is missing.
fn lookup<'a>(data: &'a Node, path: &str) -> Result<&'a Node, String> {
    let mut at = data;
    let mut walked = String::new();
    for key in path.split('.') {
        let spelled = |map: &'a Map| {
            let mut entries = map.iter();
            entries.find(|(k, _)| k.as_str().and_then(template::alias).is_some_and(|alias| alias == key))
        };
        let next = match &at.value {
            Value::Map(map) => map.get(key).or_else(|| spelled(map).map(|(_, value)| value)),
            Value::Seq(items) => key.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => None,
        };
        let Some(next) = next else {
            let known = at.as_map().into_iter().flat_map(Map::iter).filter_map(|(key, _)| key.as_str());
            let hint = config::suggestion(key, known);
            return Err(match walked.is_empty() {
                true => format!("Undefined instance-data key '{path}'{hint}"),
                false => format!("instance-data '{walked}' has no '{key}'{hint}"),
            });
        };
        at = next;
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(key);
    }
    Ok(at)
}
