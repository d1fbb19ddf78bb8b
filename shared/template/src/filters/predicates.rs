//! Jinja's tests: `value is name`.

use crate::args::{Args, CallArgs, Row};
use crate::eval::Interpreter;
use crate::value::{Number, Val, ValueResult};

/// The names of a test, its parameters, and the test.
type Test = Row<fn(&mut Interpreter<'_>, &Val, Args) -> ValueResult<bool>>;

const TESTS: &[Test] = &[
    ("boolean", "", |_, value, _| Ok(matches!(value, Val::Bool(_)))),
    ("defined", "", |_, value, _| Ok(!matches!(value, Val::Undefined(_)))),
    ("divisibleby", "!", |_, value, [by, ..]| divides(value, &by.or(Val::None))),
    ("eq == equalto", "!", |run, value, [other, ..]| run.compare("==", value, &other.or(Val::None))),
    ("even", "", |_, value, _| divides(value, &Val::Int(2))),
    ("false", "", |_, value, _| Ok(matches!(value, Val::Bool(false)))),
    ("float", "", |_, value, _| Ok(matches!(value, Val::Float(_)))),
    ("ge >=", "!", |run, value, [other, ..]| run.compare(">=", value, &other.or(Val::None))),
    ("gt > greaterthan", "!", |run, value, [other, ..]| run.compare(">", value, &other.or(Val::None))),
    ("in", "!", |run, value, [other, ..]| run.compare("in", value, &other.or(Val::None))),
    ("integer", "", |_, value, _| Ok(matches!(value, Val::Int(_)))),
    ("iterable sequence", "", |_, value, _| {
        Ok(matches!(value, Val::Undefined(_) | Val::Str(_) | Val::Seq(_) | Val::Map(_)))
    }),
    ("le <=", "!", |run, value, [other, ..]| run.compare("<=", value, &other.or(Val::None))),
    ("lt < lessthan", "!", |run, value, [other, ..]| run.compare("<", value, &other.or(Val::None))),
    ("mapping", "", |_, value, _| Ok(matches!(value, Val::Map(_)))),
    ("ne !=", "!", |run, value, [other, ..]| run.compare("!=", value, &other.or(Val::None))),
    ("none", "", |_, value, _| Ok(matches!(value, Val::None))),
    ("number", "", |_, value, _| Ok(value.number().is_some())),
    ("odd", "", |_, value, _| Ok(!divides(value, &Val::Int(2))?)),
    ("string", "", |_, value, _| Ok(matches!(value, Val::Str(_)))),
    ("true", "", |_, value, _| Ok(matches!(value, Val::Bool(true)))),
    ("undefined", "", |_, value, _| Ok(matches!(value, Val::Undefined(_)))),
];

fn divides(value: &Val, by: &Val) -> ValueResult<bool> {
    match (value.number(), by.number()) {
        (_, Some(Number::Int(0))) => Err("a division by zero".into()),
        (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.checked_rem(b).unwrap_or(0) == 0),
        (Some(a), Some(b)) => Ok(a.float() % b.float() == 0.0),
        _ => Err(value.operand_error("a division of")),
    }
}

impl Interpreter<'_> {
    /// Evaluates `value is name(…)`.
    pub fn test(&mut self, name: &str, value: &Val, args: CallArgs) -> ValueResult<bool> {
        let (test, args) = self.bound(&[TESTS], "test", name, args)?;
        test(self, value, args)
    }
}
