//! Holds a document against a table: what is wrong, unknown or deprecated in it, with its place. A finding says
//! what was expected and what kind of thing was found, never the value.

use std::collections::BTreeSet;

use config::{Finding, FindingKind, Findings, Map, Node, Position, Value, did_you_mean};

use super::table::{Field, Fields, Of, Old, Table, Type};

/// Checks a cloud-config. `source` is asked what is no key of one: where that key belongs instead.
pub fn cloud_config(root: &Node, belongs: &dyn Fn(&str) -> Option<&'static str>) -> Findings {
    let table = Table::cloud_config();
    let mut check = Check { table: &table, found: Vec::new(), path: String::new() };
    let Value::Map(map) = &root.value else {
        check.type_error(root, "a map of keys");
        return check.into_findings();
    };
    for (key, value) in map.iter() {
        let name = key.scalar_text().unwrap_or_default();
        match table.top().find(|f| f.name == name) {
            Some(field) => check.field(field, &name, key, value),
            None => {
                let known = table.top().filter(|f| f.old.is_none()).map(|f| f.name);
                let message = match belongs(&name) {
                    Some(place) => format!("not a key of cloud-config; {place}"),
                    None => unknown(&name, known),
                };
                check.nested(&name, |c| c.add_finding(FindingKind::Unknown, &key.at, message));
            }
        }
    }
    check.into_findings()
}

/// Checks a network configuration, with or without its `network:` around it.
pub fn network(root: &Node) -> Findings {
    let table = Table::network();
    let mut check = Check { table: &table, found: Vec::new(), path: String::new() };
    if root.as_map().is_none() {
        check.type_error(root, "a map of keys");
        return check.into_findings();
    }
    match root.get("network") {
        Some(inner) => {
            for (key, _) in root.as_map().into_iter().flat_map(Map::iter) {
                let name = key.scalar_text().unwrap_or_default();
                if name != "network" {
                    let message = unknown(&name, ["network"].into_iter());
                    check.nested(&name, |c| c.add_finding(FindingKind::Unknown, &key.at, message));
                }
            }
            check.nested("network", |c| c.version(inner));
        }
        None => check.version(root),
    }
    check.into_findings()
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match did_you_mean(name, known) {
        Some(near) => format!("unknown key; did you mean '{near}'?"),
        None => "unknown key".to_string(),
    }
}

struct Check<'t> {
    table: &'t Table,
    found: Vec<Finding>,
    path: String,
}

impl Check<'_> {
    fn into_findings(self) -> Findings {
        let mut findings = Findings::default();
        self.found.into_iter().for_each(|f| findings.push(f));
        findings
    }

    fn add_finding(&mut self, kind: FindingKind, at: &Position, message: String) {
        self.found.push(Finding { kind, at: at.clone(), key: self.path.clone(), message });
    }

    fn type_error(&mut self, node: &Node, wanted: &str) {
        self.add_finding(FindingKind::Invalid, &node.at, format!("expected {wanted}, found {}", node.kind()));
    }

    fn nested(&mut self, name: &str, act: impl FnOnce(&mut Self)) {
        let old = self.path.len();
        if old > 0 && !name.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(name);
        act(self);
        self.path.truncate(old);
    }

    fn version(&mut self, node: &Node) {
        let table = self.table;
        match node.get("version").map(|v| v.value.clone()) {
            Some(Value::Int(1)) => self.value(table.named("version_1"), node),
            Some(Value::Int(2)) => self.value(table.named("version_2"), node),
            Some(_) => self.nested("version", |c| {
                let at = node.get("version").map(|v| v.at.clone()).unwrap_or_default();
                c.add_finding(FindingKind::Invalid, &at, "expected 1 or 2".to_string());
            }),
            None if node.as_map().is_some() => {
                self.nested("version", |c| {
                    c.add_finding(FindingKind::Invalid, &node.at, "required, but missing".to_string());
                });
            }
            None => self.type_error(node, "a map of keys"),
        }
    }

    fn field(&mut self, field: &Field, name: &str, key: &Node, value: &Node) {
        self.nested(name, |c| {
            if let Some(old) = field.old {
                // A key is replaced by another key, which gets quotes; longer advice does not.
                c.add_finding(FindingKind::Deprecated, &key.at, old.text(!old.instead.contains(' ')));
            }
            c.value(&field.types, value);
        });
    }

    /// The value is fine when one of the types fits; else it is told by the one that was most likely meant.
    fn value(&mut self, types: &[Type], node: &Node) {
        let mut best: Option<(usize, usize, Vec<Finding>)> = None;
        let mut wanted = Vec::new();
        for kind in self.flat(types) {
            if !self.is_of(kind, node) {
                wanted.push(kind);
                continue;
            }
            let mut trial = Check { table: self.table, found: Vec::new(), path: self.path.clone() };
            trial.content(kind, node);
            let bad = trial.found.iter().filter(|f| f.kind != FindingKind::Deprecated).count();
            if let Some(old) = kind.old.filter(|_| bad == 0) {
                trial.add_finding(FindingKind::Deprecated, &node.at, old.text(false));
            }
            // What is not bad, and then what is not deprecated, is taken.
            let score = match bad {
                0 => (0, trial.found.len()),
                _ => (1 + self.strangeness(kind, node), bad),
            };
            if best.as_ref().is_none_or(|(a, b, _)| score < (*a, *b)) {
                best = Some((score.0, score.1, trial.found));
            }
        }
        match best {
            Some((_, _, found)) => self.found.extend(found),
            None => {
                let message = expected(&wanted, node);
                self.add_finding(FindingKind::Invalid, &node.at, message);
            }
        }
    }

    /// The types with definitions in place of their names.
    fn flat<'a>(&'a self, types: &'a [Type]) -> Vec<&'a Type> {
        let mut all = Vec::new();
        for kind in types {
            match kind.of {
                Of::Named(name) if kind.old.is_none() && kind.needs.is_none() => {
                    all.extend(self.flat(self.table.named(name)))
                }
                _ => all.push(kind),
            }
        }
        all
    }

    /// Whether the value is of that kind at all, whatever is in it.
    fn is_of(&self, kind: &Type, node: &Node) -> bool {
        match (&kind.of, &node.value) {
            (Of::Any, _)
            | (Of::Null, Value::Null)
            | (Of::Bool, Value::Bool(_))
            | (Of::Int, Value::Int(_))
            | (Of::Number, Value::Int(_) | Value::Float(_))
            | (Of::List(_), Value::Seq(_))
            | (Of::Map(_), Value::Map(_))
            | (Of::Text, Value::Str(_) | Value::Bytes(_)) => true,
            (Of::Word(word), Value::Str(text)) => text == word,
            (Of::Flag(flag), Value::Bool(b)) => b == flag,
            (Of::This(number), Value::Int(n)) => n == number,
            (Of::Named(name), _) => self.table.named(name).iter().any(|t| self.is_of(t, node)),
            _ => false,
        }
    }

    /// In how many fixed words (`type: bond`) the map is not of that kind.
    fn strangeness(&self, kind: &Type, node: &Node) -> usize {
        let Of::Map(fields) = &kind.of else { return 0 };
        let fixed = |t: &Type| matches!(t.of, Of::Word(_) | Of::This(_));
        let differs = |f: &&Field| {
            f.types.iter().all(fixed)
                && node.get(f.name).is_none_or(|v| !f.types.iter().any(|t| self.is_of(t, v)))
        };
        fields.keys.iter().filter(|f| f.required).filter(differs).count()
    }

    fn content(&mut self, kind: &Type, node: &Node) {
        let table = self.table;
        if let (Some(keys), Value::Map(map)) = (kind.needs, &node.value) {
            let list = || keys.split(',').collect::<Vec<_>>().join(" or ");
            match keys.split(',').filter(|key| map.get(key).is_some()).count() {
                0 => self.add_finding(
                    FindingKind::Invalid,
                    &node.at,
                    format!("expected the key {}, which is missing", list()),
                ),
                2.. if kind.only_one => {
                    self.add_finding(
                        FindingKind::Invalid,
                        &node.at,
                        format!("expected only one of the keys {}", list()),
                    );
                }
                _ => {}
            }
        }
        match (&kind.of, &node.value) {
            (Of::Named(name), _) => self.value(table.named(name), node),
            (Of::Text, Value::Str(text)) => {
                if let Some(format) = kind.format.filter(|f| !f.fits(text)) {
                    self.add_finding(FindingKind::Invalid, &node.at, format!("expected {}", format.wanted()));
                }
            }
            (Of::Int | Of::Number, value) => {
                let number = match value {
                    Value::Int(n) => *n as f64,
                    Value::Float(f) => *f,
                    _ => return,
                };
                let low = kind.least.is_some_and(|least| number < least as f64);
                if low || kind.most.is_some_and(|most| number > most as f64) {
                    self.add_finding(FindingKind::Invalid, &node.at, format!("expected {}", range(kind, "")));
                }
            }
            (Of::List(items), Value::Seq(list)) => {
                self.length(kind, node, list.len(), "items");
                if kind.unique {
                    let mut seen = BTreeSet::new();
                    for item in list {
                        if !seen.insert(item.to_json().to_string()) {
                            self.add_finding(
                                FindingKind::Invalid,
                                &item.at,
                                "expected each item once".to_string(),
                            );
                        }
                    }
                }
                for (i, item) in list.iter().enumerate() {
                    if let Some(items) = items {
                        self.nested(&format!("[{i}]"), |c| c.value(items, item));
                    }
                }
            }
            (Of::Map(fields), Value::Map(map)) => {
                self.length(kind, node, map.len(), "keys");
                if kind.once {
                    self.once(fields, node, map);
                }
                self.map(fields, node, map);
            }
            _ => {}
        }
    }

    fn length(&mut self, kind: &Type, node: &Node, length: usize, what: &str) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let low = kind.least.is_some_and(|least| length < least);
        if low || kind.most.is_some_and(|most| length > most) {
            let what =
                if kind.least == Some(1) && kind.most.is_none() { what.trim_end_matches('s') } else { what };
            self.add_finding(FindingKind::Invalid, &node.at, format!("expected {}{what}", range(kind, " ")));
        }
    }

    fn once(&mut self, fields: &Fields, node: &Node, map: &Map) {
        for (name, instead) in fields.spelled_twice() {
            if map.get(name).is_some() && map.get(instead).is_some() {
                let message = format!("expected only one of the keys {instead} or {name}");
                self.add_finding(FindingKind::Invalid, &node.at, message);
            }
        }
    }

    fn map(&mut self, fields: &Fields, node: &Node, map: &Map) {
        for (key, value) in map.iter() {
            let name = key.scalar_text().unwrap_or_default();
            let other = fields.others.as_deref().filter(|o| o.format.is_none_or(|f| f.fits(&name)));
            match (fields.get(&name), other) {
                (Some(field), _) => self.field(field, &name, key, value),
                (None, Some(other)) => self.nested(&name, |c| c.value(&other.types, value)),
                (None, None) if fields.is_open => {}
                (None, None) => {
                    let message = match fields.others.as_deref().and_then(|o| o.format) {
                        Some(format) => format!("unknown key; expected {}", format.wanted()),
                        None => {
                            let known = fields.keys.iter().filter(|f| f.old.is_none()).map(|f| f.name);
                            unknown(&name, known)
                        }
                    };
                    self.nested(&name, |c| c.add_finding(FindingKind::Unknown, &key.at, message));
                }
            }
        }
        for field in fields.keys.iter().filter(|f| f.required && map.get(f.name).is_none()) {
            self.nested(field.name, |c| {
                c.add_finding(FindingKind::Invalid, &node.at, "required, but missing".to_string())
            });
        }
    }
}

impl Old {
    /// Returns "Deprecated in version 22.2. Use **b** instead.": upstream's form, which scripts look for.
    pub fn text(self, is_key: bool) -> String {
        match (self.instead, is_key) {
            ("", _) => format!("Deprecated in version {}.", self.since),
            (instead, false) if instead.contains("belongs") => {
                format!("Deprecated in version {}: {instead}", self.since)
            }
            (instead, true) => format!("Deprecated in version {}. Use **{instead}** instead.", self.since),
            (instead, false) => format!("Deprecated in version {}. Use {instead} instead.", self.since),
        }
    }
}

fn range(kind: &Type, end: &str) -> String {
    match (kind.least, kind.most) {
        (Some(a), Some(b)) if a == b => format!("{a}{end}"),
        (Some(a), Some(b)) => format!("from {a} to {b}{end}"),
        (Some(a), None) => format!("at least {a}{end}"),
        (None, Some(b)) => format!("at most {b}{end}"),
        (None, None) => String::new(),
    }
}

/// "expected text or a list, found a map", and the word that was most likely meant.
fn expected(types: &[&Type], node: &Node) -> String {
    let names: Vec<String> = types.iter().filter(|t| t.old.is_none()).map(|t| t.name()).collect();
    let mut unique: Vec<&str> = Vec::new();
    for name in &names {
        if !unique.contains(&name.as_str()) {
            unique.push(name);
        }
    }
    let list = match unique.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => (*last).to_string(),
        None => "nothing".to_string(),
    };
    let words = types.iter().filter_map(|t| if let Of::Word(word) = t.of { Some(word) } else { None });
    let is_word = types.iter().any(|t| matches!(t.of, Of::Word(_)));
    match node.as_str().filter(|_| is_word) {
        Some(text) => match did_you_mean(text, words) {
            Some(near) => format!("expected {list}; did you mean '{near}'?"),
            None => format!("expected {list}, found another text"),
        },
        None => format!("expected {list}, found {}", node.kind()),
    }
}

impl Type {
    /// For messages.
    pub fn name(&self) -> String {
        match &self.of {
            Of::Any => "anything".into(),
            Of::Text => self.format.map_or("text", super::format::Format::wanted).into(),
            Of::Int => "an integer".into(),
            Of::Number => "a number".into(),
            Of::Bool => "true or false".into(),
            Of::Null => "nothing (null)".into(),
            Of::List(_) => "a list".into(),
            Of::Map(_) | Of::Named(_) => "a map".into(),
            Of::Word(word) => format!("'{word}'"),
            Of::Flag(flag) => flag.to_string(),
            Of::This(number) => number.to_string(),
        }
    }
}
