//! What we wrote, so that a file which somebody edited since is told from one that is ours: a hash for each path,
//! kept with the state. The judgement on each file is pure; its effects are small and here too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use system::{Result, System, WriteOptions};

/// Files that a renderer extends and never replaces: others write them too, and nothing of theirs is lost.
const SHARED_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/sysconfig/network"];

/// Path → hashes of what we wrote there. Two while files are being written, since a power cut may leave either.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Manifest {
    files: BTreeMap<String, Vec<String>>,
}

/// What becomes of a file that a configuration has rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDecision {
    Write,
    /// Edited, and the instance is new: what is there is kept beside, then ours is written.
    BackUpAndWrite,
    /// Edited, and ours would say what it said already.
    Keep,
    /// Edited, and there is something new that the file now does not say.
    KeepStale,
}

impl Manifest {
    /// The manifest of earlier boots; an empty one when there is none that can be read.
    pub fn read(sys: &System, path: &str) -> Manifest {
        let text = sys.read_text(path).unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let files = json.get("files").and_then(Value::as_object).into_iter().flatten();
        let hashes = |value: &Value| {
            let hashes = value.as_array().into_iter().flatten();
            hashes.filter_map(|hash| hash.as_str().map(Into::into)).collect()
        };
        Manifest { files: files.map(|(path, value)| (path.clone(), hashes(value))).collect() }
    }

    pub fn write(&self, sys: &System, path: &str) -> Result<()> {
        let json = json!({"version": 1, "files": self.files});
        sys.write(path, state::json_text(&json, 1), WriteOptions::mode(0o600)).map(drop)
    }

    /// What becomes of a file, by what is there now.
    pub fn decide(
        &self,
        path: &str,
        current: Option<&[u8]>,
        ours: &[u8],
        is_new_instance: bool,
    ) -> WriteDecision {
        let Some(current) = current.filter(|current| *current != ours && !SHARED_FILES.contains(&path))
        else {
            return WriteDecision::Write;
        };
        // What nothing is known of is written as ever: Python's cloud-init keeps no record, nor does an image.
        let Some(hashes) = self.files.get(path) else { return WriteDecision::Write };
        let has = |content: &[u8]| hashes.contains(&hash(content));
        match (has(current), is_new_instance) {
            (true, _) => WriteDecision::Write,
            (false, true) => WriteDecision::BackUpAndWrite,
            (false, false) if has(ours) => WriteDecision::Keep,
            (false, false) => WriteDecision::KeepStale,
        }
    }

    /// Before a file is written.
    pub fn begin_write(&mut self, path: &str, content: &[u8]) {
        let hash = hash(content);
        let hashes = self.files.entry(path.to_string()).or_default();
        if !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }

    /// Now that it is written.
    pub fn finish_write(&mut self, path: &str, content: &[u8]) {
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
pub fn backup_path(path: &str, content: &[u8]) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/.{name}.edited-{}", &hash(content)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_decisions() {
        let (path, resolv) = ("/etc/x", "/etc/resolv.conf");
        let mut manifest = Manifest::default();
        for path in [path, resolv] {
            manifest.finish_write(path, b"ours");
        }
        for (path, current, new, is_new, decision) in [
            (path, None, "ours", false, WriteDecision::Write),
            (path, Some("ours"), "new", false, WriteDecision::Write),
            (path, Some("ours"), "new", true, WriteDecision::Write),
            (path, Some("new"), "new", false, WriteDecision::Write),
            (path, Some("edited"), "ours", false, WriteDecision::Keep),
            (path, Some("edited"), "new", false, WriteDecision::KeepStale),
            (path, Some("edited"), "ours", true, WriteDecision::BackUpAndWrite),
            (path, Some("edited"), "edited", true, WriteDecision::Write),
            ("/etc/unknown", Some("python's"), "new", false, WriteDecision::Write),
            (resolv, Some("edited"), "new", false, WriteDecision::Write),
        ] {
            let found = manifest.decide(path, current.map(str::as_bytes), new.as_bytes(), is_new);
            assert_eq!(found, decision, "{path} {current:?} {new} {is_new}");
        }
    }

    #[test]
    fn interrupted_write_is_not_an_edit() {
        let mut manifest = Manifest::default();
        manifest.finish_write("/x", b"old");
        manifest.begin_write("/x", b"new");
        for current in [&b"old"[..], b"new"] {
            assert_eq!(manifest.decide("/x", Some(current), b"third", false), WriteDecision::Write);
        }
        manifest.finish_write("/x", b"new");
        assert_eq!(manifest.decide("/x", Some(b"old"), b"third", false), WriteDecision::KeepStale);
    }

    #[test]
    fn round_trip_on_disk() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let path = "/var/lib/cloud/data/network-files.json";
        let mut manifest = Manifest::default();
        manifest.finish_write("/x", b"abc");
        manifest.write(&sys, path).unwrap();
        assert_eq!(Manifest::read(&sys, path), manifest);
        assert!(!manifest.has_files(&sys));
        let text = sys.read_text(path).unwrap();
        assert!(text.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "{text}");
        for broken in ["", "{", "[]", r#"{"files": [1]}"#, r#"{"files": {"/x": 1}}"#] {
            sys.write(path, broken, WriteOptions::default()).unwrap();
            assert_eq!(
                Manifest::read(&sys, path).decide("/y", Some(b"a"), b"b", false),
                WriteDecision::Write,
                "{broken}"
            );
        }
        assert_eq!(backup_path("/etc/netplan/50.yaml", b"abc"), "/etc/netplan/.50.yaml.edited-ba7816bf");
    }
}
