//! Source positions of values that are stored in another form. Two such forms pass from stage to stage: the merged
//! cloud-configs of an instance, whose lines differ from those of the user's parts, and the datasource's
//! configuration, which the cache stores as JSON. Both store their origins as well, so that every message refers to
//! the user's own file.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use system::{Result, System, WriteOptions};

use crate::{Node, Position, Value};

/// The origins of the merged cloud-configs, stored in a file below /run because configs are merged on each boot.
/// The file is read on first use, which is when a configuration has a problem.
#[derive(Debug, Default)]
pub struct SourceMap {
    file: String,
    table: OnceCell<HashMap<Location, Position>>,
    /// Treats every finding as not yet reported.
    ignore_reported: bool,
    /// What this process has reported.
    messages: RefCell<BTreeSet<String>>,
}

/// The file, line and column of a value in a merged cloud-config.
type Location = (Rc<str>, u32, u32);

impl SourceMap {
    /// Returns the map stored in this file, which may be missing.
    pub fn open(file: impl Into<String>) -> SourceMap {
        SourceMap { file: file.into(), ..SourceMap::default() }
    }

    /// Returns a copy for a reader that has not seen the earlier reports: every finding counts as not reported.
    pub fn without_reported(&self) -> SourceMap {
        SourceMap { file: self.file.clone(), ignore_reported: true, ..SourceMap::default() }
    }

    /// Returns the origin of a position in a merged cloud-config; any other position is its own origin.
    pub fn resolve(&self, sys: &System, mark: &Position) -> Position {
        self.find(sys, mark).unwrap_or(mark).clone()
    }

    /// Returns whether the check of the cloud-configs has already reported the value at this place as invalid.
    pub fn was_reported(&self, sys: &System, origin: &Position) -> bool {
        !self.ignore_reported && self.find(sys, origin).is_some()
    }

    /// Returns whether a message is new: several modules read a key such as the hostname.
    pub fn is_new(&self, message: String) -> bool {
        self.messages.borrow_mut().insert(message)
    }

    fn find(&self, sys: &System, mark: &Position) -> Option<&Position> {
        let source = mark.source.as_ref()?;
        let table = self.table.get_or_init(|| {
            let text = sys.read_text(&self.file).unwrap_or_default();
            parse(&text, &|path| sys.metadata(path).map(|m| m.len()).ok())
        });
        table.get(&(source.clone(), mark.line, mark.column))
    }

    /// Stores the origins of merged cloud-configs, from each file as it is parsed now and the same values with the
    /// positions in their parts, and the positions of values that were reported as invalid.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save<'f>(
        sys: &System,
        file: &str,
        merged: &[(&str, &Node, &Node)],
        reported: impl Iterator<Item = &'f Position>,
    ) -> Result<()> {
        let mut text = String::new();
        for (path, read, origin) in merged {
            let size = sys.metadata(path).map_or(0, |m| m.len());
            let _ = writeln!(text, "file {size} {path}");
            let mut last = None;
            // The root belongs to no single part; its position is that of its first key.
            write_children(read, origin, &mut last, &mut text);
        }
        for mark in reported {
            if let Some(source) = &mark.source {
                let _ =
                    writeln!(text, "reported {}:{} {}", mark.line, mark.column, source.replace('\n', " "));
            }
        }
        sys.write(file, text, WriteOptions::secret()).map(drop)
    }
}

/// Writes one line for each value and key, `LINE:COLUMN LINE:COLUMN` (merged file, source), below a line that names
/// the source.
fn write_entry(read: &Node, origin: &Node, last: &mut Option<Rc<str>>, text: &mut String) {
    if let Some(source) = &origin.at.source {
        if last.as_ref() != Some(source) {
            let _ = writeln!(text, "from {}", source.replace('\n', " "));
            *last = Some(source.clone());
        }
        let (there, here) = (&read.at, &origin.at);
        for (number, after) in [(there.line, ':'), (there.column, ' '), (here.line, ':'), (here.column, '\n')]
        {
            put_number(number, text);
            text.push(after);
        }
    }
    write_children(read, origin, last, text);
}

/// Appends a number; `write!` takes several times as long.
fn put_number(number: u32, text: &mut String) {
    if number > 9 {
        put_number(number / 10, text);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

fn write_children(read: &Node, origin: &Node, last: &mut Option<Rc<str>>, text: &mut String) {
    match (&read.value, &origin.value) {
        (Value::Seq(read), Value::Seq(origin)) => {
            read.iter().zip(origin).for_each(|(read, origin)| write_entry(read, origin, last, text));
        }
        (Value::Map(read), Value::Map(origin)) | (Value::Set(read), Value::Set(origin)) => {
            for ((key, value), there) in read.paired_with(origin) {
                let Some((origin_key, origin_value)) = there else { continue };
                write_entry(key, origin_key, last, text);
                write_entry(value, origin_value, last, text);
            }
        }
        _ => {}
    }
}

/// Parses the output of [`SourceMap::save`]. A file whose size has changed was edited, and is its own origin.
fn parse(text: &str, size: &dyn Fn(&str) -> Option<u64>) -> HashMap<Location, Position> {
    let mut table = HashMap::new();
    let mut file: Option<Rc<str>> = None;
    let mut source: Option<Rc<str>> = None;
    for line in text.lines() {
        if let Some((then, path)) = line.strip_prefix("file ").and_then(|rest| rest.split_once(' ')) {
            file = (then.parse().ok() == size(path)).then(|| path.into());
            source = None;
        } else if let Some(name) = line.strip_prefix("from ") {
            source = Some(name.into());
        } else if let Some((place, name)) =
            line.strip_prefix("reported ").and_then(|rest| rest.split_once(' '))
        {
            // A position in a part is not one in a merged file: it is its own origin.
            if let Some((line, column)) = position(place) {
                let mark = Position { source: Some(name.into()), line, column };
                table.insert((name.into(), line, column), mark);
            }
        } else if let (Some(file), Some(source), Some((there, here))) = (&file, &source, line.split_once(' '))
            && let (Some((line, column)), Some(here)) = (position(there), position(here))
        {
            let mark = Position { source: Some(source.clone()), line: here.0, column: here.1 };
            // A block map starts at its first key: the position is the map's.
            table.entry((file.clone(), line, column)).or_insert(mark);
        }
    }
    table
}

fn position(text: &str) -> Option<(u32, u32)> {
    let (line, column) = text.split_once(':')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// Returns the positions of a value and of all its children, for [`from_json`]: `LINE:COLUMN` separated by spaces, in
/// the order of the value's JSON form.
pub fn positions(node: &Node) -> String {
    fn write(at: &Position, out: &mut String) {
        let blank = if out.is_empty() { "" } else { " " };
        let _ = write!(out, "{blank}{}:{}", at.line, at.column);
    }
    fn list(node: &Node, out: &mut String) {
        write(&node.at, out);
        match &node.value {
            Value::Seq(items) => items.iter().for_each(|item| list(item, out)),
            Value::Set(map) => map.iter().for_each(|(key, _)| list(key, out)),
            Value::Map(map) => {
                // Sorted by the text of the keys, as in serde_json's map; of equal keys the last value is used.
                let entry = |(key, value)| (crate::json::key_text(key).into_owned(), (key, value));
                let mut entries: Vec<(String, (&Node, &Node))> = map.iter().map(entry).collect();
                sort::sort_by(&mut entries, |(a, _), (b, _)| a.cmp(b));
                for (i, (text, (key, value))) in entries.iter().enumerate() {
                    if entries.get(i + 1).is_none_or(|(next, _)| next != text) {
                        write(&key.at, out);
                        list(value, out);
                    }
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    list(node, &mut out);
    out
}

/// Returns a value that was stored as JSON, with its source and the result of [`positions`]. If the number of positions
/// does not match, each value gets the source only.
pub fn from_json(json: &serde_json::Value, source: &str, positions: &str) -> Node {
    let source: Rc<str> = source.into();
    let mut node = Node::from_json(json);
    let mut count = 0;
    node.set_positions(&mut || {
        count += 1;
        Position::default()
    });
    let listed: Vec<(u32, u32)> = positions.split_whitespace().filter_map(position).collect();
    let mut listed = if listed.len() == count { listed } else { Vec::new() }.into_iter();
    node.set_positions(&mut || {
        let (line, column) = listed.next().unwrap_or_default();
        Position { source: Some(source.clone()), line, column }
    });
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::Strategy;
    use crate::yaml;
    use scratch::TempDir;

    fn read(source: &str, text: &str) -> Node {
        yaml::parse(source, text).unwrap().root
    }

    #[test]
    fn merged_values_resolve_to_their_parts() {
        let first = read("user-data part-001", "users:\n- name: a\n  uid: x\nzone: 1\n");
        let second = read("user-data part-002", "\n\nbootcmd: [[a, b]]\nusers: [{name: b}, {uid: y}]\n");
        let merged = Strategy::parse_text("list(append)+dict(recurse_list)").unwrap().merge(&first, &second);
        let top = TempDir::new();
        let sys = System::new(&top);
        let (path, table) = ("/i/cloud-config.txt", "/run/origins");
        let wrong = merged.at_path(&["users"]).unwrap().as_seq().unwrap()[2].get("uid").unwrap();
        let text = yaml::emit(&merged, yaml::Style::DOCUMENT);
        sys.write(path, &text, WriteOptions::secret()).unwrap();
        let again = read(path, &text);
        SourceMap::save(&sys, table, &[(path, &again, &merged)], [&wrong.at].into_iter()).unwrap();

        let origins = SourceMap::open(table);
        let origin = |node: &Node| origins.resolve(&sys, &node.at).to_string();
        let users = again.get("users").unwrap().as_seq().unwrap();
        assert_eq!(origin(users[0].get("uid").unwrap()), "user-data part-001:3:8");
        assert_eq!(origin(users[2].get("uid").unwrap()), "user-data part-002:4:26");
        assert_eq!(
            origin(again.as_map().unwrap().get_key_value("bootcmd").unwrap().0),
            "user-data part-002:3:1"
        );
        let was_reported = |of: &SourceMap, node: &Node| of.was_reported(&sys, &of.resolve(&sys, &node.at));
        assert!(was_reported(&origins, users[2].get("uid").unwrap()));
        assert!(!was_reported(&origins, users[0].get("uid").unwrap()));
        assert!(!was_reported(&origins.without_reported(), users[2].get("uid").unwrap()));
        let elsewhere = read("/etc/x", "a: 1");
        assert_eq!(origin(&elsewhere), "/etc/x:1:1");

        // The file was edited: its lines differ.
        sys.write(path, format!("# mine\n{text}"), WriteOptions::secret()).unwrap();
        let edited = SourceMap::open(table);
        assert_eq!(edited.resolve(&sys, &users[0].at), users[0].at);
        assert_eq!(SourceMap::open("/run/none").resolve(&sys, &users[0].at), users[0].at);
    }

    #[test]
    fn malformed_tables_are_ignored() {
        let any = |_: &str| Some(1);
        for text in ["", "1:1 2:2", "file 1 /x\n1:1 2:2", "file 2 /x\nfrom y\n1:1 2:2", "from y\n1:1 2:2"] {
            assert!(parse(text, &any).is_empty(), "{text}");
        }
        assert!(parse("file 1 /x\nfrom y\n1:1\n1 1\n-1:1 2:2\n99999999999:1 1:1\n \n", &any).is_empty());
        assert_eq!(parse("file 1 /x\nfrom y\n1:1 2:2", &any).len(), 1);
    }

    #[test]
    fn positions_survive_a_round_trip_through_json() {
        let text = "version: 2\nethernets:\n  z: {mtu: 1, 1: a, '1': b}\n  a:\n  - {dhcp4: x}\n";
        let node = read("net", text);
        let again = from_json(&node.to_json(), "/dev/sr0/network-config", &positions(&node));
        let at = |node: Option<&Node>| node.unwrap().at.to_string();
        let list = again.at_path(&["ethernets", "a"]).unwrap().as_seq().unwrap();
        assert_eq!(at(list[0].get("dhcp4")), "/dev/sr0/network-config:5:13");
        assert_eq!(at(again.at_path(&["ethernets", "z", "1"])), "/dev/sr0/network-config:3:26");
        assert_eq!(
            at(again.as_map().unwrap().get_key_value("version").map(|e| e.0)),
            "/dev/sr0/network-config:1:1"
        );
        // Positions of another value are ignored.
        for positions in ["", "1:1", "1:1 2:2 x"] {
            let again = from_json(&node.to_json(), "there", positions);
            assert_eq!(at(again.get("version")), "there");
        }
    }
}
