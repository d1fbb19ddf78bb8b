//! The methods of Python's strings, lists and maps.

use std::rc::Rc;

use crate::args::{Arg, Args, CallArgs, Row, find, text};
use crate::eval::Interpreter;
use crate::format::pad;
use crate::value::{Dict, Seq, Val, ValueResult};

/// The name of a method, its parameters, and what it returns.
type Method<T> = Row<fn(&mut Interpreter<'_>, &T, Args) -> ValueResult<Val>>;

const TEXT: &[Method<str>] = &[
    ("endswith", "!", |run, text, args| run.any_part(args, |part| text.ends_with(part))),
    ("format", "*", |run, text, [values, named, _]| {
        let text = run.str_format(text, &values.or(Val::None), &named.or(Val::None))?;
        run.text(text)
    }),
    ("isdigit", "", |_, text, _| Ok(Val::Bool(!text.is_empty() && text.chars().all(char::is_numeric)))),
    ("join", "!", |run, between, [items, ..]| {
        let items = run.items(&items.or(Val::None))?;
        run.joined(&items, between, |_, item| Ok(text(item)?.clone()))
    }),
    ("lower", "", |run, text, _| run.text(text.to_lowercase())),
    ("lstrip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, true, false)?.into())),
    ("replace", "old new count", |run, text, [old, new, count]| {
        run.replaced(text, old.text()?, new.text()?, &count)
    }),
    ("rsplit", "sep maxsplit", |run, text, args| run.split(text, args, true)),
    ("rstrip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, false, true)?.into())),
    ("split", "sep maxsplit", |run, text, args| run.split(text, args, false)),
    ("splitlines", "", |run, text, _| run.text_parts(text, text.lines().collect())),
    ("startswith", "!", |run, text, args| run.any_part(args, |part| text.starts_with(part))),
    ("strip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, true, true)?.into())),
    ("upper", "", |run, text, _| run.text(text.to_uppercase())),
    ("zfill", "!", |run, text, [width, ..]| {
        let width = width.size(0)?;
        run.charge_memory(width)?;
        run.text(pad(text, width, '0', '='))
    }),
];

const LIST: &[Method<Seq>] = &[
    ("append", "!", |run, list, [value, ..]| {
        let value = value.or(Val::None);
        run.charge_copy(&value)?;
        list.push(&value)?;
        Ok(Val::None)
    }),
    ("extend", "!", |run, list, [values, ..]| {
        let values = values.or(Val::None);
        run.charge_copy(&values)?;
        for value in run.items(&values)? {
            list.push(&value)?;
        }
        Ok(Val::None)
    }),
];

const MAP: &[Method<Dict>] = &[
    ("get", "key default", |_, map, [key, default, _]| {
        let found = key.0.and_then(|key| map.get(&key));
        Ok(found.unwrap_or(default.or(Val::None)))
    }),
    ("items", "", |run, map, _| run.map_items(map)),
    ("keys", "", |run, map, _| {
        let keys = map.entries.borrow().iter().map(|(key, _)| key.clone()).collect();
        run.list(keys)
    }),
    ("update", "*", |run, map, args| {
        for (key, value) in run.entries(args)? {
            run.consume_fuel(map.entries.borrow().len())?;
            run.charge_copy(&value)?;
            map.insert(key, &value)?;
        }
        Ok(Val::None)
    }),
    ("values", "", |run, map, _| {
        let values = map.entries.borrow().iter().map(|(_, value)| value.clone()).collect();
        run.list(values)
    }),
];

impl Interpreter<'_> {
    pub fn method(&mut self, of: &Val, name: &str, args: CallArgs) -> ValueResult<Val> {
        self.consume_fuel(match of {
            Val::Str(text) => text.len() / 16,
            Val::Seq(list) => list.items.borrow().len(),
            Val::Map(map) => map.entries.borrow().len(),
            _ => 0,
        })?;
        self.charge_args(&args)?;
        match of {
            Val::Str(text) => self.call_row(TEXT, "method of strings", text, name, args),
            Val::Seq(list) => self.call_row(LIST, "method of lists", list, name, args),
            Val::Map(map) => self.call_row(MAP, "method of maps", map, name, args),
            Val::Loop(_, at) if name == "cycle" => {
                let count = args.values.len().max(1);
                args.values.get(at % count).cloned().ok_or_else(|| "'loop.cycle' without items".into())
            }
            other => Err(other.operand_error(&format!("'{name}()' of"))),
        }
    }

    fn call_row<T: ?Sized>(
        &mut self,
        table: &'static [Method<T>],
        kind: &str,
        of: &T,
        name: &str,
        args: CallArgs,
    ) -> ValueResult<Val> {
        let (_, parameters, call) = find(&[table], kind, name)?;
        call(self, of, args.bind(parameters)?)
    }

    pub fn map_items(&mut self, map: &Dict) -> ValueResult<Val> {
        let entries = map.entries.borrow();
        self.charge_items(entries.len() * 4)?;
        let pairs = entries.iter().map(|(key, value)| Val::tuple(vec![key.clone(), value.clone()]));
        Val::list(pairs.collect::<ValueResult<_>>()?)
    }

    /// Joins the strings that `text` returns for the items.
    pub fn joined(
        &mut self,
        items: &[Val],
        between: &str,
        text: impl Fn(&mut Self, &Val) -> ValueResult<Rc<str>>,
    ) -> ValueResult<Val> {
        let mut out = String::new();
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(between);
            }
            out.push_str(&text(self, item)?);
            self.charge_memory(between.len())?;
        }
        self.text(out)
    }

    pub fn replaced(&mut self, text: &str, old: &str, new: &str, count: &Arg) -> ValueResult<Val> {
        let count = if count.some().is_none() { usize::MAX } else { count.max()? };
        let times = text.matches(old).count().min(count);
        self.charge_memory(text.len() + times.saturating_mul(new.len()))?;
        Ok(Val::Str(text.replacen(old, new, count).into()))
    }

    fn split(&mut self, text: &str, [between, most, _]: Args, from_end: bool) -> ValueResult<Val> {
        let most = most.max()?;
        let many = most.saturating_add(1);
        let mut parts: Vec<&str> = match between.some_text()? {
            Some("") => return Err("'split' by an empty string".into()),
            Some(between) if from_end => text.rsplitn(many, between).collect(),
            Some(between) => text.splitn(many, between).collect(),
            None if most < usize::MAX => return Err("'split' with a limit needs a separator".into()),
            None => text.split_whitespace().collect(),
        };
        if from_end && between.some().is_some() {
            parts.reverse();
        }
        self.text_parts(text, parts)
    }

    fn text_parts(&mut self, text: &str, parts: Vec<&str>) -> ValueResult<Val> {
        self.charge_memory(text.len() + parts.len() * 32)?;
        self.list(parts.into_iter().map(Val::text).collect())
    }

    /// Returns whether a condition is true for a string or for one of several.
    fn any_part(&mut self, [parts, ..]: Args, fits: impl Fn(&str) -> bool) -> ValueResult<Val> {
        let parts = match parts.or(Val::None) {
            parts @ Val::Seq(_) => self.items(&parts)?,
            part => vec![part],
        };
        for part in &parts {
            if fits(text(part)?) {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }
}

pub fn stripped<'t>(text: &'t str, chars: &Arg, start: bool, end: bool) -> ValueResult<&'t str> {
    let set = chars.some_text()?;
    let goes = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(if end { text.trim_end_matches(goes) } else { text })
}
