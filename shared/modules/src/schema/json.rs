//! The tables as JSON schema (draft 7), for editors. `packaging/schema` holds what comes out of here.

use serde_json::{Map, Value, json};

use super::format::Format;
use super::table::{Field, Fields, Of, Table, Type};

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
        schema["default"] = default_of(field);
    }
    if let Some(old) = field.old {
        let text = old.text(!old.instead.contains(' '));
        schema["deprecated"] = true.into();
        schema["description"] = text.into();
    }
    schema
}

fn default_of(field: &Field) -> Value {
    let is = |wanted: fn(&Of) -> bool| field.types.iter().any(|t| wanted(&t.of));
    match field.default {
        "true" if is(|o| matches!(o, Of::Bool | Of::Flag(_))) => true.into(),
        "false" if is(|o| matches!(o, Of::Bool | Of::Flag(_))) => false.into(),
        text if is(|o| matches!(o, Of::Int | Of::Number)) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => text.into(),
        },
        text => text.into(),
    }
}

fn types_schema(types: &[Type]) -> Value {
    let words: Vec<Value> = types.iter().filter_map(fixed).collect();
    if words.len() == types.len() {
        return json!({ "enum": words });
    }
    let mut schemas: Vec<Value> = types.iter().filter(|t| fixed(t).is_none()).map(type_schema).collect();
    if !words.is_empty() {
        schemas.push(json!({ "enum": words }));
    }
    // What is not to be written any more stays in the list: it is accepted.
    for (kind, schema) in types.iter().filter(|t| fixed(t).is_none()).zip(&mut schemas) {
        if let Some(old) = kind.old {
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
fn fixed(kind: &Type) -> Option<Value> {
    match kind.of {
        Of::Word(word) => Some(word.into()),
        Of::Flag(flag) => Some(flag.into()),
        Of::This(number) => i64::try_from(number).ok().map(Into::into),
        _ => None,
    }
}

fn type_schema(kind: &Type) -> Value {
    let mut schema = match &kind.of {
        Of::Any | Of::Word(_) | Of::Flag(_) | Of::This(_) => json!({}),
        Of::Text => json!({ "type": "string" }),
        Of::Int => json!({ "type": "integer" }),
        Of::Number => json!({ "type": "number" }),
        Of::Bool => json!({ "type": "boolean" }),
        Of::Null => json!({ "type": "null" }),
        Of::List(None) => json!({ "type": "array" }),
        Of::List(Some(items)) => json!({ "type": "array", "items": types_schema(items) }),
        Of::Map(fields) if kind.once => {
            let mut schema = map_schema(fields);
            let both = |(old, new)| json!({ "not": { "required": [new, old] } });
            schema["allOf"] = fields.spelled_twice().map(both).collect();
            schema
        }
        Of::Map(fields) => map_schema(fields),
        Of::Named(name) => json!({ "$ref": format!("#/definitions/{name}") }),
    };
    if let Some(keys) = kind.needs {
        let one = |key| json!({ "required": [key] });
        let needs: Vec<Value> = keys.split(',').map(one).collect();
        if schema.get("$ref").is_some() {
            schema = json!({ "allOf": [schema] });
        }
        schema[if kind.only_one { "oneOf" } else { "anyOf" }] = needs.into();
    }
    let (least, most) = match kind.of {
        Of::List(_) => ("minItems", "maxItems"),
        Of::Map(_) => ("minProperties", "maxProperties"),
        _ => ("minimum", "maximum"),
    };
    for (name, bound) in [(least, kind.least), (most, kind.most)] {
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
            let names = super::names().into_iter().chain(["ubuntu_advantage"]);
            let both = names.flat_map(|n| [n.to_string(), n.replace('_', "-")]);
            schema["enum"] = both.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        }
        Some(format) => schema["pattern"] = format.pattern().into(),
        None => {}
    }
    schema
}

fn map_schema(fields: &Fields) -> Value {
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
    let others = fields.others.as_deref();
    match others {
        Some(other) => {
            let below = field_schema(other);
            match other.format {
                Some(format) => {
                    schema["patternProperties"] = json!({ format.pattern(): below });
                    schema["additionalProperties"] = false.into();
                }
                None => schema["additionalProperties"] = below,
            }
        }
        None if fields.is_open => {}
        None => schema["additionalProperties"] = false.into(),
    }
    schema
}
