//! Jinja's filters by name. Those on lists and maps are in `sequences`, those on numbers in `numbers`, and those on text
//! in `texts`; Jinja's tests are in `predicates`.

mod numbers;
mod predicates;
mod sequences;
mod texts;

use crate::eval::{CallArgs, Interpreter};
use crate::value::{Number, Val, ValueResult, number};

/// The names of the filters, for `is filter`.
const FILTERS: &str = "abs attr batch capitalize center count d default dictsort e escape filesizeformat first float \
    forceescape format groupby indent int items join last length list lower map max min pprint random reject \
    rejectattr replace reverse round safe select selectattr slice sort string striptags sum title tojson \
    trim truncate unique upper urlencode urlize wordcount wordwrap xmlattr";

fn bool_arg(value: Option<Val>, default: bool) -> bool {
    value.map_or(default, |value| value.is_true())
}

fn size_arg(value: Option<&Val>, default: usize) -> ValueResult<usize> {
    match value {
        None => Ok(default),
        Some(value) => match number(value) {
            Some(Number::Int(n)) => Ok(usize::try_from(n).unwrap_or(0)),
            _ => Err(format!("expected an integer, found {}", value.type_name())),
        },
    }
}

/// Returns the right side of `%` for the filter `format`.
fn printf_values(args: CallArgs) -> ValueResult<Val> {
    match args.named.is_empty() {
        true => Val::tuple(args.values),
        false => Val::map(args.named.into_iter().map(|(n, v)| (Val::Str(n), v)), false),
    }
}

impl Interpreter<'_> {
    pub fn filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        match name {
            "safe" => return Ok(Val::Safe(self.text_of(&value)?)),
            "escape" | "e" => return Ok(Val::Safe(self.escape(&value)?)),
            "forceescape" => {
                let plain = Val::Str(self.text_of(&value)?);
                return Ok(Val::Safe(self.escape(&plain)?));
            }
            // These return their input.
            "default" | "d" | "first" | "last" | "list" | "sort" | "unique" | "min" | "max" => {
                return self.plain_filter(name, value, args);
            }
            "replace" if self.autoescape => {
                let safe = |value: &Val| matches!(value, Val::Safe(_));
                let is_safe = safe(&value) || args.values.iter().take(2).any(safe);
                if is_safe {
                    let text = Val::Safe(self.escape(&value)?);
                    let replace = self.attribute(&text, &"replace".into())?;
                    return self.call(&replace, args);
                }
            }
            "join" if self.autoescape => {
                let items = self.items(&value)?;
                let safe = |value: &Val| matches!(value, Val::Safe(_));
                if args.values.first().is_some_and(safe) || items.iter().any(safe) {
                    let escaped: ValueResult<Vec<Val>> =
                        items.iter().map(|i| Ok(Val::Str(self.escape(i)?))).collect();
                    let mut args = args;
                    if let Some(between) = args.values.first_mut() {
                        *between = Val::Str(self.escape(between)?);
                    }
                    return Ok(self.plain_filter(name, Val::list(escaped?)?, args)?.into_safe());
                }
            }
            "format" if matches!(value, Val::Safe(_)) => {
                return self.operate(crate::ast::BinaryOp::Rem, &value, &printf_values(args)?);
            }
            _ => {}
        }
        let keeps = match name {
            "upper" | "lower" | "capitalize" | "trim" | "string" | "indent" | "truncate" | "center"
            | "reverse" => {
                matches!(value, Val::Safe(_))
            }
            "tojson" => true,
            "xmlattr" => self.autoescape,
            _ => false,
        };
        let value = if name == "pprint" { value } else { value.plain() };
        let made = self.plain_filter(name, value, args)?;
        Ok(if keeps { made.into_safe() } else { made })
    }

    fn plain_filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        self.consume_fuel(1)?;
        match name {
            "default" | "d" => {
                let [default, also_false] = args.bind(["default_value", "boolean"])?;
                let missing =
                    matches!(value, Val::Undefined(_)) || (bool_arg(also_false, false) && !value.is_true());
                Ok(if missing { default.unwrap_or_else(|| Val::text("")) } else { value })
            }
            _ => self.sequence_filter(name, value, args),
        }
    }
}
