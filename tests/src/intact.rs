//! Checks that no state file is half-written and that no file with secrets is readable by others. Both hold at any time, so
//! they are checked after kills and on full disks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files that may contain secrets. Neither they nor their temporary files are ever readable by others.
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

/// Files of one line, which exist complete, with the line break, or not at all.
const LINES: &[&str] = &[
    "instance-id",
    "previous-instance-id",
    "datasource",
    "previous-datasource",
    ".instance-id",
    "previous-hostname",
];

/// Fails the test if [`half_written`] finds something.
#[track_caller]
pub fn assert_intact(root: &Path, dirs: &[&str]) {
    let found = half_written(root, dirs);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the half-written or world-readable files below directories of a machine, one line each.
pub fn half_written(root: &Path, dirs: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for dir in dirs {
        walk(&root.join(dir), &mut found);
    }
    // The account files, which the distribution's programs write.
    for (table, columns) in [("etc/passwd", 7), ("etc/group", 4), ("etc/shadow", 9)] {
        let text = std::fs::read_to_string(root.join(table)).unwrap_or_default();
        let bad = text.lines().find(|l| l.split(':').count() != columns);
        if !text.ends_with('\n') || bad.is_some() {
            found.push(format!("/{table} is half-written: {bad:?}"));
        }
    }
    found
}

fn walk(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() {
            walk(&path, found);
        } else if meta.is_file() {
            found.extend(wrong(&path, meta.permissions().mode() & 0o777));
        }
    }
}

fn wrong(path: &Path, mode: u32) -> Option<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A temporary file that a kill left: `.NAME.NUMBER.new`.
    let temporary = name.strip_suffix(".new").and_then(|n| n.strip_prefix('.')?.rsplit_once('.'));
    let target = temporary.map_or(name.as_str(), |(target, _)| target);
    if SECRET.contains(&target) && mode & 0o077 != 0 {
        return Some(format!("{} has mode {mode:o}", path.display()));
    }
    if temporary.is_some() {
        return None;
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) => return Some(format!("{}: {e}", path.display())),
    };
    if name.ends_with(".json") || name == "obj.pkl" {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
        if let Err(e) = parsed {
            return Some(format!("{} is half-written: {e}", path.display()));
        }
    }
    let is_line = LINES.contains(&name.as_str()) || name.starts_with("cloud-id-") || name == "boot-finished";
    let is_whole = !is_line || bytes.ends_with(b"\n") && bytes.len() > 1;
    (!is_whole).then(|| format!("{} is half-written", path.display()))
}
