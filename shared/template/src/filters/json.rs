//! The filter `tojson`: JSON as Python writes it, with sorted keys, safe between HTML's angles.

use encoding::python::put_json;

use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// Returns a value as JSON, in which the characters that are special in HTML are escaped; only strings contain them.
pub fn to_json(run: &mut Interpreter<'_>, value: &Val, indent: Option<usize>) -> ValueResult<Val> {
    run.charge_memory(value.max_written_len(indent.unwrap_or(0), 0))?;
    let mut json = String::new();
    write(value, indent, 0, &mut json)?;
    let escapes = [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")];
    Ok(Val::Str(escapes.iter().fold(json, |json, (of, by)| json.replace(of, by)).into()))
}

fn write(value: &Val, indent: Option<usize>, level: usize, out: &mut String) -> ValueResult<()> {
    let (open, close, items): (_, _, Vec<(Option<String>, Val)>) = match value {
        Val::Seq(seq) => ('[', ']', seq.items.borrow().iter().map(|item| (None, item.clone())).collect()),
        Val::Map(map) if !map.namespace => {
            let entries = map.entries.borrow();
            let mut entries: Vec<_> = entries.iter().map(|(k, v)| (Some(key(k)), v.clone())).collect();
            sort::sort_by(&mut entries, |a, b| a.0.cmp(&b.0));
            ('{', '}', entries)
        }
        Val::None | Val::Bool(_) | Val::Int(_) | Val::Float(_) => {
            out.push_str(&key(value));
            return Ok(());
        }
        Val::Str(text) => {
            put_json(text, out);
            return Ok(());
        }
        other => return Err(format!("'tojson' of {}", other.type_name())),
    };
    let line = |out: &mut String, level: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(width * level));
        }
    };
    out.push(open);
    for (i, (key, item)) in items.iter().enumerate() {
        let between = if indent.is_some() { "," } else { ", " };
        out.push_str(if i > 0 { between } else { "" });
        line(out, level + 1);
        if let Some(key) = key {
            put_json(key, out);
            out.push_str(": ");
        }
        write(item, indent, level + 1, out)?;
    }
    if !items.is_empty() {
        line(out, level);
    }
    out.push(close);
    Ok(())
}

fn key(key: &Val) -> String {
    match key {
        Val::None => "null".into(),
        Val::Bool(b) => b.to_string(),
        other => other.to_text(),
    }
}
