//! Jinja's global functions, and the attributes of `loop`.

use crate::args::{Args, CallArgs, Row, int};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// The name of a function, its parameters, and what it returns.
type Function = Row<fn(&mut Interpreter<'_>, Args) -> ValueResult<Val>>;

const FUNCTIONS: &[Function] = &[
    ("namespace", "*", |run, args| {
        let mut entries = run.entries(args)?;
        for (_, value) in &mut entries {
            run.charge_copy(value)?;
            *value = value.deep_copy()?;
        }
        run.map(entries, true)
    }),
    ("range", "start stop step", range),
];

/// The limit of Jinja's sandbox.
const MAX_RANGE: i128 = 100_000;

fn range(run: &mut Interpreter<'_>, [a, b, step]: Args) -> ValueResult<Val> {
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
    run.charge_items(usize::try_from(count).unwrap_or(0) + 1)?;
    Val::list(steps(from, to, step).map(Val::Int).collect())
}

/// Returns the numbers from `from` up or down to `to`.
pub fn steps(from: i128, to: i128, step: i128) -> impl Iterator<Item = i128> {
    let before_end = move |at: &i128| if step > 0 { *at < to } else { *at > to };
    std::iter::successors(Some(from), move |at| Some(at.saturating_add(step))).take_while(before_end)
}

impl Interpreter<'_> {
    pub fn function(&mut self, name: &str, args: CallArgs) -> ValueResult<Val> {
        let (call, args) = self.bound(&[FUNCTIONS], "function", name, args)?;
        call(self, args)
    }

    /// Returns the entries of maps, and those of named arguments.
    pub fn entries(&mut self, args: Args) -> ValueResult<Vec<(Val, Val)>> {
        let args = CallArgs::from(args);
        let mut entries = Vec::new();
        for value in args.values {
            let Val::Map(map) = &value else { return Err(value.operand_error("expected a map, found")) };
            self.charge_items(map.entries.borrow().len() * 2)?;
            entries.extend(map.entries.borrow().iter().cloned());
        }
        entries.extend(args.named.into_iter().map(|(name, value)| (Val::Str(name), value)));
        Ok(entries)
    }
}

/// Returns an attribute of the variable `loop`.
pub fn loop_attribute(items: &[Val], at: usize, name: &str) -> Option<Val> {
    let item = |at: Option<usize>| at.and_then(|at| items.get(at).cloned()).unwrap_or(Val::Undefined(None));
    Some(match name {
        "index" => Val::int(at + 1),
        "index0" => Val::int(at),
        "revindex" => Val::int(items.len() - at),
        "revindex0" => Val::int(items.len() - at - 1),
        "first" => Val::Bool(at == 0),
        "last" => Val::Bool(at + 1 == items.len()),
        "length" => Val::int(items.len()),
        "previtem" => item(at.checked_sub(1)),
        "nextitem" => item(Some(at + 1)),
        _ => return None,
    })
}
