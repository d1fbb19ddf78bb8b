//! `tests/register`, which writes what follows from the rows of clouds and modules.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use scratch::{TempDir, source_path};

const CLOUDS: &str = "shared/clouds/src/table.rs";
const MODULES: &str = "shared/modules/src/lib.rs";
const SERVICES: &str = "shared/datasource/tests/services/main.rs";
const CLOUD_CFG: &str = "packaging/etc-cloud/cloud.cfg";

/// Runs the script of a tree with `--check`; returns whether it succeeded, and its output.
fn check(script: &Path) -> (bool, String) {
    let output = Command::new("sh").arg(script).arg("--check").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Returns a tree with what the script reads; the files of clouds and modules are empty.
fn tree() -> TempDir {
    let tree = TempDir::new();
    let datasources = "shared/datasource/src/lib.rs";
    for name in ["tests/register", CLOUDS, datasources, SERVICES, MODULES, CLOUD_CFG, "tests/tests/main.rs"] {
        tree.put(name, std::fs::read_to_string(source_path(name)).unwrap());
    }
    for cloud in std::fs::read_dir(source_path("tests/clouds")).unwrap().flatten() {
        if cloud.path().join("services.rs").exists() {
            tree.put(&format!("tests/clouds/{}/services.rs", cloud.file_name().to_str().unwrap()), "");
        }
    }
    for directory in ["shared/datasource/src", "shared/modules/src", "tests/tests"] {
        for entry in std::fs::read_dir(source_path(directory)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let name = if entry.path().is_dir() { format!("{name}/mod.rs") } else { name };
            if !["lib.rs", "main.rs"].contains(&&*name) {
                tree.put(&format!("{directory}/{name}"), "");
            }
        }
    }
    tree
}

/// Replaces a text that a file of the tree has.
fn replace(tree: &TempDir, name: &str, old: &str, new: &str) {
    let text = std::fs::read_to_string(tree.join(name)).unwrap();
    assert!(text.contains(old), "{name}: {old}");
    tree.put(name, text.replacen(old, new, 1));
}

#[test]
fn written_lines_are_current() {
    assert_eq!(check(&source_path("tests/register")), (true, String::new()));
}

#[test]
fn module_needs_its_file_and_one_row() {
    let tree = tree();
    let script = tree.join("tests/register");
    replace(&tree, MODULES, "        runcmd,\n", "        zzz_added if \"apt\",\n        runcmd,\n");
    let expected = "register: shared/modules/src/lib.rs has a row for zzz_added: expected its file \
                    shared/modules/src/zzz_added.rs\n";
    assert_eq!(check(&script), (false, expected.into()));
    tree.put("shared/modules/src/zzz_added.rs", "");
    let outdated = "register: shared/modules/src/lib.rs is outdated; `make generated` writes it\n\
                    register: packaging/etc-cloud/cloud.cfg is outdated; `make generated` writes it\n";
    assert_eq!(check(&script), (false, outdated.into()));
    assert!(Command::new("sh").arg(&script).status().unwrap().success());
    assert_eq!(check(&script), (true, String::new()));
    let written = |name: &str, part: &str| {
        let text = std::fs::read_to_string(tree.join(name)).unwrap();
        assert!(text.contains(part), "{text}");
    };
    written(CLOUD_CFG, "\n?apt:   - zzz_added\n  - runcmd\n");
    written(MODULES, "\nmod zzz_added;\n// End of modules.\n");

    // A module that no packaged list contains.
    replace(&tree, MODULES, "        zzz_added if \"apt\",\n", "");
    replace(
        &tree,
        MODULES,
        "    unlisted: [",
        "    unlisted: [\n        zzz_added,\n    ],\n    unlisted: [",
    );
    assert!(Command::new("sh").arg(&script).status().unwrap().success());
    let expected = std::fs::read_to_string(source_path(CLOUD_CFG)).unwrap();
    assert_eq!(std::fs::read_to_string(tree.join(CLOUD_CFG)).unwrap(), expected);
    written(MODULES, "\nmod zzz_added;\n");

    replace(&tree, MODULES, "        zzz_added,\n", "        zzz_added if apt,\n");
    let (_, message) = check(&script);
    assert!(message.ends_with("expected a line `NAME,` or `NAME if \"VARIANTS\",`\n"), "{message}");
}

#[test]
fn modules_and_runner_name_no_module() {
    let tree = tree();
    tree.put("shared/modules/src/ntp.rs", "use crate::{\n    Context, snap,\n};\nuse crate::ntp::Keys;\n");
    tree.put("shared/modules/src/runner/run.rs", "fn run() { crate::ssh::start() }\n");
    tree.put("shared/modules/src/tests/users.rs", "use crate::ssh;\n");
    let expected = "register: shared/modules/src/ntp.rs names the module snap\n\
                    register: shared/modules/src/runner/run.rs names the module ssh\n";
    assert_eq!(check(&tree.join("tests/register")), (false, expected.into()));
}

#[test]
fn cloud_needs_its_file_and_one_row() {
    let tree = tree();
    let script = tree.join("tests/register");
    let row = "    Cloud { name: \"ZzzAdded\", rules: &[] },\n    Cloud {\n        name: \"None\",\n";
    replace(&tree, CLOUDS, "    Cloud {\n        name: \"None\",\n", row);
    let expected = "register: shared/clouds/src/table.rs has a row for zzzadded: expected its file \
                    shared/datasource/src/zzzadded.rs\n";
    assert_eq!(check(&script), (false, expected.into()));
    tree.put("shared/datasource/src/zzzadded.rs", "");
    assert!(Command::new("sh").arg(&script).status().unwrap().success());
    let text = std::fs::read_to_string(tree.join("shared/datasource/src/lib.rs")).unwrap();
    assert!(text.contains("\nmod zzzadded;\n// End of clouds.\n"), "{text}");
    assert!(text.contains("\n    &zzzadded::ZZZADDED,\n    &none::NONE,\n];\n"), "{text}");

    // Tests of its own are optional.
    assert_eq!(check(&script), (true, String::new()));
    tree.put("tests/clouds/zzzadded/services.rs", "");
    assert!(Command::new("sh").arg(&script).status().unwrap().success());
    let text = std::fs::read_to_string(tree.join(SERVICES)).unwrap();
    let expected =
        "#[path = \"../../../../tests/clouds/zzzadded/services.rs\"]\nmod zzzadded;\n// End of services.\n";
    assert!(text.ends_with(expected), "{text}");
}

/// Without its marks the block cannot be found.
#[test]
fn missing_mark_is_an_error() {
    let tree = tree();
    replace(&tree, MODULES, "// End of modules.\n", "");
    let expected = "register: shared/modules/src/lib.rs: expected the line \"// Written by tests/register: modules.\" and below \
                    it the line \"// End of modules.\"\n";
    assert_eq!(check(&tree.join("tests/register")), (false, expected.into()));
}
