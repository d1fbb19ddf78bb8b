//! `schema`: validates a cloud-config or network-config, or the configuration of this instance, against the tables of keys.
//! `report` prints for people and for scripts that know upstream's sentences, `formats` for programs. Neither prints a
//! value, which may be secret, to anything but a terminal.

mod base;
mod formats;
mod input;
mod replay;
mod report;
pub mod shell;
mod user_data;
mod validation;

use std::process::ExitCode;

use config::{Finding, FindingKind, Findings, Node, Position};
use modules::schema;
use state::layout::{CLOUD_CONFIGS, RAW_DATA};

use crate::arguments::{Schema, SchemaFormat, SchemaType};
use crate::exit::fail;
use crate::machine::Machine;
use validation::{Document, Validation};

pub use base::findings_of_machine;
pub use input::{documents, read as read_input};
pub use replay::{PART_LAYERS, merge_parts, replay_merge};
pub use report::entry;
pub use user_data::configs;

pub fn run(machine: &Machine, args: &Schema) -> ExitCode {
    let given = match input::documents(args) {
        Ok(given) => given,
        Err(message) => return fail(&message),
    };
    let documents = match (given.is_empty(), args.system) {
        (false, false) => given,
        (true, true) => {
            if args.schema_type.is_some() {
                println!("WARNING: The --schema-type parameter is inapplicable when --system is present");
            }
            if !Machine::is_root() {
                return fail(
                    "Unable to read system userdata or vendordata as non-root user. Try using sudo.",
                );
            }
            let (_, inputs) = replay_merge(machine);
            // Upstream does not read these files here: they do not change the exit status.
            for finding in base::findings_of_machine(machine, &inputs) {
                eprintln!("WARNING: {finding}");
            }
            instance_documents(machine)
        }
        _ => return fail("Expected one of --config-file or --system arguments"),
    };
    let (is_text, several) = (args.format == SchemaFormat::Text, documents.len() > 1);
    let is_numbered = several && args.system;
    if is_numbered && is_text {
        let names: Vec<&str> = documents.iter().map(|p| p.name).collect();
        println!("Found cloud-config data types: {}", names.join(", "));
    }
    let (mut results, mut failed) = (Vec::new(), false);
    for (i, part) in documents.into_iter().enumerate() {
        if is_numbered && is_text {
            println!("\n{}. {} at {}:", i + 1, part.name, part.path);
        }
        let result = match validate(machine, &part, args) {
            Ok(validation) => Ok(validation),
            Err(NotValidated::Skipped(text)) => Err(text),
            Err(NotValidated::Failed(text)) => {
                fail(&text);
                failed = true;
                continue;
            }
        };
        if is_text {
            let indent = if is_numbered { "  " } else { "" };
            match &result {
                Ok(validation) => report::print(validation, &part, args, is_numbered, indent),
                Err(reason) => println!("{indent}{reason}"),
            }
        }
        results.push((part, result));
    }
    let is_invalid = |result: &Result<Validation, String>| result.as_ref().is_ok_and(|v| !v.is_valid());
    let name = |part: &Document| if several && !args.system { part.path.clone() } else { part.name.into() };
    let invalid: Vec<String> =
        results.iter().filter(|(_, r)| is_invalid(r)).map(|(part, _)| name(part)).collect();
    match args.format {
        SchemaFormat::Json => formats::print_json(&results, failed),
        SchemaFormat::Sarif => formats::print_sarif(&results),
        SchemaFormat::Text if !invalid.is_empty() => {
            eprintln!("Error: Invalid schema: {}\n", invalid.join(", "))
        }
        SchemaFormat::Text => {}
    }
    if invalid.is_empty() && !failed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the documents of this instance: as they were processed, or else as they were received.
fn instance_documents(machine: &Machine) -> Vec<Document> {
    let mut parts = Vec::new();
    // The real directory of the instance, as messages may be read after the link changed.
    let link = machine.layout.instance("");
    let directory = machine.sys.real_path(&link).unwrap_or(link);
    let of_instance = |name: &str| format!("{}/{name}", directory.trim_end_matches('/'));
    for (i, name) in ["user-data", "vendor-data", "vendor2-data"].into_iter().enumerate() {
        let (processed, raw) = (of_instance(CLOUD_CONFIGS[i]), of_instance(RAW_DATA[i]));
        // As the user wrote them; the processed file has other lines.
        let stored = format!("{raw}.i");
        let length = |path: &str| machine.sys.metadata(path).ok().map(|meta| meta.len());
        // Processing writes an empty file if no part is a cloud-config.
        let is_raw = length(&processed) == Some(0) && length(&raw).is_some_and(|length| length > 0);
        let path = if is_raw { raw } else { processed };
        if i == 0 || machine.sys.exists(&path) {
            let parts_of_user = (!is_raw && machine.sys.exists(&stored)).then_some(stored);
            parts.push(Document { name, schema_type: SchemaType::CloudConfig, path, parts: parts_of_user });
        }
    }
    let network = of_instance("network-config.json");
    if machine.sys.exists(&network) {
        let (name, schema_type) = ("network-config", SchemaType::NetworkConfig);
        parts.push(Document { name, schema_type, path: network, parts: None });
    }
    parts
}

/// The reason why a file is not validated.
enum NotValidated {
    /// There is nothing to validate, which is not a failure.
    Skipped(String),
    Failed(String),
}

fn validate(machine: &Machine, part: &Document, args: &Schema) -> Result<Validation, NotValidated> {
    let path = part.parts.as_ref().unwrap_or(&part.path);
    let read = if args.system { machine.sys.read(path) } else { input::read(path) };
    let bytes = read.map_err(|e| match e.is_not_found() {
        true => NotValidated::Failed(format!("Config file {path} does not exist")),
        false => NotValidated::Failed(e.to_string()),
    })?;
    let nothing = || {
        let word = part.schema_type.word();
        NotValidated::Skipped(format!("Empty '{word}' found at {}. Nothing to validate.", part.path))
    };
    if bytes.is_empty() {
        return Err(nothing());
    }
    let mut result = match part.schema_type {
        SchemaType::NetworkConfig => network(path, &bytes)?,
        SchemaType::CloudConfig if base::is_base(&part.path, &bytes) => {
            base::check(machine, args, path, &bytes)?
        }
        SchemaType::CloudConfig => {
            let name = if part.parts.is_some() { part.name } else { path };
            user_data::check(machine, args, name, &bytes, || replay_merge(machine).0.merged).map_err(
                |why| match why {
                    NotValidated::Skipped(reason) if reason.is_empty() => nothing(),
                    why => why,
                },
            )?
        }
    };
    if args.system && part.parts.is_none() {
        ignored_parts(path, &String::from_utf8_lossy(&bytes)).into_iter().for_each(|f| result.add(f));
    }
    sort::sort_by(&mut result.findings, |a, b| a.key.cmp(&b.key));
    Ok(result)
}

fn network(path: &str, bytes: &[u8]) -> Result<Validation, NotValidated> {
    let mut result = Validation::default();
    result.add_source(path, &String::from_utf8_lossy(bytes), Some(0));
    let parsed = match config::yaml::parse_bytes(path, bytes) {
        Ok(parsed) => parsed,
        Err(bad) => {
            result.add(not_yaml(path, &bad));
            return Ok(result);
        }
    };
    if parsed.root.as_map().is_none() {
        let (at, message) = (parsed.root.at, "expected a map of keys".to_string());
        result.is_other_type = true;
        result.add(Finding { kind: FindingKind::Invalid, at, key: String::new(), message });
        return Ok(result);
    }
    if parsed.root.get("network").unwrap_or(&parsed.root).is_falsy() {
        let reason = "Skipping network-config schema validation on empty config.";
        return Err(NotValidated::Skipped(reason.into()));
    }
    let (findings, warnings) = check_network(&parsed.root);
    result.prefix = if parsed.root.get("network").is_some() { "" } else { "network." };
    // Those of the boot have the prefix already.
    let of_document = |mut finding: Finding| {
        finding.key = finding.key.strip_prefix(result.prefix).unwrap_or(&finding.key).to_string();
        finding
    };
    result.warnings = warnings.into_iter().map(of_document).collect();
    let found = parsed.findings.into_iter().chain(findings.iter().cloned().map(of_document));
    let found: Vec<Finding> = found.collect();
    found.into_iter().for_each(|f| result.add(f));
    Ok(result)
}

/// Returns the findings of the schema and those of the parser, which the boot reports, each position once; and what does not
/// make the file invalid.
fn check_network(config: &Node) -> (Findings, Vec<Finding>) {
    let mut findings = schema::check_network(config);
    let is_new = |findings: &Findings, f: &Finding| !findings.iter().any(|other| other.at == f.at);
    // Upstream's schema takes any key of a device, as netplan may have learned it since.
    let unknown = netconfig::parse::unknown_keys(config);
    let mut warnings: Vec<Finding> = unknown.iter().filter(|f| is_new(&findings, f)).cloned().collect();
    // Without a version there is a finding already.
    let parsed = netconfig::parse::parse_parts(config, &netconfig::Facts::default()).unwrap_or_default();
    for finding in parsed.findings.iter().filter(|f| f.kind == FindingKind::Invalid) {
        if !is_new(&findings, finding) {
            continue;
        }
        let is_invalid = parsed.invalid.iter().any(|f| f.at == finding.at && f.key == finding.key);
        match is_invalid && !parsed.accepted.contains(&finding.key) {
            true => findings.push(finding.clone()),
            false => warnings.push(finding.clone()),
        }
    }
    (findings, warnings)
}

/// Returns the finding about a text that cannot be parsed.
fn not_yaml(name: &str, bad: &config::yaml::YamlError) -> Finding {
    let message = match bad.message.strip_prefix("invalid YAML") {
        Some(problem) => format!("File {name} is not valid YAML{problem}"),
        None => format!("File {name} is not valid YAML. {}", bad.message),
    };
    format_error(name, bad.at.line.max(1), bad.at.column.max(1), message)
}

fn not_evaluated(kind: &str) -> String {
    format!("User-data type '{kind}' not currently evaluated by cloud-init schema")
}

fn format_error(path: &str, line: u32, column: u32, message: String) -> Finding {
    let at = Position { source: Some(path.into()), line, column };
    Finding { kind: FindingKind::Invalid, at, key: format!("format-l{line}.c{column}"), message }
}

/// Returns the parts that processing skipped, as the comments at the head of the merged cloud-config name them.
fn ignored_parts(path: &str, text: &str) -> Vec<Finding> {
    const COMMENT: &str = "# Cloud-config part ignored SCHEMA_ERROR: ";
    let lines = (1..).zip(text.lines());
    lines
        .filter_map(|(line, text)| {
            let name = text.strip_prefix(COMMENT)?;
            Some(format_error(path, line, 1, format!("Ignored invalid user-data: {name}")))
        })
        .collect()
}

/// Renders a template with the instance data. Fails with a message if it cannot be rendered.
fn render_template(
    machine: &Machine,
    path: &str,
    text: &str,
    given: Option<&str>,
    steps: &mut u64,
) -> Result<template::Rendered, String> {
    let data = given.map_or_else(|| machine.instance_data(), str::to_string);
    let (file_sys, file_path) = machine.resolve(&data);
    let values = Machine::read_json(&file_sys, &file_path);
    let values = match values {
        // Before the first boot: upstream uses the instance data of the datasource None.
        Err(e) if e.is_not_found() && given.is_none() => {
            let config = machine.settings.system.to_json();
            let system = state::SysInfo::read(&machine.sys);
            Ok(Node::from_json(&state::fallback_instance_data(&system, &config)))
        }
        values => values,
    };
    let values = values.map_err(|e| match e.kind() {
        _ if e.is_not_found() => {
            format!("Cannot render jinja template vars. Instance data not yet present at {data}")
        }
        Some(std::io::ErrorKind::PermissionDenied) => {
            format!("Cannot render jinja template vars. No read permission on '{data}'. Try sudo")
        }
        _ => format!("Loading Jinja instance data failed: {e}"),
    })?;
    if values.as_map().is_none() {
        return Err(format!("Loading Jinja instance data failed: {data}: expected a map"));
    }
    crate::query::render_text(text, &values, steps)
        .map_err(|reason| format!("Failed to render templated user-data. {path}, {reason}"))
}

/// Returns a finding for each variable that a template prints and the instance data does not have.
fn undefined_variables(path: &str, rendered: &template::Rendered) -> Vec<Finding> {
    let finding = |variable: &template::UndefinedVariable| {
        let near = variable.near.as_ref().map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        let name = system::single_line(&variable.name);
        let text = format!("{}{name}", template::MISSING_JINJA_PREFIX);
        let message = format!("the variable '{name}' is undefined, the result has {text}{near}");
        format_error(path, variable.line as u32, 1, message)
    };
    rendered.undefined.iter().map(finding).collect()
}
