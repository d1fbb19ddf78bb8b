//! Jinja's tests: `value is name`.

use std::rc::Rc;

use super::find_filter;
use crate::args::CallArgs;
use crate::eval::Interpreter;
use crate::value::{Number, Val, ValueResult};

/// The names of comparisons, and their operators.
const COMPARISONS: [(&str, &str); 7] = [
    ("== eq equalto", "=="),
    ("!= ne", "!="),
    ("< lt lessthan", "<"),
    ("<= le", "<="),
    ("> gt greaterthan", ">"),
    (">= ge", ">="),
    ("in", "in"),
];

/// The name of a test, and the test.
type Test = (&'static str, fn(&Val) -> bool);

/// Tests of a value alone.
const TESTS: &[Test] = &[
    ("boolean", |value| matches!(value, Val::Bool(_))),
    ("callable", |value| matches!(value, Val::Callable(_))),
    ("defined", |value| !matches!(value, Val::Undefined(_))),
    ("escaped", |value| matches!(value, Val::Safe(_))),
    ("false", |value| matches!(value, Val::Bool(false))),
    ("filter", |value| matches!(value, Val::Str(name) | Val::Safe(name) if is_filter(name))),
    ("float", |value| matches!(value, Val::Float(_))),
    ("integer", |value| matches!(value, Val::Int(_))),
    ("iterable", is_iterable),
    ("mapping", |value| matches!(value, Val::Map(_))),
    ("none", |value| matches!(value, Val::None)),
    ("number", |value| value.number().is_some()),
    ("sequence", is_iterable),
    ("string", |value| matches!(value, Val::Str(_) | Val::Safe(_))),
    ("test", |value| matches!(value, Val::Str(name) | Val::Safe(name) if is_test(name))),
    ("true", |value| matches!(value, Val::Bool(true))),
    ("undefined", |value| matches!(value, Val::Undefined(_))),
];

/// Tests that have an argument or use an interpreter.
const OTHER_TESTS: &str = "divisibleby even lower odd sameas upper";

/// Returns whether Jinja has a filter of this name.
fn is_filter(name: &str) -> bool {
    find_filter(name).is_some() || ["random", "urlize"].contains(&name)
}

fn comparison(name: &str) -> Option<&'static str> {
    COMPARISONS.iter().find(|(names, _)| names.split(' ').any(|of| of == name)).map(|(_, sign)| *sign)
}

fn is_iterable(value: &Val) -> bool {
    !matches!(value, Val::None | Val::Bool(_) | Val::Int(_) | Val::Float(_) | Val::Callable(_))
}

fn is_test(name: &str) -> bool {
    comparison(name).is_some()
        || TESTS.iter().any(|(of, _)| *of == name)
        || OTHER_TESTS.split(' ').any(|of| of == name)
}

fn is_same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Seq(a), Val::Seq(b)) => Rc::ptr_eq(a, b),
        (Val::Map(a), Val::Map(b)) => Rc::ptr_eq(a, b),
        (Val::Bool(_), Val::Int(_)) | (Val::Int(_), Val::Bool(_)) => false,
        (a, b) => a.depth() == 0 && a == b && a.type_name() == b.type_name(),
    }
}

impl Interpreter<'_> {
    /// Evaluates `value is name(…)`.
    pub fn test(&mut self, name: &str, value: &Val, args: CallArgs) -> ValueResult<bool> {
        if let Some((_, test)) = TESTS.iter().find(|(of, _)| *of == name) {
            return Ok(test(value));
        }
        let argument =
            args.values.into_iter().next().ok_or_else(|| format!("'is {name}' requires an argument"));
        if let Some(sign) = comparison(name) {
            return self.compare(sign, value, &argument?);
        }
        let divides = |by: &Val| match (value.number(), by.number()) {
            (_, Some(Number::Int(0))) => Err("a division by zero".to_string()),
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.checked_rem(b).unwrap_or(0) == 0),
            (Some(a), Some(b)) => Ok(a.float() % b.float() == 0.0),
            _ => Err(value.operand_error(&format!("'is {name}' of"))),
        };
        Ok(match name {
            "divisibleby" => divides(&argument?)?,
            "even" => divides(&Val::Int(2))?,
            "odd" => !divides(&Val::Int(2))?,
            "sameas" => is_same(value, &argument?),
            "lower" | "upper" => {
                let text = self.text_of(value)?;
                let (lower, upper) = (text.contains(char::is_lowercase), text.contains(char::is_uppercase));
                lower != upper && lower == (name == "lower")
            }
            _ => return Err(format!("unknown test '{name}'")),
        })
    }
}
