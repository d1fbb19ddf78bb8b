//! YAML 1.1 as PyYAML's safe loader reads it, with positions and limits.

use crate::{Finding, Node};

/// A document, and what was odd about it (duplicate keys).
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    pub root: Node,
    pub findings: Vec<Finding>,
}

/// Why a text is no YAML, and where.
#[derive(Debug, Clone)]
pub struct BadYaml {
    pub at: crate::Mark,
    pub message: String,
}

impl std::fmt::Display for BadYaml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Reads one document; an empty text is null.
pub fn parse(_source: &str, _text: &str) -> Result<Parsed, BadYaml> {
    Ok(Parsed::default())
}
