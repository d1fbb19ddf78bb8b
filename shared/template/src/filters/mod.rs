//! Jinja's filters by name. Those on lists and maps are in `sequences`, those on numbers in `numbers`, and those on text in
//! `strings`; Jinja's tests are in `predicates`.

mod json;
mod numbers;
mod predicates;
mod sequences;
mod strings;
mod wrap;

use crate::args::{Args, CallArgs, Row, find};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// The name of a filter, its parameters, and what it makes of the value before `|`.
type Filter = Row<fn(&mut Interpreter<'_>, Val, Args) -> ValueResult<Val>>;

fn find_filter(name: &str) -> Option<&'static Filter> {
    [sequences::FILTERS, numbers::FILTERS, strings::FILTERS].into_iter().find_map(|table| find(table, name))
}

fn is_safe(value: &Val) -> bool {
    matches!(value, Val::Safe(_))
}

impl Interpreter<'_> {
    pub fn filter(&mut self, name: &str, value: Val, mut args: CallArgs) -> ValueResult<Val> {
        match name {
            "replace" if self.autoescape && (is_safe(&value) || args.values.iter().take(2).any(is_safe)) => {
                let text = Val::Safe(self.escape(&value)?);
                return self.method(&text, "replace", args);
            }
            "join" if self.autoescape => {
                let items = self.items(&value)?;
                if args.values.first().is_some_and(is_safe) || items.iter().any(is_safe) {
                    if let Some(between) = args.values.first_mut() {
                        *between = Val::Str(self.escape(between)?);
                    }
                    let escaped = items.iter().map(|item| Ok(Val::Str(self.escape(item)?)));
                    let escaped = Val::list(escaped.collect::<ValueResult<_>>()?)?;
                    return Ok(self.plain_filter(name, escaped, args)?.into_safe());
                }
            }
            _ => {}
        }
        match name {
            // These return the value, an item of it, or know safe text.
            "default" | "d" | "first" | "last" | "list" | "sort" | "unique" | "min" | "max" | "safe"
            | "escape" | "e" | "forceescape" | "format" | "pprint" => self.plain_filter(name, value, args),
            "upper" | "lower" | "capitalize" | "trim" | "string" | "indent" | "truncate" | "center"
            | "reverse"
                if is_safe(&value) =>
            {
                Ok(self.plain_filter(name, value.plain(), args)?.into_safe())
            }
            _ => self.plain_filter(name, value.plain(), args),
        }
    }

    /// Applies a filter without regard to safe text.
    fn plain_filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        self.consume_fuel(1)?;
        let (_, parameters, apply) = find_filter(name).ok_or_else(|| format!("unknown filter '{name}'"))?;
        apply(self, value, args.bind(parameters)?)
    }
}
