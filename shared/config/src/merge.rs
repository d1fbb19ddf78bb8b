//! Merges configurations by upstream's strategies for maps, lists and text that both sides have. Parts of user-data use
//! the strategy that each part names; layers of settings use "first source wins, maps are merged". Pure; values keep
//! their positions.
//!
//! Differences from upstream: a value that is not a list is never appended to one character by character or key by key,
//! and only text is appended to text; otherwise the old value is kept.

use crate::yaml::YamlError;
use crate::{Finding, FindingKind, Findings, Map, Node, Position, Value, suggestion};

/// A rule: one `dict(…)`, `list(…)` or `str(…)` with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Dict(DictRule),
    List { method: Method, into: Recurse },
    Text { append: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DictRule {
    /// Replace the values of keys that both maps have.
    replace: bool,
    /// Remove a key whose new value is null.
    delete: bool,
    into: Recurse,
}

/// The kinds of new values that are merged with the old value of the same key; other kinds replace it or are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recurse {
    maps: bool,
    lists: bool,
    texts: bool,
}

impl Recurse {
    fn covers(self, new: &Node) -> bool {
        match new.value {
            Value::Map(_) => self.maps,
            Value::Seq(_) => self.lists,
            Value::Str(_) => self.texts,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Append,
    Prepend,
    /// Element by element.
    Replace,
    Keep,
}

/// Rules in order; the first one for the old value's type applies. Without a rule the old value is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategy(Vec<Rule>);

const NO_OPTIONS: Options<'_> = Options::Words(Vec::new());
/// The options of the mergers.
pub const OPTIONS: [&str; 9] = [
    "allow_delete",
    "no_replace",
    "replace",
    "append",
    "prepend",
    "recurse_dict",
    "recurse_list",
    "recurse_array",
    "recurse_str",
];
const EXPECTED: &str = "expected a value such as 'list(append)+dict(recurse_list)+str()', or a list of maps with name and settings";

impl Strategy {
    /// Returns the default for parts of user-data: a later part replaces whole top-level values.
    pub fn default_for_parts() -> Strategy {
        let replace = Options::Words(vec!["replace"]);
        Strategy::of([rule("dict", &replace), rule("list", &NO_OPTIONS), rule("str", &NO_OPTIONS)])
    }

    /// Returns the default for everything else: existing values are kept, maps are merged.
    pub fn first_wins() -> Strategy {
        Strategy::of(["list", "dict", "str"].map(|name| rule(name, &NO_OPTIONS)))
    }

    fn of<const N: usize>(rules: [Option<Rule>; N]) -> Strategy {
        Strategy(rules.into_iter().flatten().collect())
    }

    /// Returns whether the strategy has no rules, as from an empty text; the default applies then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses the value of `merge_how` or `merge_type`, in either form.
    ///
    /// # Errors
    /// Fails if the value has another form or names an unknown merger.
    pub fn parse(value: &Node) -> Result<Strategy, YamlError> {
        Strategy::parse_reporting(value, &mut |_, _| {})
    }

    /// As [`Strategy::parse`]; `unknown` gets each unknown option, which has no effect, and the value that has it.
    fn parse_reporting(value: &Node, unknown: &mut dyn FnMut(&Node, &str)) -> Result<Strategy, YamlError> {
        let bad = |at: &Node, message: String| YamlError { at: at.at.clone(), message };
        let items = match &value.value {
            Value::Str(text) => {
                let parsed = Strategy::parse_words(text, &mut |option| unknown(value, option));
                return parsed.map_err(|message| bad(value, message));
            }
            Value::Seq(items) => items,
            // An empty map names no merger: the default applies, as in upstream.
            Value::Map(map) | Value::Set(map) if map.is_empty() => return Ok(Strategy::default()),
            // Upstream does not accept a map with keys either.
            _ => return Err(bad(value, EXPECTED.to_string())),
        };
        let mut rules = Vec::new();
        for item in items {
            let (name, options) = match &item.value {
                Value::Map(map) => {
                    let options = match map.get("settings").map(|settings| &settings.value) {
                        Some(Value::Seq(options)) => Options::Words(strings(options)),
                        Some(Value::Str(text)) => Options::Text(text),
                        Some(Value::Map(map)) => {
                            Options::Words(map.iter().filter_map(|(key, _)| key.as_str()).collect())
                        }
                        Some(Value::Null) | None => Options::Words(Vec::new()),
                        Some(_) => return Err(bad(item, EXPECTED.to_string())),
                    };
                    let name = map.get("name").and_then(Node::as_str);
                    (name.map(|name| name.replace('-', "_").trim().to_string()), options)
                }
                Value::Seq(parts) => {
                    let options = Options::Words(strings(parts.get(1..).unwrap_or_default()));
                    match parts.first() {
                        Some(name) if name.is_falsy() => (Some(String::new()), options),
                        name => (name.and_then(Node::as_str).map(str::to_string), options),
                    }
                }
                _ => (None, Options::Words(Vec::new())),
            };
            let Some(name) = name else { return Err(bad(item, EXPECTED.to_string())) };
            if name.is_empty() {
                continue;
            }
            rules.push(rule(&name, &options).ok_or_else(|| bad(item, unknown_merger(&name)))?);
            options.unknown().take(MAX_UNKNOWN).for_each(|option| unknown(item, option));
        }
        Ok(Strategy(rules))
    }

    /// Parses the text form, also used in headers of MIME parts: `name(option,option)+name()`.
    ///
    /// # Errors
    /// Fails if the text has another form or names an unknown merger.
    pub fn parse_text(text: &str) -> Result<Strategy, String> {
        Strategy::parse_words(text, &mut |_| {})
    }

    /// As [`Strategy::parse_text`], for a header of the part `source`: also reports unknown options.
    ///
    /// # Errors
    /// As [`Strategy::parse_text`].
    pub fn parse_header(text: &str, source: &str, findings: &mut Vec<Finding>) -> Result<Strategy, String> {
        let at = Position { source: Some(source.into()), line: 0, column: 0 };
        Strategy::parse_words(text, &mut |option| findings.push(unknown_option(&at, "Merge-Type", option)))
    }

    fn parse_words(text: &str, unknown: &mut dyn FnMut(&str)) -> Result<Strategy, String> {
        let mut rules = Vec::new();
        for word in text.split('+') {
            let word = word.trim().to_lowercase().replace('-', "_");
            if word.is_empty() {
                continue;
            }
            let (name, options) = word
                .split_once('(')
                .and_then(|(name, rest)| Some((name, rest.strip_suffix(')')?)))
                .filter(|(name, _)| is_name(name))
                .ok_or_else(|| EXPECTED.to_string())?;
            let options = Options::Words(options.split(',').map(str::trim).collect());
            rules.push(rule(name, &options).ok_or_else(|| unknown_merger(name))?);
            options.unknown().take(MAX_UNKNOWN).for_each(&mut *unknown);
        }
        Ok(Strategy(rules))
    }

    /// Removes and returns the strategy that a configuration names, and reports its unknown options.
    ///
    /// # Errors
    /// Fails if the strategy is invalid (see [`Strategy::parse`]).
    pub fn take_from(config: &mut Node, findings: &mut Vec<Finding>) -> Result<Option<Strategy>, YamlError> {
        let Some(map) = config.as_map_mut() else { return Ok(None) };
        let mut take = |key| Some((key, map.remove(key).filter(|given| !given.is_null())?));
        let Some((key, given)) = take("merge_how").or_else(|| take("merge_type")) else { return Ok(None) };
        let strategy = Strategy::parse_reporting(&given, &mut |node, option| {
            findings.push(unknown_option(&node.at, key, option));
        })?;
        Ok(Some(strategy).filter(|strategy| !strategy.is_empty()))
    }

    /// Returns these rules followed by the other's: a part's own rules precede those of its headers.
    pub fn then(mut self, other: Strategy) -> Strategy {
        self.0.extend(other.0);
        self
    }

    /// Merges `new` into a copy of `base`.
    pub fn merge(&self, base: &Node, new: &Node) -> Node {
        let mut base = base.clone();
        self.merge_into(&mut base, new.clone());
        base
    }

    /// Merges as [`merge`](Strategy::merge) does, but without a copy of either: many parts use no more
    /// memory than their own sizes.
    pub fn merge_into(&self, base: &mut Node, new: Node) {
        let is_for = |rule: &&Rule| match rule {
            Rule::Dict(_) => matches!(base.value, Value::Map(_)),
            Rule::List { .. } => matches!(base.value, Value::Seq(_)),
            Rule::Text { .. } => matches!(base.value, Value::Str(_)),
        };
        // Numbers, booleans and null are not merged: the old value is kept.
        let Some(rule) = self.0.iter().find(is_for) else { return };
        match (&mut base.value, rule, new.value) {
            (Value::Map(old), Rule::Dict(dict), Value::Map(new)) => self.merge_maps(old, new, *dict),
            (Value::Seq(old), Rule::List { method: Method::Replace, into }, Value::Seq(new)) => {
                for (old, new) in old.iter_mut().zip(new) {
                    self.replace_or_merge(old, new, *into);
                }
            }
            (Value::Seq(old), Rule::List { method: Method::Append, .. }, Value::Seq(new)) => old.extend(new),
            (Value::Seq(old), Rule::List { method: Method::Prepend, .. }, Value::Seq(new)) => {
                old.splice(0..0, new);
            }
            (Value::Str(old), Rule::Text { append: true }, Value::Str(new)) => old.push_str(&new),
            (_, Rule::List { method: Method::Replace, .. } | Rule::Text { append: false }, value) => {
                *base = Node { value, at: new.at };
            }
            _ => {}
        }
    }

    fn replace_or_merge(&self, old: &mut Node, new: Node, into: Recurse) {
        if into.covers(&new) {
            self.merge_into(old, new);
        } else {
            *old = new;
        }
    }

    fn merge_maps(&self, old: &mut Map, new: Map, dict: DictRule) {
        for (key, value) in new {
            match old.get_node_mut(&key) {
                None => {
                    old.insert(key, value);
                }
                Some(_) if dict.delete && value.is_null() => {
                    old.remove_node(&key);
                }
                Some(there) if dict.replace => *there = value,
                Some(there) if dict.into.covers(&value) => self.merge_into(there, value),
                Some(_) => {}
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The name is not shown: it may be a secret, as any value.
fn unknown_merger(name: &str) -> String {
    format!("unknown merger; expected dict, list or str{}", suggestion(name, ["dict", "list", "str"]))
}

/// Parses the options of a merger. In the text form an option is set if its name occurs anywhere in the text, even
/// within another word, because upstream searches for it.
enum Options<'a> {
    Words(Vec<&'a str>),
    Text(&'a str),
}

impl<'a> Options<'a> {
    fn unknown(&self) -> impl Iterator<Item = &'a str> {
        let words = match self {
            Options::Words(words) => &words[..],
            Options::Text(_) => &[],
        };
        words.iter().copied().filter(|word| !word.is_empty() && !OPTIONS.contains(word))
    }
}

/// The maximum number of options of one merger that are reported.
const MAX_UNKNOWN: usize = 10;

fn unknown_option(at: &Position, key: &str, option: &str) -> Finding {
    let message = format!("unknown option{}", suggestion(option, OPTIONS));
    Finding { kind: FindingKind::Invalid, at: at.clone(), key: key.into(), message }
}

fn strings(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().filter_map(Node::as_str).collect()
}

fn rule(name: &str, options: &Options<'_>) -> Option<Rule> {
    let has = |option: &str| match options {
        Options::Words(words) => words.contains(&option),
        Options::Text(text) => text.contains(option),
    };
    let lists = has("recurse_array") || has("recurse_list");
    let texts = has("recurse_str");
    Some(match name.strip_prefix("m_").unwrap_or(name) {
        "dict" => Rule::Dict(DictRule {
            replace: has("replace"),
            delete: has("allow_delete"),
            into: Recurse { maps: true, lists, texts },
        }),
        "list" => Rule::List {
            method: if has("append") {
                Method::Append
            } else if has("prepend") {
                Method::Prepend
            } else if has("no_replace") && !has("replace") {
                Method::Keep
            } else {
                Method::Replace
            },
            into: Recurse { maps: has("recurse_dict"), lists, texts },
        },
        "str" => Rule::Text { append: has("append") },
        _ => return None,
    })
}

/// Merges configurations, highest precedence first. A configuration that names a strategy is merged by it; an invalid
/// name is reported, and the default is used.
pub fn merge_stack<'a>(stack: impl IntoIterator<Item = &'a Node>, findings: &mut Findings) -> Node {
    let default = Strategy::first_wins();
    let mut merged = Node::from(Map::new());
    for layer in stack {
        let Some(map) = layer.as_map() else { continue };
        if map.get("merge_how").is_none() && map.get("merge_type").is_none() {
            default.merge_into(&mut merged, layer.clone());
            continue;
        }
        let (mut layer, mut unknown) = (layer.clone(), Vec::new());
        let strategy = Strategy::take_from(&mut layer, &mut unknown).unwrap_or_else(|bad| {
            findings.add(FindingKind::Invalid, &bad.at, "merge_how", bad.message);
            None
        });
        unknown.into_iter().for_each(|finding| findings.push(finding));
        strategy.as_ref().unwrap_or(&default).merge_into(&mut merged, layer);
    }
    merged
}
