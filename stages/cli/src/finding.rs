//! The findings of `doctor` and `state check`: the place, the problem, and what to do about it.

use serde_json::{Value, json};
use system::{Result, single_line};

use crate::state_files::Repair;

/// The maximum number of details that are shown as text.
const MAX_DETAILS: usize = 6;

encoding::words! {
    /// The severity.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Something did not work.
        Error = "error",
        /// Something may not work as expected.
        Warning = "warning",
        /// Worth knowing; the machine is healthy.
        Note = "note",
    }
}

/// What a finding is about. One of an earlier layer may be the cause of those of later layers, and is shown first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Disks, clock, memory.
    Machine,
    /// systemd's units and jobs.
    Units,
    /// The decision whether cloud-init runs, and the datasource.
    Datasource,
    /// Links, addresses, name servers.
    Network,
    /// The configuration.
    Configuration,
    /// Work of modules and scripts.
    #[default]
    Work,
    /// Accounts, SSH.
    Login,
    /// The state on disk.
    State,
}

/// One finding. None of its strings contains a value of the configuration, which may be secret.
pub struct Finding {
    pub severity: Severity,
    pub layer: Layer,
    /// A path, a part with line and key, a stage.
    pub place: String,
    pub problem: String,
    /// The remedy; may be empty.
    pub remedy: String,
    /// Lines below the problem: output, or findings with the same cause.
    pub details: Vec<String>,
    /// A repair that loses nothing.
    pub repair: Option<Repair>,
}

impl Finding {
    /// Returns whether it is an error or a warning.
    pub fn is_problem(&self) -> bool {
        self.severity != Severity::Note
    }

    /// Returns whether the problem or the details contain this text.
    pub fn shows(&self, text: &str) -> bool {
        self.problem.contains(text) || self.details.iter().any(|line| line.contains(text))
    }

    pub fn json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "place": self.place,
            "problem": self.problem,
            "details": self.details,
            "remedy": self.remedy,
        })
    }

    pub fn text(&self) -> String {
        let (place, problem) = (single_line(&self.place), single_line(&self.problem));
        let mut text = format!("{:<8} {place}: {problem}\n", self.severity.as_str());
        for line in self.details.iter().take(MAX_DETAILS) {
            text += &format!("{:<8} | {}\n", "", single_line(line));
        }
        if self.details.len() > MAX_DETAILS {
            text += &format!("{:<8} | and {} more like this\n", "", self.details.len() - MAX_DETAILS);
        }
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
    /// The layer of the findings that are added.
    pub layer: Layer,
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
            let (layer, remedy) = (self.layer, remedy.into());
            let details = Vec::new();
            self.all.push(Finding { severity, layer, place, problem, remedy, details, repair: None });
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

    /// Sorts them: causes before symptoms, and notes last; what was not read, once each.
    pub fn sort(&mut self) {
        sort::sort_by_key(&mut self.all, |finding| {
            (finding.severity == Severity::Note, finding.layer, finding.severity)
        });
        sort::sort(&mut self.unread);
        self.unread.dedup();
    }

    /// Returns whether one is an error or a warning.
    pub fn has_problem(&self) -> bool {
        self.all.iter().any(Finding::is_problem)
    }
}
