//! A finding of `doctor` or `state check`: the place, the problem, and what to do about it.

use serde_json::{Value, json};
use system::single_line;

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something did not work.
    Error,
    /// Something may not work as expected.
    Warning,
    /// Worth knowing; the machine is healthy.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One finding. None of its strings contains a value of the configuration, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// A path, a part with line and key, a stage.
    pub place: String,
    pub problem: String,
    /// The remedy; may be empty.
    pub remedy: String,
}

impl Finding {
    pub fn new(severity: Severity, place: impl Into<String>, problem: impl Into<String>) -> Finding {
        Finding { severity, place: place.into(), problem: problem.into(), remedy: String::new() }
    }

    pub fn error(place: impl Into<String>, problem: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, place, problem)
    }

    pub fn warning(place: impl Into<String>, problem: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, place, problem)
    }

    pub fn note(place: impl Into<String>, problem: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, place, problem)
    }

    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: remedy.into(), ..self }
    }

    pub fn json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "place": self.place,
            "problem": self.problem,
            "remedy": self.remedy,
        })
    }

    pub fn text(&self) -> String {
        let (place, problem) = (single_line(&self.place), single_line(&self.problem));
        let mut text = format!("{:<8} {place}: {problem}\n", self.severity.as_str());
        if !self.remedy.is_empty() {
            text += &format!("{:<8} -> {}\n", "", single_line(&self.remedy));
        }
        text
    }
}

/// Returns whether a finding is an error or a warning.
pub fn has_problem<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> bool {
    findings.into_iter().any(|finding| finding.severity != Severity::Note)
}
