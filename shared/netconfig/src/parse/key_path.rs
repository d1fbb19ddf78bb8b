//! Paths of keys, as findings and errors show them.

use config::{Findings, Node};

/// Adds a finding and returns it as the message of an error.
pub fn error_at(findings: &mut Findings, node: &Node, key: &str, message: &str) -> String {
    findings.invalid(&node.at, key, message);
    format!("{}: {key}: {message}", node.at)
}
