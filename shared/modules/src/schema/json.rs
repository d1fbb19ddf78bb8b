//! The tables as JSON schema (draft 7), for editors. `packaging/schema` holds what comes out of here.

use serde_json::{Map, Value, json};

use super::format::Format;
use super::table::{BaseType, Field, MapFields, Table, Type};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

pub fn cloud_config_schema() -> Value {
    let table = Table::cloud_config();
    let mut properties = Map::new();
    for section in &table.sections {
        for field in &section.keys {
            properties.insert(field.name.into(), field_schema(field));
        }
    }
    json!({
        "$schema": DRAFT,
        "title": "cloud-config",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "definitions": definitions(&table),
    })
}

pub fn network_schema() -> Value {
    let table = Table::network();
    let either = json!([{ "$ref": "#/definitions/version_1" }, { "$ref": "#/definitions/version_2" }]);
    json!({
        "$schema": DRAFT,
        "title": "network-config",
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
        "definitions": definitions(&table),
    })
}

fn definitions(table: &Table) -> Map<String, Value> {
    table.definitions.iter().map(|(name, types)| ((*name).into(), types_schema(types))).collect()
}

fn field_schema(field: &Field) -> Value {
    let mut schema = types_schema(&field.types);
    // What stands beside $ref is ignored in this draft.
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    if !field.doc.is_empty() {
        schema["description"] = field.doc.into();
    }
    if !field.default.is_empty() {
        schema["default"] = default_value(field);
    }
    if let Some(old) = field.deprecated {
        let text = old.text(!old.replacement.contains(' '));
        schema["deprecated"] = true.into();
        schema["description"] = text.into();
    }
    schema
}

fn default_value(field: &Field) -> Value {
    let is = |wanted: fn(&BaseType) -> bool| field.types.iter().any(|t| wanted(&t.base));
    match field.default {
        "true" if is(|o| matches!(o, BaseType::Bool | BaseType::BoolConst(_))) => true.into(),
        "false" if is(|o| matches!(o, BaseType::Bool | BaseType::BoolConst(_))) => false.into(),
        text if is(|o| matches!(o, BaseType::Int | BaseType::Number)) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => text.into(),
        },
        text => text.into(),
    }
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
    // What is not to be written any more stays in the list: it is accepted.
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

/// The one value of a type that has only one.
fn const_value(kind: &Type) -> Option<Value> {
    match kind.base {
        BaseType::StrConst(word) => Some(word.into()),
        BaseType::BoolConst(flag) => Some(flag.into()),
        BaseType::IntConst(number) => i64::try_from(number).ok().map(Into::into),
        _ => None,
    }
}

fn type_schema(kind: &Type) -> Value {
    let mut schema = match &kind.base {
        BaseType::Any | BaseType::StrConst(_) | BaseType::BoolConst(_) | BaseType::IntConst(_) => json!({}),
        BaseType::Text => json!({ "type": "string" }),
        BaseType::Int => json!({ "type": "integer" }),
        BaseType::Number => json!({ "type": "number" }),
        BaseType::Bool => json!({ "type": "boolean" }),
        BaseType::Null => json!({ "type": "null" }),
        BaseType::List(None) => json!({ "type": "array" }),
        BaseType::List(Some(items)) => json!({ "type": "array", "items": types_schema(items) }),
        BaseType::Map(fields) if kind.once => {
            let mut schema = map_schema(fields);
            let both = |(old, new)| json!({ "not": { "required": [new, old] } });
            schema["allOf"] = fields.deprecated_spellings().map(both).collect();
            schema
        }
        BaseType::Map(fields) => map_schema(fields),
        BaseType::Ref(name) => json!({ "$ref": format!("#/definitions/{name}") }),
    };
    if let Some(keys) = kind.needs {
        let required = |key| json!({ "required": [key] });
        let needs: Vec<Value> = keys.split(',').map(required).collect();
        if schema.get("$ref").is_some() {
            schema = json!({ "allOf": [schema] });
        }
        schema[if kind.only_one { "oneOf" } else { "anyOf" }] = needs.into();
    }
    let (min, max) = match kind.base {
        BaseType::List(_) => ("minItems", "maxItems"),
        BaseType::Map(_) => ("minProperties", "maxProperties"),
        _ => ("minimum", "maximum"),
    };
    for (name, bound) in [(min, kind.min), (max, kind.max)] {
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
            let names = super::module_names().into_iter().chain(["ubuntu_advantage"]);
            let both = names.flat_map(|n| [n.to_string(), n.replace('_', "-")]);
            schema["enum"] = both.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        }
        Some(format) => schema["pattern"] = format.pattern().into(),
        None => {}
    }
    schema
}

fn map_schema(fields: &MapFields) -> Value {
    let mut schema = json!({ "type": "object" });
    let mut properties = Map::new();
    for field in &fields.keys {
        properties.insert(field.name.into(), field_schema(field));
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    let required: Vec<&str> = fields.keys.iter().filter(|f| f.required).map(|f| f.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    let others = fields.additional.as_deref();
    match others {
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
        None if fields.allows_unknown => {}
        None => schema["additionalProperties"] = false.into(),
    }
    schema
}
