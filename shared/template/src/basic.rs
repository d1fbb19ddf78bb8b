//! Basic templates: `$name` and `${name}`, with dots for keys of maps.

use config::Map;

use crate::value::Val;
use crate::{Rendered, TemplateError, UndefinedVariable};

/// Renders a basic template. Unknown names are left unchanged.
pub fn render(text: &str, variables: &Map, first: usize) -> Result<Rendered, TemplateError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut out = Rendered::default();
    let mut rest = text;
    let mut line = first;
    while let Some((before, after)) = rest.split_once('$') {
        line += before.matches('\n').count();
        out.text.push_str(before);
        let in_braces = after.strip_prefix('{').and_then(|a| a.split_once('}'));
        let (name, next) = match in_braces {
            Some(found) => found,
            None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            out.text.push('$');
            rest = after;
            continue;
        }
        let (first, keys) = name.split_once('.').map_or((name, None), |(f, k)| (f, Some(k)));
        let found = variables.get(first).and_then(|v| match keys {
            Some(keys) => v.at_path(&keys.split('.').collect::<Vec<_>>()),
            None => Some(v),
        });
        match found {
            Some(value) => {
                let value = Val::from_node(value).map_err(|message| TemplateError { line, message })?;
                value.write(&mut out.text);
                if out.text.len() > 16 << 20 {
                    return Err(TemplateError { line, message: "output limit of 16 MiB exceeded".into() });
                }
            }
            None => {
                if out.undefined.len() < 100 && !out.undefined.iter().any(|u| u.name == name) {
                    out.undefined.push(UndefinedVariable { name: name.to_string(), line });
                }
                out.text.push_str(&rest[before.len()..rest.len() - next.len()]);
            }
        }
        rest = next;
    }
    out.text.push_str(rest);
    Ok(out)
}
