//! Repositories of yum and zypper: an id and options, one INI file each.

use config::{FindingKind, FromNode, Map, Node, Reader, Value, entry_name, shown_name};
use system::{Result, System, WriteOptions, info, warning};

use crate::values::text_values::Line;
use sort::Named;

/// A repository with its options, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The name of its section, and of its file.
    pub id: String,
    /// The options' names and values.
    pub options: Vec<(String, String)>,
}

/// Returns whether an option is set.
pub fn has_option(options: &[(String, String)], name: &str) -> bool {
    options.iter().any(|(other, _)| other == name)
}

/// Reads an id, in which each blank is replaced by `blank`.
pub fn read_id(node: &Node, blank: &str, reader: &mut Reader) -> Option<String> {
    let id = Line::read(node, reader)?.0.replace(' ', blank);
    if id.is_empty() || id.contains(['/', '[', ']']) || id.len() > 200 {
        return reader.type_error(node, "the id of a repository, a file name");
    }
    Some(id)
}

/// Reads the options of a map except for the key `except`. Names are written in lower case with underscores and must not
/// contain the characters `reserved`; an invalid option is reported and skipped. `read_value` reads a value.
pub fn read_options(
    map: &Map,
    except: Option<&str>,
    reserved: &str,
    read_value: fn(&Node, &mut Reader) -> Option<String>,
    reader: &mut Reader,
) -> Vec<(String, String)> {
    let mut options: Named<String> = Named::default();
    for (key, value) in map.iter().filter(|(key, _)| except.is_none() || key.as_str() != except) {
        let written = key.scalar_text().unwrap_or_default();
        let name = written.trim().to_lowercase().replace('-', "_");
        reader.nested(&entry_name(key, value), |reader| {
            if name.is_empty() || name.contains(|c: char| c.is_control() || reserved.contains(c)) {
                return reader.add_finding(FindingKind::Invalid, key, "expected the name of an option");
            }
            if let Some(text) = read_value(value, reader) {
                *options.entry(&name) = text;
            }
        });
    }
    options.entries
}

/// Reads a value, or the items of a list of values: a boolean as 0 or 1, others by `read_text`.
pub fn read_lines(
    node: &Node,
    reader: &mut Reader,
    read_text: fn(&Node, &mut Reader) -> Option<String>,
) -> Option<Vec<String>> {
    let read = |item: &Node| match &item.value {
        Value::Bool(flag) => Some(if *flag { "1" } else { "0" }.into()),
        Value::Seq(_) => reader.type_error(item, "a string"),
        _ => read_text(item, reader),
    };
    node.as_seq().unwrap_or(std::slice::from_ref(node)).iter().map(read).collect()
}

/// Writes the file of each repository, unless it exists. `file_name` returns its name without the suffix, `text` its
/// content.
///
/// # Errors
///
/// Fails with the last failure; the other files are written.
pub fn write_files(
    sys: &System,
    directory: &str,
    repositories: &[Repository],
    file_name: fn(&str) -> String,
    text: &dyn Fn(&Repository) -> String,
) -> Result<()> {
    let mut failure = Ok(());
    for repository in repositories {
        let path = format!("{directory}/{}.repo", file_name(&repository.id));
        if sys.exists(&path) {
            info!(sys, "repository {} skipped: {path} exists", shown_name(&repository.id));
            continue;
        }
        if let Err(e) = sys.write(path, text(repository), WriteOptions::default()) {
            warning!(sys, "{e}");
            failure = Err(e);
        }
    }
    failure
}
