//! The methods of Python's strings, bytes, lists and maps.

use std::rc::Rc;

use crate::args::{Arg, Args, CallArgs, Row, find, int, text};
use crate::eval::Interpreter;
use crate::format::pad;
use crate::value::{Callable, Dict, Seq, Val, ValueResult, check_hashable, resolve_index};

/// The name of a method, its parameters, and what it returns.
type Method<T> = Row<fn(&mut Interpreter<'_>, &T, Args) -> ValueResult<Val>>;

const TEXT: &[Method<str>] = &[
    ("capitalize", "", |run, text, _| run.text(capitalized(text))),
    ("casefold", "", |run, text, _| run.text(text.to_lowercase())),
    ("center", "width fillchar", |run, text, args| run.justified(text, args, 'c')),
    ("count", "! start end", |_, text, args| {
        let part = args[0].text()?;
        Ok(Val::int(range(text, &args)?.map_or(0, |(_, range)| range.matches(part).count())))
    }),
    ("encode", "encoding errors", |run, text, [encoding, ..]| {
        check_utf8_encoding(&encoding)?;
        run.charge_memory(text.len())?;
        Ok(Val::Bytes(text.as_bytes().into()))
    }),
    ("endswith", "! start end", |run, text, args| {
        run.any_part(text, args, |range, part| range.ends_with(part))
    }),
    ("find", "! start end", |_, text, args| Ok(place(text, &args, false)?.unwrap_or(Val::Int(-1)))),
    ("format", "*", |run, text, [values, named, ..]| {
        let text = run.str_format(text, &values.or(Val::None), &named.or(Val::None))?;
        run.text(text)
    }),
    ("index", "! start end", |_, text, args| place(text, &args, false)?.ok_or_else(not_found)),
    ("isalnum", "", |_, text, _| all(text, char::is_alphanumeric)),
    ("isalpha", "", |_, text, _| all(text, char::is_alphabetic)),
    ("isascii", "", |_, text, _| Ok(Val::Bool(text.is_ascii()))),
    ("isdecimal", "", |_, text, _| all(text, char::is_numeric)),
    ("isdigit", "", |_, text, _| all(text, char::is_numeric)),
    ("islower", "", |_, text, _| all_letters(text, char::is_lowercase)),
    ("isnumeric", "", |_, text, _| all(text, char::is_numeric)),
    ("isspace", "", |_, text, _| all(text, char::is_whitespace)),
    ("isupper", "", |_, text, _| all_letters(text, char::is_uppercase)),
    ("join", "!", |run, between, [items, ..]| {
        let items = run.items(&items.or(Val::None))?;
        run.joined(&items, between, |_, item| Ok(text(item)?.clone()))
    }),
    ("ljust", "width fillchar", |run, text, args| run.justified(text, args, '<')),
    ("lower", "", |run, text, _| run.text(text.to_lowercase())),
    ("lstrip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, true, false)?.into())),
    ("partition", "!", |run, text, [between, ..]| {
        let between = between.text()?;
        run.parts(text, text.split_once(between).map_or([text, "", ""], |(a, b)| [a, between, b]))
    }),
    ("removeprefix", "!", |run, text, [part, ..]| {
        run.text(text.strip_prefix(part.text()?).unwrap_or(text).into())
    }),
    ("removesuffix", "!", |run, text, [part, ..]| {
        run.text(text.strip_suffix(part.text()?).unwrap_or(text).into())
    }),
    ("replace", "old new count", |run, text, [old, new, count, _]| {
        run.replaced(text, old.text()?, new.text()?, &count)
    }),
    ("rfind", "! start end", |_, text, args| Ok(place(text, &args, true)?.unwrap_or(Val::Int(-1)))),
    ("rindex", "! start end", |_, text, args| place(text, &args, true)?.ok_or_else(not_found)),
    ("rjust", "width fillchar", |run, text, args| run.justified(text, args, '>')),
    ("rpartition", "!", |run, text, [between, ..]| {
        let between = between.text()?;
        run.parts(text, text.rsplit_once(between).map_or(["", "", text], |(a, b)| [a, between, b]))
    }),
    ("rsplit", "sep maxsplit", |run, text, args| run.split(text, args, true)),
    ("rstrip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, false, true)?.into())),
    ("split", "sep maxsplit", |run, text, args| run.split(text, args, false)),
    ("splitlines", "keepends", |run, text, [keep_ends, ..]| {
        let lines = if keep_ends.is_true(false) {
            text.split_inclusive('\n').collect()
        } else {
            text.lines().collect()
        };
        run.text_parts(text, lines)
    }),
    ("startswith", "! start end", |run, text, args| {
        run.any_part(text, args, |range, part| range.starts_with(part))
    }),
    ("strip", "chars", |run, text, [chars, ..]| run.text(stripped(text, &chars, true, true)?.into())),
    ("swapcase", "", |run, text, _| {
        let mut out = String::new();
        for c in text.chars() {
            if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
        }
        run.text(out)
    }),
    ("title", "", |run, text, _| run.text(titled(text, |c| !c.is_alphabetic()))),
    ("upper", "", |run, text, _| run.text(text.to_uppercase())),
    ("zfill", "!", |run, text, [width, ..]| {
        // Not after a space, which is no sign.
        let align = if text.starts_with(' ') { '>' } else { '=' };
        run.justified(text, [width, Arg(Some(Val::text("0"))), Arg(None), Arg(None)], align)
    }),
];

const BYTES: &[Method<[u8]>] = &[
    ("decode", "encoding errors", |run, bytes, [encoding, ..]| {
        check_utf8_encoding(&encoding)?;
        run.text(std::str::from_utf8(bytes).map_err(|_| "'decode' of invalid UTF-8")?.into())
    }),
    ("hex", "", |run, bytes, _| run.text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())),
];

/// The first two are those of tuples too.
const LIST: &[Method<Seq>] = &[
    ("count", "!", |_, list, [value, ..]| {
        let value = value.or(Val::None);
        Ok(Val::int(list.items.borrow().iter().filter(|item| **item == value).count()))
    }),
    ("index", "!", |_, list, [value, ..]| list.index_of(&value.or(Val::None)).map(Val::int)),
    ("append", "!", |_, list, [value, ..]| {
        list.insert(usize::MAX, &value.or(Val::None))?;
        Ok(Val::None)
    }),
    ("clear", "", |_, list, _| {
        list.items.borrow_mut().clear();
        Ok(Val::None)
    }),
    ("copy", "", |run, list, _| {
        let items = list.items.borrow().clone();
        run.list(items)
    }),
    ("extend", "!", |run, list, [values, ..]| {
        for value in run.items(&values.or(Val::None))? {
            list.insert(usize::MAX, &value)?;
        }
        Ok(Val::None)
    }),
    ("insert", "! !", |_, list, [at, value, ..]| {
        let (at, length) = (at.int(0)?, list.items.borrow().len() as i128);
        let at = if at < 0 { at.saturating_add(length).max(0) } else { at.min(length) };
        list.insert(at as usize, &value.or(Val::None))?;
        Ok(Val::None)
    }),
    ("pop", "index", |_, list, [at, ..]| {
        let (at, mut items) = (at.int(-1)?, list.items.borrow_mut());
        let at = resolve_index(at, items.len()).ok_or("'pop': no such item")?;
        Ok(items.remove(at))
    }),
    ("remove", "!", |_, list, [value, ..]| {
        let at = list.index_of(&value.or(Val::None))?;
        list.items.borrow_mut().remove(at);
        Ok(Val::None)
    }),
    ("reverse", "", |_, list, _| {
        list.items.borrow_mut().reverse();
        Ok(Val::None)
    }),
    ("sort", "", |run, list, _| {
        let sorted = run.sorted(list.items.borrow().clone(), |_, item| Ok(item.clone()), false)?;
        *list.items.borrow_mut() = sorted;
        Ok(Val::None)
    }),
];

const MAP: &[Method<Dict>] = &[
    ("clear", "", |_, map, _| {
        map.entries.borrow_mut().clear();
        Ok(Val::None)
    }),
    ("copy", "", |run, map, _| {
        let entries = map.entries.borrow().clone();
        run.charge_items(entries.len() * 2)?;
        Val::map(entries, false)
    }),
    ("get", "key default", |_, map, [key, default, ..]| {
        let found = key.0.and_then(|key| map.get(&key));
        Ok(found.unwrap_or(default.or(Val::None)))
    }),
    ("items", "", |run, map, _| run.map_items(map)),
    ("keys", "", |run, map, _| {
        let keys = map.entries.borrow().iter().map(|(key, _)| key.clone()).collect();
        run.list(keys)
    }),
    ("pop", "key default", |_, map, [key, default, ..]| match map.index_of(&key.or(Val::None)) {
        Some(at) => Ok(map.entries.borrow_mut().remove(at).1),
        None => default.0.ok_or_else(|| "'pop': no such item".into()),
    }),
    ("popitem", "", |_, map, _| {
        let (key, value) = map.entries.borrow_mut().pop().ok_or("'popitem' of an empty map")?;
        Val::tuple(vec![key, value])
    }),
    ("setdefault", "key default", |run, map, [key, default, ..]| {
        let (key, default) = (key.or(Val::None), default.or(Val::None));
        if let Some(found) = map.get(&key) {
            return Ok(found);
        }
        // The map itself as a key would be a value without an end.
        check_hashable(&key)?;
        run.charge_items(2)?;
        map.insert(key.clone(), &default)?;
        Ok(map.get(&key).unwrap_or(default))
    }),
    ("update", "*", |run, map, args| {
        for (key, value) in run.entries(args)? {
            run.consume_fuel(map.entries.borrow().len())?;
            map.insert(key, &value)?;
        }
        Ok(Val::None)
    }),
    ("values", "", |run, map, _| {
        let values = map.entries.borrow().iter().map(|(_, value)| value.clone()).collect();
        run.list(values)
    }),
];

fn not_found() -> String {
    "'index': no such item".into()
}

/// Returns the name of a method if the value has it.
pub fn method_name(of: &Val, name: &str) -> Option<&'static str> {
    let one_of = |names: &[&'static str]| names.iter().find(|of| **of == name).copied();
    match of {
        Val::Str(_) | Val::Safe(_) => find(TEXT, name).map(|row| row.0),
        Val::Bytes(_) => find(BYTES, name).map(|row| row.0),
        Val::Seq(list) => find(if list.tuple { &LIST[..2] } else { LIST }, name).map(|row| row.0),
        Val::Map(map) if !map.namespace => find(MAP, name).map(|row| row.0),
        Val::Float(_) => one_of(&["is_integer"]),
        Val::Callable(callable) => match &**callable {
            Callable::Loop(_) => one_of(&["cycle", "changed"]),
            Callable::Cycler { .. } => one_of(&["next", "reset"]),
            _ => None,
        },
        _ => None,
    }
}

impl Interpreter<'_> {
    pub fn method(&mut self, of: &Val, name: &str, args: CallArgs) -> ValueResult<Val> {
        match of {
            Val::Str(text) => {
                self.consume_fuel(text.len() / 16)?;
                self.call_row(TEXT, text, name, args)
            }
            Val::Safe(text) => self.safe_method(text, name, args),
            Val::Bytes(bytes) => {
                self.charge_memory(bytes.len() * 2)?;
                self.call_row(BYTES, bytes, name, args)
            }
            Val::Seq(list) => {
                let length = list.items.borrow().len();
                self.consume_fuel(length)?;
                let total = self.charge_arguments(&args)?;
                match name {
                    "remove" | "index" | "count" => self.consume_fuel(total.saturating_mul(length))?,
                    _ => self.charge_items(total.saturating_add(1))?,
                }
                self.call_row(LIST, list, name, args)
            }
            Val::Map(map) => {
                self.consume_fuel(map.entries.borrow().len())?;
                let total = self.charge_arguments(&args)?;
                if matches!(name, "setdefault" | "update") {
                    self.charge_items(total.saturating_mul(2))?;
                }
                self.call_row(MAP, map, name, args)
            }
            Val::Float(f) => Ok(Val::Bool(f.fract() == 0.0)),
            Val::Callable(callable) => self.callable_method(callable, name, args),
            other => Err(format!("{} has no '{name}'", other.type_name())),
        }
    }

    fn call_row<T: ?Sized>(
        &mut self,
        table: &'static [Method<T>],
        of: &T,
        name: &str,
        args: CallArgs,
    ) -> ValueResult<Val> {
        let (_, parameters, call) = find(table, name).ok_or_else(|| format!("'{name}' is undefined"))?;
        call(self, of, args.bind(parameters)?)
    }

    /// Charges for a walk over all arguments, and returns its length.
    fn charge_arguments(&mut self, args: &CallArgs) -> ValueResult<usize> {
        let mut values = args.values.iter().chain(args.named.iter().map(|(_, value)| value));
        values.try_fold(0_usize, |total, value| Ok(total.saturating_add(self.charge_walk(value)?)))
    }

    /// Calls a method of a safe text; the arguments are escaped.
    fn safe_method(&mut self, text: &Rc<str>, name: &str, mut args: CallArgs) -> ValueResult<Val> {
        if matches!(name, "replace" | "join" | "format" | "center" | "ljust" | "rjust") {
            for value in args.values.iter_mut().chain(args.named.iter_mut().map(|(_, value)| value)) {
                *value = match &*value {
                    Val::Str(_) | Val::Safe(_) => Val::Str(self.escape(value)?),
                    Val::Seq(_) if name == "join" => {
                        let items = self.items(value)?;
                        let items = items.iter().map(|item| Ok(Val::Str(self.escape(item)?)));
                        Val::list(items.collect::<ValueResult<_>>()?)?
                    }
                    other => other.clone(),
                };
            }
        }
        Ok(match self.method(&Val::Str(text.clone()), name, args)? {
            Val::Seq(seq) => {
                let items = seq.items.borrow().iter().map(|item| item.clone().into_safe()).collect();
                Val::seq(items, seq.tuple)?
            }
            other => other.into_safe(),
        })
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

    fn justified(&mut self, text: &str, [width, fill, ..]: Args, align: char) -> ValueResult<Val> {
        let width = width.size(0)?;
        let fill = fill.or(Val::text(" "));
        self.charge_memory(width)?;
        self.text(pad(text, width, crate::args::text(&fill)?, align))
    }

    fn split(&mut self, text: &str, [between, most, ..]: Args, from_end: bool) -> ValueResult<Val> {
        let most = most.max()?;
        let many = most.saturating_add(1);
        let mut parts: Vec<&str> = match (between.some_text()?, from_end) {
            (Some(""), _) => return Err("'split' by an empty string".into()),
            (Some(between), false) => text.splitn(many, between).collect(),
            (Some(between), true) => text.rsplitn(many, between).collect(),
            (None, false) => words(text.trim_start(), most, |rest| {
                rest.split_once(char::is_whitespace).map(|(word, rest)| (word, rest.trim_start()))
            }),
            (None, true) => words(text.trim_end(), most, |rest| {
                rest.rsplit_once(char::is_whitespace).map(|(rest, word)| (word, rest.trim_end()))
            }),
        };
        if from_end {
            parts.reverse();
        }
        self.text_parts(text, parts)
    }

    fn text_parts(&mut self, text: &str, parts: Vec<&str>) -> ValueResult<Val> {
        self.charge_memory(text.len() + parts.len() * 32)?;
        self.list(parts.into_iter().map(Val::text).collect())
    }

    fn parts(&mut self, text: &str, parts: [&str; 3]) -> ValueResult<Val> {
        self.charge_memory(text.len())?;
        Val::tuple(parts.map(Val::text).into())
    }

    /// Returns whether a condition is true for a string or for one of several, in a range of the text.
    fn any_part(&mut self, text: &str, args: Args, fits: fn(&str, &str) -> bool) -> ValueResult<Val> {
        let range = range(text, &args)?;
        let [parts, ..] = args;
        let parts = match parts.or(Val::None) {
            parts @ Val::Seq(_) => self.items(&parts)?,
            part => vec![part],
        };
        for part in &parts {
            let part = crate::args::text(part)?;
            if range.is_some_and(|(_, range)| fits(range, part)) {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }
}

impl Seq {
    fn index_of(&self, value: &Val) -> ValueResult<usize> {
        let found = self.items.borrow().iter().position(|item| item == value);
        found.ok_or_else(not_found)
    }
}

/// Returns the text between the second and the third argument, which count characters as in a slice, and where it begins
/// in bytes. Returns `None` if it would end before it begins: then not even an empty string is in it.
fn range<'t>(text: &'t str, [_, start, end, _]: &Args) -> ValueResult<Option<(usize, &'t str)>> {
    if start.some().or(end.some()).is_none() {
        return Ok(Some((0, text)));
    }
    let length = text.chars().count() as i128;
    let resolve = |at: i128| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let start = start.some().map_or(Ok(0), int).map(resolve)?;
    let end = end.some().map_or(Ok(length), int).map(resolve)?.min(length);
    if start > end {
        return Ok(None);
    }
    let byte = |at: i128| text.char_indices().nth(at as usize).map_or(text.len(), |(byte, _)| byte);
    let begin = byte(start);
    Ok(text.get(begin..byte(end)).map(|range| (begin, range)))
}

/// Returns the place of a string within a range of the text, in characters.
fn place(text: &str, args: &Args, from_end: bool) -> ValueResult<Option<Val>> {
    let part = args[0].text()?;
    let Some((begin, range)) = range(text, args)? else { return Ok(None) };
    let found = if from_end { range.rfind(part) } else { range.find(part) };
    Ok(found.map(|at| Val::int(text[..begin + at].chars().count())))
}

/// Fails for any encoding but UTF-8.
fn check_utf8_encoding(encoding: &Arg) -> ValueResult<()> {
    let name = encoding.0.as_ref().map_or(Ok("utf-8"), |name| text(name).map(|name| &**name))?;
    match &*name.to_ascii_lowercase().replace('_', "-") {
        "utf-8" | "utf8" => Ok(()),
        _ => Err("an encoding other than UTF-8".into()),
    }
}

/// Splits at whitespace, at most `most` times; `next` returns a word and the rest.
fn words<'t>(
    mut rest: &'t str,
    most: usize,
    next: fn(&'t str) -> Option<(&'t str, &'t str)>,
) -> Vec<&'t str> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (word, tail) = next(rest).filter(|_| found.len() < most).unwrap_or((rest, ""));
        found.push(word);
        rest = tail;
    }
    found
}

fn all(text: &str, fits: fn(char) -> bool) -> ValueResult<Val> {
    Ok(Val::Bool(!text.is_empty() && text.chars().all(fits)))
}

/// Returns whether all letters that have a case fit, and there are some.
fn all_letters(text: &str, fits: fn(char) -> bool) -> ValueResult<Val> {
    let letters: String = text.chars().filter(|c| c.is_lowercase() || c.is_uppercase()).collect();
    all(&letters, fits)
}

/// Writes the first letter after each boundary in upper case, all others in lower case.
pub fn titled(text: &str, is_boundary: fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut begins = true;
    for c in text.chars() {
        if begins {
            out.extend(c.to_uppercase())
        } else {
            out.extend(c.to_lowercase())
        }
        begins = is_boundary(c);
    }
    out
}

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

pub fn stripped<'t>(text: &'t str, chars: &Arg, start: bool, end: bool) -> ValueResult<&'t str> {
    let set = chars.some_text()?;
    let goes = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(if end { text.trim_end_matches(goes) } else { text })
}
