//! The tables of keys: `keys.txt` for a cloud-config, `network.txt` for a network configuration, as values. Both
//! are part of the program, so a line that cannot be read is a mistake of ours, which the tests find.
//!
//! A line is `name[*] [!SINCE(INSTEAD)]: TYPES [= DEFAULT] [-- REMARK]`; `*` says that the key must be there, `!` that
//! it is deprecated. Keys of a map stand below it, indented by two blanks; `<name>` stands for any key, `...` says that
//! others are let through. `[module] text` begins a module, `def name: TYPES` names types for use as `@name`.
//! TYPES are joined by `|`: `any str int num bool null list map`, `"a word"`, a number, `true`, `false`, `[TYPES]` for
//! a list of these, each with limits in braces (`{1..6 unique}`, `{date}`, of a map `{needs:this,or-that}`, or `one:` of them) and its own
//! `!SINCE(INSTEAD)`.

use std::collections::BTreeMap;

use super::format::Format;

/// One of the types that a value may have.
#[derive(Debug, Clone, Default)]
pub struct Type {
    pub of: Of,
    /// Bounds of a number, of a list's or map's length.
    pub least: Option<i64>,
    pub most: Option<i64>,
    pub unique: bool,
    /// A map has to have one of these keys.
    pub needs: Option<&'static str>,
    /// Of those, just one.
    pub only_one: bool,
    pub format: Option<Format>,
    pub old: Option<Old>,
}

#[derive(Debug, Clone, Default)]
pub enum Of {
    #[default]
    Any,
    Text,
    Int,
    Number,
    Bool,
    Null,
    /// `None`: of anything.
    List(Option<Vec<Type>>),
    Map(Fields),
    Word(&'static str),
    Flag(bool),
    This(i128),
    /// The name of a definition.
    Named(&'static str),
}

/// Since when something is deprecated, and what to use instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Old {
    pub since: &'static str,
    pub instead: &'static str,
}

/// The keys of a map.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub keys: Vec<Field>,
    /// What keys of the user's choice hold: their placeholder, format and types.
    pub others: Option<Box<Field>>,
    /// Keys that are not here are none of our business.
    pub is_open: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Field {
    pub name: &'static str,
    pub format: Option<Format>,
    pub required: bool,
    pub old: Option<Old>,
    pub types: Vec<Type>,
    pub default: &'static str,
    pub doc: &'static str,
}

/// A module and its top-level keys.
#[derive(Debug, Clone, Default)]
pub struct Section {
    pub name: &'static str,
    pub about: &'static str,
    pub keys: Vec<Field>,
}

#[derive(Debug, Clone, Default)]
pub struct Table {
    pub sections: Vec<Section>,
    pub definitions: BTreeMap<&'static str, Vec<Type>>,
}

impl Table {
    /// What a cloud-config may hold.
    pub fn cloud_config() -> Table {
        parse(include_str!("keys.txt")).unwrap_or_default()
    }

    /// What a network configuration may hold.
    pub fn network() -> Table {
        parse(include_str!("network.txt")).unwrap_or_default()
    }

    /// Every top-level key.
    pub fn top(&self) -> impl Iterator<Item = &Field> {
        self.sections.iter().flat_map(|s| &s.keys)
    }

    pub fn named(&self, name: &str) -> &[Type] {
        self.definitions.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.keys.iter().find(|k| k.name == name)
    }
}

/// Reads a table. An error is the line's number and what is wrong with it.
pub fn parse(text: &'static str) -> Result<Table, String> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let body = line.trim_start();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let depth = (line.len() - body.len()) / 2;
        lines.push(Line { number: i + 1, depth, body: body.trim_end() });
    }
    let mut reader = Lines { lines, at: 0 };
    let mut table = Table::default();
    while let Some(line) = reader.peek() {
        if let Some(rest) = line.body.strip_prefix('[') {
            reader.at += 1;
            let (name, about) = rest.split_once(']').ok_or_else(|| line.bad("no ]"))?;
            table.sections.push(Section { name, about: about.trim(), keys: Vec::new() });
        } else if let Some(rest) = line.body.strip_prefix("def ") {
            let (name, types) = rest.split_once(": ").ok_or_else(|| line.bad("no colon"))?;
            reader.at += 1;
            let fields = reader.fields(1)?;
            table.definitions.insert(name, types_of(types, fields).map_err(|e| line.bad(&e))?);
        } else {
            let field = reader.field(0)?;
            let section = table.sections.last_mut().ok_or_else(|| line.bad("before the first module"))?;
            section.keys.push(field);
        }
    }
    Ok(table)
}

#[derive(Clone, Copy)]
struct Line {
    number: usize,
    depth: usize,
    body: &'static str,
}

impl Line {
    fn bad(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

struct Lines {
    lines: Vec<Line>,
    at: usize,
}

impl Lines {
    fn peek(&self) -> Option<Line> {
        self.lines.get(self.at).copied()
    }

    /// The lines from here that are that deep.
    fn fields(&mut self, depth: usize) -> Result<Fields, String> {
        let mut fields = Fields::default();
        while let Some(line) = self.peek().filter(|l| l.depth >= depth) {
            if line.body == "..." {
                self.at += 1;
                fields.is_open = true;
            } else if line.body.starts_with('<') {
                fields.others = Some(Box::new(self.field(depth)?));
            } else {
                fields.keys.push(self.field(depth)?);
            }
        }
        Ok(fields)
    }

    fn field(&mut self, depth: usize) -> Result<Field, String> {
        let line = self.peek().ok_or("the end")?;
        self.at += 1;
        let (head, rest) = line.body.split_once(": ").ok_or_else(|| line.bad("no colon"))?;
        let (rest, doc) = rest.split_once(" -- ").unwrap_or((rest, ""));
        let (types, default) = rest.split_once(" = ").unwrap_or((rest, ""));
        let (head, old) = match head.split_once(" !") {
            Some((head, old)) => (head, Some(old_of(old))),
            None => (head, None),
        };
        let (name, format) = match head.strip_suffix('}').and_then(|h| h.split_once('{')) {
            Some((name, word)) => (name, Some(Format::named(word).ok_or_else(|| line.bad("no format"))?)),
            None => (head, None),
        };
        let (name, required) = match name.strip_suffix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let below = self.fields(depth + 1)?;
        let types = types_of(types, below).map_err(|e| line.bad(&e))?;
        Ok(Field { name, format, required, old, types, default, doc })
    }
}

fn old_of(text: &'static str) -> Old {
    let (since, instead) = text.split_once('(').unwrap_or((text, ""));
    Old { since, instead: instead.trim_end_matches(')') }
}

fn types_of(text: &'static str, fields: Fields) -> Result<Vec<Type>, String> {
    let mut rest = text.trim();
    let types = alternatives(&mut rest, &fields)?;
    if rest.is_empty() { Ok(types) } else { Err(format!("cannot read '{rest}'")) }
}

fn alternatives(rest: &mut &'static str, fields: &Fields) -> Result<Vec<Type>, String> {
    let mut types = vec![one(rest, fields)?];
    while let Some(next) = rest.trim_start().strip_prefix('|') {
        *rest = next.trim_start();
        types.push(one(rest, fields)?);
    }
    Ok(types)
}

fn one(rest: &mut &'static str, fields: &Fields) -> Result<Type, String> {
    let mut kind = Type::default();
    if let Some(inner) = rest.strip_prefix('[') {
        *rest = inner;
        let items = alternatives(rest, fields)?;
        *rest = rest.trim_start().strip_prefix(']').ok_or("no ]")?;
        kind.of = Of::List(Some(items));
    } else if let Some(inner) = rest.strip_prefix('"') {
        let (word, after) = inner.split_once('"').ok_or("no closing quote")?;
        *rest = after;
        kind.of = Of::Word(word);
    } else {
        let end = rest.find(|c: char| " |]{".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        *rest = after;
        kind.of = match word {
            "any" => Of::Any,
            "str" => Of::Text,
            "int" => Of::Int,
            "num" => Of::Number,
            "bool" => Of::Bool,
            "null" => Of::Null,
            "list" => Of::List(None),
            "map" => Of::Map(fields.clone()),
            "true" => Of::Flag(true),
            "false" => Of::Flag(false),
            _ => match (word.strip_prefix('@'), word.parse()) {
                (Some(name), _) => Of::Named(name),
                (_, Ok(number)) => Of::This(number),
                _ => return Err(format!("no type '{word}'")),
            },
        };
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let (limits, after) = inner.split_once('}').ok_or("no closing brace")?;
        *rest = after;
        for word in limits.split_whitespace() {
            if word == "unique" {
                kind.unique = true;
            } else if let Some(keys) = word.strip_prefix("needs:") {
                kind.needs = Some(keys);
            } else if let Some(keys) = word.strip_prefix("one:") {
                (kind.needs, kind.only_one) = (Some(keys), true);
            } else if let Some((least, most)) = word.split_once("..") {
                (kind.least, kind.most) = (least.parse().ok(), most.parse().ok());
            } else {
                kind.format = Some(Format::named(word).ok_or_else(|| format!("no limit '{word}'"))?);
            }
        }
    }
    if let Some(inner) = rest.strip_prefix(" !") {
        let end = inner.find(')').ok_or("no closing parenthesis")?;
        kind.old = Some(old_of(&inner[..end]));
        *rest = &inner[end + 1..];
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_can_be_read() {
        let cloud = parse(include_str!("keys.txt")).unwrap();
        let network = parse(include_str!("network.txt")).unwrap();
        assert!(cloud.top().count() >= 100, "{}", cloud.top().count());
        for table in [cloud, network] {
            let mut used = Vec::new();
            let fields = table.top().flat_map(|f| &f.types);
            fields.chain(table.definitions.values().flatten()).for_each(|t| names(t, &mut used));
            for name in &used {
                assert!(table.definitions.contains_key(name), "{name}");
            }
            for name in table.definitions.keys().filter(|n| !n.starts_with("version_")) {
                assert!(used.contains(name), "{name} is defined and never used");
            }
        }
    }

    fn names(kind: &Type, found: &mut Vec<&'static str>) {
        match &kind.of {
            Of::Named(name) => found.push(name),
            Of::List(Some(items)) => items.iter().for_each(|t| names(t, found)),
            Of::Map(fields) => {
                let all = fields.keys.iter().chain(fields.others.as_deref());
                all.flat_map(|f| &f.types).for_each(|t| names(t, found));
            }
            _ => {}
        }
    }

    #[test]
    fn a_line() {
        let table = parse(
            "[m] About.\na* !22.1(b): [str{date} | 3]{1..2 unique} !23.4(c) | map = x -- Doc.\n  b: \"w\"\n  ...\n",
        );
        let field = &table.unwrap().sections[0].keys[0];
        assert_eq!((field.name, field.required, field.default, field.doc), ("a", true, "x", "Doc."));
        let parsed = parse("[m]\na*: nonsense").unwrap_err();
        assert_eq!(parsed, "line 2: no type 'nonsense'");
    }
}
