//! A document and the result of its validation.

use config::{Finding, FindingKind};

use crate::arguments::SchemaType;
use crate::finding::Severity;

/// A document to validate.
pub struct Document {
    /// The name in messages: `user-data`, `network-config`.
    pub name: &'static str,
    pub schema_type: SchemaType,
    pub path: String,
}

/// Returns the severity of a finding: with an error the document is invalid.
fn severity(finding: &Finding) -> Severity {
    match finding.kind {
        FindingKind::Invalid | FindingKind::Unknown => Severity::Error,
        FindingKind::Deprecated | FindingKind::Duplicate => Severity::Warning,
    }
}

/// A validated file.
pub struct Validation {
    pub text: String,
    /// The document is not a map of keys and cannot be validated.
    pub is_other_type: bool,
    pub findings: Vec<Finding>,
    /// Printed, but does not make the file invalid.
    pub warnings: Vec<Finding>,
}

impl Validation {
    pub fn new(text: String, findings: Vec<Finding>) -> Validation {
        Validation { text, is_other_type: false, findings, warnings: Vec::new() }
    }

    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| severity(f) == Severity::Error)
    }

    pub fn of_kind(&self, kind: FindingKind) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.kind == kind)
    }

    pub fn is_valid(&self) -> bool {
        self.errors().next().is_none()
    }

    /// Returns every finding with its severity, errors or not, by position.
    pub fn by_position(&self) -> Vec<(&Finding, Severity)> {
        let mut all: Vec<_> = self.findings.iter().map(|f| (f, severity(f))).collect();
        all.extend(self.warnings.iter().map(|f| (f, Severity::Warning)));
        sort::sort_by_key(&mut all, |(f, _)| (f.at.line, f.at.column));
        all
    }
}
