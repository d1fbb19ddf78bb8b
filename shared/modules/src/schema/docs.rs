//! The documentation of modules from the tables: keys with types, defaults and remarks.

use config::schema::{BaseType, Field, Type};

use super::Section;
use super::check::type_name;
use super::tables::sections;

/// Returns the documentation of a module (`cc_` and dashes are accepted), or of `all`.
pub fn module_docs(name: &str) -> Option<String> {
    let wanted = name.replace('-', "_");
    let wanted = wanted.strip_prefix("cc_").unwrap_or(&wanted);
    let mut text = String::new();
    for section in sections().into_iter().filter(|s| wanted == "all" || s.name == wanted) {
        if !text.is_empty() {
            text.push('\n');
        }
        section_text(section, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

fn section_text(section: &Section, text: &mut String) {
    text.push_str(section.name);
    text.push('\n');
    text.extend(std::iter::repeat_n('-', section.name.len()));
    text.push('\n');
    if !section.about.is_empty() {
        text.push_str(section.about);
        text.push('\n');
    }
    for field in section.keys {
        field_text(field, 0, text);
    }
}

fn field_text(field: &Field, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth + 1);
    *text += &format!("{indent}{}: {}", field.name, types_text(field.types));
    if field.required {
        *text += ", required";
    }
    if let Some(default) = field.default {
        *text += &format!(", default {default}");
    }
    if let Some(old) = field.deprecated {
        *text += &format!(", {}", old.text(!old.replacement.contains(' ')));
    }
    text.push('\n');
    if !field.doc.is_empty() {
        *text += &format!("{indent}    {}\n", field.doc);
    }
    // The value of a deprecated spelling is documented with the current one.
    if field.deprecated.is_none() {
        nested_text(field.types, depth, text);
    }
}

fn nested_text(types: &[Type], depth: usize, text: &mut String) {
    for kind in types.iter().filter(|t| t.deprecated.is_none()) {
        match kind.base {
            BaseType::Map(keys) => {
                for field in keys.iter().chain(kind.additional) {
                    field_text(field, depth + 1, text);
                }
            }
            BaseType::List(Some(items)) => nested_text(items, depth, text),
            BaseType::Ref(definition) => nested_text(definition.types, depth, text),
            _ => {}
        }
    }
}

/// Returns the types of a value, as a person writes them.
pub(super) fn types_text(types: &[Type]) -> String {
    let mut names: Vec<String> = Vec::new();
    for kind in types.iter().filter(|t| t.deprecated.is_none()) {
        let name = match kind.base {
            BaseType::List(Some(items)) => format!("list of {}", plural(&types_text(items))),
            BaseType::List(None) => "list".to_string(),
            BaseType::Map(_) => "map".to_string(),
            BaseType::Ref(definition) => types_text(definition.types),
            BaseType::StrConst(word) => word.to_string(),
            BaseType::Bool => "true or false".to_string(),
            BaseType::Null => "null".to_string(),
            BaseType::Str if kind.format.is_none() => "string".to_string(),
            BaseType::Int => "integer".to_string(),
            BaseType::Number => "number".to_string(),
            _ => type_name(kind),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" | ")
}

/// Returns the types of a list's items: "strings", "lists of strings", "(string | map)".
fn plural(text: &str) -> String {
    match text {
        "string" | "integer" | "number" | "map" | "list" => format!("{text}s"),
        "a URL" => "URLs".to_string(),
        _ if text.contains(" | ") => format!("({text})"),
        _ if text.starts_with("a string ") => text.replacen("a string ", "strings ", 1),
        _ => text.replacen("list of ", "lists of ", usize::from(text.starts_with("list of "))),
    }
}
