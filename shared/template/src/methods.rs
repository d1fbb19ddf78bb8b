//! The methods of Python's texts, bytes, lists and maps.

use std::cell::RefCell;
use std::rc::Rc;

use crate::eval::{CallArgs, Interpreter};
use crate::functions::{int_arg, str_arg};
use crate::value::{Callable, Val, ValueResult, equal};

impl Interpreter<'_> {
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

    /// Calls a method of a safe text; the arguments are escaped.
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

/// Writes a letter that does not follow a letter in upper case, all others in lower case.
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

fn split<'t>(text: &'t str, between: Option<&Val>, most: usize, from_end: bool) -> ValueResult<Vec<&'t str>> {
    let between = match between {
        None | Some(Val::None) => None,
        Some(between) => Some(str_arg(between)?),
    };
    let many = most.saturating_add(1);
    Ok(match (between, from_end) {
        (Some(""), _) => return Err("'split' by an empty string".into()),
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

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default()
        + &chars.as_str().to_lowercase()
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
    // If the width is odd, Python puts the odd blank on the left.
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
