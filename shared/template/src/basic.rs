//! Basic templates: `$name` and `${name}`, with dots for keys of maps.

use config::Map;

use crate::rendered::{Rendered, TemplateError};
use crate::value::{MAX_VALUES, Val};

/// Renders a basic template. Unknown names are left unchanged.
pub fn render(text: &str, variables: &Map, first: usize) -> Result<Rendered, TemplateError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut out = Rendered::default();
    let mut rest = text;
    let (mut line, mut left) = (first, MAX_VALUES);
    while let Some((before, after)) = rest.split_once('$') {
        line += before.matches('\n').count();
        out.text.push_str(before);
        let inner = after.strip_prefix('{');
        let start = inner.unwrap_or(after);
        let (name, next) = start.split_at(start.find(|c| !is_name(c)).unwrap_or(start.len()));
        let next = if inner.is_some() { next.strip_prefix('}') } else { Some(next) };
        let Some(next) = next.filter(|_| !name.is_empty()) else {
            out.text.push('$');
            rest = after;
            continue;
        };
        let mut keys = name.split('.');
        let first = keys.next().and_then(|first| variables.get(first));
        match first.and_then(|value| keys.try_fold(value, |value, key| value.get(key))) {
            Some(value) => {
                let value = Val::from_node(value, &mut left);
                let pushed = value.and_then(|value| out.push(&value.to_text(), line, false));
                pushed.map_err(|message| TemplateError { line, message })?;
            }
            None => {
                out.add_undefined(name, line);
                out.text.push_str(&rest[before.len()..rest.len() - next.len()]);
            }
        }
        rest = next;
    }
    out.text.push_str(rest);
    Ok(out)
}
