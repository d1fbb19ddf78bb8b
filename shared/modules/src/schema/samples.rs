//! For tests: values that the table accepts, at least one of each type and form.

use config::schema::{BaseType, Field, Format, Type};
use config::{Map, Node};

pub fn field_samples(field: &Field) -> Vec<Node> {
    let default = field.default.map(config::schema::DefaultValue::to_node);
    types_samples(field.types).into_iter().chain(default).collect()
}

fn types_samples(types: &[Type]) -> Vec<Node> {
    types.iter().flat_map(type_samples).collect()
}

fn type_samples(kind: &Type) -> Vec<Node> {
    let value = match kind.base {
        BaseType::Any => return vec!["x".into(), 7.into()],
        BaseType::Str => text_sample(kind.format).into(),
        BaseType::Int | BaseType::Number => i64::from(kind.min.unwrap_or(7)).into(),
        BaseType::Bool => return vec![true.into(), false.into()],
        BaseType::Null => Node::null(),
        BaseType::StrConst(word) => word.into(),
        BaseType::BoolConst(flag) => flag.into(),
        BaseType::IntConst(number) => number.into(),
        BaseType::List(None) => vec![Node::from("x")].into(),
        BaseType::List(Some(items)) => {
            let many = usize::try_from(kind.min.unwrap_or(1)).unwrap();
            return types_samples(items).into_iter().map(|item| vec![item; many].into()).collect();
        }
        BaseType::Map(keys) => return map_samples(keys, kind),
        BaseType::Ref(definition) => {
            // A requirement of the reference applies to the maps of the definition.
            let with_needs =
                |one: &Type| Type { required_keys: kind.required_keys.or(one.required_keys), ..*one };
            return definition.types.iter().flat_map(|one| type_samples(&with_needs(one))).collect();
        }
    };
    vec![value]
}

/// Returns a map of the required keys, and the same with each of the other keys.
fn map_samples(keys: &[Field], kind: &Type) -> Vec<Node> {
    let needs = kind.required_keys.map_or(&[][..], |needs| needs.keys);
    let mut base = Map::new();
    let mut put = |field: &Field| base.insert(field.name, field_samples(field).swap_remove(0));
    for field in keys.iter().filter(|f| f.required || needs.first() == Some(&f.name)) {
        put(field);
    }
    let mut all = Vec::new();
    if i8::try_from(base.len()).unwrap() >= kind.min.unwrap_or(0) {
        all.push(Node::from(base.clone()));
    }
    for field in keys.iter().chain(kind.additional) {
        let name = if field.name.starts_with('<') { text_sample(field.format) } else { field.name };
        for value in field_samples(field) {
            // Without the keys that this one excludes.
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
