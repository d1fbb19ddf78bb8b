//! `devel render`: renders user-data that is a template, with the instance data.

use std::process::ExitCode;

use system::warning;

use crate::arguments::Render;
use crate::machine::Machine;
use crate::query::SAMPLES;

pub fn run(machine: &Machine, args: &Render) -> ExitCode {
    machine.exit_code(rendered(machine, args).map(|text| {
        std::print!("{text}");
        ExitCode::SUCCESS
    }))
}

fn rendered(machine: &Machine, args: &Render) -> Result<String, String> {
    let typed = args.instance_data.clone().unwrap_or_else(|| machine.instance_data_or_warning());
    let (sys, data) = machine.resolve(&typed);
    if !sys.exists(&data) {
        let samples = if args.instance_data.is_none() { SAMPLES } else { "" };
        return Err(format!("Missing instance-data.json file: {typed}{samples}"));
    }
    let (file_sys, file) = machine.resolve(&args.user_data);
    if !file_sys.exists(&file) {
        return Err(format!("Missing user-data file: {}", args.user_data));
    }
    let values = match Machine::read_json(&sys, &data) {
        Err(e) if e.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            return Err(format!(
                "Cannot render jinja template vars. No read permission on '{data}'. Try sudo"
            ));
        }
        other => other.map_err(|e| e.to_string())?,
    };
    let bytes = file_sys.read(&file).map_err(|e| e.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: not valid UTF-8", args.user_data))?;
    if template::kind(&text) != Some(template::Kind::Jinja) {
        return Err(format!(
            "{}: not a template: expected '## template: jinja' as the first line",
            args.user_data
        ));
    }
    let variables = template::variables(&values);
    let rendered = template::render(&text, &variables)
        .map_err(|e| format!("Failed to render templated user-data file '{}': {e}", args.user_data))?;
    if let Some(names) = rendered.undefined_names() {
        let file = &args.user_data;
        warning!(machine.sys, "Could not render jinja template variables in file '{file}': {names}");
    }
    if rendered.text.is_empty() {
        return Err(format!("Unable to render user-data file: {}: the result is empty", args.user_data));
    }
    Ok(rendered.text)
}
