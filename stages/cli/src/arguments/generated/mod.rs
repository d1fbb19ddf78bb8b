//! Generates files from the option table: completions for three shells, synopses and option lists of the manual pages,
//! and two pages of the reference. Only the test below uses this, so that no program contains it:
//!
//!     make generated
//!
//! writes the files; without it the test fails where a file differs from the table.

mod bash;
mod fish;
mod manual;
mod reference;
pub(super) mod table;
mod zsh;

use table::{offered, paths, words};

use super::help;

#[test]
fn generated_files_match_the_option_table() {
    let page = |name: &str| manual::update(&std::fs::read_to_string(scratch::source_path(name)).unwrap());
    scratch::check_generated(&[
        ("packaging/completions/cloud-init", bash::completion()),
        ("packaging/completions/_cloud-init", zsh::completion()),
        ("packaging/completions/cloud-init.fish", fish::completion()),
        ("packaging/man/cloud-init.1", page("packaging/man/cloud-init.1")),
        ("packaging/man/cloud-id.1", page("packaging/man/cloud-id.1")),
        ("docs/reference/commands.md", reference::commands()),
        ("docs/reference/files.md", reference::files_page()),
    ]);
}

/// Each command of the table is in the manual page with its options, and has a help.
#[test]
fn every_command_is_documented() {
    let pages = ["cloud-init.1", "cloud-id.1"]
        .map(|name| std::fs::read_to_string(scratch::source_path(&format!("packaging/man/{name}"))).unwrap());
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
