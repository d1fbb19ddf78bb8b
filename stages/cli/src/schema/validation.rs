//! A document and the result of its validation.

use std::collections::{BTreeMap, BTreeSet};

use config::{Finding, FindingKind};

use crate::arguments::SchemaType;
use crate::finding::Severity;

/// A document to validate.
pub struct Document {
    /// The name in messages: `user-data`, `network-config`.
    pub name: &'static str,
    pub schema_type: SchemaType,
    pub path: String,
    /// The stored parts of this instance's data, if they are to be validated instead of the file.
    pub parts: Option<String>,
}

/// Returns the severity of a finding: with an error the document is invalid.
fn severity(finding: &Finding) -> Severity {
    match finding.kind {
        FindingKind::Invalid | FindingKind::Unknown => Severity::Error,
        FindingKind::Deprecated | FindingKind::Duplicate => Severity::Warning,
    }
}

/// A text that was validated: a file, or a part of it.
pub struct Source {
    /// The name in positions.
    pub name: String,
    pub text: String,
    /// The number of lines of the file before the part; `None` if the file does not contain its text.
    pub offset: Option<usize>,
}

/// A validated file.
#[derive(Default)]
pub struct Validation {
    pub sources: Vec<Source>,
    /// The place of each source by its name, as there may be thousands.
    places: BTreeMap<String, usize>,
    /// What was not validated, in sentences.
    pub notes: Vec<String>,
    /// The document is not a map of keys and cannot be validated.
    pub is_other_type: bool,
    pub findings: Vec<Finding>,
    /// The texts of the findings, of which there may be thousands.
    known: BTreeSet<String>,
    /// Printed, but does not make the file invalid.
    pub warnings: Vec<Finding>,
    /// The beginning of each key in the boot's messages, which the document omits.
    pub prefix: &'static str,
}

impl Validation {
    /// Adds a finding, unless it is known.
    pub fn add(&mut self, finding: Finding) {
        if self.known.insert(format!("{:?} {finding}", finding.kind)) {
            self.findings.push(finding);
        }
    }

    /// Returns the text that a finding is about, and its number.
    pub fn source(&self, finding: &Finding) -> Option<(usize, &Source)> {
        let place = *self.places.get(finding.at.source.as_deref()?)?;
        Some((place, &self.sources[place]))
    }

    pub fn has_source(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub fn add_source(&mut self, name: &str, text: &str, offset: Option<usize>) {
        self.places.insert(name.to_string(), self.sources.len());
        self.sources.push(Source { name: name.to_string(), text: text.to_string(), offset });
    }

    /// Returns the key of a finding as the boot's messages have it; empty for a finding about the whole document.
    pub fn key(&self, finding: &Finding) -> String {
        match &*finding.key {
            "" => String::new(),
            key if key.starts_with("format-l") => String::new(),
            key if key.starts_with(self.prefix) => key.to_string(),
            key => format!("{}{key}", self.prefix),
        }
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
        sort::sort_by_key(&mut all, |(f, _)| (self.source(f).map(|s| s.0), f.at.line, f.at.column));
        all
    }
}
