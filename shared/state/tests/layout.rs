//! Paths of the state that several files use are named in `Layout` only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Adds the Rust files below a directory. `generated` lists the paths for the documentation.
fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("generated") {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the literals that a file without its tests passes to the methods of `Layout` which build a path of a name.
fn names(text: &str) -> BTreeSet<(&str, &str)> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    ["run", "data", "instance", "cloud"]
        .into_iter()
        .flat_map(|method| {
            let call = format!("layout.{method}(");
            let after: Vec<&str> = code.split(&call).skip(1).collect();
            after.into_iter().filter_map(move |rest| Some((method, rest.trim_start().strip_prefix('"')?)))
        })
        .filter_map(|(method, rest)| Some((method, rest.split_once('"')?.0)))
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

#[test]
fn shared_paths_are_named_in_layout_only() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut users: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for group in ["shared", "stages"] {
        for package in std::fs::read_dir(top.join(group)).unwrap().flatten() {
            let mut files = Vec::new();
            if package.path().join("src").is_dir() {
                rust_files(&package.path().join("src"), &mut files).unwrap();
            }
            for file in files.into_iter().filter(|file| !file.to_string_lossy().ends_with("_tests.rs")) {
                let text = std::fs::read_to_string(&file).unwrap();
                for (method, name) in names(&text) {
                    users.entry((method.into(), name.into())).or_default().push(file.clone());
                }
            }
        }
    }
    // Two names that a single file uses, as a proof that the code was read.
    assert!(users.contains_key(&("run".into(), "cloud-id".into())), "{users:?}");
    assert!(users.contains_key(&("data".into(), "set-hostname".into())), "{users:?}");
    let shared: Vec<_> = users.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "give these a method of Layout: {shared:#?}");
}
