//! Filters on lists and maps.

use std::cmp::Ordering;

use super::Filter;
use crate::args::{Arg, Args, CallArgs};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult, order};

pub const FILTERS: &[Filter] = &[
    ("batch", "count fill_with", |run, value, [count, fill, ..]| {
        let (items, count) = run.row_items(&value, &count)?;
        let mut rows: Vec<Vec<Val>> = items.chunks(count).map(<[Val]>::to_vec).collect();
        if let (Some(fill), Some(last)) = (fill.0, rows.last_mut()) {
            run.charge_items(count)?;
            last.resize(count, fill);
        }
        run.rows(rows)
    }),
    ("count", "", length),
    ("d", "default_value boolean", default),
    ("default", "default_value boolean", default),
    ("dictsort", "case_sensitive by reverse", |run, value, [case, by, reverse, _]| {
        let Val::Map(map) = &value else { return Err(value.operand_error("'dictsort' of")) };
        let by = match by.0.as_ref().map(Val::to_text).as_deref() {
            None | Some("key") => 0,
            Some("value") => 1,
            Some(_) => return Err("'dictsort': expected 'key' or 'value'".into()),
        };
        let (case, pairs) = (case.is_true(false), run.map_items(map)?);
        let pairs = run.items(&pairs)?;
        let key = |run: &mut Interpreter<'_>, pair: &Val| Ok(fold_case(run.item(pair, &Val::Int(by))?, case));
        let pairs = run.sorted(pairs, key, reverse.is_true(false))?;
        run.list(pairs)
    }),
    ("first", "", |run, value, _| Ok(run.items(&value)?.into_iter().next().unwrap_or(Val::Undefined(None)))),
    ("groupby", "attribute default case_sensitive", |run, value, [attribute, default, case, _]| {
        let (path, case) = (attribute_path(attribute.0), case.is_true(false));
        let by = |run: &mut Interpreter<'_>, item: &Val| run.lookup_path(item, &path, default.0.as_ref());
        let items = run.items(&value)?;
        let items = run.sorted(items, |run, item| Ok(fold_case(by(run, item)?, case)), false)?;
        let mut groups: Vec<(Val, Vec<Val>)> = Vec::new();
        for item in items {
            let key = by(run, &item)?;
            run.charge_walk(&key)?;
            let folded = fold_case(key.clone(), case);
            match groups.last_mut().filter(|(old, _)| fold_case(old.clone(), case) == folded) {
                Some((_, of)) => of.push(item),
                None => groups.push((key, vec![item])),
            }
        }
        let groups = groups.into_iter().map(|(key, of)| Val::tuple(vec![key, run.list(of)?]));
        let groups = groups.collect::<ValueResult<_>>()?;
        run.list(groups)
    }),
    ("items", "", |run, value, _| match &value {
        Val::Undefined(_) => run.list(Vec::new()),
        Val::Map(map) => run.map_items(map),
        other => Err(other.operand_error("'items' of")),
    }),
    ("join", "d attribute", |run, value, [between, attribute, ..]| {
        let between = run.text_of(&between.or(Val::text("")))?;
        let path = attribute_path(attribute.0);
        let items = run.items(&value)?;
        run.joined(&items, &between, |run, item| {
            let item = run.lookup_path(item, &path, None)?;
            run.text_of(&item)
        })
    }),
    ("last", "", |run, value, _| Ok(run.items(&value)?.pop().unwrap_or(Val::Undefined(None)))),
    ("length", "", length),
    ("list", "", |run, value, _| {
        let items = run.items(&value)?;
        run.list(items)
    }),
    ("map", "*", |run, value, args| {
        let mut args = CallArgs::from(args);
        if args.values.is_empty() {
            let [attribute, default, ..] = args.bind("attribute default")?;
            let path = attribute_path(Some(attribute.0.ok_or("'map' without the name of a filter")?));
            return run.mapped(&value, |run, item| run.lookup_path(&item, &path, default.0.as_ref()));
        }
        let name = run.text_of(&args.values.remove(0))?;
        run.mapped(&value, |run, item| run.filter(&name, item, args.clone()))
    }),
    ("max", "case_sensitive attribute", |run, value, args| run.best(&value, args, Ordering::Greater)),
    ("min", "case_sensitive attribute", |run, value, args| run.best(&value, args, Ordering::Less)),
    ("reject", "*", |run, value, args| run.selected(&value, args.into(), false, false)),
    ("rejectattr", "*", |run, value, args| run.selected(&value, args.into(), true, false)),
    ("reverse", "", |run, value, _| match &value {
        Val::Str(text) => run.text(text.chars().rev().collect()),
        other => {
            let items = run.items(other)?.into_iter().rev().collect();
            run.list(items)
        }
    }),
    ("select", "*", |run, value, args| run.selected(&value, args.into(), false, true)),
    ("selectattr", "*", |run, value, args| run.selected(&value, args.into(), true, true)),
    ("slice", "count fill_with", |run, value, [count, fill, ..]| {
        let (items, count) = run.row_items(&value, &count)?;
        run.charge_memory(count.saturating_mul(64))?;
        let (each, more) = (items.len() / count, items.len() % count);
        let mut rows = Vec::new();
        let mut rest = &items[..];
        for i in 0..count {
            let (row, tail) = rest.split_at(each + usize::from(i < more));
            let mut row = row.to_vec();
            row.extend(fill.0.clone().filter(|_| i >= more && more > 0));
            rows.push(row);
            rest = tail;
        }
        run.rows(rows)
    }),
    ("sort", "reverse case_sensitive attribute", |run, value, [reverse, case, attribute, _]| {
        let paths: Vec<Path> = match attribute.0 {
            Some(Val::Str(text)) => text.split(',').map(|one| attribute_path(Some(Val::text(one)))).collect(),
            other => vec![attribute_path(other)],
        };
        let case = case.is_true(false);
        let key = |run: &mut Interpreter<'_>, item: &Val| {
            let keys = paths.iter().map(|path| Ok(fold_case(run.lookup_path(item, path, None)?, case)));
            Val::list(keys.collect::<ValueResult<_>>()?)
        };
        let items = run.items(&value)?;
        let items = run.sorted(items, key, reverse.is_true(false))?;
        run.list(items)
    }),
    ("sum", "attribute start", |run, value, [attribute, start, ..]| {
        let path = attribute_path(attribute.0);
        let items = run.items(&value)?;
        items.iter().try_fold(start.or(Val::Int(0)), |total, item| {
            let item = run.lookup_path(item, &path, None)?;
            run.operate("+", &total, &item)
        })
    }),
    ("unique", "case_sensitive attribute", |run, value, [case, attribute, ..]| {
        let (path, case) = (attribute_path(attribute.0), case.is_true(false));
        let (mut seen, mut kept): (Vec<Val>, _) = (Vec::new(), Vec::new());
        for item in run.items(&value)? {
            let key = fold_case(run.lookup_path(&item, &path, None)?, case);
            let each = run.charge_walk(&key)?;
            run.consume_fuel(seen.len().saturating_mul(each))?;
            if !seen.contains(&key) {
                seen.push(key);
                kept.push(item);
            }
        }
        run.list(kept)
    }),
];

fn default(_: &mut Interpreter<'_>, value: Val, [default, also_false, ..]: Args) -> ValueResult<Val> {
    let missing = matches!(value, Val::Undefined(_)) || (also_false.is_true(false) && !value.is_true());
    Ok(if missing { default.or(Val::text("")) } else { value })
}

fn length(_: &mut Interpreter<'_>, value: Val, _: Args) -> ValueResult<Val> {
    Ok(Val::int(match &value {
        Val::Str(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::Undefined(_) => 0,
        Val::Seq(seq) => seq.items.borrow().len(),
        Val::Map(map) if !map.namespace => map.entries.borrow().len(),
        other => return Err(other.operand_error("'length' of")),
    }))
}

/// The path from a value to one below it: `a.b`, `0`, or empty.
type Path = Vec<Val>;

fn attribute_path(value: Option<Val>) -> Path {
    match value {
        Some(Val::Str(text)) => {
            text.split('.').map(|key| key.parse().map_or_else(|_| Val::text(key), Val::Int)).collect()
        }
        Some(Val::None) | None => Vec::new(),
        Some(other) => vec![other],
    }
}

/// Returns the key by which filters compare text: case is ignored.
fn fold_case(value: Val, case_sensitive: bool) -> Val {
    match value {
        Val::Str(text) if !case_sensitive => Val::Str(text.to_lowercase().into()),
        other => other,
    }
}

impl Interpreter<'_> {
    /// Returns the value at a path; `default` if it is undefined.
    fn lookup_path(&mut self, value: &Val, path: &Path, default: Option<&Val>) -> ValueResult<Val> {
        let found = path.iter().try_fold(value.clone(), |value, key| self.item(&value, key))?;
        Ok(match (&found, default) {
            (Val::Undefined(_), Some(default)) => default.clone(),
            _ => found,
        })
    }

    /// Sorts items by the key that `by` returns; fails if two keys have no order.
    pub fn sorted(
        &mut self,
        items: Vec<Val>,
        by: impl Fn(&mut Self, &Val) -> ValueResult<Val>,
        reverse: bool,
    ) -> ValueResult<Vec<Val>> {
        self.charge_items(items.len() * 4)?;
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
                Ordering::Equal
            });
            if reverse { found.reverse() } else { found }
        });
        match wrong {
            Some(message) => Err(message),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    /// Returns the smallest or the largest item.
    fn best(&mut self, value: &Val, [case, attribute, ..]: Args, wanted: Ordering) -> ValueResult<Val> {
        let (path, case) = (attribute_path(attribute.0), case.is_true(false));
        let mut best: Option<(Val, Val)> = None;
        for item in self.items(value)? {
            let key = fold_case(self.lookup_path(&item, &path, None)?, case);
            let better = match &best {
                Some((old, _)) => self.order(&key, old)? == wanted,
                None => true,
            };
            if better {
                best = Some((key, item));
            }
        }
        Ok(best.map_or(Val::Undefined(None), |(_, item)| item))
    }

    fn mapped(&mut self, value: &Val, act: impl Fn(&mut Self, Val) -> ValueResult<Val>) -> ValueResult<Val> {
        let items = self.items(value)?;
        let made = items.into_iter().map(|item| act(self, item)).collect::<ValueResult<_>>()?;
        self.list(made)
    }

    /// Returns the items for which a test is `wanted`, or that of one of their attributes.
    fn selected(
        &mut self,
        value: &Val,
        mut args: CallArgs,
        by_attribute: bool,
        wanted: bool,
    ) -> ValueResult<Val> {
        let mut values = std::mem::take(&mut args.values).into_iter();
        let path = match by_attribute {
            true => attribute_path(Some(values.next().ok_or("'selectattr' without an attribute")?)),
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

    /// Returns what `batch` and `slice` distribute, and the number that they are given.
    fn row_items(&mut self, value: &Val, count: &Arg) -> ValueResult<(Vec<Val>, usize)> {
        let count = count.size(0)?.max(1);
        let items = self.items(value)?;
        self.charge_memory(count.min(1 << 20) * 32)?;
        Ok((items, count))
    }

    fn rows(&mut self, rows: Vec<Vec<Val>>) -> ValueResult<Val> {
        let rows = rows.into_iter().map(Val::list).collect::<ValueResult<_>>()?;
        self.list(rows)
    }
}
