//! Checks a document against a table: invalid, unknown and deprecated parts, with their positions. A finding has the
//! expectation and the kind of the value, never the value.

use std::collections::BTreeSet;

use config::{FindingKind, Findings, Map, Node, Reader, Value, entry_name, suggestion, unknown_key};

use config::schema::{BaseType, Field, Format, Type};

use super::tables::{self, is_module_name, top_level};

/// Checks a cloud-config. `where_key_belongs` names the place of a key that belongs to another configuration.
pub fn check_cloud_config(root: &Node, where_key_belongs: &dyn Fn(&str) -> Option<&'static str>) -> Findings {
    let mut reader = Reader::new();
    let Value::Map(map) = &root.value else {
        reader.report_type_error(root, "a map of keys");
        return reader.into_findings();
    };
    // Collected once, since a document may have thousands of keys.
    let fields: Vec<&Field> = top_level().collect();
    for (key, value) in map.iter() {
        let name = key.scalar_text().unwrap_or_default();
        match fields.iter().find(|f| f.name == name) {
            Some(field) => check_field(&mut reader, field, &name, key, value),
            None => {
                let known = fields.iter().filter(|f| f.deprecated.is_none()).map(|f| f.name);
                let (shown, message) = match where_key_belongs(&name) {
                    Some(place) => (name, format!("not a key of cloud-config; {place}")),
                    None => {
                        let shown = entry_name(key, value);
                        let message = unknown_key(&shown, known);
                        (shown, message)
                    }
                };
                reader.nested(&shown, |c| c.add_finding(FindingKind::Unknown, key, message));
            }
        }
    }
    reader.into_findings()
}

/// Checks a network configuration, with or without an enclosing `network:`.
pub fn check_network(root: &Node) -> Findings {
    let mut reader = Reader::new();
    if root.as_map().is_none() {
        reader.report_type_error(root, "a map of keys");
        return reader.into_findings();
    }
    match root.get("network") {
        Some(inner) => {
            for (key, value) in root.as_map().into_iter().flat_map(Map::iter) {
                if key.as_str() != Some("network") {
                    let shown = entry_name(key, value);
                    let message = unknown_key(&shown, ["network"]);
                    reader.nested(&shown, |c| c.add_finding(FindingKind::Unknown, key, message));
                }
            }
            reader.nested("network", |c| check_version(c, inner));
        }
        None => check_version(&mut reader, root),
    }
    reader.into_findings()
}

/// The sections by which a configuration without a version is one of version 2.
const V2_SECTIONS: [&str; 4] = ["ethernets", "bonds", "bridges", "vlans"];

fn check_version(reader: &mut Reader, node: &Node) {
    let is_set = |name: &&str| node.get(name).is_some_and(|section| !section.is_falsy());
    let version = match node.get("version") {
        Some(version) => version.scalar_text().map(|text| text.trim().to_string()),
        // As in netplan.
        None if V2_SECTIONS.iter().any(is_set) => Some("2".into()),
        None => node.get("config").and_then(Node::as_seq).map(|_| "1".into()),
    };
    let types = match version.as_deref() {
        Some("1") => Some((1, tables::network_v1::VERSION_1.types)),
        Some("2") => Some((2, tables::network_v2::VERSION_2.types)),
        _ => None,
    };
    match (types, node.get("version")) {
        (Some((number, types)), _) => {
            let mut node = node.clone();
            node.as_map_mut().and_then(|map| map.insert("version", number));
            check_value(reader, types, &node);
        }
        (None, Some(version)) => reader.nested("version", |c| {
            c.add_finding(FindingKind::Invalid, version, "expected 1 or 2");
        }),
        (None, None) if node.as_map().is_some() => {
            reader.nested("version", |c| {
                c.add_finding(FindingKind::Invalid, node, "required, but missing");
            });
        }
        (None, None) => reader.report_type_error(node, "a map of keys"),
    }
}

fn check_field(reader: &mut Reader, field: &Field, name: &str, key: &Node, value: &Node) {
    reader.nested(name, |c| {
        if let Some(old) = field.deprecated {
            // A key is replaced by another key, which gets quotes; longer advice does not.
            c.add_finding(FindingKind::Deprecated, key, old.text(!old.replacement.contains(' ')));
        }
        check_value(c, field.types, value);
    });
}

/// Accepts the value if it matches one of the types; otherwise reports the findings of the most similar type.
pub(super) fn check_value(reader: &mut Reader, types: &[Type], node: &Node) {
    let mut best: Option<(usize, usize, Findings)> = None;
    let mut wanted = Vec::new();
    for kind in expand(types) {
        if !matches_base(kind, node) {
            wanted.push(kind);
            continue;
        }
        let mut found = reader.trial(|reader| check_content(reader, kind, node));
        let bad = found.iter().filter(|f| f.kind != FindingKind::Deprecated).count();
        if let Some(old) = kind.deprecated.filter(|_| bad == 0) {
            found.extend(reader.trial(|r| r.add_finding(FindingKind::Deprecated, node, old.text(false))));
        }
        // A type without errors is preferred, then one without deprecations.
        let score = match bad {
            0 => (0, found.iter().count()),
            _ => (1 + mismatch_count(kind, node), bad),
        };
        if best.as_ref().is_none_or(|(a, b, _)| score < (*a, *b)) {
            best = Some((score.0, score.1, found));
        }
    }
    match best {
        // A string that is no word and of another form: all of them are named.
        Some((1.., ..)) if node.as_str().is_some() && expand(types).iter().any(|kind| is_word(kind)) => {
            let message = expected_message(&expand(types), node);
            reader.add_finding(FindingKind::Invalid, node, message);
        }
        // A map whose fixed word matches none of the types.
        Some((score, ..)) if score > 1 && report_wrong_word(reader, types, node) => {}
        Some((_, _, found)) => reader.add_findings(found),
        None => {
            let message = expected_message(&wanted, node);
            reader.add_finding(FindingKind::Invalid, node, message);
        }
    }
}

/// For maps that a fixed word distinguishes: reports an unknown word (`type: bogus`) with all known ones. Returns `false`
/// for other values.
fn report_wrong_word(reader: &mut Reader, types: &[Type], node: &Node) -> bool {
    let word_of = |kind: &Type| match kind.base {
        BaseType::Map(keys) => keys.iter().find(|f| f.types.iter().all(is_word)),
        _ => None,
    };
    let fields: Vec<&Field> = expand(types).into_iter().filter_map(word_of).collect();
    let [first, others @ ..] = &fields[..] else { return false };
    let words: Vec<&Type> = fields.iter().flat_map(|field| field.types).collect();
    match node.get(first.name) {
        Some(value) if !others.is_empty() && others.iter().all(|f| f.name == first.name) => {
            let message = expected_message(&words, value);
            reader.nested(first.name, |c| c.add_finding(FindingKind::Invalid, value, message));
            true
        }
        _ => false,
    }
}

fn is_word(kind: &Type) -> bool {
    matches!(kind.base, BaseType::StrConst(_))
}

/// Returns the types with names resolved to their definitions.
fn expand(types: &[Type]) -> Vec<&Type> {
    let mut all = Vec::new();
    for kind in types {
        match kind.base {
            BaseType::Ref(definition) if kind.deprecated.is_none() && kind.required_keys.is_none() => {
                all.extend(expand(definition.types))
            }
            _ => all.push(kind),
        }
    }
    all
}

/// Returns whether the value is of that kind; its content is not checked.
fn matches_base(kind: &Type, node: &Node) -> bool {
    match (&kind.base, &node.value) {
        (BaseType::Any, _)
        | (BaseType::Null, Value::Null)
        | (BaseType::Bool, Value::Bool(_))
        | (BaseType::Int, Value::Int(_))
        | (BaseType::Number, Value::Int(_) | Value::Float(_))
        | (BaseType::List(_), Value::Seq(_))
        | (BaseType::Map(_), Value::Map(_))
        | (BaseType::Str, Value::Str(_) | Value::Bytes(_)) => true,
        (BaseType::StrConst(word), Value::Str(text)) => text == word,
        (BaseType::BoolConst(flag), Value::Bool(b)) => b == flag,
        (BaseType::IntConst(number), Value::Int(n)) => *n == i128::from(*number),
        (BaseType::Ref(definition), _) => definition.types.iter().any(|t| matches_base(t, node)),
        _ => false,
    }
}

/// Returns the number of fixed words (`type: bond`) in which the map differs from that kind.
fn mismatch_count(kind: &Type, node: &Node) -> usize {
    let BaseType::Map(keys) = kind.base else { return 0 };
    let fixed = |t: &Type| matches!(t.base, BaseType::StrConst(_) | BaseType::IntConst(_));
    let differs = |f: &&Field| {
        f.types.iter().all(fixed)
            && node.get(f.name).map_or(f.required, |v| !f.types.iter().any(|t| matches_base(t, v)))
    };
    keys.iter().filter(differs).count()
}

fn check_content(reader: &mut Reader, kind: &Type, node: &Node) {
    if let (Some(needs), Value::Map(map)) = (kind.required_keys, &node.value) {
        let list = || needs.keys.join(" or ");
        match needs.keys.iter().filter(|key| map.get(key).is_some()).count() {
            0 => reader.add_finding(
                FindingKind::Invalid,
                node,
                format!("expected the key {}, which is missing", list()),
            ),
            2.. if needs.only_one => {
                reader.add_finding(
                    FindingKind::Invalid,
                    node,
                    format!("expected only one of the keys {}", list()),
                );
            }
            _ => {}
        }
    }
    match (&kind.base, &node.value) {
        (BaseType::Ref(definition), _) => check_value(reader, definition.types, node),
        (BaseType::Str, Value::Str(text)) => {
            if let Some(format) = kind.format.filter(|f| !matches_format(*f, text)) {
                let near = match format {
                    Format::Module => suggestion(&text.replace('-', "_"), tables::module_names()),
                    _ => String::new(),
                };
                let message = format!("expected {}{near}", format.description());
                reader.add_finding(FindingKind::Invalid, node, message);
            }
        }
        (BaseType::Int | BaseType::Number, value) => {
            let number = match value {
                Value::Int(n) => *n as f64,
                Value::Float(f) => *f,
                _ => return,
            };
            let low = kind.min.is_some_and(|min| number < f64::from(min));
            if low || kind.max.is_some_and(|max| number > f64::from(max)) {
                reader.add_finding(FindingKind::Invalid, node, format!("expected {}", range_text(kind, "")));
            }
        }
        (BaseType::List(items), Value::Seq(list)) => {
            check_length(reader, kind, node, list.len(), "items");
            if kind.unique {
                let mut seen = BTreeSet::new();
                for item in list {
                    if !seen.insert(item.to_json().to_string()) {
                        reader.add_finding(FindingKind::Invalid, item, "expected each item once");
                    }
                }
            }
            for (i, item) in list.iter().enumerate() {
                if let Some(items) = items {
                    reader.nested(&format!("[{i}]"), |c| check_value(c, items, item));
                }
            }
        }
        (BaseType::Map(keys), Value::Map(map)) => {
            check_length(reader, kind, node, map.len(), "keys");
            if kind.once {
                check_once(reader, keys, node, map);
            }
            check_map(reader, kind, keys, node, map);
        }
        _ => {}
    }
}

fn check_length(reader: &mut Reader, kind: &Type, node: &Node, length: usize, what: &str) {
    let length = i32::try_from(length).unwrap_or(i32::MAX);
    let low = kind.min.is_some_and(|min| length < i32::from(min));
    if low || kind.max.is_some_and(|max| length > i32::from(max)) {
        let what = if kind.min == Some(1) && kind.max.is_none() { what.trim_end_matches('s') } else { what };
        reader.add_finding(FindingKind::Invalid, node, format!("expected {}{what}", range_text(kind, " ")));
    }
}

fn check_once(reader: &mut Reader, keys: &[Field], node: &Node, map: &Map) {
    for (name, instead) in deprecated_spellings(keys) {
        if map.get(name).is_some() && map.get(instead).is_some() {
            let message = format!("expected only one of the keys {instead} or {name}");
            reader.add_finding(FindingKind::Invalid, node, message);
        }
    }
}

fn check_map(reader: &mut Reader, kind: &Type, keys: &[Field], node: &Node, map: &Map) {
    for (key, value) in map.iter() {
        let name = key.scalar_text().unwrap_or_default();
        let other = kind.additional.filter(|o| o.format.is_none_or(|f| matches_format(f, &name)));
        match (keys.iter().find(|f| f.name == name), other) {
            (Some(field), _) => check_field(reader, field, &name, key, value),
            (None, Some(other)) => {
                reader.nested(&entry_name(key, value), |c| check_value(c, other.types, value))
            }
            (None, None) if kind.allows_unknown => {}
            (None, None) => {
                let shown = entry_name(key, value);
                let message = match kind.additional.and_then(|o| o.format) {
                    Some(format) => format!("unknown key; expected {}", format.description()),
                    None => {
                        let known = keys.iter().filter(|f| f.deprecated.is_none()).map(|f| f.name);
                        unknown_key(&shown, known)
                    }
                };
                reader.nested(&shown, |c| c.add_finding(FindingKind::Unknown, key, message));
            }
        }
    }
    for field in keys.iter().filter(|f| f.required && map.get(f.name).is_none()) {
        reader.nested(field.name, |c| c.add_finding(FindingKind::Invalid, node, "required, but missing"));
    }
}

/// Returns the deprecated spellings in a map, each with the key that replaces it.
pub(super) fn deprecated_spellings(keys: &[Field]) -> impl Iterator<Item = (&'static str, &'static str)> {
    let old = keys.iter().filter_map(|field| Some((field.name, field.deprecated?.replacement)));
    old.filter(|(_, replacement)| keys.iter().any(|field| field.name == *replacement))
}

/// Returns whether text has a form. The names of modules are checked only here.
fn matches_format(format: Format, text: &str) -> bool {
    format.matches(text) && (format != Format::Module || is_module_name(text))
}

fn range_text(kind: &Type, end: &str) -> String {
    match (kind.min, kind.max) {
        (Some(a), Some(b)) if i32::from(a) == i32::from(b) => format!("{a}{end}"),
        (Some(a), Some(b)) => format!("from {a} to {b}{end}"),
        (Some(a), None) => format!("at least {a}{end}"),
        (None, Some(b)) => format!("at most {b}{end}"),
        (None, None) => String::new(),
    }
}

/// Returns "expected a string or a list, found a map", and the most similar word.
pub(super) fn expected_message(types: &[&Type], node: &Node) -> String {
    // A number in quotes is not named beside one without.
    let has_number = types.iter().any(|t| matches!(t.base, BaseType::Int | BaseType::Number));
    let is_named = |t: &&&Type| t.deprecated.is_none() && !(has_number && t.format == Some(Format::Digits));
    let unique = sort::distinct(types.iter().filter(is_named).map(|t| type_name(t)));
    let list = match unique.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => (*last).to_string(),
        None => "nothing".to_string(),
    };
    let words =
        types.iter().filter_map(|t| if let BaseType::StrConst(word) = t.base { Some(word) } else { None });
    match node.as_str().filter(|_| types.iter().any(|kind| is_word(kind))) {
        Some(text) => match &*suggestion(text, words) {
            "" => format!("expected {list}, found another string"),
            near => format!("expected {list}{near}"),
        },
        None => format!("expected {list}, found {}{}", node.kind(), quotes(types, node)),
    }
}

/// Returns the advice about a value that would be valid in quotes.
fn quotes(types: &[&Type], node: &Node) -> &'static str {
    let takes_text = types.iter().any(|t| t.deprecated.is_none() && matches!(t.base, BaseType::Str));
    let takes_switch =
        types.iter().any(|t| matches!(t.base, BaseType::StrConst("on" | "off" | "yes" | "no")));
    let has_blank = |(key, _): (&Node, &Node)| key.scalar_text().is_some_and(|text| text.contains(' '));
    match &node.value {
        Value::Bool(_) if takes_switch => "; quote it",
        _ if !takes_text => "",
        Value::Map(map) if map.iter().any(has_blank) => "; quote the command, because ': ' makes it a map",
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => "; quote it",
        _ => "",
    }
}

/// Returns the name of a type for messages.
pub(super) fn type_name(kind: &Type) -> String {
    match kind.base {
        BaseType::Any => "anything".into(),
        BaseType::Str => kind.format.map_or("a string", Format::description).into(),
        BaseType::Int => "an integer".into(),
        BaseType::Number => "a number".into(),
        BaseType::Bool => "true or false".into(),
        BaseType::Null => "null".into(),
        BaseType::List(_) => "a list".into(),
        BaseType::Map(_) | BaseType::Ref(_) => "a map".into(),
        BaseType::StrConst(word) => format!("'{word}'"),
        BaseType::BoolConst(flag) => flag.to_string(),
        BaseType::IntConst(number) => number.to_string(),
    }
}
