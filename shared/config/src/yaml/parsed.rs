//! The result of parsing: a document or an error.

use crate::{Finding, Node, Position};

/// A document and its problems (duplicate keys).
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// The document.
    pub root: Node,
    /// Problems that do not prevent reading.
    pub findings: Vec<Finding>,
}

/// An error in a YAML text, or in a value of it, with its position.
#[derive(Debug, Clone)]
pub struct YamlError {
    /// The position of the problem.
    pub at: Position,
    /// The problem.
    pub message: String,
}

impl std::fmt::Display for YamlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

impl std::error::Error for YamlError {}
