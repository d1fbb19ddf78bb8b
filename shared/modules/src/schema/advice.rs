//! Finds keys that are valid alone but do not work together: one module needs what a later one makes.

use config::{Finding, Findings, Node, Position, suggestion};

use super::tables;
use crate::runner::module_list::parse_entry;

/// Keys with commands that run before files are written. The second part says whether only deferred files are later.
const EARLY_COMMANDS: &[(&[&str], bool)] =
    &[(&["bootcmd"], false), (&["random_seed", "command"], false), (&["snap", "commands"], true)];

/// A file of `write_files`.
struct File<'n> {
    key: String,
    path: &'n str,
    is_deferred: bool,
}

/// Returns warnings about the order of work. `boothooks` are names and texts of the boothooks beside the configuration.
pub fn advice(config: &Node, boothooks: &[(String, String)]) -> Vec<Finding> {
    let mut found = Findings::default();
    let items = |key: &str| config.get(key).and_then(Node::as_seq).unwrap_or_default();
    // A list of a name and a frequency; of a name alone the schema checks it.
    for key in ["cloud_init_modules", "cloud_config_modules", "cloud_final_modules"] {
        for (i, item) in items(key).iter().enumerate().filter(|(_, item)| item.as_str().is_none()) {
            let Some(entry) = parse_entry(item) else { continue };
            if !tables::is_module_name(&entry.name) {
                let near = suggestion(&entry.name.replace('-', "_"), tables::module_names());
                found.invalid(&item.at, format!("{key}[{i}]"), format!("expected a module's name{near}"));
            }
            if let Some(problem) = entry.frequency_problem() {
                found.invalid(&item.at, format!("{key}[{i}]"), problem);
            }
        }
    }
    let mut files = Vec::new();
    for (i, item) in items("write_files").iter().enumerate() {
        let is_deferred = item.get("defer").is_some_and(|defer| !defer.is_falsy());
        if let Some(path) = item.get("path").and_then(Node::as_str) {
            files.push(File { key: format!("write_files[{i}]"), path, is_deferred });
        }
    }
    for (path, only_deferred) in EARLY_COMMANDS {
        let Some(commands) = config.at_path(path) else { continue };
        let later = |file: &&File<'_>| file.is_deferred || !only_deferred;
        for (file, at) in
            files.iter().filter(later).filter_map(|file| Some((file, naming(commands, file.path)?)))
        {
            found.invalid(at, path.join("."), written_later(file));
        }
    }
    for (name, text) in boothooks {
        for file in &files {
            if let Some(line) = text.lines().position(|line| names(line, file.path)) {
                let at = Position { source: Some(name.as_str().into()), line: line as u32 + 1, column: 1 };
                found.invalid(&at, "", written_later(file));
            }
        }
    }
    found.iter().cloned().collect()
}

fn written_later(file: &File<'_>) -> String {
    format!("the command runs before the file of {} is written", file.key)
}

/// Returns the position of the text in a list of commands that names a file.
fn naming<'n>(node: &'n Node, path: &str) -> Option<&'n Position> {
    if let Some(text) = node.as_str() {
        return names(text, path).then_some(&node.at);
    }
    let items = node.as_seq().into_iter().flatten();
    let values = node.as_map().into_iter().flat_map(|map| map.iter().map(|(_, value)| value));
    items.chain(values).find_map(|node| naming(node, path))
}

/// Returns whether a command names a file other than as the target of a redirection.
fn names(command: &str, path: &str) -> bool {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    path.len() > 1
        && command.match_indices(path).any(|(at, _)| {
            let (before, after) = (&command[..at], &command[at + path.len()..]);
            !after.starts_with(is_of_path)
                && !before.ends_with(is_of_path)
                && !before.trim_end_matches(['"', '\'', ' ']).ends_with('>')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_comes_too_early_is_named() {
        let text = "users: [default, {name: amy}]\n\
            write_files:\n- {path: /a, owner: amy}\n- {path: /b, owner: 'amy:amy', defer: true}\n- {path: /c, owner: 'root:amy'}\n\
            bootcmd:\n- sh /a\n- [cat, /b]\n- echo 1 > /c\n- echo /c.d /x/c\n\
            runcmd: [cat /a]\nsnap: {commands: {x: cat /a, y: [cat, /b]}}\n";
        let config = config::yaml::parse("f", text).unwrap().root;
        let hook = ("h".to_string(), "#cloud-boothook\n#!/bin/sh\n. /a\n".to_string());
        let shown: Vec<String> = advice(&config, &[hook]).iter().map(ToString::to_string).collect();
        let early = |place: &str, key: &str, file: &str| {
            format!("{place}{key}the command runs before the file of {file} is written")
        };
        assert_eq!(
            shown,
            [
                early("f:7:3: ", "bootcmd: ", "write_files[0]"),
                early("f:8:9: ", "bootcmd: ", "write_files[1]"),
                early("f:12:39: ", "snap.commands: ", "write_files[1]"),
                early("h:3:1: ", "", "write_files[0]"),
            ]
        );
    }
}
