//! Jinja's filters and tests, with their names.

use std::cmp::Ordering;

use crate::ast::CompareOp;
use crate::eval::{CallArgs, Interpreter};
use crate::functions::{capitalized, padded, stripped};
use crate::operators::float_text;
use crate::value::{Number, Val, ValueResult, equal, number, undefined_error};
use crate::wrap;

/// The names of the tests, for `is test`.
const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// The names of the filters, for `is filter`.
const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Where a value is taken from below another one: `a.b`, `0`, or nothing.
type Path = Vec<Val>;

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
    fn lookup_path(&mut self, value: &Val, path: &Path) -> ValueResult<Val> {
        path.iter().try_fold(value.clone(), |value, key| self.item(&value, key))
    }

    pub fn filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        match name {
            "safe" => return Ok(Val::Safe(self.text_of(&value)?)),
            "escape" | "e" => return Ok(Val::Safe(self.escape(&value)?)),
            "forceescape" => {
                let plain = Val::Str(self.text_of(&value)?);
                return Ok(Val::Safe(self.escape(&plain)?));
            }
            // These give back what they are given.
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
                let values = match args.named.is_empty() {
                    true => Val::tuple(args.values)?,
                    false => Val::map(args.named.into_iter().map(|(n, v)| (Val::Str(n), v)), false)?,
                };
                return self.operate(crate::ast::BinaryOp::Rem, &value, &values);
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
        let shown = |run: &mut Self| run.text_of(&value);
        match name {
            "default" | "d" => {
                let [default, also_false] = args.bind(["default_value", "boolean"])?;
                let missing =
                    matches!(value, Val::Undefined(_)) || (bool_arg(also_false, false) && !value.is_true());
                Ok(if missing { default.unwrap_or_else(|| Val::text("")) } else { value })
            }
            "upper" => {
                let text = shown(self)?.to_uppercase();
                self.text(text)
            }
            "lower" => {
                let text = shown(self)?.to_lowercase();
                self.text(text)
            }
            "capitalize" => {
                let text = capitalized(&shown(self)?);
                self.text(text)
            }
            "title" => {
                let mut out = String::new();
                let mut begins = true;
                for c in shown(self)?.chars() {
                    if begins {
                        out.extend(c.to_uppercase())
                    } else {
                        out.extend(c.to_lowercase())
                    }
                    begins = c.is_whitespace() || "-({[<".contains(c);
                }
                self.text(out)
            }
            "trim" => {
                let [chars] = args.bind(["chars"])?;
                let text = shown(self)?;
                self.text(stripped(&text, chars.as_ref(), true, true)?.to_string())
            }
            "string" => Ok(Val::Str(shown(self)?)),
            "replace" => {
                let [old, new, count] = args.bind(["old", "new", "count"])?;
                let text = shown(self)?;
                let old = self.text_of(&old.unwrap_or(Val::None))?;
                let new = self.text_of(&new.unwrap_or(Val::None))?;
                self.replaced(&text, &old, &new, count.as_ref())
            }
            "join" => {
                let [between, attribute] = args.bind(["d", "attribute"])?;
                let between = self.text_of(&between.unwrap_or_else(|| Val::text("")))?;
                let path = attribute_path(attribute);
                let mut out = String::new();
                for (i, item) in self.items(&value)?.iter().enumerate() {
                    if i > 0 {
                        out.push_str(&between);
                    }
                    let item = self.lookup_path(item, &path)?;
                    out.push_str(&self.text_of(&item)?);
                    self.charge_memory(between.len())?;
                }
                self.text(out)
            }
            "length" | "count" => match &value {
                Val::Str(text) => Ok(Val::Int(text.chars().count() as i128)),
                Val::Bytes(bytes) => Ok(Val::Int(bytes.len() as i128)),
                Val::Undefined(_) => Ok(Val::Int(0)),
                Val::Seq(_) | Val::Map(_) => Ok(Val::Int(self.items(&value)?.len() as i128)),
                other => Err(format!("'length' of {}", other.type_name())),
            },
            "list" => {
                let items = self.items(&value)?;
                self.list(items)
            }
            "first" | "last" => {
                let items = self.items(&value)?;
                let found = if name == "first" { items.first() } else { items.last() };
                Ok(found.cloned().unwrap_or(Val::Undefined(None)))
            }
            "reverse" => match &value {
                Val::Str(text) => self.text(text.chars().rev().collect()),
                other => {
                    let items = self.items(other)?.into_iter().rev().collect();
                    self.list(items)
                }
            },
            "sort" => {
                let [reverse, case, attribute] = args.bind(["reverse", "case_sensitive", "attribute"])?;
                let (case, reverse) = (bool_arg(case, false), bool_arg(reverse, false));
                let paths: Vec<Path> = match attribute {
                    Some(Val::Str(text)) => {
                        text.split(',').map(|one| attribute_path(Some(Val::text(one)))).collect()
                    }
                    other => vec![attribute_path(other)],
                };
                let items = self.items(&value)?;
                let by = |run: &mut Self, item: &Val| {
                    let keys: ValueResult<Vec<Val>> =
                        paths.iter().map(|path| Ok(fold_case(run.lookup_path(item, path)?, case))).collect();
                    Val::list(keys?)
                };
                let items = self.sorted(items, by, reverse)?;
                self.list(items)
            }
            "dictsort" => {
                let [case, by, reverse] = args.bind(["case_sensitive", "by", "reverse"])?;
                let Val::Map(map) = &value else {
                    return Err(match &value {
                        Val::Undefined(name) => undefined_error(name),
                        other => format!("'dictsort' of {}", other.type_name()),
                    });
                };
                let by_value = match by.as_ref().map(Val::to_text).as_deref() {
                    None | Some("key") => false,
                    Some("value") => true,
                    Some(_) => return Err("'dictsort' is by 'key' or 'value'".into()),
                };
                let case = bool_arg(case, false);
                let entries = map.entries.borrow().clone();
                let pairs: ValueResult<Vec<Val>> =
                    entries.into_iter().map(|(k, v)| Val::tuple(vec![k, v])).collect();
                let key = |run: &mut Self, pair: &Val| {
                    Ok(fold_case(run.item(pair, &Val::Int(i128::from(by_value)))?, case))
                };
                let pairs = self.sorted(pairs?, key, bool_arg(reverse, false))?;
                self.list(pairs)
            }
            "items" => match &value {
                Val::Undefined(_) => self.list(Vec::new()),
                Val::Map(_) => self.method(&value, "items", CallArgs::default()),
                other => Err(format!("'items' of {}", other.type_name())),
            },
            "unique" => {
                let [case, attribute] = args.bind(["case_sensitive", "attribute"])?;
                let (case, path) = (bool_arg(case, false), attribute_path(attribute));
                let mut seen: Vec<Val> = Vec::new();
                let mut kept = Vec::new();
                for item in self.items(&value)? {
                    let key = fold_case(self.lookup_path(&item, &path)?, case);
                    let each = self.charge_walk(&key)?;
                    self.consume_fuel(seen.len().saturating_mul(each))?;
                    if !seen.iter().any(|s| equal(s, &key)) {
                        seen.push(key);
                        kept.push(item);
                    }
                }
                self.list(kept)
            }
            "min" | "max" => {
                let [case, attribute] = args.bind(["case_sensitive", "attribute"])?;
                let (case, path) = (bool_arg(case, false), attribute_path(attribute));
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                let mut best: Option<(Val, Val)> = None;
                for item in self.items(&value)? {
                    let key = fold_case(self.lookup_path(&item, &path)?, case);
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
            "sum" => {
                let [attribute, start] = args.bind(["attribute", "start"])?;
                let path = attribute_path(attribute);
                let mut total = start.unwrap_or(Val::Int(0));
                for item in self.items(&value)? {
                    let item = self.lookup_path(&item, &path)?;
                    total = self.operate(crate::ast::BinaryOp::Add, &total, &item)?;
                }
                Ok(total)
            }
            "map" => self.filter_map(&value, args),
            "select" | "reject" | "selectattr" | "rejectattr" => self.filter_select(name, &value, args),
            "groupby" => {
                let [attribute, default, case] = args.bind(["attribute", "default", "case_sensitive"])?;
                let (path, case) = (attribute_path(attribute), bool_arg(case, false));
                let by = |run: &mut Self, item: &Val| -> ValueResult<Val> {
                    let found = run.lookup_path(item, &path)?;
                    Ok(match (&found, &default) {
                        (Val::Undefined(_), Some(default)) => default.clone(),
                        _ => found,
                    })
                };
                let items = self.items(&value)?;
                let items = self.sorted(items, |run, item| Ok(fold_case(by(run, item)?, case)), false)?;
                let mut groups: Vec<(Val, Vec<Val>)> = Vec::new();
                for item in items {
                    let key = by(self, &item)?;
                    self.charge_walk(&key)?;
                    let is_same =
                        |old: &Val| equal(&fold_case(old.clone(), case), &fold_case(key.clone(), case));
                    match groups.last_mut().filter(|(old, _)| is_same(old)) {
                        Some((_, of)) => of.push(item),
                        None => groups.push((key, vec![item])),
                    }
                }
                let mut made = Vec::new();
                for (key, of) in groups {
                    made.push(Val::tuple(vec![key, self.list(of)?])?);
                }
                self.list(made)
            }
            "batch" | "slice" => {
                let [count, fill] = args.bind(["count", "fill_with"])?;
                let count = size_arg(count.as_ref(), 0)?.max(1);
                let items = self.items(&value)?;
                self.charge_memory(count.min(1 << 20) * 32)?;
                let mut rows: Vec<Vec<Val>> = Vec::new();
                if name == "batch" {
                    rows.extend(items.chunks(count).map(<[Val]>::to_vec));
                    if let (Some(fill), Some(last)) = (&fill, rows.last_mut()) {
                        self.charge_memory(count.saturating_mul(size_of::<Val>()))?;
                        last.resize(count, fill.clone());
                    }
                } else {
                    self.charge_memory(count.saturating_mul(64))?;
                    let (each, more) = (items.len() / count, items.len() % count);
                    let mut from = 0;
                    for i in 0..count {
                        let to = from + each + usize::from(i < more);
                        let mut row = items[from..to].to_vec();
                        row.extend(fill.clone().filter(|_| i >= more && more > 0));
                        rows.push(row);
                        from = to;
                    }
                }
                let rows = rows.into_iter().map(Val::list).collect::<ValueResult<_>>()?;
                self.list(rows)
            }
            "abs" => match &value {
                Val::Undefined(name) => Err(undefined_error(name)),
                other => match number(other) {
                    Some(Number::Int(n)) => {
                        Ok(Val::Int(n.checked_abs().ok_or("a number that is too large")?))
                    }
                    Some(Number::Float(f)) => Ok(Val::Float(f.abs())),
                    None => Err(format!("'abs' of {}", other.type_name())),
                },
            },
            "int" => {
                let [default, base] = args.bind(["default", "base"])?;
                let base = size_arg(base.as_ref(), 10)?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined_error(name));
                }
                let found = match &value {
                    Val::Float(f) if f.abs() < 1e38 => Some(*f as i128),
                    Val::Str(text) => parse_int(text, base as u32).or_else(|| {
                        let f = text.trim().replace('_', "").parse::<f64>().ok()?;
                        (f.abs() < 1e38).then_some(f as i128)
                    }),
                    other => match number(other) {
                        Some(Number::Int(n)) => Some(n),
                        _ => None,
                    },
                };
                Ok(found.map(Val::Int).or(default).unwrap_or(Val::Int(0)))
            }
            "float" => {
                let [default] = args.bind(["default"])?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined_error(name));
                }
                let found = match &value {
                    Val::Str(text) => text.trim().replace('_', "").parse().ok(),
                    other => number(other).map(|n| n.float()),
                };
                Ok(found.map(Val::Float).or(default).unwrap_or(Val::Float(0.0)))
            }
            "round" => {
                let [digits, method] = args.bind(["precision", "method"])?;
                let digits = digits.as_ref().map_or(Some(0), |d| match number(d) {
                    Some(Number::Int(n)) => i32::try_from(n).ok().filter(|n| n.abs() <= 300),
                    _ => None,
                });
                let digits = digits.ok_or("'round' to digits that are no small integer")?;
                let method = self.text_of(&method.unwrap_or_else(|| Val::text("common")))?;
                match (number(&value), &*method) {
                    (Some(Number::Int(n)), "common") if digits >= 0 => Ok(Val::Int(n)),
                    (Some(n), "common") if digits >= 0 => {
                        let text = float_text(n.float(), 'f', digits as usize)?;
                        Ok(Val::Float(text.parse().unwrap_or(n.float())))
                    }
                    (Some(n), "common") => {
                        let scale = 10_f64.powi(-digits);
                        let f = (n.float() / scale).round_ties_even() * scale;
                        Ok(if matches!(n, Number::Int(_)) { Val::Int(f as i128) } else { Val::Float(f) })
                    }
                    (Some(n), "ceil") => {
                        Ok(Val::Float((n.float() * 10_f64.powi(digits)).ceil() / 10_f64.powi(digits)))
                    }
                    (Some(n), "floor") => {
                        Ok(Val::Float((n.float() * 10_f64.powi(digits)).floor() / 10_f64.powi(digits)))
                    }
                    (None, _) => Err(format!("'round' of {}", value.type_name())),
                    _ => Err("'round' is 'common', 'ceil' or 'floor'".into()),
                }
            }
            "format" => {
                let text = shown(self)?;
                let values = match args.named.is_empty() {
                    true => Val::tuple(args.values)?,
                    false => Val::map(args.named.into_iter().map(|(n, v)| (Val::Str(n), v)), false)?,
                };
                let text = self.printf(&text, &values)?;
                self.text(text)
            }
            "center" => {
                let [width] = args.bind(["width"])?;
                let width = size_arg(width.as_ref(), 80)?;
                let text = shown(self)?;
                self.charge_memory(width)?;
                self.text(padded(&text, width, " ", "center"))
            }
            "indent" => {
                let [width, first, blank] = args.bind(["width", "first", "blank"])?;
                let by = match &width {
                    Some(Val::Str(text)) => text.to_string(),
                    other => {
                        let width = size_arg(other.as_ref(), 4)?;
                        self.charge_memory(width)?;
                        " ".repeat(width)
                    }
                };
                let (first, blank) = (bool_arg(first, false), bool_arg(blank, false));
                let text = shown(self)?;
                self.charge_memory(text.matches('\n').count().saturating_mul(by.len()))?;
                let mut out = String::new();
                for (i, line) in text.split('\n').enumerate() {
                    if i > 0 {
                        out.push('\n');
                    }
                    if if i == 0 { first } else { blank || !line.is_empty() } {
                        out.push_str(&by);
                    }
                    out.push_str(line);
                }
                self.text(out)
            }
            "truncate" => {
                let [length, kill, end, leeway] = args.bind(["length", "killwords", "end", "leeway"])?;
                let (length, leeway) = (size_arg(length.as_ref(), 255)?, size_arg(leeway.as_ref(), 5)?);
                let end = self.text_of(&end.unwrap_or_else(|| Val::text("...")))?;
                let text = shown(self)?;
                if text.chars().count() <= length.saturating_add(leeway) {
                    return Ok(Val::Str(text));
                }
                let keep =
                    length.checked_sub(end.chars().count()).ok_or("'truncate' to less than its end")?;
                let cut: String = text.chars().take(keep).collect();
                let cut =
                    if bool_arg(kill, false) { &cut } else { cut.rsplit_once(' ').map_or(&*cut, |(a, _)| a) };
                self.text(format!("{cut}{end}"))
            }
            "wordwrap" => {
                let [width, long, between, hyphens] =
                    args.bind(["width", "break_long_words", "wrapstring", "break_on_hyphens"])?;
                let (width, long) = (size_arg(width.as_ref(), 79)?, bool_arg(long, true));
                if width == 0 {
                    return Err("'wordwrap' to no width".into());
                }
                let hyphens = bool_arg(hyphens, true);
                let between = match between.filter(|between| !matches!(between, Val::None)) {
                    Some(between) => self.text_of(&between)?,
                    None => "\n".into(),
                };
                let text = shown(self)?;
                let lines: Vec<String> = text
                    .lines()
                    .map(|line| wrap::wrap_line(line, width, long, hyphens).join(&between))
                    .collect();
                self.charge_memory(text.len() / width * between.len() + text.len())?;
                self.text(lines.join(&between))
            }
            "wordcount" => {
                let text = shown(self)?;
                let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
                Ok(Val::Int(words.count() as i128))
            }
            "filesizeformat" => {
                let [binary] = args.bind(["binary"])?;
                let binary = bool_arg(binary, false);
                let bytes = match &value {
                    Val::Str(text) => text.trim().parse::<f64>().ok(),
                    other => number(other).map(|n| n.float()),
                };
                let bytes = bytes.ok_or("'filesizeformat' of a value that is not a number")?;
                let base: f64 = if binary { 1024.0 } else { 1000.0 };
                if bytes == 1.0 {
                    return Ok(Val::text("1 Byte"));
                }
                if bytes < base {
                    return self.text(format!("{} Bytes", bytes as i128));
                }
                let units = if binary {
                    ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
                } else {
                    ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
                };
                let power = (1..8).find(|p| bytes < base.powi(p + 1)).unwrap_or(8);
                self.text(format!("{:.1} {}", bytes / base.powi(power), units[power as usize - 1]))
            }
            "tojson" => {
                let [indent] = args.bind(["indent"])?;
                let indent = indent.filter(|i| !matches!(i, Val::None));
                let indent = indent.as_ref().map(|i| size_arg(Some(i), 0)).transpose()?;
                self.charge_memory(indent.unwrap_or(0))?;
                self.charge_walk(&value)?;
                let mut out = String::new();
                crate::json::write(&value, indent, 0, &mut out)?;
                self.text(out)
            }
            "urlencode" => match &value {
                Val::Map(_) | Val::Seq(_) => {
                    self.charge_walk(&value)?;
                    let pairs = self.pairs(&value)?;
                    let pair = |(k, v): &(Val, Val)| {
                        format!(
                            "{}={}",
                            percent_encode(&k.to_text(), false),
                            percent_encode(&v.to_text(), false)
                        )
                    };
                    self.text(pairs.iter().map(pair).collect::<Vec<_>>().join("&"))
                }
                other => {
                    let text = percent_encode(&other.to_text(), true);
                    self.text(text)
                }
            },
            "striptags" => {
                let text = shown(self)?;
                let mut out = String::new();
                let mut rest = &*text;
                while let Some((before, tag)) = rest.split_once('<') {
                    out.push_str(before);
                    let end = if tag.starts_with("!--") { "-->" } else { ">" };
                    match tag.split_once(end) {
                        Some((_, after)) => rest = after,
                        None => {
                            out.push('<');
                            rest = tag;
                        }
                    }
                }
                out.push_str(rest);
                let plain = [
                    ("&lt;", "<"),
                    ("&gt;", ">"),
                    ("&#34;", "\""),
                    ("&quot;", "\""),
                    ("&#39;", "'"),
                    ("&amp;", "&"),
                ];
                let out = plain.iter().fold(out, |text, (name, is)| text.replace(name, is));
                self.text(out.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            "attr" => {
                let [name] = args.bind(["name"])?;
                let name = self.text_of(&name.ok_or("'attr' without a name")?)?;
                match &value {
                    // A map's keys are not its attributes.
                    Val::Map(map) if !map.namespace => match self.attribute(&value, &name)? {
                        found @ Val::Callable(_) => Ok(found),
                        _ => Ok(Val::Undefined(Some(name))),
                    },
                    other => self.attribute(other, &name),
                }
            }
            "pprint" => {
                self.charge_walk(&value)?;
                let text = wrap::pformat(&value);
                self.text(text)
            }
            "xmlattr" => {
                let [space] = args.bind(["autospace"])?;
                self.charge_walk(&value)?;
                let mut out = String::new();
                for (key, value) in self.pairs(&value)? {
                    if !matches!(value, Val::None | Val::Undefined(_)) {
                        let value = self.filter("e", value, CallArgs::default())?;
                        out.push_str(&format!(" {}=\"{}\"", key.to_text(), value.to_text()));
                    }
                }
                let text = if bool_arg(space, true) { out } else { out.trim_start().to_string() };
                self.text(text)
            }
            _ => Err(format!("unknown filter '{name}'")),
        }
    }

    /// `map('filter', …)` or `map(attribute='a.b', default=…)`.
    fn filter_map(&mut self, value: &Val, mut args: CallArgs) -> ValueResult<Val> {
        let items = self.items(value)?;
        let mut made = Vec::with_capacity(items.len());
        if args.values.is_empty() {
            let [attribute, default] = args.bind(["attribute", "default"])?;
            let path = attribute_path(Some(attribute.ok_or("'map' without the name of a filter")?));
            for item in items {
                let found = self.lookup_path(&item, &path)?;
                made.push(match (found, &default) {
                    (Val::Undefined(_), Some(default)) => default.clone(),
                    (found, _) => found,
                });
            }
        } else {
            let name = self.text_of(&args.values.remove(0))?;
            for item in items {
                let args = CallArgs { values: args.values.clone(), named: args.named.clone() };
                made.push(self.filter(&name, item, args)?);
            }
        }
        self.list(made)
    }

    fn filter_select(&mut self, name: &str, value: &Val, mut args: CallArgs) -> ValueResult<Val> {
        let items = self.items(value)?;
        let by_attribute = name.ends_with("attr");
        let path = match by_attribute {
            true if args.values.is_empty() => return Err(format!("'{name}' without an attribute")),
            true => attribute_path(Some(args.values.remove(0))),
            false => Vec::new(),
        };
        let test = if args.values.is_empty() { None } else { Some(self.text_of(&args.values.remove(0))?) };
        let mut kept = Vec::new();
        for item in items {
            let found = self.lookup_path(&item, &path)?;
            let fits = match &test {
                None => found.is_true(),
                Some(test) => {
                    let args = CallArgs { values: args.values.clone(), named: args.named.clone() };
                    self.test(test, &found, args)?
                }
            };
            if fits == name.starts_with("select") {
                kept.push(item);
            }
        }
        self.list(kept)
    }

    /// `value is name(…)`.
    pub fn test(&mut self, name: &str, value: &Val, args: CallArgs) -> ValueResult<bool> {
        let argument = |args: CallArgs| match args.values.into_iter().next() {
            Some(argument) => Ok(argument),
            None => Err(format!("'is {name}' requires an argument")),
        };
        let compare = match name {
            "eq" | "equalto" | "==" => Some(CompareOp::Eq),
            "ne" | "!=" => Some(CompareOp::Ne),
            "lt" | "lessthan" | "<" => Some(CompareOp::Lt),
            "le" | "<=" => Some(CompareOp::Le),
            "gt" | "greaterthan" | ">" => Some(CompareOp::Gt),
            "ge" | ">=" => Some(CompareOp::Ge),
            "in" => Some(CompareOp::In),
            _ => None,
        };
        if let Some(compare) = compare {
            let right = argument(args)?;
            return self.compare(compare, value, &right);
        }
        let rest = |by: &Val| match (number(value), number(by)) {
            (_, Some(Number::Int(0))) => Err("a division by zero".to_string()),
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.checked_rem(b).unwrap_or(0)),
            (Some(a), Some(b)) => Ok(i128::from(a.float() % b.float() != 0.0)),
            _ => match value {
                Val::Undefined(name) => Err(undefined_error(name)),
                other => Err(format!("'is {name}' of {}", other.type_name())),
            },
        };
        Ok(match name {
            "defined" => !matches!(value, Val::Undefined(_)),
            "undefined" => matches!(value, Val::Undefined(_)),
            "none" => matches!(value, Val::None),
            "boolean" => matches!(value, Val::Bool(_)),
            "true" => matches!(value, Val::Bool(true)),
            "false" => matches!(value, Val::Bool(false)),
            "integer" => matches!(value, Val::Int(_)),
            "float" => matches!(value, Val::Float(_)),
            "number" => number(value).is_some(),
            "string" => matches!(value, Val::Str(_) | Val::Safe(_)),
            "mapping" => matches!(value, Val::Map(_)),
            "sequence" => matches!(
                value,
                Val::Str(_) | Val::Safe(_) | Val::Bytes(_) | Val::Seq(_) | Val::Map(_) | Val::Undefined(_)
            ),
            "iterable" => matches!(
                value,
                Val::Str(_) | Val::Safe(_) | Val::Bytes(_) | Val::Seq(_) | Val::Map(_) | Val::Undefined(_)
            ),
            "callable" => matches!(value, Val::Callable(_)),
            "escaped" => matches!(value, Val::Safe(_)),
            "even" => rest(&Val::Int(2))? == 0,
            "odd" => rest(&Val::Int(2))? != 0,
            "divisibleby" => rest(&argument(args)?)? == 0,
            "sameas" => match (value, &argument(args)?) {
                (Val::Seq(a), Val::Seq(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Map(a), Val::Map(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Bool(_), Val::Int(_)) | (Val::Int(_), Val::Bool(_)) => false,
                (a, b) => a.depth() == 0 && equal(a, b) && a.type_name() == b.type_name(),
            },
            "lower" => {
                let text = self.text_of(value)?;
                text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)
            }
            "upper" => {
                let text = self.text_of(value)?;
                text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
            }
            "filter" => matches!(&value.plain(), Val::Str(text) if FILTERS.contains(&&**text)),
            "test" => matches!(&value.plain(), Val::Str(text) if TESTS.contains(&&**text)),
            _ => return Err(format!("unknown test '{name}'")),
        })
    }
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixed =
        |prefix: &str, of: u32| (base == of || base == 0).then(|| lower.strip_prefix(prefix)).flatten();
    let found = match (prefixed("0x", 16), prefixed("0o", 8), prefixed("0b", 2)) {
        (Some(digits), ..) => (digits, 16),
        (_, Some(digits), _) => (digits, 8),
        (.., Some(digits)) => (digits, 2),
        _ => (lower.as_str(), if base == 0 { 10 } else { base }),
    };
    let digits = found.0.replace('_', "");
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&found.1) {
        return None;
    }
    let n = i128::from_str_radix(&digits, found.1).ok()?;
    Some(if negative { -n } else { n })
}

fn percent_encode(text: &str, slash: bool) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(b)),
            b'/' if slash => out.push('/'),
            b' ' if !slash => out.push('+'),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}
