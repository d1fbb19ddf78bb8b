//! The findings of `doctor` and `state check`: the place, the problem, and what to do about it.

use config::Position;
use serde_json::{Value, json};
use sort::Named;
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
    /// Disks, clock, memory, firewall.
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
    /// The places and problems that were added, as there may be thousands.
    added: Named<bool>,
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
        let is_added = std::mem::replace(self.added.entry(&format!("{place}: {problem}")), true);
        let is_same = |other: &Finding| other.place == place && other.problem == problem;
        let known = if is_added { self.all.iter().position(is_same) } else { None };
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

    /// Adds a finding of the configuration, `SOURCE:LINE:COLUMN: KEY: PROBLEM`.
    pub fn add_of_config(&mut self, is_deprecated: bool, text: &str) {
        self.layer = Layer::Configuration;
        let (place, problem) =
            split_position(text).unwrap_or_else(|| ("configuration".into(), text.to_string()));
        if is_deprecated {
            self.note(place, problem);
            return;
        }
        let remedy = remedy_at(&place);
        // As in the status, which is "degraded".
        self.warning(place, problem, remedy);
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

/// Returns the remedy for a value at a place.
pub fn remedy_at(place: &str) -> String {
    match place.split([' ', ',']).next() {
        Some(source @ ("user-data" | "vendor-data" | "vendor-data2")) => {
            format!(
                "correct the {source} at the cloud, then boot a new instance, or: cloud-init clean && reboot"
            )
        }
        // Of a config drive or a service there is no file.
        _ if place.split([' ', ',']).any(|word| word.ends_with("network-config")) => {
            "correct it at its source, then reboot; check it with: cloud-init schema -t network-config -c FILE".into()
        }
        _ => "correct the file; check it with: cloud-init schema --system".into(),
    }
}

/// Returns `SOURCE, line LINE` of a position, or `or` if it has no line.
pub fn place_at(at: &Position, or: &str) -> String {
    split_position(&format!("{at}: ")).map_or_else(|| or.to_string(), |(place, _)| place)
}

/// Returns `SOURCE, line LINE` and the rest of a string that begins with a position.
pub fn split_position(text: &str) -> Option<(String, String)> {
    let (position, rest) = text.split_once(": ")?;
    let (position, column) = position.rsplit_once(':')?;
    let (source, line) = position.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(line) && is_number(column)).then(|| (format!("{source}, line {line}"), rest.to_string()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn remedies_name_the_check_of_their_document() {
        for (place, part) in [
            ("user-data part-001, line 2", "correct the user-data at the cloud"),
            ("/var/lib/cloud/seed/nocloud/network-config, line 2", "schema -t network-config -c FILE"),
            ("network-config, line 2", "schema -t network-config -c FILE"),
            ("/etc/cloud/cloud.cfg.d/a.cfg, line 1", "schema --system"),
        ] {
            assert!(super::remedy_at(place).contains(part), "{place}");
        }
    }

    #[test]
    fn position_is_split_from_the_message() {
        let read = |text| {
            super::split_position(text).map(|(place, rest)| format!("{place}|{rest}")).unwrap_or_default()
        };
        assert_eq!(
            read("vendor-data part-001:4:3: users[1].nmae: unknown key"),
            "vendor-data part-001, line 4|users[1].nmae: unknown key"
        );
        assert_eq!(read("/etc/cloud/cloud.cfg:2:1: a: b"), "/etc/cloud/cloud.cfg, line 2|a: b");
        assert_eq!(read("no position: here"), "");
    }
}
