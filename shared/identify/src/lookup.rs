//! Keys in cloud.cfg and cloud.cfg.d. `datasource_list` is read as YAML. If it is not a top-level key, and for the other
//! keys, the lines are searched, as upstream does for every key: some images depend on a key at any depth.

use config::yaml;
use config::{Node, Value};

use crate::text::{list_items, unquoted};

/// One configuration file.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// The path, for messages.
    pub path: String,
    /// The content.
    pub text: String,
}

/// The value of `datasource_list` in the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DatasourceList {
    /// The names in the last file that has the key; the list may be empty.
    pub names: Option<Vec<String>>,
    /// Warnings about the files.
    pub warnings: Vec<String>,
}

/// Returns the candidates of the last file that has the key.
pub fn datasource_list(files: &[ConfigFile]) -> DatasourceList {
    const KEY: &str = "datasource_list";
    let mut found = DatasourceList::default();
    for file in files.iter().filter(|f| mentions(&f.text, KEY)) {
        let top = match yaml::parse(&file.path, &file.text) {
            Ok(parsed) => parsed.root.get(KEY).map(names),
            Err(bad) => {
                found.warnings.push(format!("{bad}: invalid YAML; searching its lines for {KEY}"));
                None
            }
        };
        if let Some(names) = top {
            found.names = Some(names);
        } else if let Some(value) = line_value(&file.text, KEY) {
            let path = &file.path;
            found.warnings.push(format!("{path}: {KEY} is not a top-level key; using it nevertheless"));
            found.names = Some(list_items(&value));
        }
    }
    found
}

/// Returns the names in a list, or in a string such as `NoCloud, None`.
fn names(node: &Node) -> Vec<String> {
    match &node.value {
        // In `[ NoCloud, None ]`, None is text; only `null` and `~` are null.
        Value::Seq(items) => items
            .iter()
            .filter_map(|item| if item.is_null() { None } else { item.scalar_text() })
            // `[ NoCloud None ]` is one text, but no name contains whitespace.
            .flat_map(|text| text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
            .collect(),
        Value::Str(text) => list_items(text),
        _ => Vec::new(),
    }
}

/// Returns whether a line that is not a comment has the key, so that other files need not be parsed.
fn mentions(text: &str, key: &str) -> bool {
    text.lines().any(|line| line.contains(key) && !line.trim_start().starts_with('#'))
}

/// Returns whether a line of any file has the key.
pub fn has_key(files: &[ConfigFile], key: &str) -> bool {
    files.iter().any(|file| file.text.lines().any(|line| after_key(line, key).is_some()))
}

/// Returns the value of the key in the last line of the last file that has it.
pub fn last_value(files: &[ConfigFile], key: &str) -> Option<String> {
    files.iter().rev().find_map(|file| line_value(&file.text, key))
}

fn line_value(text: &str, key: &str) -> Option<String> {
    let value = text.lines().rev().find_map(|line| after_key(line, key))?;
    Some(unquoted(value.trim()).to_string())
}

/// Returns the text after the key and its colon on a line, without a comment. Quotes and whitespace may follow the key. The key
/// must be a whole word (upstream also accepts the end of a longer one).
fn after_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let line = line.split('#').next().unwrap_or_default();
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for (at, _) in line.match_indices(key) {
        if line[..at].ends_with(part_of_word) {
            continue;
        }
        let rest = line[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
        if let Some(value) = rest.strip_prefix(':') {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[&str]) -> Vec<ConfigFile> {
        let file =
            |(n, text): (usize, &&str)| ConfigFile { path: format!("{n}.cfg"), text: text.to_string() };
        texts.iter().enumerate().map(file).collect()
    }

    #[test]
    fn last_datasource_list_counts() {
        for (texts, expected, warnings) in [
            (&["datasource_list: [ NoCloud, None ]\n"][..], Some(&["NoCloud", "None"][..]), 0),
            (&["datasource_list:\n- A\n- 'B'\n"], Some(&["A", "B"]), 0),
            (&["datasource_list: [A,\n  B, # why\n  C]"], Some(&["A", "B", "C"]), 0),
            (&["datasource_list: [A]", "x: y", "datasource_list: [B]"], Some(&["B"]), 0),
            (&["datasource_list: [A]", "# datasource_list: [B]\n  # datasource_list: [C]"], Some(&["A"]), 0),
            (&["datasource_list: [A]", "datasource_list: []"], Some(&[]), 0),
            (&["datasource_list: [A]", "datasource_list:"], Some(&[]), 0),
            (&["\"datasource_list\" : A, B"], Some(&["A", "B"]), 0),
            (&["datasource_list: 'A, B]'\r\n"], Some(&["A", "B"]), 0),
            (&["datasource_list: [ A B ]"], Some(&["A", "B"]), 0),
            (&["datasource_list: A B"], Some(&["A", "B"]), 0),
            (&["datasource_list: [A, {b: c}, null, 7]"], Some(&["A", "7"]), 0),
            // Invalid files that are accepted, because images depend on them.
            (&["system_info:\n  datasource_list: [A]\n"], Some(&["A"]), 1),
            (&["datasource_list: [ A, B\n"], Some(&["A", "B"]), 2),
            (&["broken: [\n{datasource_list: [A, B]\n"], Some(&["A", "B"]), 2),
            // A longer key is another key.
            (&["my_datasource_list: [A]\n"], None, 0),
            (&["note: the datasource_list is below\n"], None, 0),
            (&[""], None, 0),
        ] {
            let found = datasource_list(&files(texts));
            let expected = expected.map(|names| names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
            assert_eq!(found.names, expected, "{texts:?} {:?}", found.warnings);
            assert_eq!(found.warnings.len(), warnings, "{texts:?} {:?}", found.warnings);
        }
    }

    #[test]
    fn keys_in_comments_do_not_count() {
        let files =
            files(&["datasource:\n  NoCloud:\n    seedfrom: http://x/ # y\n  # Ec2:\n  Azure2: {a: b}\n"]);
        for (key, has) in [
            ("NoCloud", true),
            ("seedfrom", true),
            ("Ec2", false),
            ("Azure", false),
            ("a", true),
            ("b", false),
        ] {
            assert_eq!(has_key(&files, key), has, "{key}");
        }
        assert_eq!(last_value(&files, "seedfrom").as_deref(), Some("http://x/"));
        assert_eq!(last_value(&files, "Ec2"), None);
    }
}
