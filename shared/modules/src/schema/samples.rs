//! For tests: values that the table takes, of each type and form at least one.

use config::{Key, Map, Node, Value};

use super::format::Format;
use super::table::{BaseType, Field, MapFields, Table, Type};

pub fn field_samples(table: &Table, field: &Field) -> Vec<Node> {
    let default = Some(field.default).filter(|text| !text.is_empty());
    let default = Key { name: field.name, aliases: &[], default, deprecated: None }.default();
    types_samples(table, &field.types).into_iter().chain(default).collect()
}

fn types_samples(table: &Table, types: &[Type]) -> Vec<Node> {
    types.iter().flat_map(|kind| type_samples(table, kind)).collect()
}

fn type_samples(table: &Table, kind: &Type) -> Vec<Node> {
    let value = match &kind.base {
        BaseType::Any => return vec!["x".into(), 7.into()],
        BaseType::Text => text_sample(kind.format).into(),
        BaseType::Int | BaseType::Number => kind.min.unwrap_or(7).into(),
        BaseType::Bool => return vec![true.into(), false.into()],
        BaseType::Null => Node::null(),
        BaseType::StrConst(word) => (*word).into(),
        BaseType::BoolConst(flag) => (*flag).into(),
        BaseType::IntConst(number) => Value::Int(*number).into(),
        BaseType::List(None) => vec![Node::from("x")].into(),
        BaseType::List(Some(items)) => {
            let many = usize::try_from(kind.min.unwrap_or(1)).unwrap();
            return types_samples(table, items).into_iter().map(|item| vec![item; many].into()).collect();
        }
        BaseType::Map(fields) => return map_samples(table, fields, kind),
        BaseType::Ref(name) => {
            return table
                .definition(name)
                .iter()
                .flat_map(|one| match &one.base {
                    BaseType::Map(fields) if kind.needs.is_some() => map_samples(table, fields, kind),
                    _ => type_samples(table, one),
                })
                .collect();
        }
    };
    vec![value]
}

/// A map of what must be there, and the same with each of the other keys.
fn map_samples(table: &Table, fields: &MapFields, kind: &Type) -> Vec<Node> {
    let needs: Vec<&str> = kind.needs.into_iter().flat_map(|keys| keys.split(',')).collect();
    let mut base = Map::new();
    let mut put = |field: &Field| base.insert(field.name, field_samples(table, field).swap_remove(0));
    for field in fields.keys.iter().filter(|f| f.required || needs.first() == Some(&f.name)) {
        put(field);
    }
    let mut all = Vec::new();
    if i64::try_from(base.len()).unwrap() >= kind.min.unwrap_or(0) {
        all.push(Node::from(base.clone()));
    }
    for field in fields.keys.iter().chain(fields.additional.as_deref()) {
        let name = if field.name.starts_with('<') { text_sample(field.format) } else { field.name };
        for value in field_samples(table, field) {
            // Of keys that exclude one another it is the only one.
            let others = base
                .iter()
                .filter(|(key, _)| !(needs.contains(&name) && key.as_str() == needs.first().copied()));
            let mut map: Map = others.map(|(key, value)| (key.clone(), value.clone())).collect();
            map.insert(name, value);
            all.push(map.into());
        }
    }
    all
}

fn text_sample(format: Option<Format>) -> &'static str {
    match format {
        None => "x",
        Some(Format::Date) => "2031-12-24",
        Some(Format::Size) => "512M",
        Some(Format::Minutes) => "+5",
        Some(Format::Digits) => "12",
        Some(Format::Tags) => "a,b",
        Some(Format::Pair) => "u:p",
        Some(Format::Interface) => "eth0",
        Some(Format::Module) => "ssh",
        Some(Format::HostKey) => "rsa_private",
        Some(Format::Name) => "n",
        Some(Format::Uri) => "https://example.com/",
    }
}
