//! The tables as JSON schema (draft 7), for editors. The result is in `packaging/schema`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use config::schema::{BaseType, DefaultValue, Field, Format, Type};

use super::check::deprecated_spellings;
use super::tables::{self, module_names, top_level};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Where the schemas are published, for their `$id`.
const ID: &str = concat!(env!("CARGO_PKG_HOMEPAGE"), "/schema");

/// Returns the JSON schema of a cloud-config.
pub fn cloud_config_schema() -> Value {
    let mut properties = Map::new();
    let mut definitions = Map::new();
    for field in top_level() {
        properties.insert(field.name.into(), field_schema(field));
        add_definitions(field.types, &mut definitions);
    }
    json!({
        "$schema": DRAFT,
        "$id": format!("{ID}/cloud-config.json"),
        "title": "cloud-config",
        "description": "Configuration of a machine at its first boot, as cloud-init reads it from user-data and vendor-data.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "definitions": definitions,
    })
}

/// Returns the JSON schema of a network configuration.
pub fn network_schema() -> Value {
    let mut definitions = Map::new();
    for version in [&tables::network_v1::VERSION_1, &tables::network_v2::VERSION_2] {
        add_definitions(&[config::schema::reference(version)], &mut definitions);
    }
    let either = json!([{ "$ref": "#/definitions/version_1" }, { "$ref": "#/definitions/version_2" }]);
    json!({
        "$schema": DRAFT,
        "$id": format!("{ID}/network-config.json"),
        "title": "network-config",
        "description": "Network configuration, version 1 or 2, as cloud-init reads it from a datasource.",
        "anyOf": [
            { "$ref": "#/definitions/version_1" },
            { "$ref": "#/definitions/version_2" },
            {
                "type": "object",
                "properties": { "network": { "anyOf": either } },
                "required": ["network"],
                "additionalProperties": false,
            },
        ],
        "definitions": definitions,
    })
}

/// Adds the definitions that types refer to, directly and in their keys and items.
fn add_definitions(types: &[Type], definitions: &mut Map<String, Value>) {
    for kind in types {
        match kind.base {
            BaseType::Ref(definition) if !definitions.contains_key(definition.name) => {
                definitions.insert(definition.name.into(), types_schema(definition.types));
                add_definitions(definition.types, definitions);
            }
            BaseType::List(Some(items)) => add_definitions(items, definitions),
            BaseType::Map(keys) => {
                keys.iter().chain(kind.additional).for_each(|f| add_definitions(f.types, definitions));
            }
            _ => {}
        }
    }
}

fn field_schema(field: &Field) -> Value {
    let mut schema = types_schema(field.types);
    // Keywords beside $ref are ignored in this draft.
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    if !field.doc.is_empty() {
        schema["description"] = field.doc.into();
    }
    if let Some(default) = field.default {
        schema["default"] = match *default {
            DefaultValue::Bool(flag) => flag.into(),
            DefaultValue::Int(number) => number.into(),
            DefaultValue::Str(text) => text.into(),
        };
    }
    if let Some(old) = field.deprecated {
        let text = old.text(!old.replacement.contains(' '));
        schema["deprecated"] = true.into();
        schema["description"] = text.into();
    }
    schema
}

fn types_schema(types: &[Type]) -> Value {
    let words: Vec<Value> = types.iter().filter_map(const_value).collect();
    if words.len() == types.len() {
        return json!({ "enum": words });
    }
    let mut schemas: Vec<Value> =
        types.iter().filter(|t| const_value(t).is_none()).map(type_schema).collect();
    if !words.is_empty() {
        schemas.push(json!({ "enum": words }));
    }
    // Deprecated values stay in the list, because they are accepted.
    for (kind, schema) in types.iter().filter(|t| const_value(t).is_none()).zip(&mut schemas) {
        if let Some(old) = kind.deprecated {
            schema["deprecated"] = true.into();
            schema["description"] = old.text(false).into();
        }
    }
    match schemas.len() {
        1 => schemas.remove(0),
        _ => json!({ "anyOf": schemas }),
    }
}

/// Returns the value of a type that has only one.
fn const_value(kind: &Type) -> Option<Value> {
    match kind.base {
        BaseType::StrConst(word) => Some(word.into()),
        BaseType::BoolConst(flag) => Some(flag.into()),
        BaseType::IntConst(number) => Some(number.into()),
        _ => None,
    }
}

fn type_schema(kind: &Type) -> Value {
    let mut schema = match kind.base {
        BaseType::Any | BaseType::StrConst(_) | BaseType::BoolConst(_) | BaseType::IntConst(_) => json!({}),
        BaseType::Str => json!({ "type": "string" }),
        BaseType::Int => json!({ "type": "integer" }),
        BaseType::Number => json!({ "type": "number" }),
        BaseType::Bool => json!({ "type": "boolean" }),
        BaseType::Null => json!({ "type": "null" }),
        BaseType::List(None) => json!({ "type": "array" }),
        BaseType::List(Some(items)) => json!({ "type": "array", "items": types_schema(items) }),
        BaseType::Map(keys) if kind.once => {
            let mut schema = map_schema(kind, keys);
            let both = |(old, new)| json!({ "not": { "required": [new, old] } });
            schema["allOf"] = deprecated_spellings(keys).map(both).collect();
            schema
        }
        BaseType::Map(keys) => map_schema(kind, keys),
        BaseType::Ref(definition) => json!({ "$ref": format!("#/definitions/{}", definition.name) }),
    };
    if let Some(needs) = kind.required_keys {
        let keys: Vec<Value> = needs.keys.iter().map(|key| json!({ "required": [key] })).collect();
        if schema.get("$ref").is_some() {
            schema = json!({ "allOf": [schema] });
        }
        schema[if needs.only_one { "oneOf" } else { "anyOf" }] = keys.into();
    }
    let (min, max) = match kind.base {
        BaseType::List(_) => ("minItems", "maxItems"),
        BaseType::Map(_) => ("minProperties", "maxProperties"),
        _ => ("minimum", "maximum"),
    };
    for (name, bound) in [(min, kind.min.map(i32::from)), (max, kind.max.map(i32::from))] {
        if let Some(bound) = bound {
            schema[name] = bound.into();
        }
    }
    if kind.unique {
        schema["uniqueItems"] = true.into();
    }
    match kind.format {
        Some(Format::Date) => schema["format"] = "date".into(),
        Some(Format::Uri) => schema["format"] = "uri".into(),
        Some(Format::Module) => {
            let names = module_names().into_iter().chain(["ubuntu_advantage"]);
            let both: BTreeSet<String> =
                sort::collect(names.flat_map(|n| [n.to_string(), n.replace('_', "-")]));
            schema["enum"] = both.into_iter().collect();
        }
        Some(format) => schema["pattern"] = format.pattern().into(),
        None => {}
    }
    schema
}

fn map_schema(kind: &Type, keys: &[Field]) -> Value {
    let mut schema = json!({ "type": "object" });
    let mut properties = Map::new();
    for field in keys {
        properties.insert(field.name.into(), field_schema(field));
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    let required: Vec<&str> = keys.iter().filter(|f| f.required).map(|f| f.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    match kind.additional {
        Some(other) => {
            let schema_of_value = field_schema(other);
            match other.format {
                Some(format) => {
                    schema["patternProperties"] = json!({ format.pattern(): schema_of_value });
                    schema["additionalProperties"] = false.into();
                }
                None => schema["additionalProperties"] = schema_of_value,
            }
        }
        None if kind.allows_unknown => {}
        None => schema["additionalProperties"] = false.into(),
    }
    schema
}
