//! Facts about a machine after a boot: one file per fact, written inside the machine by `tests/guest/collect`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fail;

/// The facts of one boot.
pub struct Facts {
    dir: PathBuf,
}

impl Facts {
    pub(crate) fn new(dir: PathBuf) -> Facts {
        Facts { dir }
    }

    /// Returns the directory of the facts.
    pub(crate) fn directory(&self) -> &Path {
        &self.dir
    }

    /// Returns a fact by its name, without the line break at the end. A missing fact fails the test.
    pub fn text(&self, name: &str) -> String {
        self.read_optional(name).unwrap_or_else(|| fail(&format!("no {name} in {}", self.dir.display())))
    }

    /// Returns a fact that may be missing.
    pub fn read_optional(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.dir.join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_string())
    }

    /// Returns a file of the machine at the end of the boot.
    pub fn file(&self, path: &str) -> Option<String> {
        self.read_optional(&format!("files{path}"))
    }

    /// Parses a JSON file of the machine. A missing or invalid file fails the test.
    pub fn json(&self, path: &str) -> Value {
        let text = self.file(path).unwrap_or_else(|| fail(&format!("no {path} in the machine")));
        serde_json::from_str(&text).unwrap_or_else(|e| fail(&format!("{path}: {e}")))
    }

    /// Returns kind, mode and owner of a file, for example `f 640 root:root`, or `nothing`.
    pub fn mode(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        let modes = self.text("modes");
        let found = modes.lines().find_map(|l| l.strip_suffix(path)?.strip_suffix(' '));
        found.unwrap_or("nothing").to_string()
    }

    /// Counts the occurrences of a line in a file; 0 if the file does not exist.
    pub fn count(&self, path: &str, line: &str) -> usize {
        self.file(path).map_or(0, |text| text.lines().filter(|l| *l == line).count())
    }

    /// Returns the fields of the line of a table (passwd, group, shadow) that begins with `name:`.
    pub fn row(&self, table: &str, name: &str) -> Vec<String> {
        let start = format!("{name}:");
        let text = self.text(table);
        let line = text.lines().find(|l| l.starts_with(&start));
        line.map(|l| l.split(':').map(Into::into).collect()).unwrap_or_default()
    }

    /// Returns a summary for the message of a failed test.
    pub fn diagnostics(&self) -> String {
        let log = self.file("/var/log/cloud-init.log").unwrap_or_default();
        let bad: Vec<&str> =
            log.lines().filter(|l| l.contains("[WARNING]") || l.contains("[ERROR]")).collect();
        let part = |name: &str| self.read_optional(name).unwrap_or_default();
        format!(
            "failed units: {}\n{}\n{}\nfacts: {}",
            part("failed"),
            part("status"),
            bad.join("\n"),
            self.dir.display()
        )
    }
}
