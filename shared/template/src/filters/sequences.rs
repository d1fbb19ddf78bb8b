//! Filters on lists and maps.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::Filter;
use crate::args::{Args, CallArgs};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult, order};

pub const FILTERS: &[Filter] = &[
    ("default d", "default_value boolean", |_, value, [default, also_false, _]| {
        let missing = matches!(value, Val::Undefined(_)) || (also_false.is_true() && !value.is_true());
        Ok(if missing { default.or(Val::text("")) } else { value })
    }),
    ("dictsort", "case_sensitive by reverse", |run, value, [case, by, reverse]| {
        let Val::Map(map) = &value else { return Err(value.operand_error("'dictsort' of")) };
        let by = match by.some_text()? {
            None | Some("key") => 0,
            Some("value") => 1,
            Some(_) => return Err("'dictsort': expected 'key' or 'value'".into()),
        };
        let pairs = run.map_items(map)?;
        let pairs = run.items(&pairs)?;
        let pairs = run.sorted(pairs, &vec![Val::Int(by)], case.is_true(), reverse.is_true())?;
        run.list(pairs)
    }),
    ("first", "", |run, value, _| Ok(run.items(&value)?.into_iter().next().unwrap_or(Val::Undefined(None)))),
    ("items", "", |run, value, _| match &value {
        Val::Undefined(_) => run.list(Vec::new()),
        Val::Map(map) => run.map_items(map),
        other => Err(other.operand_error("'items' of")),
    }),
    ("join", "d attribute", |run, value, [between, attribute, _]| {
        let between = run.text_of(&between.or(Val::text("")))?;
        let path = run.attribute_path(attribute.0)?;
        let items = run.items(&value)?;
        run.joined(&items, &between, |run, item| {
            let item = run.lookup_path(item, &path, None)?;
            run.text_of(&item)
        })
    }),
    ("last", "", |run, value, _| Ok(run.items(&value)?.pop().unwrap_or(Val::Undefined(None)))),
    ("length count", "", |_, value, _| {
        Ok(Val::int(match &value {
            Val::Str(text) => text.chars().count(),
            Val::Undefined(_) => 0,
            Val::Seq(seq) => seq.items.borrow().len(),
            Val::Map(map) if !map.namespace => map.entries.borrow().len(),
            other => return Err(other.operand_error("'length' of")),
        }))
    }),
    ("list", "", |run, value, _| {
        let items = run.items(&value)?;
        run.list(items)
    }),
    ("random", "", |run, value, _| {
        let mut items = run.items(&value)?;
        let random = RandomState::new().build_hasher().finish();
        let at = random.checked_rem(items.len() as u64).unwrap_or_default() as usize;
        Ok(if at < items.len() { items.swap_remove(at) } else { Val::Undefined(None) })
    }),
    ("map", "*", |run, value, args| {
        let mut args = CallArgs::from(args);
        let items = run.items(&value)?.into_iter();
        let made: ValueResult<Vec<Val>> = if args.values.is_empty() {
            let [attribute, default, _] = args.bind("attribute default")?;
            let path = run.attribute_path(Some(attribute.0.ok_or("'map' without the name of a filter")?))?;
            items.map(|item| run.lookup_path(&item, &path, default.0.as_ref())).collect()
        } else {
            let name = run.text_of(&args.values.remove(0))?;
            items.map(|item| run.filter(&name, item, args.clone())).collect()
        };
        run.list(made?)
    }),
    ("reject", "*", |run, value, args| run.selected(&value, args, false, false)),
    ("rejectattr", "*", |run, value, args| run.selected(&value, args, true, false)),
    ("reverse", "", |run, value, _| match &value {
        Val::Str(text) => run.text(text.len(), || text.chars().rev().collect()),
        other => {
            let items = run.items(other)?.into_iter().rev().collect();
            run.list(items)
        }
    }),
    ("select", "*", |run, value, args| run.selected(&value, args, false, true)),
    ("selectattr", "*", |run, value, args| run.selected(&value, args, true, true)),
    ("sort", "reverse case_sensitive attribute", |run, value, [reverse, case, attribute]| {
        let items = run.items(&value)?;
        let path = run.attribute_path(attribute.0)?;
        let items = run.sorted(items, &path, case.is_true(), reverse.is_true())?;
        run.list(items)
    }),
];

/// The path from a value to one below it: `a.b`, `0`, or empty.
type Path = Vec<Val>;

impl Interpreter<'_> {
    fn attribute_path(&mut self, value: Option<Val>) -> ValueResult<Path> {
        Ok(match value {
            Some(Val::Str(text)) => {
                self.charge_parts(&text, text.matches('.').count())?;
                text.split('.').map(|key| key.parse().map_or_else(|_| Val::text(key), Val::Int)).collect()
            }
            Some(Val::None) | None => Vec::new(),
            Some(other) => vec![other],
        })
    }

    /// Returns the value at a path; `default` if it is undefined.
    fn lookup_path(&mut self, value: &Val, path: &Path, default: Option<&Val>) -> ValueResult<Val> {
        let found = path.iter().try_fold(value.clone(), |value, key| self.item(&value, key))?;
        Ok(match (&found, default) {
            (Val::Undefined(_), Some(default)) => default.clone(),
            _ => found,
        })
    }

    /// Sorts items by their values at a path; fails if two of them have no order.
    fn sorted(&mut self, items: Vec<Val>, path: &Path, case: bool, reverse: bool) -> ValueResult<Vec<Val>> {
        self.charge_items(items.len() * 4)?;
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = match self.lookup_path(&item, path, None)? {
                Val::Str(text) if !case => self.case_changed(&text, str::to_lowercase)?,
                other => other,
            };
            let each = self.charge_comparison(&key)?;
            self.consume_fuel(each.saturating_mul(20))?;
            keyed.push((key, item));
        }
        let mut wrong = None;
        sort::sort_by(&mut keyed, |a, b| {
            let found = order(&a.0, &b.0).unwrap_or_else(|message| {
                wrong = Some(message);
                Ordering::Equal
            });
            if reverse { found.reverse() } else { found }
        });
        match wrong {
            Some(message) => Err(message),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    /// Returns the items for which a test is `wanted`, or that of one of their attributes.
    fn selected(&mut self, value: &Val, args: Args, by_attribute: bool, wanted: bool) -> ValueResult<Val> {
        let mut args = CallArgs::from(args);
        let mut values = std::mem::take(&mut args.values).into_iter();
        let path = match by_attribute {
            true => self.attribute_path(Some(values.next().ok_or("'selectattr' without an attribute")?))?,
            false => Vec::new(),
        };
        let test = values.next().map(|name| self.text_of(&name)).transpose()?;
        args.values = values.collect();
        let mut kept = Vec::new();
        for item in self.items(value)? {
            let found = self.lookup_path(&item, &path, None)?;
            let fits = match &test {
                None => found.is_true(),
                Some(test) => self.test(test, &found, args.clone())?,
            };
            if fits == wanted {
                kept.push(item);
            }
        }
        self.list(kept)
    }
}
