//! Hashes of the files that cloud-init wrote, to recognize files that were edited since. Decisions are pure; only `read`
//! and `write` touch the system.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use state::take;
use system::{Result, System, WriteOptions, debug};

/// Files that renderers extend rather than replace, because other programs write them too.
const SHARED_FILES: [&str; 3] =
    ["/etc/resolv.conf", "/etc/sysconfig/network", "/etc/sysconfig/network/config"];

/// The version of the manifest's format. That of a later release is kept, with its fields.
const VERSION: u64 = 1;

/// Hashes of written contents by path. There are two while a file is being written, since a power cut may leave either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manifest {
    version: u64,
    files: BTreeMap<String, Vec<String>>,
    /// The missing NICs that the instance's configuration identifies, and then those of the machine, if the files are those of a
    /// fallback for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_nics: Vec<String>,
    /// Fields of a later version, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest { version: VERSION, files: BTreeMap::new(), missing_nics: Vec::new(), other: Map::new() }
    }
}

/// The decision about a rendered file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDecision {
    /// Write it.
    Write,
    /// The existing file was edited and may be replaced: back it up, then write.
    BackUpAndWrite,
    /// The existing file was edited, and the rendered content is not new: keep the existing one.
    Keep,
    /// The existing file was edited, and the rendered content is new: keep the existing one and warn.
    KeepStale,
}

impl Manifest {
    /// Reads the manifest; returns an empty one if it is absent or unreadable.
    pub fn read(sys: &System, path: &str) -> Manifest {
        match state::read_json(sys, path) {
            Ok(json) => Manifest::from_json(json).unwrap_or_default(),
            Err(e) => {
                if !e.is_not_found() {
                    debug!(sys, "{e}");
                }
                Manifest::default()
            }
        }
    }

    fn from_json(json: Value) -> Option<Manifest> {
        let Value::Object(mut all) = json else { return None };
        let all = &mut all;
        let version: Option<u64> = take(all, "version")?;
        Some(Manifest {
            version: version.unwrap_or(VERSION),
            files: take(all, "files")?,
            missing_nics: take(all, "missing_nics")?,
            other: std::mem::take(all),
        })
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&self, sys: &System, path: &str) -> Result<()> {
        sys.write(path, state::json_text(&json!(self), 1), WriteOptions::mode(0o600)).map(drop)
    }

    /// Decides what to do with a file, given its current content. `may_replace` allows replacing an edited file.
    pub fn decide(
        &self,
        path: &str,
        current: Option<&[u8]>,
        ours: &[u8],
        may_replace: bool,
    ) -> WriteDecision {
        let Some(current) = current.filter(|current| *current != ours && !SHARED_FILES.contains(&path))
        else {
            return WriteDecision::Write;
        };
        // Files without a record are written: Python's cloud-init keeps none, nor do images.
        let Some(hashes) = self.files.get(path) else { return WriteDecision::Write };
        let has = |content: &[u8]| hashes.contains(&hash(content));
        match (has(current), may_replace) {
            (true, _) => WriteDecision::Write,
            (false, true) => WriteDecision::BackUpAndWrite,
            (false, false) if has(ours) => WriteDecision::Keep,
            (false, false) => WriteDecision::KeepStale,
        }
    }

    /// Records that a file is about to be written.
    pub fn begin_write(&mut self, path: &str, content: &[u8]) {
        let hash = hash(content);
        let hashes = self.files.entry(path.to_string()).or_default();
        if !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }

    /// Records that a file was written.
    pub fn finish_write(&mut self, path: &str, content: &[u8]) {
        self.files.insert(path.to_string(), vec![hash(content)]);
    }

    /// Forgets the files that are not among the present ones, and returns those that still have the content that was written.
    pub fn take_stale(&mut self, sys: &System, present: &BTreeSet<String>) -> Vec<String> {
        let recorded = std::mem::take(&mut self.files).into_iter();
        let (kept, stale): (BTreeMap<_, _>, BTreeMap<_, _>) =
            recorded.partition(|(path, _)| present.contains(path) || SHARED_FILES.contains(&path.as_str()));
        self.files = kept;
        let is_unedited = |(path, hashes): &(String, Vec<String>)| {
            sys.read(path).is_ok_and(|now| hashes.contains(&hash(&now)))
        };
        stale.into_iter().filter(is_unedited).map(|(path, _)| path).collect()
    }

    /// Returns whether any recorded file still exists.
    pub fn has_files(&self, sys: &System) -> bool {
        self.files.keys().any(|path| sys.is_file(path))
    }
}

fn hash(content: &[u8]) -> String {
    encoding::hex::encode(&encoding::sha::sha256(content))
}

/// Returns the path of the backup of an edited file. It is hidden, so that network services ignore it, and contains a
/// hash of the content, so that no earlier backup is overwritten.
pub fn backup_path(path: &str, content: &[u8]) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/.{name}.edited-{}", &hash(content)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edited_files_are_kept_or_backed_up() {
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
    fn stored_manifest_is_read_back() {
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
        // The fields of a later release are kept.
        let later = json!({"version": 2, "files": {"/x": ["a", "b"]}, "backups": {"/x": 1}});
        sys.write(path, later.to_string(), WriteOptions::default()).unwrap();
        let mut manifest = Manifest::read(&sys, path);
        manifest.finish_write("/x", b"abc");
        manifest.write(&sys, path).unwrap();
        let json = state::read_json(&sys, path).unwrap();
        assert_eq!((&json["version"], &json["backups"]["/x"]), (&json!(2), &json!(1)));
        assert_eq!(json["files"]["/x"], json!([hash(b"abc")]));
        assert_eq!(backup_path("/etc/netplan/50.yaml", b"abc"), "/etc/netplan/.50.yaml.edited-ba7816bf");
    }
}
