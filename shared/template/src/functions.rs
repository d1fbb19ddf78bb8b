//! Jinja's global functions, the attributes of what they return, and sorting.

use std::cell::Cell;
use std::rc::Rc;

use crate::eval::{CallArgs, Interpreter};
use crate::operators::check_hashable;
use crate::value::{Callable, Number, Val, ValueResult, number, order};

pub const GLOBALS: &[&str] = &["range", "dict", "cycler", "joiner", "namespace"];

/// The limit of Jinja's sandbox.
const MAX_RANGE: i128 = 100_000;

/// Returns an attribute of a loop or a similar object, other than its methods.
pub fn callable_attribute(of: &Callable, name: &str) -> ValueResult<Option<Val>> {
    let int = |n: usize| Some(Val::Int(n as i128));
    Ok(match of {
        Callable::Loop(state) => {
            let (at, all) = (state.index.get(), state.items.len());
            let near = |at: Option<usize>| {
                let item = at.and_then(|at| state.items.get(at).cloned());
                Some(item.unwrap_or(Val::Undefined(None)))
            };
            match name {
                "index" => int(at + 1),
                "index0" => int(at),
                "revindex" => int(all - at),
                "revindex0" => int(all - at - 1),
                "first" => Some(Val::Bool(at == 0)),
                "last" => Some(Val::Bool(at + 1 == all)),
                "length" => int(all),
                "depth" => int(state.level + 1),
                "depth0" => int(state.level),
                "previtem" => near(at.checked_sub(1)),
                "nextitem" => near(Some(at + 1)),
                _ => None,
            }
        }
        Callable::Cycler { items, at } if name == "current" => {
            items.get(at.get() % items.len().max(1)).cloned()
        }
        Callable::Macro(of, ..) => match name {
            "name" => Some(Val::Str(of.name.clone())),
            "arguments" => {
                Some(Val::tuple(of.parameters.iter().map(|(n, _)| Val::Str(n.clone())).collect())?)
            }
            "catch_varargs" => Some(Val::Bool(of.varargs)),
            "catch_kwargs" => Some(Val::Bool(of.kwargs)),
            "caller" => Some(Val::Bool(of.caller)),
            _ => None,
        },
        _ => None,
    })
}

pub fn int_arg(value: &Val) -> ValueResult<i128> {
    match number(value) {
        Some(Number::Int(n)) => Ok(n),
        _ => Err(format!("expected an integer, found {}", value.type_name())),
    }
}

pub fn str_arg(value: &Val) -> ValueResult<&str> {
    match value {
        Val::Str(text) | Val::Safe(text) => Ok(text),
        other => Err(format!("expected a string, found {}", other.type_name())),
    }
}

impl Interpreter<'_> {
    pub fn function(&mut self, name: &str, args: CallArgs) -> ValueResult<Val> {
        match name {
            "range" => {
                let [a, b, step] = args.bind(["start", "stop", "step"])?;
                let (from, to) = match (&a, &b) {
                    (Some(to), None) => (0, int_arg(to)?),
                    (Some(from), Some(to)) => (int_arg(from)?, int_arg(to)?),
                    _ => return Err("'range' without numbers".into()),
                };
                let step = step.as_ref().map_or(Ok(1), int_arg)?;
                if step == 0 {
                    return Err("'range' with a step of zero".into());
                }
                let count = to.saturating_sub(from).checked_div(step).unwrap_or(0).saturating_abs();
                if count > MAX_RANGE {
                    return Err(format!("'range' of more than {MAX_RANGE} numbers"));
                }
                let mut items = Vec::new();
                let mut at = from;
                while (step > 0 && at < to) || (step < 0 && at > to) {
                    items.push(Val::Int(at));
                    at = at.saturating_add(step);
                }
                self.list(items)
            }
            "dict" | "namespace" => {
                let mut entries = Vec::new();
                for value in args.values {
                    entries.extend(self.pairs(&value)?);
                }
                entries.extend(args.named.into_iter().map(|(n, v)| (Val::Str(n), v)));
                if name == "namespace" {
                    for (_, value) in &mut entries {
                        self.charge_walk(value)?;
                        *value = value.deep_copy()?;
                    }
                }
                self.consume_fuel(entries.len() * entries.len() / 16)?;
                Val::map(entries, name == "namespace")
            }
            "cycler" if args.values.is_empty() => Err("'cycler' without items".into()),
            "cycler" => Ok(Val::Callable(Rc::new(Callable::Cycler { items: args.values, at: Cell::new(0) }))),
            _ => {
                let [between] = args.bind(["sep"])?;
                let between = between.unwrap_or_else(|| Val::text(", "));
                Ok(Val::Callable(Rc::new(Callable::Joiner { between, used: Cell::new(false) })))
            }
        }
    }

    /// Returns the entries of a map or of a list of pairs.
    pub fn pairs(&mut self, value: &Val) -> ValueResult<Vec<(Val, Val)>> {
        if let Val::Map(map) = value {
            return Ok(map.entries.borrow().clone());
        }
        let mut found = Vec::new();
        for item in self.items(value)? {
            let [key, value]: [Val; 2] =
                self.items(&item)?.try_into().map_err(|_| "expected pairs of key and value")?;
            check_hashable(&key)?;
            found.push((key, value));
        }
        Ok(found)
    }

    /// Sorts items by the key that `by` returns; fails if two keys have no order.
    pub fn sorted(
        &mut self,
        items: Vec<Val>,
        mut by: impl FnMut(&mut Self, &Val) -> ValueResult<Val>,
        reverse: bool,
    ) -> ValueResult<Vec<Val>> {
        self.charge_memory(items.len() * 4 * size_of::<Val>())?;
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = by(self, &item)?;
            let each = self.charge_walk(&key)?;
            self.consume_fuel(each.saturating_mul(20))?;
            keyed.push((key, item));
        }
        let mut wrong = None;
        sort::sort_by(&mut keyed, |a, b| {
            let found = order(&a.0, &b.0).unwrap_or_else(|message| {
                wrong = Some(message);
                std::cmp::Ordering::Equal
            });
            if reverse { found.reverse() } else { found }
        });
        match wrong {
            Some(message) => Err(message),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }
}
