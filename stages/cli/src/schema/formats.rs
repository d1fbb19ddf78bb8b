//! The result of `schema` for programs: JSON, and SARIF 2.1.0 for forges, which show it beside the lines of a change.

use std::path::{Component, Path, PathBuf};

use config::Finding;
use encoding::percent;
use serde_json::{Value, json};

use super::validation::{Document, Validation};
use crate::finding::Severity;

/// A document, and its validation or the reason why it was not validated.
type Results = [(Document, Result<Validation, String>)];

/// The rules of SARIF, in the order of `FindingKind`.
const RULES: &[(&str, &str)] = &[
    ("invalid-value", "A value is not of the expected type, form or range."),
    ("unknown-key", "A key has no meaning in its place."),
    ("deprecated", "A key or value still works but is deprecated."),
    ("duplicate-key", "A key occurs twice; the last value is used."),
];

/// Prints the results; `failed` if a document could not be read.
pub fn print_json(results: &Results, failed: bool) {
    let is_valid = |result: &Result<Validation, String>| result.as_ref().map_or(true, Validation::is_valid);
    let documents: Vec<Value> = results
        .iter()
        .map(|(part, result)| {
            let mut document = json!({
                "name": part.name,
                "schema": part.schema_type.word(),
                "path": part.path,
                "valid": is_valid(result),
            });
            match result {
                Ok(validation) => {
                    let found = validation.by_position();
                    document["findings"] = found.iter().map(|f| finding(f, &part.path, validation)).collect();
                    if !validation.notes.is_empty() {
                        document["notes"] = validation.notes.clone().into();
                    }
                }
                Err(reason) => document["skipped"] = reason.as_str().into(),
            }
            document
        })
        .collect();
    let all = json!({ "valid": !failed && results.iter().all(|(_, r)| is_valid(r)), "documents": documents });
    println!("{}", state::json_text(&all, 1).trim_end());
}

fn finding((finding, severity): &(&Finding, Severity), path: &str, validation: &Validation) -> Value {
    let mut found = json!({
        "rule": RULES[finding.kind as usize].0,
        "severity": severity.as_str(),
        "key": validation.key(finding),
        "message": finding.message,
        "line": finding.at.line,
        "column": finding.at.column,
    });
    let source = validation.source(finding).map(|(_, source)| source);
    if let Some(source) = source.filter(|source| source.name != path) {
        found["part"] = source.name.as_str().into();
    }
    found
}

pub fn print_sarif(results: &Results) {
    let directory = std::env::current_dir().unwrap_or_default();
    let log = sarif(results, &directory);
    println!("{}", state::json_text(&log, 1).trim_end());
}

fn sarif(results: &Results, directory: &Path) -> Value {
    let rules: Vec<Value> =
        RULES.iter().map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } })).collect();
    let mut found = Vec::new();
    for (part, result) in results {
        let Ok(validation) = result else { continue };
        let artifact = artifact(&part.path, directory);
        for (finding, severity) in validation.by_position() {
            found.push(sarif_result(finding, severity, &artifact, validation));
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "cloud-init schema", "version": system::CLOUD_INIT_VERSION, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": found,
        }],
    })
}

fn sarif_result(finding: &Finding, severity: Severity, artifact: &Value, validation: &Validation) -> Value {
    let key = validation.key(finding);
    let source = validation.source(finding).map(|(_, source)| source);
    let text = if key.is_empty() { finding.message.clone() } else { format!("{key}: {}", finding.message) };
    // The line in the file, which has the text of a part only if that is not encoded.
    let offset = source.map_or(Some(0), |source| source.offset);
    let mut location = json!({ "physicalLocation": { "artifactLocation": artifact } });
    // A region without a line is not valid.
    if let Some(offset) = offset.filter(|_| finding.at.line > 0) {
        let region = json!({ "startLine": finding.at.line as usize + offset, "startColumn": finding.at.column.max(1) });
        location["physicalLocation"]["region"] = region;
    }
    if !key.is_empty() {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": key, "kind": "member" }]);
    }
    json!({
        "ruleId": RULES[finding.kind as usize].0,
        "ruleIndex": finding.kind as usize,
        "level": severity.as_str(),
        "message": { "text": text },
        "locations": [location],
    })
}

/// Returns a file's URI: relative to the directory if the file is below it, as forges expect, otherwise absolute.
fn artifact(path: &str, directory: &Path) -> Value {
    let path: PathBuf = Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
    let inside = if path.is_absolute() { path.strip_prefix(directory).ok() } else { Some(path.as_path()) };
    let encoded = |path: &Path| encode(&path.to_string_lossy());
    match inside {
        Some(relative) => json!({ "uri": encoded(relative), "uriBaseId": "%SRCROOT%" }),
        None => json!({ "uri": format!("file://{}", encoded(&path)) }),
    }
}

/// The characters of a path that are escaped in a URI.
const IN_PATH: percent::AsciiSet = percent::RESERVED.remove(b'/');

fn encode(path: &str) -> String {
    percent::encode(path, &IN_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_relative_below_the_current_directory() {
        let here = Path::new("/home/o/repo");
        for (path, uri, is_relative) in [
            ("./a b.yaml", "a%20b.yaml", true),
            ("/home/o/repo/x/ü.yaml", "x/%C3%BC.yaml", true),
            ("/home/o/repository/x", "file:///home/o/repository/x", false),
            ("/var/lib/a", "file:///var/lib/a", false),
        ] {
            let artifact = artifact(path, here);
            assert_eq!(artifact["uri"], uri, "{path}");
            assert_eq!(artifact.get("uriBaseId").is_some(), is_relative, "{path}");
        }
    }
}
