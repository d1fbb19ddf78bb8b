//! Files that follow from tables and are checked in: documentation, manual pages, completions, schemas. A test makes each
//! of them from its table and compares; with `UPDATE_GENERATED=1` it writes them.

use std::path::{Path, PathBuf};

/// Returns the path of a file of the source tree whose tests run. A build directory that was copied from another tree still has
/// programs with that tree's paths, which must be neither compared nor written: cargo's variable at run time comes first.
pub fn source_path(name: &str) -> PathBuf {
    let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = running.as_deref().and_then(workspace_root).map(Path::to_path_buf);
    root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).join(name)
}

/// Returns the nearest directory at or above `package` that has a lock file.
fn workspace_root(package: &Path) -> Option<&Path> {
    package.ancestors().find(|directory| directory.join("Cargo.lock").is_file())
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

#[cfg(test)]
mod tests {
    use super::workspace_root;
    use crate::TempDir;

    #[test]
    fn workspace_root_is_found_by_its_lock_file() {
        let tree = TempDir::new();
        let package = tree.join("shared/one");
        std::fs::create_dir_all(&package).unwrap();
        tree.put("/Cargo.lock", "");
        assert_eq!(workspace_root(&package), package.ancestors().nth(2));
        tree.put("/shared/one/Cargo.lock", "");
        assert_eq!(workspace_root(&package), Some(package.as_path()));
    }
}
