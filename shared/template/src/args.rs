//! The arguments of calls, and tables of what can be called by name.

use std::rc::Rc;

use crate::ast::Name;
use crate::value::{Number, Val, ValueResult};

/// The arguments of a call as they are written.
#[derive(Default, Clone)]
pub struct CallArgs {
    pub values: Vec<Val>,
    pub named: Vec<(Name, Val)>,
}

/// The arguments of a call in the order of its parameters. No function has more than three.
pub type Args = [Arg; 3];

/// The value of a parameter, if one is given.
#[derive(Default)]
pub struct Arg(pub Option<Val>);

/// A function by its name, or by several names separated by blanks. Its parameters are separated by blanks. `!` is a required
/// positional parameter. `*` stands for any arguments: the function gets a tuple and a map, like Python's `*args, **kwargs`.
pub type Row<F> = (&'static str, &'static str, F);

/// Returns the row of this name. The error lists the first name of every row; `kind` names the rows in the message, for
/// example `filter`.
pub fn find<F>(tables: &[&'static [Row<F>]], kind: &str, name: &str) -> ValueResult<&'static Row<F>> {
    let mut rows = tables.iter().copied().flatten();
    let found = rows.find(|row| row.0.split(' ').any(|of| of == name));
    found.ok_or_else(|| unsupported(kind, name, tables.iter().copied().flatten().map(|row| row.0)))
}

/// Returns the error for a name that is not among the known ones.
pub fn unsupported(kind: &str, name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let mut known: Vec<&str> = known.filter_map(|names| names.split(' ').next()).collect();
    sort::sort(&mut known);
    format!("the {kind} '{name}' is not supported (supported: {})", known.join(", "))
}

impl CallArgs {
    /// Assigns the arguments to parameters, which are written as in a [`Row`].
    pub fn bind(self, parameters: &str) -> ValueResult<Args> {
        if parameters == "*" {
            let named = self.named.into_iter().map(|(name, value)| (Val::Str(name), value));
            return Ok(
                [Val::tuple(self.values)?, Val::map(named, false)?, Val::None].map(|value| Arg(Some(value)))
            );
        }
        let names = || parameters.split_ascii_whitespace();
        let (most, given) = (names().count(), self.values.len());
        if given > most {
            return Err(format!("expected at most {most} arguments, got {given}"));
        }
        let mut found = Args::default();
        for (place, value) in found.iter_mut().zip(self.values) {
            place.0 = Some(value);
        }
        for (name, value) in self.named {
            match names().position(|of| *of == *name && of != "!").map(|at| &mut found[at].0) {
                Some(place @ None) => *place = Some(value),
                Some(_) => return Err(format!("duplicate argument '{name}'")),
                None => return Err(format!("unexpected argument '{name}'")),
            }
        }
        if names().zip(&found).any(|(name, arg)| name == "!" && arg.0.is_none()) {
            return Err(format!("expected {most} arguments, got {given}"));
        }
        Ok(found)
    }
}

impl From<Args> for CallArgs {
    /// Returns the arguments that were bound to `*`.
    fn from([values, named, _]: Args) -> CallArgs {
        let mut args = CallArgs::default();
        if let (Some(Val::Seq(values)), Some(Val::Map(named))) = (values.0, named.0) {
            args.values = values.items.borrow().clone();
            let named = named.entries.borrow();
            args.named = named.iter().filter_map(|(k, v)| Some((text(k).ok()?.clone(), v.clone()))).collect();
        }
        args
    }
}

impl Arg {
    /// Returns the value, or `default`.
    pub fn or(self, default: Val) -> Val {
        self.0.unwrap_or(default)
    }

    /// Returns the value unless it is absent or Python's `None`.
    pub fn some(&self) -> Option<&Val> {
        self.0.as_ref().filter(|value| !matches!(value, Val::None))
    }

    pub fn is_true(&self) -> bool {
        self.0.as_ref().is_some_and(Val::is_true)
    }

    pub fn int(&self, default: i128) -> ValueResult<i128> {
        self.0.as_ref().map_or(Ok(default), int)
    }

    /// Returns the value as a length. A negative integer counts as 0.
    pub fn size(&self, default: usize) -> ValueResult<usize> {
        Ok(usize::try_from(self.int(default as i128)?.max(0)).unwrap_or(usize::MAX))
    }

    /// Returns the value as a maximum; a negative integer means no limit.
    pub fn max(&self) -> ValueResult<usize> {
        Ok(usize::try_from(self.int(-1)?).unwrap_or(usize::MAX))
    }

    /// Returns a string; fails for another type and without a value.
    pub fn text(&self) -> ValueResult<&str> {
        text(self.0.as_ref().unwrap_or(&Val::None)).map(|text| &**text)
    }

    /// Returns the string, or nothing if the argument is absent or `None`.
    pub fn some_text(&self) -> ValueResult<Option<&str>> {
        self.some().map(|value| text(value).map(|text| &**text)).transpose()
    }
}

pub fn int(value: &Val) -> ValueResult<i128> {
    match value.number() {
        Some(Number::Int(n)) => Ok(n),
        _ => Err(value.operand_error("expected an integer, found")),
    }
}

pub fn text(value: &Val) -> ValueResult<&Rc<str>> {
    match value {
        Val::Str(text) => Ok(text),
        other => Err(other.operand_error("expected a string, found")),
    }
}
