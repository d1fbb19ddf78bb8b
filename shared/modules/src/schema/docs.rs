//! The documentation of modules from the tables: keys with types, defaults and remarks.

use config::schema::{BaseType, Field, Type};
use config::{Node, Value, did_you_mean, yaml};

use super::Section;
use super::check::type_name;
use super::tables::{self, sections};

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

/// The examples of docs/examples, each behind its header.
const EXAMPLES: &str = include_str!(concat!(env!("OUT_DIR"), "/examples.yaml"));
const HEADER: &str = "#cloud-config\n";

/// Keys of which the module of the top-level key is not the one, or not the only one, that uses them.
const OTHER_STAGES: [(&str, &str); 4] = [
    (
        "runcmd",
        "Module runcmd writes a script in the config stage, once-per-instance; module scripts_user runs it in the final stage.",
    ),
    ("vendor_data.disabled_handlers", "The network stage itself reads it, before vendor-data."),
    ("vendor_data.enabled", "The network stage itself reads it, before vendor-data."),
    (
        "write_files.defer",
        "Module write_files_deferred writes such a file in the final stage, once-per-instance.",
    ),
];

/// Returns the documentation of a key by its dotted path, such as `users.sudo`: types, default, meaning, the keys below it, the
/// module that reads it, when that runs, an example, and its anchor in the book. Indices (`users[0].sudo`, `users.0.sudo`) are ignored.
///
/// # Errors
///
/// Fails with the path of the most similar key, if there is one.
pub fn key_docs(path: &str) -> Result<String, Option<String>> {
    let names: Vec<&str> = path.split('.').map(|name| name.split('[').next().unwrap_or_default()).collect();
    let (mut place, mut found, mut steps) = (String::new(), Vec::new(), Vec::<&str>::new());
    let mut keys: Vec<&'static Field> = tables::top_level().collect();
    for (i, name) in names.iter().enumerate() {
        let is_index = i > 0 && name.bytes().all(|b| b.is_ascii_digit());
        if is_index && found.iter().any(|field: &&Field| has_list(field.types)) {
            continue;
        }
        let (named, other): (Vec<&Field>, Vec<&Field>) =
            keys.iter().copied().partition(|field| !is_any(field));
        let mut fields: Vec<&Field> = named.iter().copied().filter(|field| field.name == *name).collect();
        if fields.is_empty() {
            fields.extend(other.first());
        }
        let Some(field) = fields.first() else {
            // A user's own name may have dots: `apt.sources.docker.list.source`.
            if i + 1 < names.len() && steps.last().is_some_and(|step| step.starts_with('<')) {
                continue;
            }
            let near = did_you_mean(name, named.iter().map(|field| field.name));
            return Err(near.map(|near| config::join_key(&place, near)));
        };
        place = config::join_key(&place, name);
        steps.push(field.name);
        keys = Vec::new();
        fields.iter().for_each(|field| keys_below(field.types, &mut keys));
        found = fields;
    }
    let Some(first) = steps.first() else { return Err(None) };
    let key = steps.join(".");
    let mut text = format!("{key}\n{}\n", "-".repeat(key.len()));
    // Maps of several kinds may have a key of the same name.
    found.iter().for_each(|field| field_text(field, 0, &mut text));
    if let Some(section) = sections().into_iter().find(|s| s.keys.iter().any(|key| key.name == *first)) {
        let other = OTHER_STAGES.iter().find(|(path, _)| *path == key);
        text += &match (other, section.schedule) {
            (Some((_, other)), _) => format!("\n{other}\n"),
            (None, None) => "\nThe boot itself reads it.\n".to_string(),
            (None, Some((list, frequency))) => {
                let stage = match list {
                    "cloud_init_modules" => "in the network stage",
                    "cloud_config_modules" => "in the config stage",
                    "cloud_final_modules" => "in the final stage",
                    _ => "only if a module list names it",
                };
                format!("\nModule {}, which runs {stage}, {}.\n", section.name, frequency.as_str())
            }
        };
    }
    if let Some(example) = example(&steps) {
        text += "\nExample:\n";
        example.lines().for_each(|line| text += &format!("  {line}\n"));
    }
    Ok(text)
}

/// Returns the book's page with the anchor of a key, from the text of [`key_docs`].
pub fn entry(docs: &str) -> Option<String> {
    let key = docs.lines().next()?.replace(['<', '>'], "");
    Some(format!("docs/reference/cloud-config.html#{key}"))
}

/// Returns the paths of all keys that are not deprecated, each below its parent.
pub fn key_paths() -> Vec<String> {
    fn add(path: &str, field: &Field, all: &mut Vec<String>) {
        if field.deprecated.is_some() {
            return;
        }
        let path = if path.is_empty() { field.name.to_string() } else { format!("{path}.{}", field.name) };
        let mut below = Vec::new();
        keys_below(field.types, &mut below);
        all.push(path.clone());
        below.into_iter().for_each(|field| add(&path, field, all));
    }
    let mut all = Vec::new();
    tables::top_level().for_each(|field| add("", field, &mut all));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|path: &String| seen.insert(path.clone()));
    all
}

fn has_list(types: &[Type]) -> bool {
    types.iter().any(|kind| match kind.base {
        BaseType::List(_) => true,
        BaseType::Ref(definition) => has_list(definition.types),
        _ => false,
    })
}

/// Returns whether a key stands for any name.
fn is_any(field: &Field) -> bool {
    field.name.starts_with('<')
}

/// Calls `visit` for the keys of maps of these types, also inside lists.
fn for_each_key(types: &'static [Type], visit: &mut dyn FnMut(&'static Field)) {
    for kind in types.iter().filter(|kind| kind.deprecated.is_none()) {
        match kind.base {
            BaseType::Map(fields) => fields.iter().chain(kind.additional).for_each(&mut *visit),
            BaseType::List(Some(items)) => for_each_key(items, visit),
            BaseType::Ref(definition) => for_each_key(definition.types, visit),
            _ => {}
        }
    }
}

/// Collects the keys of maps of these types, also inside lists, once each.
fn keys_below(types: &'static [Type], keys: &mut Vec<&'static Field>) {
    for_each_key(types, &mut |field| {
        if !keys.iter().any(|known| known.name == field.name && known.doc == field.doc) {
            keys.push(field);
        }
    });
}

/// Returns the first value that an example has for a key, with the key.
fn example(steps: &[&str]) -> Option<String> {
    let name = steps.last()?;
    // Only those that have its names are worth parsing.
    let has_names = |text: &&str| steps.iter().all(|step| step.starts_with('<') || text.contains(step));
    EXAMPLES.split(HEADER).filter(has_names).find_map(|text| {
        let root = yaml::parse("example", text).ok()?.root;
        let mut nodes = vec![&root];
        for step in steps {
            nodes = nodes.into_iter().flat_map(items_of).flat_map(|node| children(node, step)).collect();
        }
        let value = nodes.into_iter().find(|node| !node.is_null())?;
        let style = yaml::Style { indent: 2, markers: false, sorted: false };
        Some(match name.starts_with('<') {
            true => yaml::emit(value, style),
            false => yaml::emit_entry(name, value, style),
        })
    })
}

/// Returns the items of a list, or else the node itself.
fn items_of(node: &Node) -> Vec<&Node> {
    match &node.value {
        Value::Seq(items) => items.iter().collect(),
        _ => vec![node],
    }
}

/// Returns the values of a key: `[]` means the items of a list, `<name>` any key.
pub(super) fn children<'n>(node: &'n Node, step: &str) -> Vec<&'n Node> {
    match (&node.value, step) {
        (Value::Seq(items), "[]") => items.iter().collect(),
        (Value::Map(map), name) if name.starts_with('<') => map.iter().map(|(_, value)| value).collect(),
        (Value::Map(map), name) => map.get(name).into_iter().collect(),
        _ => Vec::new(),
    }
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
        for_each_key(field.types, &mut |field| field_text(field, depth + 1, text));
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
