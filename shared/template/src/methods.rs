//! The methods of Python's strings, lists and maps.

use std::rc::Rc;

use crate::args::{Arg, Args, CallArgs, Row, text};
use crate::eval::Interpreter;
use crate::value::{Dict, Seq, Val, ValueResult};

/// The name of a method, its parameters, and what it returns.
type Method<T> = Row<fn(&mut Interpreter<'_>, &T, Args) -> ValueResult<Val>>;

const TEXT: &[Method<str>] = &[
    ("endswith", "!", |run, text, args| run.any_part(args, |part| text.ends_with(part))),
    ("isdigit", "", |_, text, _| Ok(Val::Bool(!text.is_empty() && text.chars().all(char::is_numeric)))),
    ("join", "!", |run, between, [items, ..]| {
        let items = run.items(&items.or(Val::None))?;
        run.joined(&items, between, |_, item| Ok(text(item)?.clone()))
    }),
    ("lower", "", |run, text, _| run.case_changed(text, str::to_lowercase)),
    ("lstrip", "chars", |run, text, [chars, ..]| run.stripped(text, &chars, true, false)),
    ("replace", "old new count", |run, text, [old, new, count]| {
        run.replaced(text, old.text()?, new.text()?, &count)
    }),
    ("rsplit", "sep maxsplit", |run, text, args| run.split(text, args, true)),
    ("rstrip", "chars", |run, text, [chars, ..]| run.stripped(text, &chars, false, true)),
    ("split", "sep maxsplit", |run, text, args| run.split(text, args, false)),
    ("splitlines", "", |run, text, _| {
        run.charge_parts(text, text.lines().count())?;
        Val::list(text.lines().map(Val::text).collect())
    }),
    ("startswith", "!", |run, text, args| run.any_part(args, |part| text.starts_with(part))),
    ("strip", "chars", |run, text, [chars, ..]| run.stripped(text, &chars, true, true)),
    ("upper", "", |run, text, _| run.case_changed(text, str::to_uppercase)),
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
    ("get", "key default", |run, map, [key, default, _]| {
        let key = key.or(Val::None);
        run.charge_search(map, &key)?;
        Ok(map.get(&key).unwrap_or(default.or(Val::None)))
    }),
    ("items", "", |run, map, _| run.map_items(map)),
    ("keys", "", |run, map, _| {
        run.charge_items(map.entries.borrow().len())?;
        Val::list(map.entries.borrow().iter().map(|(key, _)| key.clone()).collect())
    }),
    ("update", "*", |run, map, args| {
        for (key, value) in run.entries(args)? {
            run.charge_search(map, &key)?;
            run.charge_copy(&value)?;
            map.insert(key, &value)?;
        }
        Ok(Val::None)
    }),
    ("values", "", |run, map, _| {
        run.charge_items(map.entries.borrow().len())?;
        Val::list(map.entries.borrow().iter().map(|(_, value)| value.clone()).collect())
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
        let (call, args) = self.bound(&[table], kind, name, args)?;
        call(self, of, args)
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
            let text = text(self, item)?;
            self.charge_memory(between.len() + text.len())?;
            out.push_str(if i > 0 { between } else { "" });
            out.push_str(&text);
        }
        Ok(Val::Str(out.into()))
    }

    pub fn replaced(&mut self, text: &str, old: &str, new: &str, count: &Arg) -> ValueResult<Val> {
        let count = if count.some().is_none() { usize::MAX } else { count.max()? };
        let times = text.matches(old).count().min(count);
        let bytes = times.saturating_mul(new.len()).saturating_add(text.len());
        self.text(bytes, || text.replacen(old, new, count))
    }

    fn split(&mut self, text: &str, [between, most, _]: Args, from_end: bool) -> ValueResult<Val> {
        let most = most.max()?;
        let many = most.saturating_add(1);
        let between = between.some_text()?;
        let count = match between {
            Some("") => return Err("'split' by an empty string".into()),
            Some(between) => text.matches(between).count().min(most),
            None if most < usize::MAX => return Err("'split' with a limit needs a separator".into()),
            None => text.split_whitespace().count(),
        };
        self.charge_parts(text, count)?;
        let mut parts: Vec<Val> = match between {
            Some(between) if from_end => text.rsplitn(many, between).map(Val::text).collect(),
            Some(between) => text.splitn(many, between).map(Val::text).collect(),
            None => text.split_whitespace().map(Val::text).collect(),
        };
        if from_end && between.is_some() {
            parts.reverse();
        }
        Val::list(parts)
    }

    /// Charges for the parts of a string that is separated in this many places.
    pub fn charge_parts(&mut self, text: &str, places: usize) -> ValueResult<()> {
        self.charge_memory(text.len())?;
        self.charge_items((places + 1).saturating_mul(2))
    }

    /// Returns a string in another case; a letter may become three.
    pub fn case_changed(&mut self, text: &str, change: fn(&str) -> String) -> ValueResult<Val> {
        self.text(text.len().saturating_mul(3), || change(text))
    }

    pub fn stripped(&mut self, text: &str, chars: &Arg, start: bool, end: bool) -> ValueResult<Val> {
        let set = chars.some_text()?;
        self.consume_fuel(text.len().saturating_mul(set.map_or(1, str::len)) / 16)?;
        let goes = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
        let text = if start { text.trim_start_matches(goes) } else { text };
        let text = if end { text.trim_end_matches(goes) } else { text };
        self.text(text.len(), || text.into())
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
