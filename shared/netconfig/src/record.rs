//! What we wrote, so that a file which somebody edited since is told from one that is ours: a hash for each path,
//! kept with the state. The judgement on each file is pure; its effects are small and here too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use system::{Result, System, WriteOptions};

/// Files that a renderer extends and never replaces: others write them too, and nothing of theirs is lost.
const EXTENDED: [&str; 2] = ["/etc/resolv.conf", "/etc/sysconfig/network"];

/// Path → hashes of what we wrote there. Two while files are being written, since a power cut may leave either.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Record {
    files: BTreeMap<String, Vec<String>>,
}

/// What becomes of a file that a configuration has rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Write,
    /// Edited, and the instance is new: what is there is kept beside, then ours is written.
    WriteAndKeepOther,
    /// Edited, and ours would say what it said already.
    Keep,
    /// Edited, and there is something new that the file now does not say.
    KeepOutdated,
}

impl Record {
    /// The record of earlier boots; an empty one when there is none that can be read.
    pub fn read(sys: &System, path: &str) -> Record {
        let text = sys.read_text(path).unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let files = json.get("files").and_then(Value::as_object).into_iter().flatten();
        let hashes = |value: &Value| {
            let hashes = value.as_array().into_iter().flatten();
            hashes.filter_map(|hash| hash.as_str().map(Into::into)).collect()
        };
        Record { files: files.map(|(path, value)| (path.clone(), hashes(value))).collect() }
    }

    pub fn write(&self, sys: &System, path: &str) -> Result<()> {
        let json = json!({"version": 1, "files": self.files});
        sys.write(path, state::json_text(&json, 1), WriteOptions::mode(0o600)).map(drop)
    }

    /// What becomes of a file, by what is there now.
    pub fn fate(&self, path: &str, there: Option<&[u8]>, ours: &[u8], is_new_instance: bool) -> Fate {
        let Some(there) = there.filter(|there| *there != ours && !EXTENDED.contains(&path)) else {
            return Fate::Write;
        };
        // What nothing is known of is written as ever: Python's cloud-init keeps no record, nor does an image.
        let Some(hashes) = self.files.get(path) else { return Fate::Write };
        let has = |content: &[u8]| hashes.contains(&hash(content));
        match (has(there), is_new_instance) {
            (true, _) => Fate::Write,
            (false, true) => Fate::WriteAndKeepOther,
            (false, false) if has(ours) => Fate::Keep,
            (false, false) => Fate::KeepOutdated,
        }
    }

    /// Before a file is written.
    pub fn about_to_write(&mut self, path: &str, content: &[u8]) {
        let hash = hash(content);
        let hashes = self.files.entry(path.to_string()).or_default();
        if !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }

    /// Now that it is written.
    pub fn wrote(&mut self, path: &str, content: &[u8]) {
        self.files.insert(path.to_string(), vec![hash(content)]);
    }

    /// Whether one of the recorded files is still there.
    pub fn has_files(&self, sys: &System) -> bool {
        self.files.keys().any(|path| sys.is_file(path))
    }
}

fn hash(content: &[u8]) -> String {
    encoding::sha::sha256(content).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where an edited file is kept: beside it, hidden, so that no network service reads it, and by its content, so that
/// no earlier one is lost.
pub fn kept_as(path: &str, content: &[u8]) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{folder}/.{name}.edited-{}", &hash(content)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates() {
        let (path, resolv) = ("/etc/x", "/etc/resolv.conf");
        let mut record = Record::default();
        for path in [path, resolv] {
            record.wrote(path, b"ours");
        }
        for (path, there, new, is_new, fate) in [
            (path, None, "ours", false, Fate::Write),
            (path, Some("ours"), "new", false, Fate::Write),
            (path, Some("ours"), "new", true, Fate::Write),
            (path, Some("new"), "new", false, Fate::Write),
            (path, Some("edited"), "ours", false, Fate::Keep),
            (path, Some("edited"), "new", false, Fate::KeepOutdated),
            (path, Some("edited"), "ours", true, Fate::WriteAndKeepOther),
            (path, Some("edited"), "edited", true, Fate::Write),
            ("/etc/unknown", Some("python's"), "new", false, Fate::Write),
            (resolv, Some("edited"), "new", false, Fate::Write),
        ] {
            let found = record.fate(path, there.map(str::as_bytes), new.as_bytes(), is_new);
            assert_eq!(found, fate, "{path} {there:?} {new} {is_new}");
        }
    }

    #[test]
    fn a_power_cut_between_file_and_record() {
        let mut record = Record::default();
        record.wrote("/x", b"old");
        record.about_to_write("/x", b"new");
        for there in [&b"old"[..], b"new"] {
            assert_eq!(record.fate("/x", Some(there), b"third", false), Fate::Write);
        }
        record.wrote("/x", b"new");
        assert_eq!(record.fate("/x", Some(b"old"), b"third", false), Fate::KeepOutdated);
    }

    #[test]
    fn kept_on_disk() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let path = "/var/lib/cloud/data/network-files.json";
        let mut record = Record::default();
        record.wrote("/x", b"abc");
        record.write(&sys, path).unwrap();
        assert_eq!(Record::read(&sys, path), record);
        assert!(!record.has_files(&sys));
        let text = sys.read_text(path).unwrap();
        assert!(text.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "{text}");
        for broken in ["", "{", "[]", r#"{"files": [1]}"#, r#"{"files": {"/x": 1}}"#] {
            sys.write(path, broken, WriteOptions::default()).unwrap();
            assert_eq!(Record::read(&sys, path).fate("/y", Some(b"a"), b"b", false), Fate::Write, "{broken}");
        }
        assert_eq!(kept_as("/etc/netplan/50.yaml", b"abc"), "/etc/netplan/.50.yaml.edited-ba7816bf");
    }
}
