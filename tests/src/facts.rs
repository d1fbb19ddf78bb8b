//! What a boot left: one file per fact, written inside the machine by `tests/guest/collect`.

use std::path::PathBuf;

use serde_json::Value;

use crate::fail;

pub struct Facts {
    dir: PathBuf,
}

impl Facts {
    pub(crate) fn new(dir: PathBuf) -> Facts {
        Facts { dir }
    }

    /// A fact by its name, without the line break at the end.
    pub fn text(&self, name: &str) -> String {
        self.read_optional(name).unwrap_or_else(|| fail(&format!("no {name} in {}", self.dir.display())))
    }

    /// A fact that there may be none of.
    pub fn read_optional(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.dir.join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_string())
    }

    /// A file of the machine as it was at the end of the boot.
    pub fn file(&self, path: &str) -> Option<String> {
        self.read_optional(&format!("files{path}"))
    }

    pub fn json(&self, path: &str) -> Value {
        let text = self.file(path).unwrap_or_else(|| fail(&format!("no {path} in the machine")));
        serde_json::from_str(&text).unwrap_or_else(|e| fail(&format!("{path}: {e}")))
    }

    /// `f 640 root:root` of a file: kind, mode, owner.
    pub fn mode(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        let modes = self.text("modes");
        let found = modes.lines().find_map(|l| l.strip_suffix(path)?.strip_suffix(' '));
        found.unwrap_or("nothing").to_string()
    }

    /// How often a line is in a file; 0 without one.
    pub fn count(&self, path: &str, line: &str) -> usize {
        self.file(path).map_or(0, |text| text.lines().filter(|l| *l == line).count())
    }

    /// The line of a table (passwd, group, shadow) that begins with `name:`, split.
    pub fn row(&self, table: &str, name: &str) -> Vec<String> {
        let start = format!("{name}:");
        let text = self.text(table);
        let line = text.lines().find(|l| l.starts_with(&start));
        line.map(|l| l.split(':').map(Into::into).collect()).unwrap_or_default()
    }

    /// What to look at when something is not as it should be.
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
