//! The files in packaging/ that follow from the option table: completions for three shells, and synopses and option lists
//! of the manual pages. Only the test below uses this, so that no program carries it:
//!
//!     UPDATE_GENERATED=1 cargo test -p cloud-init generated
//!
//! writes the files; without the variable the test fails where a file is not what the table says.

mod bash;
mod fish;
mod manual;
mod table;
mod zsh;

use std::path::Path;

use table::{offered, paths, words};

use super::help;

#[test]
fn generated_files_match_the_option_table() {
    let packaging = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"));
    let read = |name: &str| std::fs::read_to_string(packaging.join(name)).unwrap_or_default();
    let page = |name: &str| (format!("man/{name}"), manual::update(&read(&format!("man/{name}"))));
    let mut outdated = Vec::new();
    for (name, text) in [
        ("completions/cloud-init".to_string(), bash::completion()),
        ("completions/_cloud-init".to_string(), zsh::completion()),
        ("completions/cloud-init.fish".to_string(), fish::completion()),
        page("cloud-init.1"),
        page("cloud-id.1"),
    ] {
        if read(&name) == text {
            continue;
        }
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(packaging.join(&name), text).unwrap();
        } else {
            outdated.push(format!("packaging/{name}"));
        }
    }
    assert!(outdated.is_empty(), "run UPDATE_GENERATED=1 cargo test -p cloud-init generated: {outdated:?}");
}

/// Each command of the table is in the manual page with its options, and has a help.
#[test]
fn every_command_is_documented() {
    let pages = ["cloud-init.1", "cloud-id.1"].map(|name| {
        let path = format!("{}/../../packaging/man/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    });
    for path in paths() {
        let name = words(&path);
        assert!(help::help(&path).starts_with(&format!("Usage: {name}")), "{name}");
        let has =
            |what: &str| pages.iter().any(|page| page.contains(&format!(".\\\" generated {what}: {name}\n")));
        if path.last().is_some_and(|command| command.commands.is_empty()) {
            assert!(has("synopsis"), "{name} has no synopsis in packaging/man");
        }
        if offered(path[path.len() - 1]).count() > 1 {
            assert!(has("options"), "the options of {name} are not in packaging/man");
        }
    }
}
