//! Paths of keys, as findings and errors show them.

use config::{Findings, Node};

/// Returns the path of a key below another path; an empty path is the top level.
pub fn join_key(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Adds a finding and returns it as the message of an error.
pub fn error_at(findings: &mut Findings, node: &Node, key: &str, message: &str) -> String {
    findings.invalid(&node.at, key, message);
    format!("{}: {key}: {message}", node.at)
}
