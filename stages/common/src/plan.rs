//! The report of a dry run for `cloud-init plan`, `OVERLAY/STAGE.json`: errors, warnings and effects of a stage.
//!
//! ```text
//! {"stage": "init-local", "errors": ["…"], "warnings": ["…"],
//!  "effects": [{"step": "write_files", "key": "write_files[0]",
//!               "from": [{"key": "write_files[0]", "file": "user-data part-001", "line": 3, "column": 3}],
//!               "do": "write", "path": "/etc/x", …}, …]}
//! ```

use std::path::Path;

use config::{Node, Position};
use serde_json::{Value, json};
use system::{Cause, Change, Effect, Level, RecordedEffect, System, WriteOptions};

use crate::Boot;
use crate::network::NETWORK_STEP;
use crate::status::Record;

/// Prefixes of a cause that is a whole part of user-data or vendor-data.
const PART_PREFIXES: [&str; 3] = ["user-data ", "vendor-data ", "vendor-data2 "];

/// Writes the report for `cloud-init plan` into the overlay's directory, beside the files of the machine.
pub(crate) fn write_report(boot: &Boot, record: &Record, overlay: &str) -> system::Result<()> {
    let (sys, name, errors) = (&boot.sys, boot.stage.status_key(), &record.own.errors);
    let warnings: Vec<String> = sys
        .log()
        .logged_warnings()
        .into_iter()
        .filter(|(level, text)| *level >= Level::Warning && !errors.contains(text))
        .map(|(_, text)| text)
        .collect();
    let effects: Vec<Value> = sys
        .recorded_effects()
        .iter()
        .map(|recorded| effect(recorded, &sources_of(boot, record, &recorded.cause)))
        .collect();
    let report = json!({"stage": name, "errors": errors, "warnings": warnings, "effects": effects});
    let (host, path) = (System::new("/"), Path::new(overlay).join(format!("{name}.json")));
    host.write(path, report.to_string(), WriteOptions::secret()).map(drop)
}

/// Returns where the keys of a cause were written.
fn sources_of(boot: &Boot, record: &Record, cause: &Cause) -> Vec<(String, Position)> {
    if cause.step == NETWORK_STEP {
        return record.network_position.iter().map(|at| (String::new(), at.clone())).collect();
    }
    if PART_PREFIXES.iter().any(|source| cause.key.starts_with(source)) {
        // The cause is a part itself.
        let at = Position { source: Some(cause.key.as_str().into()), ..Position::default() };
        return vec![(String::new(), at)];
    }
    let of_key = |key: &str| {
        let found = positions(&boot.settings.merged, key).into_iter();
        let found = found.map(|at| (key.to_string(), boot.source_map.resolve(&boot.sys, &at)));
        first_per_source(found.collect())
    };
    cause.key.split(", ").filter(|key| !key.is_empty()).flat_map(of_key).collect()
}

/// Returns the position of the key at a dotted path, or of the last key on the path that exists (a name may contain
/// dots). A list that several sources contribute to has a position for each item.
fn positions(config: &Node, path: &str) -> Vec<Position> {
    let mut node = config;
    let mut found = Vec::new();
    for word in path.split('.') {
        let (key, items) = word.split_once('[').unwrap_or((word, ""));
        let Some((key, value)) = node.as_map().and_then(|map| map.get_key_value(key)) else { break };
        node = value;
        found = vec![key.at.clone()];
        let item = items.strip_suffix(']').and_then(|n| n.parse::<usize>().ok());
        if let Some(item) = item.and_then(|n| node.as_seq()?.get(n)) {
            node = item;
            found = vec![item.at.clone()];
        }
    }
    // A merged list has the position of its first part.
    if let (false, Some(items)) = (found.is_empty(), node.as_seq()) {
        found.extend(items.iter().map(|item| item.at.clone()));
    }
    found
}

/// Returns the first position in each source.
fn first_per_source(found: Vec<(String, Position)>) -> Vec<(String, Position)> {
    let mut kept: Vec<(String, Position)> = Vec::new();
    for (key, at) in found {
        if at.source.is_some() && kept.iter().all(|(_, other)| other.source != at.source) {
            kept.push((key, at));
        }
    }
    kept
}

fn effect(recorded: &RecordedEffect, from: &[(String, Position)]) -> Value {
    let mut what = match &recorded.effect {
        Effect::Write { path, mode, owner, change } => {
            let is_new = *change == Change::Created;
            json!({"do": "write", "path": path, "mode": format!("{mode:04o}"), "new": is_new,
                   "uid": owner.0, "gid": owner.1})
        }
        Effect::Remove { path } => json!({"do": "remove", "path": path}),
        Effect::Directory { path, mode } => {
            json!({"do": "directory", "path": path, "mode": format!("{mode:04o}")})
        }
        Effect::Link { path, target } => json!({"do": "link", "path": path, "target": target}),
        Effect::Run { command, .. } => json!({"do": "run", "command": command}),
        Effect::Other { what } => json!({"do": "other", "what": what}),
    };
    what["step"] = recorded.cause.step.clone().into();
    what["key"] = recorded.cause.key.clone().into();
    let place = |(key, at): &(String, Position)| {
        let mut place = json!({"key": key, "file": at.source.as_deref()});
        // Without a line only the file is known.
        if at.line > 0 {
            place["line"] = at.line.into();
            place["column"] = at.column.into();
        }
        place
    };
    what["from"] = from.iter().map(place).collect();
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_with_their_position() {
        let text = "a:\n  b.c: {d: 1}\n  e:\n  - f: 1\n  - [g, h]\nz: ~\n";
        let config = config::yaml::parse("t", text).unwrap().root;
        let first = |path| positions(&config, path).first().map(ToString::to_string);
        for (path, place) in [
            ("a", "t:1:1"),
            ("a.b", "t:1:1"),
            ("a.e", "t:3:3"),
            ("a.e[1]", "t:5:5"),
            ("a.e[0].f", "t:4:5"),
            ("a.e[7]", "t:3:3"),
            ("a.e[x", "t:3:3"),
            ("z.y", "t:6:1"),
        ] {
            assert_eq!(first(path).as_deref(), Some(place), "{path}");
        }
        assert!(positions(&config, "q").is_empty() && positions(&config, "").is_empty());
    }

    #[test]
    fn merged_list_names_each_source_once() {
        let read = |name, text| config::yaml::parse(name, text).unwrap().root;
        let strategy = config::merge::Strategy::parse_text("list(append)+dict(recurse_list)").unwrap();
        let merged = strategy.merge(&read("one", "l: [a, b]"), &read("two", "\nl: [c, d]"));
        let found = positions(&merged, "l").into_iter().map(|at| ("l".to_string(), at)).collect();
        let names: Vec<String> = first_per_source(found).iter().map(|(_, at)| at.to_string()).collect();
        assert_eq!(names, ["one:1:1", "two:2:5"]);
    }
}
