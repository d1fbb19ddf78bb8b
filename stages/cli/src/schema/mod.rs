//! `schema`: validates a cloud-config or network-config, or the configuration of this instance, against the tables of keys.
//! `report` prints for people and for scripts that know upstream's sentences, `formats` for programs. Neither prints a
//! value, which may be secret, to anything but a terminal.

mod formats;
mod report;
mod validation;

use std::process::ExitCode;

use config::{Finding, FindingKind, Findings, Node, Position};
use modules::schema;
use state::layout::{CLOUD_CONFIGS, RAW_DATA};
use system::{System, warning};

use crate::arguments::{Schema, SchemaFormat, SchemaType};
use crate::doctor::configuration::unknown_datasources;
use crate::machine::Machine;
use validation::{Document, Validation};

const HEADERS: &str = "#!, ## template: jinja, #cloud-boothook, #cloud-config, #cloud-config-archive, \
                       #cloud-config-jsonp, #include, #include-once, #part-handler";

pub fn run(machine: &Machine, args: &Schema) -> ExitCode {
    if let Some(name) = &args.docs {
        return print_docs(name);
    }
    if args.explain.is_some() {
        let key = args.explain.as_deref().filter(|k| !k.is_empty());
        return match &args.config_file {
            Some(file) => crate::explain::explain_file(machine, file, key),
            None => crate::explain::run(machine, key),
        };
    }
    let schema_type = args.schema_type.unwrap_or(SchemaType::CloudConfig);
    let own = System::new("/");
    let (sys, parts) = match (&args.config_file, args.system) {
        (Some(file), false) => {
            let name = if schema_type == SchemaType::NetworkConfig { "network-config" } else { "user-data" };
            // A file of this machine, not of the image.
            (&own, vec![Document { name, schema_type, path: file.clone() }])
        }
        (None, true) => {
            if args.schema_type.is_some() {
                println!("WARNING: The --schema-type parameter is inapplicable when --system is present");
            }
            if !Machine::is_root() {
                return fail(
                    "Unable to read system userdata or vendordata as non-root user. Try using sudo.",
                );
            }
            let (settings, _) = crate::explain::replay_merge(machine);
            for (place, problem) in unknown_datasources(&settings.merged) {
                eprintln!("WARNING: {place}: {problem}");
            }
            (&machine.sys, instance_documents(machine))
        }
        _ => return fail("Expected one of --config-file or --system arguments"),
    };
    let several = parts.len() > 1;
    let is_text = args.format == SchemaFormat::Text;
    if several && is_text {
        let names: Vec<&str> = parts.iter().map(|p| p.name).collect();
        println!("Found cloud-config data types: {}", names.join(", "));
    }
    let mut results = Vec::new();
    for (i, part) in parts.into_iter().enumerate() {
        if several && is_text {
            println!("\n{}. {} at {}:", i + 1, part.name, part.path);
        }
        let result = match validate(machine, sys, &part, args) {
            Ok(validation) => Ok(validation),
            Err(NotValidated::Skipped(text)) => Err(text),
            Err(NotValidated::Failed(text)) => return fail(&text),
            Err(NotValidated::Missing(text)) => {
                eprintln!("Error: {text}");
                return ExitCode::FAILURE;
            }
        };
        if is_text {
            let indent = if several { "  " } else { "" };
            match &result {
                Ok(validation) => report::print(validation, &part, args, several, indent),
                Err(reason) => println!("{indent}{reason}"),
            }
        }
        results.push((part, result));
    }
    let is_invalid = |result: &Result<Validation, String>| result.as_ref().is_ok_and(|v| !v.is_valid());
    let invalid: Vec<&str> =
        results.iter().filter(|(_, r)| is_invalid(r)).map(|(part, _)| part.name).collect();
    match args.format {
        SchemaFormat::Json => formats::print_json(&results),
        SchemaFormat::Sarif => formats::print_sarif(&results),
        SchemaFormat::Text if !invalid.is_empty() => {
            eprintln!("Error: Invalid schema: {}\n", invalid.join(", "))
        }
        SchemaFormat::Text => {}
    }
    if invalid.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("Error:\n{message}");
    ExitCode::FAILURE
}

fn print_docs(name: &str) -> ExitCode {
    match schema::module_docs(name) {
        Some(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        None => {
            let known = schema::module_names();
            let hint = match config::did_you_mean(name, known.iter().copied()) {
                Some(near) => format!("; did you mean '{near}'?"),
                None => format!("; available: all, {}", known.join(", ")),
            };
            fail(&format!("No module named '{name}'{hint}"))
        }
    }
}

/// Returns the documents of this instance: as they were processed, or else as they were received.
fn instance_documents(machine: &Machine) -> Vec<Document> {
    let mut parts = Vec::new();
    // The real directory of the instance, as messages may be read after the link changed.
    let link = machine.layout.instance("");
    let directory = machine.sys.real_path(&link).unwrap_or(link);
    let of_instance = |name: &str| format!("{}/{name}", directory.trim_end_matches('/'));
    for (name, processed, raw, always) in [
        ("user-data", CLOUD_CONFIGS[0], RAW_DATA[0], true),
        ("vendor-data", CLOUD_CONFIGS[1], RAW_DATA[1], false),
        ("vendor2-data", CLOUD_CONFIGS[2], RAW_DATA[2], false),
    ] {
        let (processed, raw) = (of_instance(processed), of_instance(raw));
        let length = |path: &str| machine.sys.metadata(path).ok().map(|meta| meta.len());
        // Processing writes an empty file if no part is a cloud-config.
        let is_raw = length(&processed) == Some(0) && length(&raw).is_some_and(|length| length > 0);
        let path = if is_raw { raw } else { processed };
        if always || machine.sys.exists(&path) {
            parts.push(Document { name, schema_type: SchemaType::CloudConfig, path });
        }
    }
    let network = of_instance("network-config.json");
    if machine.sys.exists(&network) {
        let (name, schema_type) = ("network-config", SchemaType::NetworkConfig);
        parts.push(Document { name, schema_type, path: network });
    }
    parts
}

/// The reason why a file is not validated.
enum NotValidated {
    /// There is nothing to validate, which is not a failure.
    Skipped(String),
    Failed(String),
    /// The file does not exist.
    Missing(String),
}

fn validate(
    machine: &Machine,
    sys: &System,
    part: &Document,
    args: &Schema,
) -> Result<Validation, NotValidated> {
    let path = &part.path;
    let absolute = match (path.starts_with('/'), std::env::current_dir()) {
        (false, Ok(dir)) => format!("{}/{path}", dir.display()),
        _ => path.clone(),
    };
    let bytes = sys.read(&absolute).map_err(|e| match e.is_not_found() {
        true => NotValidated::Missing(format!("Config file {path} does not exist")),
        false => NotValidated::Failed(e.to_string()),
    })?;
    if bytes.is_empty() {
        let word = part.schema_type.word();
        return Err(NotValidated::Skipped(format!("Empty '{word}' found at {path}. Nothing to validate.")));
    }
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(bad) => {
            let text = String::from_utf8_lossy(bad.as_bytes()).into_owned();
            // Refused at boot, too; user-data of another type may be binary.
            let is_read_as_text = part.schema_type != SchemaType::CloudConfig
                || matches!(user_data_type(&text), Some("text/cloud-config" | "text/jinja2"));
            match config::yaml::parse_bytes(path, bad.as_bytes()) {
                Err(bad) if is_read_as_text => return Ok(not_yaml(path, &bad, text, Vec::new())),
                _ => text,
            }
        }
    };
    let mut format_errors = Vec::new();
    if part.schema_type == SchemaType::CloudConfig {
        let mut kind = user_data_type(&text);
        let mut at = 1;
        if kind == Some("text/jinja2") {
            text = render_template(machine, path, &text, args).map_err(NotValidated::Failed)?;
            kind = user_data_type(&text);
            // The header of the result is the second line of the template.
            at = 2;
        }
        match kind {
            Some("text/cloud-config") => {}
            Some(other) => {
                let reason = format!("User-data type '{other}' not currently evaluated by cloud-init schema");
                return Err(NotValidated::Skipped(reason));
            }
            None => {
                let message = format!(
                    "Unrecognized user-data header in {path}.\nExpected first line to be one of: {HEADERS}"
                );
                return Ok(Validation::new(text, vec![format_error(path, at, 1, message)]));
            }
        }
        format_errors = ignored_parts(path, &text);
    }
    let parsed = match config::yaml::parse(path, &text) {
        Ok(parsed) => parsed,
        Err(bad) => return Ok(not_yaml(path, &bad, text, format_errors)),
    };
    if parsed.root.as_map().is_none() {
        let message = "expected a map of keys".to_string();
        let at = parsed.root.at.clone();
        let finding = Finding { kind: FindingKind::Invalid, at, key: String::new(), message };
        return Ok(Validation { is_other_type: true, ..Validation::new(text, vec![finding]) });
    }
    let (findings, warnings) = match part.schema_type {
        SchemaType::CloudConfig => {
            (schema::check_cloud_config(&parsed.root, &modules::where_key_belongs), Vec::new())
        }
        SchemaType::NetworkConfig => {
            let inner = parsed.root.get("network").unwrap_or(&parsed.root);
            if inner.is_falsy() {
                let reason = "Skipping network-config schema validation on empty config.";
                return Err(NotValidated::Skipped(reason.into()));
            }
            check_network(&parsed.root)
        }
    };
    let mut all = Findings::default();
    parsed.findings.into_iter().for_each(|f| all.push(f));
    all.extend(findings);
    format_errors.into_iter().for_each(|finding| all.push(finding));
    let mut findings: Vec<Finding> = all.iter().cloned().collect();
    sort::sort_by(&mut findings, |a, b| a.key.cmp(&b.key));
    Ok(Validation { warnings, ..Validation::new(text, findings) })
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

/// Returns the result for a file that cannot be parsed, after the findings so far.
fn not_yaml(
    path: &str,
    bad: &config::yaml::YamlError,
    text: String,
    mut findings: Vec<Finding>,
) -> Validation {
    let message = format!("File {path} is not valid YAML. {}", bad.message);
    findings.push(format_error(path, bad.at.line.max(1), bad.at.column.max(1), message));
    Validation::new(text, findings)
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

/// Returns the type that the first line declares.
fn user_data_type(text: &str) -> Option<&'static str> {
    userdata::detect(text.as_bytes())
}

/// Renders a template with the instance data. Fails with a message if it cannot be rendered.
fn render_template(machine: &Machine, path: &str, text: &str, args: &Schema) -> Result<String, String> {
    let data = args.instance_data.clone().unwrap_or_else(|| machine.instance_data());
    let (file_sys, file_path) = machine.resolve(&data);
    let values = Machine::read_json(&file_sys, &file_path);
    let values = match values {
        // Before the first boot: upstream uses the instance data of the datasource None.
        Err(e) if e.is_not_found() && args.instance_data.is_none() => {
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
    let (rendered, unknown) = crate::query::render_text(text, &values)
        .map_err(|reason| format!("Failed to render templated user-data. {path}, {reason}"))?;
    if !unknown.is_empty() {
        let names = unknown.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        warning!(machine.sys, "Could not render jinja template variables in file '{path}': {names}");
    }
    Ok(rendered)
}
