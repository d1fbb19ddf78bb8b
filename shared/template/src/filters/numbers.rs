//! Filters on numbers.

use super::Filter;
use crate::args::Args;
use crate::eval::Interpreter;
use crate::format::float_text;
use crate::lexer::radix_of_prefix;
use crate::value::{Number, TOO_LARGE, Val, ValueResult, undefined_error};

pub const FILTERS: &[Filter] = &[
    ("abs", "", |_, value, _| match value.number() {
        Some(Number::Int(n)) => Ok(Val::Int(n.checked_abs().ok_or(TOO_LARGE)?)),
        Some(Number::Float(f)) => Ok(Val::Float(f.abs())),
        None => Err(value.operand_error("'abs' of")),
    }),
    ("filesizeformat", "binary", |run, value, [binary, ..]| {
        let bytes = parse_float(&value)?.ok_or("'filesizeformat' of a value that is not a number")?;
        let (base, units): (f64, _) = match binary.is_true(false) {
            true => (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]),
            false => (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]),
        };
        if bytes == 1.0 {
            return Ok(Val::text("1 Byte"));
        }
        if bytes < base {
            return run.text(format!("{} Bytes", bytes as i128));
        }
        let power = (1..8).find(|p| bytes < base.powi(p + 1)).unwrap_or(8);
        run.text(format!("{:.1} {}", bytes / base.powi(power), units[power as usize - 1]))
    }),
    ("float", "default", |_, value, [default, ..]| {
        Ok(parse_float(&value)?.map_or(default.or(Val::Float(0.0)), Val::Float))
    }),
    ("int", "default base", |_, value, [default, base, ..]| {
        let base = base.size(10)?;
        let integer = match (&value, value.number()) {
            (Val::Str(text), _) => parse_int(text, base as u32),
            (_, Some(Number::Int(n))) => Some(n),
            _ => None,
        };
        let integer = match integer {
            None => parse_float(&value)?.filter(|f| f.abs() < 1e38).map(|f| f as i128),
            found => found,
        };
        Ok(integer.map_or(default.or(Val::Int(0)), Val::Int))
    }),
    ("round", "precision method", round),
];

fn round(run: &mut Interpreter<'_>, value: Val, [precision, method, ..]: Args) -> ValueResult<Val> {
    let method = run.text_of(&method.or(Val::text("common")))?;
    let digits = precision.int(0).ok().and_then(|n| i32::try_from(n).ok()).filter(|n| n.abs() <= 300);
    let digits = digits.ok_or("'round': expected a small integer as the precision")?;
    let number = value.number().ok_or_else(|| format!("'round' of {}", value.type_name()))?;
    let (f, scale) = (number.float(), 10_f64.powi(digits));
    Ok(match (&*method, number) {
        ("common", number) if digits >= 0 => match number {
            Number::Int(n) => Val::Int(n),
            Number::Float(f) => Val::Float(float_text(f, 'f', digits as usize)?.parse().unwrap_or(f)),
        },
        ("common", number) => {
            let scale = 10_f64.powi(-digits);
            let f = (f / scale).round_ties_even() * scale;
            if matches!(number, Number::Int(_)) { Val::Int(f as i128) } else { Val::Float(f) }
        }
        ("ceil", _) => Val::Float((f * scale).ceil() / scale),
        ("floor", _) => Val::Float((f * scale).floor() / scale),
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

/// Returns Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, base) = match radix_of_prefix(digits) {
        Some(radix) if base == radix || base == 0 => (&digits[2..], radix),
        _ => (digits, if base == 0 { 10 } else { base }),
    };
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&base) {
        return None;
    }
    let n = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    Some(if negative { -n } else { n })
}
