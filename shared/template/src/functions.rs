//! What templates call: Jinja's global functions, and the methods of Python's texts, lists and maps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::eval::{CallArgs, Interpreter};
use crate::operators::{check_hashable, float_text, integer_text};
use crate::value::{Callable, Number, Val, ValueResult, equal, number, order};

pub const GLOBALS: &[&str] = &["range", "dict", "cycler", "joiner", "namespace"];

/// As Jinja's sandbox has it.
const MAX_RANGE: i128 = 100_000;

/// What can be asked of a loop and its like, besides their methods.
pub fn callable_attribute(of: &Callable, name: &str) -> ValueResult<Option<Val>> {
    let int = |n: usize| Some(Val::Int(n as i128));
    Ok(match of {
        Callable::Loop(state) => {
            let (at, all) = (state.index.get(), state.items.len());
            let near = |at: Option<usize>| {
                let item = at.and_then(|at| state.items.get(at).cloned());
                Some(item.unwrap_or(Val::Undefined(None)))
            };
            match name {
                "index" => int(at + 1),
                "index0" => int(at),
                "revindex" => int(all - at),
                "revindex0" => int(all - at - 1),
                "first" => Some(Val::Bool(at == 0)),
                "last" => Some(Val::Bool(at + 1 == all)),
                "length" => int(all),
                "depth" => int(state.level + 1),
                "depth0" => int(state.level),
                "previtem" => near(at.checked_sub(1)),
                "nextitem" => near(Some(at + 1)),
                _ => None,
            }
        }
        Callable::Cycler { items, at } if name == "current" => {
            items.get(at.get() % items.len().max(1)).cloned()
        }
        Callable::Macro(of, ..) => match name {
            "name" => Some(Val::Str(of.name.clone())),
            "arguments" => {
                Some(Val::tuple(of.parameters.iter().map(|(n, _)| Val::Str(n.clone())).collect())?)
            }
            "catch_varargs" => Some(Val::Bool(of.varargs)),
            "catch_kwargs" => Some(Val::Bool(of.kwargs)),
            "caller" => Some(Val::Bool(of.caller)),
            _ => None,
        },
        _ => None,
    })
}

fn int_arg(value: &Val) -> ValueResult<i128> {
    match number(value) {
        Some(Number::Int(n)) => Ok(n),
        _ => Err(format!("expected an integer, found {}", value.type_name())),
    }
}

fn str_arg(value: &Val) -> ValueResult<&str> {
    match value {
        Val::Str(text) | Val::Safe(text) => Ok(text),
        other => Err(format!("expected text, found {}", other.type_name())),
    }
}

impl Interpreter<'_> {
    pub fn function(&mut self, name: &str, args: CallArgs) -> ValueResult<Val> {
        match name {
            "range" => {
                let [a, b, step] = args.bind(["start", "stop", "step"])?;
                let (from, to) = match (&a, &b) {
                    (Some(to), None) => (0, int_arg(to)?),
                    (Some(from), Some(to)) => (int_arg(from)?, int_arg(to)?),
                    _ => return Err("'range' without numbers".into()),
                };
                let step = step.as_ref().map_or(Ok(1), int_arg)?;
                if step == 0 {
                    return Err("'range' with a step of zero".into());
                }
                let count = to.saturating_sub(from).checked_div(step).unwrap_or(0).saturating_abs();
                if count > MAX_RANGE {
                    return Err(format!("'range' of more than {MAX_RANGE} numbers"));
                }
                let mut items = Vec::new();
                let mut at = from;
                while (step > 0 && at < to) || (step < 0 && at > to) {
                    items.push(Val::Int(at));
                    at = at.saturating_add(step);
                }
                self.list(items)
            }
            "dict" | "namespace" => {
                let mut entries = Vec::new();
                for value in args.values {
                    entries.extend(self.pairs(&value)?);
                }
                entries.extend(args.named.into_iter().map(|(n, v)| (Val::Str(n), v)));
                if name == "namespace" {
                    for (_, value) in &mut entries {
                        self.charge_walk(value)?;
                        *value = value.deep_copy()?;
                    }
                }
                self.consume_fuel(entries.len() * entries.len() / 16)?;
                Val::map(entries, name == "namespace")
            }
            "cycler" if args.values.is_empty() => Err("'cycler' without items".into()),
            "cycler" => Ok(Val::Callable(Rc::new(Callable::Cycler { items: args.values, at: Cell::new(0) }))),
            _ => {
                let [between] = args.bind(["sep"])?;
                let between = between.unwrap_or_else(|| Val::text(", "));
                Ok(Val::Callable(Rc::new(Callable::Joiner { between, used: Cell::new(false) })))
            }
        }
    }

    /// A map's entries, or those of a list of pairs.
    pub fn pairs(&mut self, value: &Val) -> ValueResult<Vec<(Val, Val)>> {
        if let Val::Map(map) = value {
            return Ok(map.entries.borrow().clone());
        }
        let mut found = Vec::new();
        for item in self.items(value)? {
            let [key, value]: [Val; 2] =
                self.items(&item)?.try_into().map_err(|_| "expected pairs of key and value")?;
            check_hashable(&key)?;
            found.push((key, value));
        }
        Ok(found)
    }

    pub fn method(&mut self, of: &Val, name: &'static str, args: CallArgs) -> ValueResult<Val> {
        match of {
            Val::Str(text) => self.text_method(text, name, args),
            Val::Safe(text) => self.safe_method(text, name, args),
            Val::Bytes(bytes) => self.bytes_method(bytes, name, args),
            Val::Seq(seq) => {
                let same = |value: &Val| seq.items.borrow().iter().position(|item| equal(item, value));
                self.consume_fuel(seq.items.borrow().len())?;
                let mut total = 0_usize;
                for value in &args.values {
                    total = total.saturating_add(self.charge_walk(value)?);
                }
                if matches!(name, "remove" | "index" | "count") {
                    self.consume_fuel(total.saturating_mul(seq.items.borrow().len()))?;
                } else {
                    self.charge_memory(total.saturating_mul(size_of::<Val>()))?;
                }
                match name {
                    "append" => {
                        let [value] = required(args)?;
                        self.charge_memory(size_of::<Val>())?;
                        let end = seq.items.borrow().len();
                        seq.insert(end, &value)?;
                    }
                    "extend" => {
                        let [values] = required(args)?;
                        for value in self.items(&values)? {
                            let end = seq.items.borrow().len();
                            seq.insert(end, &value)?;
                        }
                    }
                    "insert" => {
                        let [at, value] = required(args)?;
                        let length = seq.items.borrow().len() as i128;
                        let at = int_arg(&at)?;
                        let at = if at < 0 { at.saturating_add(length).max(0) } else { at.min(length) };
                        self.charge_memory(size_of::<Val>())?;
                        seq.insert(at as usize, &value)?;
                    }
                    "pop" => {
                        let [at] = args.bind(["index"])?;
                        let length = seq.items.borrow().len() as i128;
                        let at = at.as_ref().map_or(Ok(-1), int_arg)?;
                        let at = if at < 0 { at.saturating_add(length) } else { at };
                        if at < 0 || at >= length {
                            return Err("'pop' of what is not there".into());
                        }
                        return Ok(seq.items.borrow_mut().remove(at as usize));
                    }
                    "remove" => {
                        let [value] = required(args)?;
                        let at = same(&value).ok_or("'remove' of what is not there")?;
                        seq.items.borrow_mut().remove(at);
                    }
                    "reverse" => seq.items.borrow_mut().reverse(),
                    "sort" => {
                        let sorted = self.sorted(seq.items.borrow().clone(), |_, v| Ok(v.clone()), false)?;
                        *seq.items.borrow_mut() = sorted;
                    }
                    "clear" => seq.items.borrow_mut().clear(),
                    "copy" => {
                        let items = seq.items.borrow().clone();
                        return self.list(items);
                    }
                    "index" => {
                        let [value] = required(args)?;
                        return Ok(Val::Int(same(&value).ok_or("'index' of what is not there")? as i128));
                    }
                    _ => {
                        let [value] = required(args)?;
                        let count = seq.items.borrow().iter().filter(|item| equal(item, &value)).count();
                        return Ok(Val::Int(count as i128));
                    }
                }
                Ok(Val::None)
            }
            Val::Map(map) => {
                let length = map.entries.borrow().len();
                self.consume_fuel(length)?;
                let mut total = 0_usize;
                for value in args.values.iter().chain(args.named.iter().map(|(_, value)| value)) {
                    total = total.saturating_add(self.charge_walk(value)?);
                }
                if matches!(name, "setdefault" | "update") {
                    self.charge_memory(total.saturating_mul(2 * size_of::<Val>()))?;
                }
                match name {
                    "items" => {
                        self.charge_memory(length * 4 * size_of::<Val>())?;
                        let entries = map.entries.borrow();
                        let pairs = entries.iter().map(|(k, v)| Val::tuple(vec![k.clone(), v.clone()]));
                        Val::list(pairs.collect::<ValueResult<_>>()?)
                    }
                    "keys" => {
                        let keys = map.entries.borrow().iter().map(|(k, _)| k.clone()).collect();
                        self.list(keys)
                    }
                    "values" => {
                        let values = map.entries.borrow().iter().map(|(_, v)| v.clone()).collect();
                        self.list(values)
                    }
                    "get" => {
                        let [key, default] = args.bind(["key", "default"])?;
                        let found = key.and_then(|key| map.get(&key));
                        Ok(found.or(default).unwrap_or(Val::None))
                    }
                    "setdefault" => {
                        let [key, default] = args.bind(["key", "default"])?;
                        let (key, default) = (key.unwrap_or(Val::None), default.unwrap_or(Val::None));
                        if let Some(found) = map.get(&key) {
                            return Ok(found);
                        }
                        self.charge_memory(2 * size_of::<Val>())?;
                        map.insert(key.clone(), &default)?;
                        Ok(map.get(&key).unwrap_or(default))
                    }
                    "update" => {
                        for value in args.values {
                            for (key, value) in self.pairs(&value)? {
                                self.consume_fuel(map.entries.borrow().len())?;
                                map.insert(key, &value)?;
                            }
                        }
                        for (key, value) in args.named {
                            map.insert(Val::Str(key), &value)?;
                        }
                        Ok(Val::None)
                    }
                    "pop" => {
                        let [key, default] = args.bind(["key", "default"])?;
                        let key = key.unwrap_or(Val::None);
                        let at = map.entries.borrow().iter().position(|(k, _)| equal(k, &key));
                        match at {
                            Some(at) => Ok(map.entries.borrow_mut().remove(at).1),
                            None => default.ok_or_else(|| "'pop' of what is not there".into()),
                        }
                    }
                    "popitem" => {
                        let last = map.entries.borrow_mut().pop().ok_or("'popitem' of an empty map")?;
                        Val::tuple(vec![last.0, last.1])
                    }
                    "clear" => {
                        map.entries.borrow_mut().clear();
                        Ok(Val::None)
                    }
                    _ => {
                        let entries = map.entries.borrow().clone();
                        self.charge_memory(length * 2 * size_of::<Val>())?;
                        Val::map(entries, false)
                    }
                }
            }
            Val::Float(f) => Ok(Val::Bool(f.fract() == 0.0)),
            Val::Callable(callable) => match (&**callable, name) {
                (Callable::Loop(state), "cycle") if !args.values.is_empty() => {
                    Ok(args.values[state.index.get() % args.values.len()].clone())
                }
                (Callable::Loop(_), "cycle") => Err("'loop.cycle' without items".into()),
                (Callable::Loop(state), _) => {
                    args.values.iter().try_for_each(|value| self.charge_walk(value).map(drop))?;
                    let mut last: std::cell::RefMut<'_, _> = RefCell::borrow_mut(&state.changed);
                    let same = last.as_ref().is_some_and(|old: &Vec<Val>| {
                        old.len() == args.values.len()
                            && old.iter().zip(&args.values).all(|(a, b)| equal(a, b))
                    });
                    *last = Some(args.values);
                    Ok(Val::Bool(!same))
                }
                (Callable::Cycler { at, .. }, "reset") => {
                    at.set(0);
                    Ok(Val::None)
                }
                _ => self.call(of, CallArgs::default()),
            },
            other => Err(format!("{} has no '{name}'", other.type_name())),
        }
    }

    /// The methods of a safe text: what they put into it is escaped.
    fn safe_method(&mut self, text: &Rc<str>, name: &'static str, mut args: CallArgs) -> ValueResult<Val> {
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
        Ok(match self.text_method(text, name, args)? {
            Val::Seq(seq) => {
                let items = seq.items.borrow().iter().map(|item| item.clone().into_safe()).collect();
                if seq.tuple { Val::tuple(items)? } else { Val::list(items)? }
            }
            other => other.into_safe(),
        })
    }

    fn bytes_method(&mut self, bytes: &[u8], name: &'static str, args: CallArgs) -> ValueResult<Val> {
        self.charge_memory(bytes.len() * 2)?;
        match name {
            "hex" => self.text(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            _ => {
                let [encoding, _] = args.bind(["encoding", "errors"])?;
                check_utf8_encoding(encoding.as_ref())?;
                let text = std::str::from_utf8(bytes).map_err(|_| "'decode' of invalid UTF-8")?;
                self.text(text.to_string())
            }
        }
    }

    fn text_method(&mut self, text: &Rc<str>, name: &'static str, args: CallArgs) -> ValueResult<Val> {
        self.consume_fuel(text.len() / 16)?;
        let made = match name {
            "upper" => text.to_uppercase(),
            "lower" | "casefold" => text.to_lowercase(),
            "capitalize" => capitalized(text),
            "title" => titled(text),
            "swapcase" => text
                .chars()
                .flat_map(|c| {
                    if c.is_uppercase() {
                        c.to_lowercase().collect::<Vec<_>>()
                    } else {
                        c.to_uppercase().collect()
                    }
                })
                .collect(),
            "strip" | "lstrip" | "rstrip" => {
                let [chars] = args.bind(["chars"])?;
                stripped(text, chars.as_ref(), name != "rstrip", name != "lstrip")?.to_string()
            }
            "removeprefix" => {
                let [part] = required(args)?;
                text.strip_prefix(str_arg(&part)?).unwrap_or(text).to_string()
            }
            "removesuffix" => {
                let [part] = required(args)?;
                text.strip_suffix(str_arg(&part)?).unwrap_or(text).to_string()
            }
            "replace" => {
                let [old, new, count] = args.bind(["old", "new", "count"])?;
                let (old, new) = (old.unwrap_or(Val::None), new.unwrap_or(Val::None));
                return self.replaced(text, str_arg(&old)?, str_arg(&new)?, count.as_ref());
            }
            "join" => {
                let [items] = required(args)?;
                let mut out = String::new();
                for (i, item) in self.items(&items)?.iter().enumerate() {
                    if i > 0 {
                        out.push_str(text);
                    }
                    out.push_str(str_arg(item)?);
                    self.charge_memory(text.len())?;
                }
                out
            }
            "center" | "ljust" | "rjust" | "zfill" => {
                let [width, fill] = args.bind(["width", "fillchar"])?;
                let width = width.as_ref().map_or(Ok(0), int_arg)?;
                let fill = fill.as_ref().map_or(Ok(if name == "zfill" { "0" } else { " " }), str_arg)?;
                let width = usize::try_from(width).unwrap_or(0);
                self.charge_memory(width)?;
                padded(text, width, fill, name)
            }
            "format" => self.str_format(text, &args)?,
            "encode" => {
                let [encoding, _] = args.bind(["encoding", "errors"])?;
                check_utf8_encoding(encoding.as_ref())?;
                self.charge_memory(text.len())?;
                return Ok(Val::Bytes(text.as_bytes().into()));
            }
            "split" | "rsplit" => {
                let [between, most] = args.bind(["sep", "maxsplit"])?;
                let most = most.as_ref().map_or(Ok(-1), int_arg)?;
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let parts = split(text, between.as_ref(), most, name == "rsplit")?;
                self.charge_memory(text.len() + parts.len() * 32)?;
                return self.list(parts.into_iter().map(Val::text).collect());
            }
            "splitlines" => {
                self.charge_memory(text.len())?;
                return self.list(text.lines().map(Val::text).collect());
            }
            "partition" | "rpartition" => {
                let [between] = required(args)?;
                let between = str_arg(&between)?;
                let found =
                    if name == "partition" { text.split_once(between) } else { text.rsplit_once(between) };
                self.charge_memory(text.len())?;
                let parts = match found {
                    Some((a, b)) => [a, between, b],
                    None if name == "partition" => [text, "", ""],
                    None => ["", "", text],
                };
                return Val::tuple(parts.map(Val::text).into());
            }
            "startswith" | "endswith" => {
                let [parts] = required(args)?;
                let parts = match &parts {
                    Val::Seq(_) => self.items(&parts)?,
                    _ => vec![parts],
                };
                for part in &parts {
                    let part = str_arg(part)?;
                    if if name == "startswith" { text.starts_with(part) } else { text.ends_with(part) } {
                        return Ok(Val::Bool(true));
                    }
                }
                return Ok(Val::Bool(false));
            }
            "find" | "rfind" | "index" | "rindex" => {
                let [part] = required(args)?;
                let part = str_arg(&part)?;
                let at = if name.starts_with('r') { text.rfind(part) } else { text.find(part) };
                return match at {
                    Some(at) => Ok(Val::Int(text[..at].chars().count() as i128)),
                    None if name.ends_with("find") => Ok(Val::Int(-1)),
                    None => Err(format!("'{name}': value not found")),
                };
            }
            "count" => {
                let [part] = required(args)?;
                let part = str_arg(&part)?;
                return Ok(Val::Int(text.matches(part).count() as i128));
            }
            _ => return Ok(Val::Bool(is_all(text, name))),
        };
        self.text(made)
    }

    pub fn replaced(&mut self, text: &str, old: &str, new: &str, count: Option<&Val>) -> ValueResult<Val> {
        let count = match count {
            None | Some(Val::None) => usize::MAX,
            Some(count) => usize::try_from(int_arg(count)?).unwrap_or(usize::MAX),
        };
        let times = text.matches(old).count().min(count);
        self.charge_memory(text.len() + times.saturating_mul(new.len()))?;
        Ok(Val::Str(text.replacen(old, new, count).into()))
    }

    /// `text.format(…)`: `{}`, `{0}`, `{name}`, keys behind them, and the usual specifications.
    fn str_format(&mut self, text: &str, args: &CallArgs) -> ValueResult<String> {
        let mut out = String::new();
        let mut next = 0;
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..at + 1];
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = tail;
                continue;
            }
            let (field, tail) = rest
                .split_once('}')
                .filter(|_| brace == "{")
                .ok_or("a brace without its other one in 'format'")?;
            rest = tail;
            let (path, spec) = field.split_once(':').unwrap_or((field, ""));
            let (path, as_repr) = match path.strip_suffix("!r") {
                Some(path) => (path, true),
                None => (path.strip_suffix("!s").unwrap_or(path), false),
            };
            let end = path.find(['.', '[']).unwrap_or(path.len());
            let (first, mut keys) = path.split_at(end);
            let mut value = match first.parse::<usize>() {
                Ok(place) => args.values.get(place).cloned(),
                Err(_) if first.is_empty() => {
                    next += 1;
                    args.values.get(next - 1).cloned()
                }
                Err(_) => args.named.iter().find(|(n, _)| **n == *first).map(|(_, v)| v.clone()),
            }
            .ok_or("not enough arguments for 'format'")?;
            while !keys.is_empty() {
                if let Some(tail) = keys.strip_prefix('[') {
                    let (key, tail) = tail.split_once(']').ok_or("'[' without ']' in 'format'")?;
                    let key = key.parse().map_or_else(|_| Val::text(key), Val::Int);
                    value = self.item(&value, &key)?;
                    keys = tail;
                } else {
                    let tail =
                        keys.strip_prefix('.').ok_or("'.' or '[' are all that may follow ']' in 'format'")?;
                    let end = tail.find(['.', '[']).unwrap_or(tail.len());
                    value = self.attribute(&value, &tail[..end].into())?;
                    keys = &tail[end..];
                }
            }
            if as_repr {
                self.charge_walk(&value)?;
                let mut text = String::new();
                value.write_repr(&mut text);
                value = Val::Str(text.into());
            }
            let shown = self.apply_format_spec(&value, spec)?;
            self.charge_memory(shown.len())?;
            out.push_str(&shown);
        }
        out.push_str(rest);
        Ok(out)
    }

    /// `[[fill]align][sign][#][0][width][,][.digits][kind]`
    fn apply_format_spec(&mut self, value: &Val, spec: &str) -> ValueResult<String> {
        let chars: Vec<char> = spec.chars().take(64).collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^=".contains(*c));
        let (fill, align, mut at) = match (is_align(chars.get(1)), is_align(chars.first())) {
            (true, _) => (chars[0], Some(chars[1]), 2),
            (_, true) => (' ', Some(chars[0]), 1),
            _ => (' ', None, 0),
        };
        let flag = |wanted: char, at: &mut usize| {
            let there = chars.get(*at) == Some(&wanted);
            *at += usize::from(there);
            there
        };
        let plus = flag('+', &mut at);
        let _ = flag('-', &mut at);
        let prefix = flag('#', &mut at);
        let zero = flag('0', &mut at);
        let digits = |at: &mut usize| {
            let from = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            chars[from..*at].iter().collect::<String>().parse::<usize>().ok()
        };
        let width = digits(&mut at).unwrap_or(0);
        let grouped = chars.get(at) == Some(&',');
        at += usize::from(grouped);
        let precision = if chars.get(at) == Some(&'.') {
            at += 1;
            digits(&mut at)
        } else {
            None
        };
        let kind = chars.get(at).copied();
        self.charge_memory(width)?;
        let is_number = number(value).is_some() && !(matches!(value, Val::Bool(_)) && kind.is_none());
        let mut shown = match (number(value), kind) {
            (Some(Number::Int(n)), Some('d' | 'x' | 'X' | 'o' | 'b')) => {
                integer_text(n, kind.unwrap_or('d'), prefix)
            }
            (Some(n), Some(kind @ ('f' | 'F' | 'e' | 'E' | 'g' | 'G'))) => {
                float_text(n.float(), kind, precision.unwrap_or(6))?
            }
            (Some(n), Some('%')) => float_text(n.float() * 100.0, 'f', precision.unwrap_or(6))? + "%",
            (Some(Number::Float(f)), None) if precision.is_some() => {
                float_text(f, 'g', precision.unwrap_or(6))?
            }
            (_, None | Some('s')) if chars.len() <= at + 1 => match precision {
                Some(most) if !is_number => self.text_of(value)?.chars().take(most).collect(),
                _ => self.text_of(value)?.to_string(),
            },
            _ => return Err(format!("'format': invalid specification '{spec}' for {}", value.type_name())),
        };
        if grouped {
            let end = shown.find('.').unwrap_or(shown.len());
            let begin = usize::from(shown.starts_with('-'));
            for place in (begin + 1..end).rev().filter(|place| (end - place) % 3 == 0) {
                shown.insert(place, ',');
            }
        }
        if plus && is_number && !shown.starts_with('-') {
            shown.insert(0, '+');
        }
        let missing = width.saturating_sub(shown.chars().count());
        let pad = |count: usize, fill: char| fill.to_string().repeat(count);
        let zero = zero && is_number && align.is_none();
        Ok(match align.unwrap_or(if is_number { '>' } else { '<' }) {
            _ if zero => {
                let sign = usize::from(shown.starts_with(['-', '+']));
                format!("{}{}{}", &shown[..sign], pad(missing, '0'), &shown[sign..])
            }
            '>' | '=' => pad(missing, fill) + &shown,
            '^' => pad(missing / 2, fill) + &shown + &pad(missing - missing / 2, fill),
            _ => shown + &pad(missing, fill),
        })
    }

    /// Sorted by what `by` says of each; errors where two have no order.
    pub fn sorted(
        &mut self,
        items: Vec<Val>,
        mut by: impl FnMut(&mut Self, &Val) -> ValueResult<Val>,
        reverse: bool,
    ) -> ValueResult<Vec<Val>> {
        self.charge_memory(items.len() * 4 * size_of::<Val>())?;
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = by(self, &item)?;
            let each = self.charge_walk(&key)?;
            self.consume_fuel(each.saturating_mul(20))?;
            keyed.push((key, item));
        }
        let mut wrong = None;
        keyed.sort_by(|a, b| {
            let found = order(&a.0, &b.0).unwrap_or_else(|message| {
                wrong = Some(message);
                std::cmp::Ordering::Equal
            });
            if reverse { found.reverse() } else { found }
        });
        match wrong {
            Some(message) => Err(message),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }
}

/// Fails for any encoding but UTF-8.
fn check_utf8_encoding(encoding: Option<&Val>) -> ValueResult<()> {
    let name = encoding.map_or(Ok("utf-8"), str_arg)?.to_ascii_lowercase().replace('_', "-");
    match &*name {
        "utf-8" | "utf8" => Ok(()),
        _ => Err("an encoding other than UTF-8".into()),
    }
}

/// Returns the required arguments by position; fails if their number is not `N`.
fn required<const N: usize>(args: CallArgs) -> ValueResult<[Val; N]> {
    let count = args.values.len();
    if !args.named.is_empty() {
        return Err("arguments with names where none have them".into());
    }
    args.values.try_into().map_err(|_| format!("expected {N} arguments, got {count}"))
}

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default()
        + &chars.as_str().to_lowercase()
}

/// A letter behind no letter in upper case, all others in lower case.
fn titled(text: &str) -> String {
    let mut out = String::new();
    let mut within = false;
    for c in text.chars() {
        if within {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        within = c.is_alphabetic();
    }
    out
}

pub fn stripped<'t>(text: &'t str, chars: Option<&Val>, start: bool, end: bool) -> ValueResult<&'t str> {
    let set = match chars {
        None | Some(Val::None) => None,
        Some(chars) => Some(str_arg(chars)?),
    };
    let goes = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(if end { text.trim_end_matches(goes) } else { text })
}

pub fn padded(text: &str, width: usize, fill: &str, how: &str) -> String {
    let missing = width.saturating_sub(text.chars().count());
    // Python puts the odd blank to the left where the width is odd.
    let left = match how {
        "center" => missing / 2 + (missing & width & 1),
        "ljust" => 0,
        _ => missing,
    };
    let (sign, rest) = match how == "zfill" && text.starts_with(['-', '+']) {
        true => text.split_at(1),
        false => ("", text),
    };
    format!("{sign}{}{rest}{}", fill.repeat(left), fill.repeat(missing - left))
}

fn split<'t>(text: &'t str, between: Option<&Val>, most: usize, from_end: bool) -> ValueResult<Vec<&'t str>> {
    let between = match between {
        None | Some(Val::None) => None,
        Some(between) => Some(str_arg(between)?),
    };
    let many = most.saturating_add(1);
    Ok(match (between, from_end) {
        (Some(""), _) => return Err("'split' by an empty text".into()),
        (Some(between), false) => text.splitn(many, between).collect(),
        (Some(between), true) => {
            let mut parts: Vec<&str> = text.rsplitn(many, between).collect();
            parts.reverse();
            parts
        }
        (None, false) => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_start());
            while !rest.is_empty() {
                match rest.find(char::is_whitespace).filter(|_| parts.len() < most) {
                    Some(end) => {
                        parts.push(&rest[..end]);
                        rest = rest[end..].trim_start();
                    }
                    None => {
                        parts.push(rest);
                        break;
                    }
                }
            }
            parts
        }
        (None, true) => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end());
            while !rest.is_empty() {
                match rest.char_indices().rfind(|(_, c)| c.is_whitespace()).filter(|_| parts.len() < most) {
                    Some((at, c)) => {
                        parts.push(&rest[at + c.len_utf8()..]);
                        rest = rest[..at].trim_end();
                    }
                    None => {
                        parts.push(rest);
                        break;
                    }
                }
            }
            parts.reverse();
            parts
        }
    })
}

fn is_all(text: &str, name: &str) -> bool {
    let cased = |upper: bool| {
        let mut letters = text.chars().filter(|c| c.is_lowercase() || c.is_uppercase()).peekable();
        letters.peek().is_some() && letters.all(|c| if upper { c.is_uppercase() } else { c.is_lowercase() })
    };
    let all = |fits: fn(char) -> bool| !text.is_empty() && text.chars().all(fits);
    match name {
        "isupper" => cased(true),
        "islower" => cased(false),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(char::is_whitespace),
        _ => all(char::is_numeric),
    }
}
