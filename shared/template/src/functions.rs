//! Jinja's global functions, and the attributes and methods of what they return.

use std::cell::Cell;

use crate::args::{Args, CallArgs, Row, find, int};
use crate::eval::Interpreter;
use crate::value::{Callable, LoopState, Val, ValueResult, check_hashable};

pub type Function = Row<fn(&mut Interpreter<'_>, Args) -> ValueResult<Val>>;

const GLOBALS: &[Function] = &[
    ("range", "start stop step", range),
    ("dict", "*", |run, args| Val::map(run.entries(args)?, false)),
    ("namespace", "*", |run, args| {
        let mut entries = run.entries(args)?;
        for (_, value) in &mut entries {
            run.charge_walk(value)?;
            *value = value.deep_copy()?;
        }
        Val::map(entries, true)
    }),
    ("cycler", "*", |_, args| match CallArgs::from(args).values {
        items if items.is_empty() => Err("'cycler' without items".into()),
        items => Ok(Callable::Cycler { items, at: Cell::new(0) }.into()),
    }),
    ("joiner", "sep", |_, [between, ..]| {
        Ok(Callable::Joiner { between: between.or(Val::text(", ")), used: Cell::new(false) }.into())
    }),
];

/// The limit of Jinja's sandbox.
const MAX_RANGE: i128 = 100_000;

/// Returns the global function of this name.
pub fn global(name: &str) -> Option<Val> {
    find(GLOBALS, name).map(|row| Callable::Function(row).into())
}

fn range(run: &mut Interpreter<'_>, [a, b, step, _]: Args) -> ValueResult<Val> {
    let (from, to) = match (&a.0, &b.0) {
        (Some(to), None) => (0, int(to)?),
        (Some(from), Some(to)) => (int(from)?, int(to)?),
        _ => return Err("'range' without numbers".into()),
    };
    let step = step.int(1)?;
    if step == 0 {
        return Err("'range' with a step of zero".into());
    }
    let count = to.saturating_sub(from).checked_div(step).unwrap_or(0).saturating_abs();
    if count > MAX_RANGE {
        return Err(format!("'range' of more than {MAX_RANGE} numbers"));
    }
    let items = steps(from, to, step).map(Val::Int).collect();
    run.list(items)
}

/// Returns the numbers from `from` up or down to `to`.
pub fn steps(from: i128, to: i128, step: i128) -> impl Iterator<Item = i128> {
    let before_end = move |at: &i128| if step > 0 { *at < to } else { *at > to };
    std::iter::successors(Some(from), move |at| Some(at.saturating_add(step))).take_while(before_end)
}

impl Interpreter<'_> {
    /// Returns the entries of maps and lists of pairs, and those of named arguments.
    pub fn entries(&mut self, args: Args) -> ValueResult<Vec<(Val, Val)>> {
        let args = CallArgs::from(args);
        let mut entries = Vec::new();
        for value in args.values {
            entries.extend(self.pairs(&value)?);
        }
        entries.extend(args.named.into_iter().map(|(name, value)| (Val::Str(name), value)));
        self.consume_fuel(entries.len() * entries.len() / 16)?;
        Ok(entries)
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

    /// Calls a method of a loop or a cycler.
    pub fn callable_method(&mut self, of: &Callable, name: &str, args: CallArgs) -> ValueResult<Val> {
        match (of, name) {
            (Callable::Loop(state), "cycle") => match args.values.len() {
                0 => Err("'loop.cycle' without items".into()),
                count => Ok(args.values[state.index.get() % count].clone()),
            },
            (Callable::Loop(state), _) => {
                args.values.iter().try_for_each(|value| self.charge_walk(value).map(drop))?;
                let mut last = state.changed.borrow_mut();
                let changed = last.as_ref() != Some(&args.values);
                *last = Some(args.values);
                Ok(Val::Bool(changed))
            }
            (Callable::Cycler { at, .. }, "reset") => {
                at.set(0);
                Ok(Val::None)
            }
            (Callable::Cycler { items, at }, _) => Ok(next_of(items, at)),
            _ => Err(format!("a function has no '{name}'")),
        }
    }
}

/// Returns the next item of a cycler.
pub fn next_of(items: &[Val], at: &Cell<usize>) -> Val {
    let now = at.replace(at.get() + 1);
    items[now % items.len().max(1)].clone()
}

/// Returns an attribute of a loop, cycler or macro, other than its methods.
pub fn callable_attribute(of: &Callable, name: &str) -> ValueResult<Option<Val>> {
    Ok(match of {
        Callable::Loop(state) => loop_attribute(state, name),
        Callable::Cycler { items, at } if name == "current" => {
            items.get(at.get() % items.len().max(1)).cloned()
        }
        Callable::Macro(of, ..) => Some(match name {
            "name" => Val::Str(of.name.clone()),
            "arguments" => Val::tuple(of.parameters.iter().map(|(n, _)| Val::Str(n.clone())).collect())?,
            "catch_varargs" => Val::Bool(of.varargs),
            "catch_kwargs" => Val::Bool(of.kwargs),
            "caller" => Val::Bool(of.caller),
            _ => return Ok(None),
        }),
        _ => None,
    })
}

fn loop_attribute(state: &LoopState, name: &str) -> Option<Val> {
    let (at, all) = (state.index.get(), state.items.len());
    let item = |at: Option<usize>| at.and_then(|at| state.items.get(at).cloned());
    Some(match name {
        "index" => Val::int(at + 1),
        "index0" => Val::int(at),
        "revindex" => Val::int(all - at),
        "revindex0" => Val::int(all - at - 1),
        "first" => Val::Bool(at == 0),
        "last" => Val::Bool(at + 1 == all),
        "length" => Val::int(all),
        "depth" => Val::int(state.level + 1),
        "depth0" => Val::int(state.level),
        "previtem" => item(at.checked_sub(1)).unwrap_or(Val::Undefined(None)),
        "nextitem" => item(Some(at + 1)).unwrap_or(Val::Undefined(None)),
        _ => return None,
    })
}
