//! For tests: values that the table takes, of each type and form at least one.

use config::{Key, Map, Node, Value};

use super::format::Format;
use super::table::{Field, Fields, Of, Table, Type};

pub fn of_field(table: &Table, field: &Field) -> Vec<Node> {
    let default = Some(field.default).filter(|text| !text.is_empty());
    let default = Key { name: field.name, aliases: &[], default, deprecated: None }.default();
    of_types(table, &field.types).into_iter().chain(default).collect()
}

fn of_types(table: &Table, types: &[Type]) -> Vec<Node> {
    types.iter().flat_map(|kind| of_type(table, kind)).collect()
}

fn of_type(table: &Table, kind: &Type) -> Vec<Node> {
    let value = match &kind.of {
        Of::Any => return vec!["x".into(), 7.into()],
        Of::Text => text(kind.format).into(),
        Of::Int | Of::Number => kind.least.unwrap_or(7).into(),
        Of::Bool => return vec![true.into(), false.into()],
        Of::Null => Node::null(),
        Of::Word(word) => (*word).into(),
        Of::Flag(flag) => (*flag).into(),
        Of::This(number) => Value::Int(*number).into(),
        Of::List(None) => vec![Node::from("x")].into(),
        Of::List(Some(items)) => {
            let many = usize::try_from(kind.least.unwrap_or(1)).unwrap();
            return of_types(table, items).into_iter().map(|item| vec![item; many].into()).collect();
        }
        Of::Map(fields) => return maps(table, fields, kind),
        Of::Named(name) => {
            return table
                .named(name)
                .iter()
                .flat_map(|one| match &one.of {
                    Of::Map(fields) if kind.needs.is_some() => maps(table, fields, kind),
                    _ => of_type(table, one),
                })
                .collect();
        }
    };
    vec![value]
}

/// A map of what must be there, and the same with each of the other keys.
fn maps(table: &Table, fields: &Fields, kind: &Type) -> Vec<Node> {
    let needs: Vec<&str> = kind.needs.into_iter().flat_map(|keys| keys.split(',')).collect();
    let mut base = Map::new();
    let mut put = |field: &Field| base.insert(field.name, of_field(table, field).swap_remove(0));
    for field in fields.keys.iter().filter(|f| f.required || needs.first() == Some(&f.name)) {
        put(field);
    }
    let mut all = Vec::new();
    if i64::try_from(base.len()).unwrap() >= kind.least.unwrap_or(0) {
        all.push(Node::from(base.clone()));
    }
    for field in fields.keys.iter().chain(fields.others.as_deref()) {
        let name = if field.name.starts_with('<') { text(field.format) } else { field.name };
        for value in of_field(table, field) {
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

fn text(format: Option<Format>) -> &'static str {
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
