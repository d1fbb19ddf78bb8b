//! Files that follow from tables and are checked in: documentation, manual pages, completions, schemas. A test makes each
//! of them from its table and compares; with `UPDATE_GENERATED=1` it writes them.

use std::path::{Path, PathBuf};

/// Returns the path of a file of the source tree.
pub fn source_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Compares files of the source tree, each by its path and the text that its table gives. Panics with the names of those that
/// differ, or writes them if `UPDATE_GENERATED` is set.
pub fn check_generated(files: &[(&str, String)]) {
    let mut outdated = Vec::new();
    for (name, text) in files {
        let path = source_path(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == *text) {
            continue;
        }
        if std::env::var_os("UPDATE_GENERATED").is_none() {
            outdated.push(*name);
        } else if let Err(e) = std::fs::write(&path, text) {
            panic!("writing {}: {e}", path.display());
        }
    }
    assert!(outdated.is_empty(), "outdated; `make generated` writes them: {}", outdated.join(", "));
}
