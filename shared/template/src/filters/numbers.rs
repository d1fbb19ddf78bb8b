//! Filters on numbers.

use super::size_arg;
use crate::eval::{CallArgs, Interpreter};
use crate::format::float_text;
use crate::value::{Number, Val, ValueResult, number, undefined_error};

impl Interpreter<'_> {
    /// Applies a filter on numbers, or one of the others.
    pub(super) fn number_filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        match name {
            "abs" => match &value {
                Val::Undefined(name) => Err(undefined_error(name)),
                other => match number(other) {
                    Some(Number::Int(n)) => {
                        Ok(Val::Int(n.checked_abs().ok_or("a number that is too large")?))
                    }
                    Some(Number::Float(f)) => Ok(Val::Float(f.abs())),
                    None => Err(format!("'abs' of {}", other.type_name())),
                },
            },
            "int" => {
                let [default, base] = args.bind(["default", "base"])?;
                let base = size_arg(base.as_ref(), 10)?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined_error(name));
                }
                let found = match &value {
                    Val::Float(f) if f.abs() < 1e38 => Some(*f as i128),
                    Val::Str(text) => parse_int(text, base as u32).or_else(|| {
                        let f = text.trim().replace('_', "").parse::<f64>().ok()?;
                        (f.abs() < 1e38).then_some(f as i128)
                    }),
                    other => match number(other) {
                        Some(Number::Int(n)) => Some(n),
                        _ => None,
                    },
                };
                Ok(found.map(Val::Int).or(default).unwrap_or(Val::Int(0)))
            }
            "float" => {
                let [default] = args.bind(["default"])?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined_error(name));
                }
                let found = match &value {
                    Val::Str(text) => text.trim().replace('_', "").parse().ok(),
                    other => number(other).map(|n| n.float()),
                };
                Ok(found.map(Val::Float).or(default).unwrap_or(Val::Float(0.0)))
            }
            "round" => {
                let [digits, method] = args.bind(["precision", "method"])?;
                let digits = digits.as_ref().map_or(Some(0), |d| match number(d) {
                    Some(Number::Int(n)) => i32::try_from(n).ok().filter(|n| n.abs() <= 300),
                    _ => None,
                });
                let digits = digits.ok_or("'round' to digits that are no small integer")?;
                let method = self.text_of(&method.unwrap_or_else(|| Val::text("common")))?;
                match (number(&value), &*method) {
                    (Some(Number::Int(n)), "common") if digits >= 0 => Ok(Val::Int(n)),
                    (Some(n), "common") if digits >= 0 => {
                        let text = float_text(n.float(), 'f', digits as usize)?;
                        Ok(Val::Float(text.parse().unwrap_or(n.float())))
                    }
                    (Some(n), "common") => {
                        let scale = 10_f64.powi(-digits);
                        let f = (n.float() / scale).round_ties_even() * scale;
                        Ok(if matches!(n, Number::Int(_)) { Val::Int(f as i128) } else { Val::Float(f) })
                    }
                    (Some(n), "ceil") => {
                        Ok(Val::Float((n.float() * 10_f64.powi(digits)).ceil() / 10_f64.powi(digits)))
                    }
                    (Some(n), "floor") => {
                        Ok(Val::Float((n.float() * 10_f64.powi(digits)).floor() / 10_f64.powi(digits)))
                    }
                    (None, _) => Err(format!("'round' of {}", value.type_name())),
                    _ => Err("'round' is 'common', 'ceil' or 'floor'".into()),
                }
            }
            _ => self.text_filter(name, value, args),
        }
    }
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixed =
        |prefix: &str, of: u32| (base == of || base == 0).then(|| lower.strip_prefix(prefix)).flatten();
    let found = match (prefixed("0x", 16), prefixed("0o", 8), prefixed("0b", 2)) {
        (Some(digits), ..) => (digits, 16),
        (_, Some(digits), _) => (digits, 8),
        (.., Some(digits)) => (digits, 2),
        _ => (lower.as_str(), if base == 0 { 10 } else { base }),
    };
    let digits = found.0.replace('_', "");
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&found.1) {
        return None;
    }
    let n = i128::from_str_radix(&digits, found.1).ok()?;
    Some(if negative { -n } else { n })
}
