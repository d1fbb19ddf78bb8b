//! Jinja's tests: `value is name`.

use super::FILTERS;
use crate::ast::CompareOp;
use crate::eval::{CallArgs, Interpreter};
use crate::value::{Number, Val, ValueResult, equal, number, undefined_error};

/// The names of the tests, for `is test`.
const TESTS: &str = "!= < <= == > >= boolean callable defined divisibleby eq equalto escaped even false filter float ge \
    greaterthan gt in integer iterable le lessthan lower lt mapping ne none number odd sameas sequence \
    string test true undefined upper";

impl Interpreter<'_> {
    /// Evaluates `value is name(…)`.
    pub fn test(&mut self, name: &str, value: &Val, args: CallArgs) -> ValueResult<bool> {
        let argument = |args: CallArgs| match args.values.into_iter().next() {
            Some(argument) => Ok(argument),
            None => Err(format!("'is {name}' requires an argument")),
        };
        let compare = match name {
            "eq" | "equalto" | "==" => Some(CompareOp::Eq),
            "ne" | "!=" => Some(CompareOp::Ne),
            "lt" | "lessthan" | "<" => Some(CompareOp::Lt),
            "le" | "<=" => Some(CompareOp::Le),
            "gt" | "greaterthan" | ">" => Some(CompareOp::Gt),
            "ge" | ">=" => Some(CompareOp::Ge),
            "in" => Some(CompareOp::In),
            _ => None,
        };
        if let Some(compare) = compare {
            let right = argument(args)?;
            return self.compare(compare, value, &right);
        }
        let rest = |by: &Val| match (number(value), number(by)) {
            (_, Some(Number::Int(0))) => Err("a division by zero".to_string()),
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.checked_rem(b).unwrap_or(0)),
            (Some(a), Some(b)) => Ok(i128::from(a.float() % b.float() != 0.0)),
            _ => match value {
                Val::Undefined(name) => Err(undefined_error(name)),
                other => Err(format!("'is {name}' of {}", other.type_name())),
            },
        };
        Ok(match name {
            "defined" => !matches!(value, Val::Undefined(_)),
            "undefined" => matches!(value, Val::Undefined(_)),
            "none" => matches!(value, Val::None),
            "boolean" => matches!(value, Val::Bool(_)),
            "true" => matches!(value, Val::Bool(true)),
            "false" => matches!(value, Val::Bool(false)),
            "integer" => matches!(value, Val::Int(_)),
            "float" => matches!(value, Val::Float(_)),
            "number" => number(value).is_some(),
            "string" => matches!(value, Val::Str(_) | Val::Safe(_)),
            "mapping" => matches!(value, Val::Map(_)),
            "sequence" | "iterable" => matches!(
                value,
                Val::Str(_) | Val::Safe(_) | Val::Bytes(_) | Val::Seq(_) | Val::Map(_) | Val::Undefined(_)
            ),
            "callable" => matches!(value, Val::Callable(_)),
            "escaped" => matches!(value, Val::Safe(_)),
            "even" => rest(&Val::Int(2))? == 0,
            "odd" => rest(&Val::Int(2))? != 0,
            "divisibleby" => rest(&argument(args)?)? == 0,
            "sameas" => match (value, &argument(args)?) {
                (Val::Seq(a), Val::Seq(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Map(a), Val::Map(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Bool(_), Val::Int(_)) | (Val::Int(_), Val::Bool(_)) => false,
                (a, b) => a.depth() == 0 && equal(a, b) && a.type_name() == b.type_name(),
            },
            "lower" => {
                let text = self.text_of(value)?;
                text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)
            }
            "upper" => {
                let text = self.text_of(value)?;
                text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
            }
            "filter" => is_word_of(FILTERS, value),
            "test" => is_word_of(TESTS, value),
            _ => return Err(format!("unknown test '{name}'")),
        })
    }
}

/// Returns whether a value is one of the names in a list that is separated by spaces.
fn is_word_of(names: &str, value: &Val) -> bool {
    matches!(value, Val::Str(text) | Val::Safe(text) if names.split(' ').any(|name| name == &**text))
}
