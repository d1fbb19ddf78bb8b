//! The origin of each key of a merged configuration: compares the inputs, in ascending order of precedence, with the
//! result. Values keep their source position through every merge, so the position identifies the input that won; the
//! other inputs with the key were replaced or dropped.
//! Pure. Returns positions and kinds, never values.

use crate::{Finding, FindingKind, Map, Node, Position, Value};

encoding::words! {
    /// The result of merging an input's value for a key, by its word for output.
    #[derive(PartialOrd, Ord)]
    pub enum MergeResult {
        /// The value was used, or (of a list) some of its items.
        Used = "from",
        /// The text was joined with that of other inputs.
        Joined = "joined",
        /// An input with higher precedence, or a later part, replaced it.
        Replaced = "replaced",
        /// The existing value was kept.
        Dropped = "dropped",
    }
}

/// An input's value for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    /// The result of merging the value.
    pub result: MergeResult,
    /// The name of the input.
    pub input: String,
    /// The position of the value.
    pub at: Position,
    /// The number of items from this input, for a list from several inputs.
    pub items: Option<usize>,
}

/// A key of the merged configuration, or one that merging removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProvenance {
    /// The path of the key.
    pub path: Vec<String>,
    /// The values that the sources contributed.
    pub contributions: Vec<Contribution>,
    /// Whether the merged configuration has the key.
    pub exists: bool,
}

/// An input of a merge.
#[derive(Debug, Clone)]
pub struct MergeInput {
    /// The name of the source.
    pub name: String,
    /// The configuration to merge.
    pub config: Node,
}

/// The deepest level of maps to descend into.
const MAX_DEPTH: usize = 64;

/// Returns every key at and below a path, in the order of the merged configuration, then the removed ones. `inputs`
/// are in ascending order of precedence.
pub fn explain(merged: &Node, inputs: &[MergeInput], prefix: &[&str]) -> Vec<KeyProvenance> {
    let mut paths: Vec<Vec<String>> = Vec::new();
    let start = || prefix.iter().map(ToString::to_string).collect::<Vec<_>>();
    if let Some(node) = merged.at_path(prefix) {
        leaves(node, &mut start(), &mut paths);
    }
    let known = paths.len();
    let mut removed: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
    for input in inputs {
        if let Some(node) = input.config.at_path(prefix) {
            let mut own = Vec::new();
            leaves(node, &mut start(), &mut own);
            // Keys lost below a key with another value are reported with that key.
            for path in own.into_iter().filter(|p| value_on_path(merged, p).is_none()) {
                if removed.insert(path.join("\0")) {
                    paths.push(path);
                }
            }
        }
    }
    let origin = |(i, path): (usize, Vec<String>)| {
        let exists = i < known;
        let contributions = contributions(merged, inputs, &path, exists);
        KeyProvenance { path, contributions, exists }
    };
    paths.into_iter().enumerate().map(origin).collect()
}

/// Returns the lists at the top level of parts that have no effect, because another part's value replaced them.
pub fn replaced_lists<'a>(merged: &Node, parts: impl Iterator<Item = &'a MergeInput>) -> Vec<Finding> {
    let replaced = |(key, own): (&Node, &Node)| {
        let (key, first) = (key.as_str()?, own.as_seq()?.first()?);
        let value = merged.get(key).filter(|value| *value != own)?;
        // Other merges than a replacement keep the items.
        let is_kept = |item: &Node| item.at == first.at;
        (!value.as_seq().unwrap_or_default().iter().any(is_kept)).then(|| Finding {
            kind: FindingKind::Invalid,
            at: own.at.clone(),
            key: key.into(),
            message: format!(
                "no effect: the value at {} replaces it; to have both: merge_how: dict(recurse_list)+list(append)",
                value.at
            ),
        })
    };
    parts.flat_map(|part| part.config.as_map()).flat_map(Map::iter).filter_map(replaced).collect()
}

fn leaves(node: &Node, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match &node.value {
        Value::Map(map) if !map.is_empty() && path.len() < MAX_DEPTH => {
            for (key, value) in map.iter() {
                path.push(key.scalar_text().unwrap_or_default());
                leaves(value, path, found);
                path.pop();
            }
        }
        _ if path.is_empty() => {}
        _ => found.push(path.clone()),
    }
}

/// Returns the node at a path; keys that are not text match by their printed form.
fn value_at<'a>(node: &'a Node, path: &[String]) -> Option<&'a Node> {
    path.iter().try_fold(node, |node, key| {
        let map = node.as_map()?;
        map.get(key).or_else(|| by_text(map, key))
    })
}

/// Returns the last key of a path. Its map or list may begin on a later line.
fn key_on_path<'a>(node: &'a Node, path: &[String]) -> Option<&'a Node> {
    let (last, parents) = path.split_last()?;
    let map = value_at(node, parents)?.as_map()?;
    map.iter().map(|(key, _)| key).find(|key| key.scalar_text().as_deref() == Some(last))
}

fn by_text<'a>(map: &'a Map, key: &str) -> Option<&'a Node> {
    map.iter().find(|(k, _)| k.as_str().is_none() && k.scalar_text().as_deref() == Some(key)).map(|(_, v)| v)
}

fn contributions(merged: &Node, inputs: &[MergeInput], path: &[String], exists: bool) -> Vec<Contribution> {
    let value = value_at(merged, path).filter(|_| exists);
    let mut contributions = Vec::new();
    for input in inputs {
        let Some(own) = value_on_path(&input.config, path) else { continue };
        let (result, items) = value.map_or((MergeResult::Replaced, None), |value| merge_result(value, own));
        let key = key_on_path(&input.config, path).filter(|key| key.at.line < own.at.line);
        let at = key.map_or(&own.at, |key| &key.at).clone();
        contributions.push(Contribution { result, input: input.name.clone(), at, items });
    }
    // Inputs with lower precedence than the winner were replaced, those with higher precedence dropped.
    let winner =
        contributions.iter().rposition(|t| matches!(t.result, MergeResult::Used | MergeResult::Joined));
    if let Some(winner) = winner {
        for contribution in
            contributions.iter_mut().skip(winner).filter(|t| t.result == MergeResult::Replaced)
        {
            contribution.result = MergeResult::Dropped;
        }
    }
    sort::sort_by_key(&mut contributions, |t| t.result);
    contributions
}

/// Returns an input's value for a path, or the value on the way to it that is not a map.
fn value_on_path<'a>(config: &'a Node, path: &[String]) -> Option<&'a Node> {
    for n in 1..=path.len() {
        let found = value_at(config, &path[..n])?;
        if n == path.len() || found.as_map().is_none() {
            return Some(found);
        }
    }
    None
}

fn merge_result(value: &Node, own: &Node) -> (MergeResult, Option<usize>) {
    if let (Value::Seq(all), Value::Seq(mine)) = (&value.value, &own.value) {
        let is_mine = |item: &&Node| mine.iter().any(|m| m.at == item.at);
        let count = all.iter().filter(is_mine).count();
        if count > 0 {
            return (MergeResult::Used, (count < all.len()).then_some(count));
        }
    }
    if value.at == own.at {
        return (MergeResult::Used, None);
    }
    match (&value.value, &own.value) {
        (Value::Str(all), Value::Str(mine))
            if all.len() > mine.len() && !mine.is_empty() && all.ends_with(mine.as_str()) =>
        {
            (MergeResult::Joined, None)
        }
        _ => (MergeResult::Replaced, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Strategy, merge_stack};
    use crate::{Findings, yaml};

    fn piece(name: &str, text: &str) -> MergeInput {
        MergeInput { name: name.into(), config: yaml::parse(name, text).unwrap().root }
    }

    fn lines(origins: &[KeyProvenance]) -> Vec<String> {
        let one = |o: &KeyProvenance| {
            let contributions: Vec<String> = o
                .contributions
                .iter()
                .map(|t| {
                    let items = t.items.map(|n| format!(" ({n} items)")).unwrap_or_default();
                    format!("{} {}{items}", t.result.as_str(), t.at)
                })
                .collect();
            format!(
                "{}{}: {}",
                o.path.join("."),
                if o.exists { "" } else { " (lost)" },
                contributions.join(", ")
            )
        };
        origins.iter().map(one).collect()
    }

    #[test]
    fn layers_name_the_source_of_each_key() {
        let inputs = [
            piece("base", "a: 1\nm: {x: 1, y: 2}\ns: {t: 1}\n"),
            piece("vendor", "a: 2\nm: {y: 3}\n"),
            piece("user", "a: 3\nm: {z: 4}\ns: text\n"),
        ];
        let merged = merge_stack(inputs.iter().rev().map(|p| &p.config), &mut Findings::default());
        assert_eq!(
            lines(&explain(&merged, &inputs, &[])),
            [
                "a: from user:1:4, replaced base:1:4, replaced vendor:1:4",
                "m.z: from user:2:8",
                "m.y: from vendor:2:8, replaced base:2:14",
                "m.x: from base:2:8",
                // A map replaces text of higher precedence: upstream's rule.
                "s.t: from base:3:8, dropped user:3:4",
            ]
        );
        assert_eq!(lines(&explain(&merged, &inputs, &["m", "x"])), ["m.x: from base:2:8"]);
        assert!(explain(&merged, &inputs, &["nowhere"]).is_empty());
    }

    #[test]
    fn blocks_begin_at_their_keys() {
        let inputs = [piece("one", "l:\n- a\nm:\n  # text\n  k:\n    - b\n")];
        let text = lines(&explain(&inputs[0].config, &inputs, &[]));
        assert_eq!(text, ["l: from one:1:1", "m.k: from one:5:3"]);
    }

    #[test]
    fn lists_of_parts_that_have_no_effect_are_found() {
        let parts = [
            piece("one", "runcmd: [a]\nusers: []\nntp: {servers: [x]}\npackages: [p]\nmounts: [[m, n]]\n"),
            piece("two", "runcmd: [b]\nusers: [c]\nntp: {servers: [y]}\npackages: [p]\n"),
        ];
        for (strategy, expected) in [
            (
                "dict(replace)+list()+str()",
                vec!["one:1:9: runcmd: no effect: the value at two:1:9 replaces it"],
            ),
            (
                "dict(no_replace)",
                vec![
                    "two:1:9: runcmd: no effect: the value at one:1:9 replaces it",
                    "two:2:8: users: no effect",
                ],
            ),
            ("dict(recurse_list)+list(append)", vec![]),
            ("dict(recurse_list)+list(prepend)", vec![]),
        ] {
            let strategy = Strategy::parse_text(strategy).unwrap();
            let mut merged = Node::from(Map::new());
            parts.iter().for_each(|part| strategy.merge_into(&mut merged, part.config.clone()));
            let found: Vec<String> =
                replaced_lists(&merged, parts.iter()).iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(
                found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn merged_parts_name_the_source_of_each_item() {
        let inputs = [
            piece("one", "l: [a, b]\nt: x\nd: {k: 1}\nn: 5\n"),
            piece("two", "l: [c]\nt: y\nd: {k: ~}\nn: 6\n"),
        ];
        let strategy = Strategy::parse_text(
            "list(append)+dict(recurse_list,recurse_str,allow_delete,no_replace)+str(append)",
        )
        .unwrap();
        let mut merged = Node::from(Map::new());
        inputs.iter().for_each(|p| strategy.merge_into(&mut merged, p.config.clone()));
        assert_eq!(
            lines(&explain(&merged, &inputs, &[])),
            [
                "l: from one:1:4 (2 items), from two:1:4 (1 items)",
                "t: from one:2:4, joined two:2:4",
                "d: from one:3:4, dropped two:3:4",
                "n: from one:4:4, dropped two:4:4",
                "d.k (lost): replaced one:3:8, replaced two:3:8",
            ]
        );
    }
}
