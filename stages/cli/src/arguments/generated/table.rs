//! Reads the option table for the generated files.

use crate::arguments::CLOUD_ID_PROGRAM;
use crate::arguments::commands::CLOUD_INIT;
use crate::arguments::spec::{CommandSpec, OptionSpec};

pub const SOURCE: &str = "Generated from stages/cli/src/arguments/commands.rs; do not edit.";

/// Returns every command that is not hidden with those above it, the programs first.
pub fn paths() -> Vec<Vec<&'static CommandSpec>> {
    fn add(path: Vec<&'static CommandSpec>, paths: &mut Vec<Vec<&'static CommandSpec>>) {
        let last = path.last().copied();
        paths.push(path.clone());
        for command in last.into_iter().flat_map(CommandSpec::listed_commands) {
            add([&path[..], &[command]].concat(), paths);
        }
    }
    let mut paths = Vec::new();
    add(vec![&CLOUD_ID_PROGRAM], &mut paths);
    add(vec![&CLOUD_INIT], &mut paths);
    paths
}

/// Returns the words of a command, as they are typed.
pub fn words(path: &[&CommandSpec]) -> String {
    path.iter().map(|command| command.name).collect::<Vec<_>>().join(" ")
}

/// Returns the options that completions offer.
pub fn offered(command: &'static CommandSpec) -> impl Iterator<Item = &'static OptionSpec> {
    command.all_options().filter(|option| !option.ignored)
}

/// Returns the names of the datasources.
pub fn datasources() -> String {
    clouds::CLOUDS.iter().map(|cloud| cloud.name).collect::<Vec<_>>().join(" ")
}
