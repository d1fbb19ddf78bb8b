//! The check of `cloud-init schema` for docs/try.md, compiled for WebAssembly: the code that reads YAML and that compares it with
//! the tables, which `tests/browser/build` writes as Rust. The page passes a document and gets the findings as JSON.

use std::sync::Mutex;

use config::{Finding, FindingKind, Findings};
use serde_json::{Value, json};

#[path = "../../../shared/modules/src/schema/check.rs"]
mod check;
#[path = "../../../shared/modules/src/runner/image_keys.rs"]
mod image_keys;

mod tables {
    use config::schema::{
        BaseType::*, DefaultValue, Definition, Deprecation, Field, Format, RequiredKeys, Type,
    };

    include!(env!("FIRSTLIGHT_TABLES"));

    pub fn top_level() -> impl Iterator<Item = &'static Field> {
        KEYS.iter()
    }

    pub fn module_names() -> impl Iterator<Item = &'static str> {
        MODULES.iter().copied()
    }

    pub fn is_module_name(name: &str) -> bool {
        let name = name.replace('-', "_");
        name == "ubuntu_advantage" || MODULES.contains(&name.as_str())
    }
}

/// The document, and then its findings: the only memory that the page reads and writes.
static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Makes room for a document, and returns where the page writes it.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *const u8 {
    let mut text = TEXT.lock().unwrap();
    *text = vec![0; length];
    text.as_ptr()
}

/// Replaces the document by its findings, as a list in JSON, and returns their length.
#[unsafe(no_mangle)]
pub extern "C" fn check(is_network: bool) -> usize {
    let mut text = TEXT.lock().unwrap();
    let found = findings(&String::from_utf8_lossy(&text), is_network);
    *text = Value::from(found).to_string().into_bytes();
    text.len()
}

/// Returns where the text is.
#[unsafe(no_mangle)]
pub extern "C" fn text() -> *const u8 {
    TEXT.lock().unwrap().as_ptr()
}

fn findings(text: &str, is_network: bool) -> Vec<Value> {
    if !is_network && !text.starts_with("#cloud-config") {
        return vec![
            json!({"line": 1, "column": 1, "severity": "error", "message": "expected the first line #cloud-config"}),
        ];
    }
    let parsed = match config::yaml::parse("", text) {
        Ok(parsed) => parsed,
        Err(bad) => {
            let (line, column) = (bad.at.line.max(1), bad.at.column.max(1));
            return vec![
                json!({"line": line, "column": column, "severity": "error", "message": bad.message}),
            ];
        }
    };
    let mut all = Findings::default();
    parsed.findings.into_iter().for_each(|finding| all.push(finding));
    all.extend(match is_network {
        true => check::check_network(&parsed.root),
        false => check::check_cloud_config(&parsed.root, &image_keys::where_key_belongs),
    });
    let mut found: Vec<&Finding> = all.iter().collect();
    sort::sort_by_key(&mut found, |finding| (finding.at.line, finding.at.column));
    // As the command and the boot have it, also if the document does not.
    let prefix = if is_network && parsed.root.get("network").is_none() { "network." } else { "" };
    found.into_iter().map(|finding| to_json(finding, prefix)).collect()
}

fn to_json(finding: &Finding, prefix: &str) -> Value {
    let severity = match finding.kind {
        FindingKind::Invalid | FindingKind::Unknown => "error",
        FindingKind::Deprecated | FindingKind::Duplicate => "warning",
    };
    json!({"line": finding.at.line, "column": finding.at.column, "key": format!("{prefix}{}", finding.key), "severity": severity, "message": finding.message})
}
