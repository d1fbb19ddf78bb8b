//! What a person reads of the tables: a module's keys with types, defaults and remarks. Remarks are those of the
//! module's typed declaration, where this program has the module, else the table's.

use config::{Key, Shape};

use super::table::{Field, Of, Section, Table, Type};

macro_rules! declared {
    (@row $module:ident) => {
        crate::$module::MODULE
    };
    (@row $module:ident $row:ident) => {
        crate::$module::$row
    };
    ($($module:ident $(:: $row:ident)?),* $(,)?) => {
        &[$((declared!(@row $module $($row)?).name, declared!(@row $module $($row)?).keys)),*]
    };
}

/// The declarations of modules without the modules: a program that prints documentation holds no module.
pub(super) const DECLARED: &[(&str, &[&[Key]])] = declared![
    bootcmd,
    ca_certs,
    final_message,
    growpart,
    install_hotplug,
    keys_to_console,
    locale,
    mounts,
    ntp,
    package_update_upgrade_install,
    phone_home,
    power_state_change,
    resizefs,
    runcmd,
    scripts::PER_BOOT,
    scripts::PER_INSTANCE,
    scripts::PER_ONCE,
    scripts::USER,
    scripts_vendor,
    seed_random,
    set_hostname,
    set_passwords,
    ssh,
    ssh_authkey_fingerprints,
    timezone,
    update_etc_hosts,
    update_hostname,
    users_groups,
    write_files,
    write_files_deferred,
];

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
        field_text(table, field, 0, &mut vec![field.name], text);
    }
}

fn field_text(table: &Table, field: &Field, depth: usize, path: &mut Vec<&'static str>, text: &mut String) {
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
    let doc = doc_of(path).unwrap_or(field.doc);
    if !doc.is_empty() {
        *text += &format!("{indent}    {doc}\n");
    }
    // What an old spelling holds is what the new one holds.
    if field.old.is_none() {
        below(table, &field.types, depth, path, text);
    }
}

fn below(table: &Table, types: &[Type], depth: usize, path: &mut Vec<&'static str>, text: &mut String) {
    for kind in types.iter().filter(|t| t.old.is_none()) {
        match &kind.of {
            Of::Map(fields) => {
                for field in fields.keys.iter().chain(fields.others.as_deref()) {
                    path.push(field.name);
                    field_text(table, field, depth + 1, path, text);
                    path.pop();
                }
            }
            Of::List(Some(items)) => below(table, items, depth, path, text),
            Of::Named(name) => below(table, table.named(name), depth, path, text),
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

/// The remark of a module's own declaration.
pub(super) fn doc_of(path: &[&str]) -> Option<&'static str> {
    let (first, rest) = path.split_first()?;
    let key = DECLARED.iter().flat_map(|(_, tables)| tables.iter().copied().flatten());
    let mut candidates: Vec<&Key> = key.filter(|k| k.name == *first).collect();
    for name in rest {
        candidates =
            candidates.iter().flat_map(|k| keys_below(&k.shape)).filter(|k| k.name == *name).collect();
    }
    candidates.iter().map(|k| k.doc.trim()).find(|doc| !doc.is_empty())
}

/// The keys of the maps that a shape may be or hold.
pub(super) fn keys_below(shape: &Shape) -> Vec<&'static Key> {
    match shape {
        Shape::Map(keys) => keys.iter().collect(),
        Shape::List(inner) => keys_below(inner),
        Shape::Either(shapes) => shapes.iter().flat_map(keys_below).collect(),
        _ => Vec::new(),
    }
}
