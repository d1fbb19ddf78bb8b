//! Filters on text and numbers.

use super::{Filter, json};
use crate::args::Args;
use crate::eval::Interpreter;
use crate::format::float_text;
use crate::methods::stripped;
use crate::value::{Number, Val, ValueResult, undefined_error};

pub const FILTERS: &[Filter] = &[
    ("float", "default", |_, value, [default, ..]| {
        Ok(parse_float(&value)?.map_or(default.or(Val::Float(0.0)), Val::Float))
    }),
    ("format", "*", |run, value, [values, named, _]| {
        let text = run.text_of(&value)?;
        let named = named.or(Val::None);
        let values = if named.is_true() { named } else { values.or(Val::None) };
        let text = run.printf(&text, &values)?;
        run.text(text)
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
        run.charge_memory(text.matches('\n').count().saturating_mul(by.len()))?;
        let mut out = String::new();
        for (i, line) in text.split('\n').enumerate() {
            out.push_str(if i > 0 { "\n" } else { "" });
            if if i == 0 { first.is_true() } else { blank.is_true() || !line.is_empty() } {
                out.push_str(&by);
            }
            out.push_str(line);
        }
        run.text(out)
    }),
    ("int", "default", |_, value, [default, ..]| {
        let integer = match (&value, value.number()) {
            (Val::Str(text), _) => text.trim().replace('_', "").parse().ok(),
            (_, Some(Number::Int(n))) => Some(n),
            _ => None,
        };
        let integer = match integer {
            None => parse_float(&value)?.filter(|f| f.abs() < 1e38).map(|f| f as i128),
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
    ("round", "precision method", round),
    // Output is never escaped, so that all text is safe.
    ("string safe", "", |run, value, _| Ok(Val::Str(run.text_of(&value)?))),
    ("tojson", "indent", |run, value, [indent, ..]| {
        let indent = indent.some().map(|_| indent.size(0)).transpose()?;
        run.charge_memory(indent.unwrap_or(0))?;
        let json = json::to_json(&value, indent)?;
        run.text(json)
    }),
    ("trim", "chars", |run, value, [chars, ..]| {
        let text = run.text_of(&value)?;
        run.text(stripped(&text, &chars, true, true)?.into())
    }),
    ("upper", "", |run, value, _| run.converted(&value, str::to_uppercase)),
];

impl Interpreter<'_> {
    fn converted(&mut self, value: &Val, convert: fn(&str) -> String) -> ValueResult<Val> {
        let text = self.text_of(value)?;
        self.text(convert(&text))
    }
}

fn round(_: &mut Interpreter<'_>, value: Val, [precision, method, _]: Args) -> ValueResult<Val> {
    let digits = precision.int(0).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= 300);
    let digits = digits.ok_or("'round': expected a number of decimal places")?;
    let number = value.number().ok_or_else(|| value.operand_error("'round' of"))?;
    let scale = 10_f64.powi(digits as i32);
    Ok(match (method.some_text()?.unwrap_or("common"), number) {
        ("common", Number::Int(n)) => Val::Int(n),
        ("common", Number::Float(f)) => Val::Float(float_text(f, digits)?.parse().unwrap_or(f)),
        ("ceil", number) => Val::Float((number.float() * scale).ceil() / scale),
        ("floor", number) => Val::Float((number.float() * scale).floor() / scale),
        _ => return Err("'round': expected 'common', 'ceil' or 'floor'".into()),
    })
}

/// Returns Python's `float(value)`; `None` if it is not a number.
fn parse_float(value: &Val) -> ValueResult<Option<f64>> {
    match value {
        Val::Undefined(name) => Err(undefined_error(name)),
        Val::Str(text) => Ok(text.trim().replace('_', "").parse().ok()),
        other => Ok(other.number().map(|n| n.float())),
    }
}
