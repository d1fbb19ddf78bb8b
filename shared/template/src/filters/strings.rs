//! Filters on text and numbers.

use super::{Filter, json};
use crate::eval::Interpreter;
use crate::value::{Number, Val, ValueResult, undefined_error};

pub const FILTERS: &[Filter] = &[
    ("float", "default", |run, value, [default, ..]| {
        Ok(run.parse_float(&value)?.map_or(default.or(Val::Float(0.0)), Val::Float))
    }),
    ("format", "*", |run, value, [values, named, _]| {
        let text = run.text_of(&value)?;
        let named = named.or(Val::None);
        let values = if named.is_true() { named } else { values.or(Val::None) };
        run.printf(&text, &values)
    }),
    ("indent", "width first blank", |run, value, [width, first, blank]| {
        let by = match &width.0 {
            Some(Val::Str(text)) => text.to_string(),
            _ => {
                let width = width.size(4)?;
                run.charge_memory(width)?;
                " ".repeat(width)
            }
        };
        let text = run.text_of(&value)?;
        let added = by.len().saturating_mul(text.matches('\n').count() + 1);
        run.charge_memory(text.len().saturating_add(added))?;
        let mut out = String::new();
        for (i, line) in text.split('\n').enumerate() {
            out.push_str(if i > 0 { "\n" } else { "" });
            if if i == 0 { first.is_true() } else { blank.is_true() || !line.is_empty() } {
                out.push_str(&by);
            }
            out.push_str(line);
        }
        Ok(Val::Str(out.into()))
    }),
    ("int", "default", |run, value, [default, ..]| {
        let integer = match (&value, value.number()) {
            (Val::Str(text), _) => run.number_text(text)?.parse().ok(),
            (_, Some(Number::Int(n))) => Some(n),
            _ => None,
        };
        let integer = match integer {
            None => run.parse_float(&value)?.filter(|f| f.abs() < 1e38).map(|f| f as i128),
            found => found,
        };
        Ok(integer.map_or(default.or(Val::Int(0)), Val::Int))
    }),
    ("lower", "", |run, value, _| run.converted(&value, str::to_lowercase)),
    ("replace", "old new count", |run, value, [old, new, count]| {
        let (old, new) = (run.text_of(&old.or(Val::None))?, run.text_of(&new.or(Val::None))?);
        let text = run.text_of(&value)?;
        run.replaced(&text, &old, &new, &count)
    }),
    // Output is never escaped, so that all text is safe.
    ("string safe", "", |run, value, _| Ok(Val::Str(run.text_of(&value)?))),
    ("tojson", "indent", |run, value, [indent, ..]| {
        let indent = indent.some().map(|_| indent.size(0)).transpose()?;
        json::to_json(run, &value, indent)
    }),
    ("trim", "chars", |run, value, [chars, ..]| {
        let text = run.text_of(&value)?;
        run.stripped(&text, &chars, true, true)
    }),
    ("upper", "", |run, value, _| run.converted(&value, str::to_uppercase)),
];

impl Interpreter<'_> {
    fn converted(&mut self, value: &Val, convert: fn(&str) -> String) -> ValueResult<Val> {
        let text = self.text_of(value)?;
        self.case_changed(&text, convert)
    }

    /// Returns the text of a number without what Python skips.
    fn number_text(&mut self, text: &str) -> ValueResult<String> {
        self.charge_memory(text.len())?;
        Ok(text.trim().replace('_', ""))
    }

    /// Returns Python's `float(value)`; `None` if it is not a number.
    fn parse_float(&mut self, value: &Val) -> ValueResult<Option<f64>> {
        match value {
            Val::Undefined(name) => Err(undefined_error(name)),
            Val::Str(text) => Ok(encoding::float::parse(&self.number_text(text)?)),
            other => Ok(other.number().map(|n| n.float())),
        }
    }
}
