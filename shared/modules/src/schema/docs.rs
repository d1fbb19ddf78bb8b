//! What a person reads of the tables: a module's keys with types, defaults and remarks.

use super::table::{BaseType, Field, Section, Table, Type};

/// The names of all modules, here and upstream.
pub fn module_names() -> Vec<&'static str> {
    Table::cloud_config().sections.iter().map(|s| s.name).filter(|n| *n != "base").collect()
}

/// The documentation of a module, `cc_` in front and dashes or not, or of `all`.
pub fn module_docs(name: &str) -> Option<String> {
    let table = Table::cloud_config();
    let wanted = name.replace('-', "_");
    let wanted = wanted.strip_prefix("cc_").unwrap_or(&wanted);
    let mut text = String::new();
    for section in table.sections.iter().filter(|s| wanted == "all" || s.name == wanted) {
        if !text.is_empty() {
            text.push('\n');
        }
        section_text(&table, section, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

fn section_text(table: &Table, section: &Section, text: &mut String) {
    text.push_str(section.name);
    text.push('\n');
    text.extend(std::iter::repeat_n('-', section.name.len()));
    text.push('\n');
    if !section.about.is_empty() {
        text.push_str(section.about);
        text.push('\n');
    }
    for field in &section.keys {
        field_text(table, field, 0, text);
    }
}

fn field_text(table: &Table, field: &Field, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth + 1);
    *text += &format!("{indent}{}: {}", field.name, types_text(table, &field.types));
    if field.required {
        *text += ", required";
    }
    if !field.default.is_empty() {
        *text += &format!(", usually {}", field.default);
    }
    if let Some(old) = field.deprecated {
        *text += &format!(", {}", old.text(!old.replacement.contains(' ')));
    }
    text.push('\n');
    if !field.doc.is_empty() {
        *text += &format!("{indent}    {}\n", field.doc);
    }
    // What an old spelling holds is what the new one holds.
    if field.deprecated.is_none() {
        nested_text(table, &field.types, depth, text);
    }
}

fn nested_text(table: &Table, types: &[Type], depth: usize, text: &mut String) {
    for kind in types.iter().filter(|t| t.deprecated.is_none()) {
        match &kind.base {
            BaseType::Map(fields) => {
                for field in fields.keys.iter().chain(fields.additional.as_deref()) {
                    field_text(table, field, depth + 1, text);
                }
            }
            BaseType::List(Some(items)) => nested_text(table, items, depth, text),
            BaseType::Ref(name) => nested_text(table, table.definition(name), depth, text),
            _ => {}
        }
    }
}

fn types_text(table: &Table, types: &[Type]) -> String {
    let mut names: Vec<String> = Vec::new();
    for kind in types.iter().filter(|t| t.deprecated.is_none()) {
        let name = match &kind.base {
            BaseType::List(Some(items)) => format!("list of {}", parenthesized(&types_text(table, items))),
            BaseType::List(None) => "list".to_string(),
            BaseType::Map(_) => "map".to_string(),
            BaseType::Ref(name) => types_text(table, table.definition(name)),
            BaseType::StrConst(word) => (*word).to_string(),
            BaseType::Bool => "true or false".to_string(),
            BaseType::Null => "null".to_string(),
            BaseType::Int => "integer".to_string(),
            BaseType::Number => "number".to_string(),
            _ => kind.name(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" | ")
}

fn parenthesized(text: &str) -> String {
    if text.contains(" | ") { format!("({text})") } else { text.to_string() }
}
