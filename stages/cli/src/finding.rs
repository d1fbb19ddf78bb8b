//! The findings of `doctor` and `state check`: the place, the problem, and what to do about it.

use serde_json::{Value, json};
use system::{Result, single_line};

use crate::state_files::Repair;

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
pub struct Finding {
    pub severity: Severity,
    /// A path, a part with line and key, a stage.
    pub place: String,
    pub problem: String,
    /// The remedy; may be empty.
    pub remedy: String,
    /// A repair that loses nothing.
    pub repair: Option<Repair>,
}

impl Finding {
    /// Returns whether it is an error or a warning.
    pub fn is_problem(&self) -> bool {
        self.severity != Severity::Note
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

/// Text of a finding.
pub trait Text: Into<String> {}

impl<T: Into<String>> Text for T {}

/// The findings so far.
#[derive(Default)]
pub struct Findings {
    pub all: Vec<Finding>,
    /// Files and facts that could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Findings {
    /// Adds a finding and returns it. One with the same place and problem is kept instead.
    pub fn add(
        &mut self,
        severity: Severity,
        place: impl Text,
        problem: impl Text,
        remedy: impl Text,
    ) -> &mut Finding {
        let (place, problem) = (place.into(), problem.into());
        let known = self.all.iter().position(|other| other.place == place && other.problem == problem);
        let at = known.unwrap_or(self.all.len());
        if known.is_none() {
            self.all.push(Finding { severity, place, problem, remedy: remedy.into(), repair: None });
        }
        &mut self.all[at]
    }

    pub fn error(&mut self, place: impl Text, problem: impl Text, remedy: impl Text) -> &mut Finding {
        self.add(Severity::Error, place, problem, remedy)
    }

    pub fn warning(&mut self, place: impl Text, problem: impl Text, remedy: impl Text) -> &mut Finding {
        self.add(Severity::Warning, place, problem, remedy)
    }

    /// Adds a finding without a remedy.
    pub fn note(&mut self, place: impl Text, problem: impl Text) -> &mut Finding {
        self.add(Severity::Note, place, problem, "")
    }

    /// Returns the value of a result, or `None` after recording its error.
    pub fn read<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|e| self.unread.push(e.to_string())).ok()
    }

    /// Returns whether one is an error or a warning.
    pub fn has_problem(&self) -> bool {
        self.all.iter().any(Finding::is_problem)
    }
}
