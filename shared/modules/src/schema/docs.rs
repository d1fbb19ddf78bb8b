//! What a person reads of the tables: a module's keys with types, defaults and remarks.

use super::table::{Field, Of, Section, Table, Type};

/// The names of all modules, here and upstream.
pub fn names() -> Vec<&'static str> {
    Table::cloud_config().sections.iter().map(|s| s.name).filter(|n| *n != "base").collect()
}

/// The documentation of a module, `cc_` in front and dashes or not, or of `all`.
pub fn docs(name: &str) -> Option<String> {
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
    if let Some(old) = field.old {
        *text += &format!(", {}", old.text(!old.instead.contains(' ')));
    }
    text.push('\n');
    if !field.doc.is_empty() {
        *text += &format!("{indent}    {}\n", field.doc);
    }
    // What an old spelling holds is what the new one holds.
    if field.old.is_none() {
        below(table, &field.types, depth, text);
    }
}

fn below(table: &Table, types: &[Type], depth: usize, text: &mut String) {
    for kind in types.iter().filter(|t| t.old.is_none()) {
        match &kind.of {
            Of::Map(fields) => {
                for field in fields.keys.iter().chain(fields.others.as_deref()) {
                    field_text(table, field, depth + 1, text);
                }
            }
            Of::List(Some(items)) => below(table, items, depth, text),
            Of::Named(name) => below(table, table.named(name), depth, text),
            _ => {}
        }
    }
}

fn types_text(table: &Table, types: &[Type]) -> String {
    let mut names: Vec<String> = Vec::new();
    for kind in types.iter().filter(|t| t.old.is_none()) {
        let name = match &kind.of {
            Of::List(Some(items)) => format!("list of {}", in_list(&types_text(table, items))),
            Of::List(None) => "list".to_string(),
            Of::Map(_) => "map".to_string(),
            Of::Named(name) => types_text(table, table.named(name)),
            Of::Word(word) => (*word).to_string(),
            Of::Bool => "true or false".to_string(),
            Of::Null => "null".to_string(),
            Of::Int => "integer".to_string(),
            Of::Number => "number".to_string(),
            _ => kind.name(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" | ")
}

fn in_list(text: &str) -> String {
    if text.contains(" | ") { format!("({text})") } else { text.to_string() }
}
