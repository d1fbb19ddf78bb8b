//! No state file is half-written, and none that holds secrets was ever open to others: true at any instant, so
//! checked after kills and on full disks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::fail;

/// What may hold secrets: never readable for others, its temporary neither.
const SECRET: &[&str] = &[
    "instance-data-sensitive.json",
    "combined-cloud-config.json",
    "user-data.txt",
    "user-data.txt.i",
    "vendor-data.txt",
    "vendor-data.txt.i",
    "vendor-data2.txt",
    "vendor-data2.txt.i",
    "cloud-config.txt",
    "obj.pkl",
];

/// One line of text each: there whole, with its line break, or not at all.
const LINES: &[&str] = &[
    "instance-id",
    "previous-instance-id",
    "datasource",
    "previous-datasource",
    ".instance-id",
    "previous-hostname",
];

/// Checks the files below some directories of a machine.
pub fn whole(root: &Path, dirs: &[&str]) {
    for dir in dirs {
        walk(&root.join(dir));
    }
    // The accounts, which the distribution's own programs write.
    for (table, columns) in [("etc/passwd", 7), ("etc/group", 4), ("etc/shadow", 9)] {
        let text = std::fs::read_to_string(root.join(table)).unwrap_or_default();
        let bad = text.lines().find(|l| l.split(':').count() != columns);
        assert!(text.ends_with('\n') && bad.is_none(), "/{table} is half-written: {bad:?}");
    }
}

fn walk(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() {
            walk(&path);
        } else if meta.is_file() {
            check(&path, meta.permissions().mode() & 0o777);
        }
    }
}

fn check(path: &Path, mode: u32) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A temporary that a kill left: `.NAME.NUMBER.new`.
    let temporary = name.strip_suffix(".new").and_then(|n| n.strip_prefix('.')?.rsplit_once('.'));
    let target = temporary.map_or(name.as_str(), |(target, _)| target);
    if SECRET.contains(&target) {
        assert!(mode & 0o077 == 0, "{} has mode {mode:o}", path.display());
    }
    if temporary.is_some() {
        return;
    }
    let bytes = std::fs::read(path).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    if name.ends_with(".json") || name == "obj.pkl" {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
        if let Err(e) = parsed {
            fail(&format!("{} is half-written: {e}", path.display()));
        }
    }
    if LINES.contains(&name.as_str()) || name.starts_with("cloud-id-") || name == "boot-finished" {
        assert!(bytes.ends_with(b"\n") && bytes.len() > 1, "{} is half-written", path.display());
    }
}
