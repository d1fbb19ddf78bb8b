//! The filter `tojson`: JSON as Python writes it, with sorted keys, safe between HTML's angles.

use encoding::python::put_json;

use crate::value::{Val, ValueResult};

pub fn write(value: &Val, indent: Option<usize>, level: usize, out: &mut String) -> ValueResult<()> {
    let line = |out: &mut String, level: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(width.min(1000) * level));
        }
    };
    let between = if indent.is_some() { "," } else { ", " };
    match value {
        Val::None => out.push_str("null"),
        Val::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Val::Int(_) | Val::Float(_) => value.write(out),
        Val::Str(text) | Val::Safe(text) => quoted(text, out),
        Val::Seq(seq) => {
            let items = seq.items.borrow();
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(between);
                }
                line(out, level + 1);
                write(item, indent, level + 1, out)?;
            }
            if !items.is_empty() {
                line(out, level);
            }
            out.push(']');
        }
        Val::Map(map) if !map.namespace => {
            let mut entries: Vec<(String, Val)> =
                map.entries.borrow().iter().map(|(k, v)| (key(k), v.clone())).collect();
            sort::sort_by(&mut entries, |a, b| a.0.cmp(&b.0));
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push_str(between);
                }
                line(out, level + 1);
                quoted(key, out);
                out.push_str(": ");
                write(item, indent, level + 1, out)?;
            }
            if !entries.is_empty() {
                line(out, level);
            }
            out.push('}');
        }
        other => return Err(format!("'tojson' of {}", other.type_name())),
    }
    Ok(())
}

fn key(key: &Val) -> String {
    match key {
        Val::None => "null".into(),
        Val::Bool(b) => b.to_string(),
        other => other.to_text(),
    }
}

/// Writes a text as JSON and escapes the characters that are special in HTML.
fn quoted(text: &str, out: &mut String) {
    let mut json = String::with_capacity(text.len() + 2);
    put_json(text, &mut json);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\'' => out.push_str("\\u0027"),
            c => out.push(c),
        }
    }
}
