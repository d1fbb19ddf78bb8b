//! The tables of keys as values: of a cloud-config what the modules declare, with `keys.txt` for the rest; of a network
//! configuration `network.txt`. All of it is part of the program, so a line that cannot be read is a mistake of ours,
//! which the tests find.

use std::collections::BTreeMap;

use config::{KeySchema, Schema};

use super::format::Format;
use super::grammar;
use crate::{Docs, MODULE_DOCS};

/// One of the types that a value may have.
#[derive(Debug, Clone, Default)]
pub struct Type {
    pub base: BaseType,
    /// Bounds of a number, of a list's or map's length.
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub unique: bool,
    /// A map has to have one of these keys.
    pub needs: Option<&'static str>,
    /// Of those, just one.
    pub only_one: bool,
    /// A key and its deprecated spelling exclude one another.
    pub once: bool,
    pub format: Option<Format>,
    pub deprecated: Option<Deprecation>,
}

#[derive(Debug, Clone, Default)]
pub enum BaseType {
    #[default]
    Any,
    Text,
    Int,
    Number,
    Bool,
    Null,
    /// `None`: of anything.
    List(Option<Vec<Type>>),
    Map(MapFields),
    StrConst(&'static str),
    BoolConst(bool),
    IntConst(i128),
    /// The name of a definition.
    Ref(&'static str),
}

/// Since when something is deprecated, and what to use instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecation {
    pub since: &'static str,
    pub replacement: &'static str,
}

/// The keys of a map.
#[derive(Debug, Clone, Default)]
pub struct MapFields {
    pub keys: Vec<Field>,
    /// What keys of the user's choice hold: their placeholder, format and types.
    pub additional: Option<Box<Field>>,
    /// Keys that are not here are none of our business.
    pub allows_unknown: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Field {
    pub name: &'static str,
    pub format: Option<Format>,
    pub required: bool,
    pub deprecated: Option<Deprecation>,
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
    pub definitions: Definitions,
}

pub type Definitions = BTreeMap<&'static str, Vec<Type>>;

impl Table {
    /// What a cloud-config may hold.
    pub fn cloud_config() -> Table {
        Table::assemble().unwrap_or_default()
    }

    /// What a network configuration may hold.
    pub fn network() -> Table {
        grammar::parse_table(include_str!("network.txt")).unwrap_or_default()
    }

    /// The base first, then the modules by their names.
    pub(super) fn assemble() -> Result<Table, String> {
        let mut table = grammar::parse_table(include_str!("keys.txt"))?;
        for (name, docs) in MODULE_DOCS {
            let (about, rows) = match docs {
                Docs::Keys(rows) => ("", *rows),
                Docs::NoKeys(about) => (*about, &[][..]),
            };
            let keys = fields_of_rows(rows, &mut table.definitions)?;
            table.sections.push(Section { name, about, keys });
        }
        table.sections.sort_by_key(|section| (section.name != "base", section.name));
        Ok(table)
    }

    /// Every top-level key.
    pub fn top_level(&self) -> impl Iterator<Item = &Field> {
        self.sections.iter().flat_map(|s| &s.keys)
    }

    pub fn definition(&self, name: &str) -> &[Type] {
        self.definitions.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

impl MapFields {
    /// Deprecated spellings, and the keys that take their place.
    pub fn deprecated_spellings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.keys
            .iter()
            .filter_map(|f| Some((f.name, f.deprecated?.replacement)))
            .filter(|(_, instead)| self.get(instead).is_some())
    }

    pub fn get(&self, name: &str) -> Option<&Field> {
        self.keys.iter().find(|k| k.name == name)
    }
}

/// The keys that a struct declares, each with its deprecated spellings behind it.
fn fields_of_rows(rows: &'static [KeySchema], definitions: &mut Definitions) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    for row in rows.iter().filter(|row| !row.line.is_empty()) {
        let own = types_of_shape(&row.schema, definitions)?;
        let field = Field { required: row.required, ..grammar::parse_field(row.line, &own)? };
        let old = row.aliases.iter().filter(|(_, since)| !since.is_empty()).map(|(name, since)| Field {
            name,
            deprecated: Some(Deprecation { since, replacement: field.name }),
            types: field.types.clone(),
            ..Field::default()
        });
        let old: Vec<Field> = old.collect();
        fields.push(field);
        fields.extend(old);
    }
    Ok(fields)
}

/// The types of a shape; its definitions go to the others.
fn types_of_shape(schema: &Schema, definitions: &mut Definitions) -> Result<Vec<Type>, String> {
    match schema {
        Schema::Types(text, of) => {
            let mut own = Vec::new();
            for (i, schema) in of.iter().enumerate() {
                let types = types_of_shape(schema, definitions)?;
                if i == 0 {
                    own = types;
                }
            }
            grammar::parse_types(text, &own, definitions)
        }
        Schema::Map(rows) => Ok(vec![map_type(fields_of_rows(rows, definitions)?)]),
        Schema::Named(text, rows) => {
            let end = text.find('{').unwrap_or(text.len());
            let (name, limits) = text.split_at(end);
            if !definitions.contains_key(name) {
                let mut one = map_type(fields_of_rows(rows, definitions)?);
                grammar::parse_limits(&mut one, limits)?;
                definitions.insert(name, vec![one]);
            }
            Ok(vec![Type { base: BaseType::Ref(name), ..Type::default() }])
        }
    }
}

fn map_type(keys: Vec<Field>) -> Type {
    Type { base: BaseType::Map(MapFields { keys, ..MapFields::default() }), ..Type::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_parse() {
        let cloud = Table::assemble().unwrap();
        let network = grammar::parse_table(include_str!("network.txt")).unwrap();
        assert!(cloud.top_level().count() >= 100, "{}", cloud.top_level().count());
        for table in [cloud, network] {
            let mut used = Vec::new();
            let fields = table.top_level().flat_map(|f| &f.types);
            fields.chain(table.definitions.values().flatten()).for_each(|t| collect_refs(t, &mut used));
            for name in &used {
                assert!(table.definitions.contains_key(name), "{name}");
            }
            for name in table.definitions.keys().filter(|n| !n.starts_with("version_")) {
                assert!(used.contains(name), "{name} is defined and never used");
            }
        }
    }

    fn collect_refs(kind: &Type, found: &mut Vec<&'static str>) {
        match &kind.base {
            BaseType::Ref(name) => found.push(name),
            BaseType::List(Some(items)) => items.iter().for_each(|t| collect_refs(t, found)),
            BaseType::Map(fields) => {
                let all = fields.keys.iter().chain(fields.additional.as_deref());
                all.flat_map(|f| &f.types).for_each(|t| collect_refs(t, found));
            }
            _ => {}
        }
    }
}
