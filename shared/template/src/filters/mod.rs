//! Jinja's filters by name. Those on lists and maps are in `sequences`, those on text and numbers in `strings`; Jinja's tests
//! are in `predicates`.

mod json;
mod predicates;
mod sequences;
mod strings;

use crate::args::{Args, CallArgs, Row};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// The name of a filter, its parameters, and what it makes of the value before `|`.
type Filter = Row<fn(&mut Interpreter<'_>, Val, Args) -> ValueResult<Val>>;

impl Interpreter<'_> {
    pub fn filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        let (apply, args) = self.bound(&[sequences::FILTERS, strings::FILTERS], "filter", name, args)?;
        self.charge_walk(&value)?;
        // The filter `map` applies filters.
        self.nested(|run| apply(run, value, args))
    }
}
