//! Jinja's filters: what stands behind a `|`.

use std::cmp::Ordering;

use crate::ast::Compare;
use crate::eval::{Given, Run};
use crate::functions::{capitalized, padded, stripped};
use crate::operators::float_text;
use crate::value::{Made, Number, Val, equal, number, undefined};
use crate::wrap;

/// Where a value is taken from below another one: `a.b`, `0`, or nothing.
type Path = Vec<Val>;

fn flag(value: Option<Val>, usual: bool) -> bool {
    value.map_or(usual, |value| value.is_true())
}

fn size(value: Option<&Val>, usual: usize) -> Made<usize> {
    match value {
        None => Ok(usual),
        Some(value) => match number(value) {
            Some(Number::Int(n)) => Ok(usize::try_from(n).unwrap_or(0)),
            _ => Err(format!("expected an integer, found {}", value.kind())),
        },
    }
}

fn path(value: Option<Val>) -> Path {
    match value {
        Some(Val::Str(text)) => {
            text.split('.').map(|key| key.parse().map_or_else(|_| Val::text(key), Val::Int)).collect()
        }
        Some(Val::None) | None => Vec::new(),
        Some(other) => vec![other],
    }
}

/// As filters see texts that differ in nothing but case.
fn folded(value: Val, case_sensitive: bool) -> Val {
    match value {
        Val::Str(text) if !case_sensitive => Val::Str(text.to_lowercase().into()),
        other => other,
    }
}

impl Run<'_> {
    fn below(&mut self, value: &Val, path: &Path) -> Made<Val> {
        path.iter().try_fold(value.clone(), |value, key| self.item(&value, key))
    }

    pub fn filter(&mut self, name: &str, value: Val, given: Given) -> Made<Val> {
        match name {
            "safe" => return Ok(Val::Safe(self.show(&value)?)),
            "escape" | "e" => return Ok(Val::Safe(self.escape(&value)?)),
            "forceescape" => {
                let plain = Val::Str(self.show(&value)?);
                return Ok(Val::Safe(self.escape(&plain)?));
            }
            // These give back what they are given.
            "default" | "d" | "first" | "last" | "list" | "sort" | "unique" | "min" | "max" => {
                return self.plain_filter(name, value, given);
            }
            "replace" if self.escapes => {
                let safe = |value: &Val| matches!(value, Val::Safe(_));
                let is_safe = safe(&value) || given.values.iter().take(2).any(safe);
                if is_safe {
                    let text = Val::Safe(self.escape(&value)?);
                    let replace = self.attribute(&text, &"replace".into())?;
                    return self.call(&replace, given);
                }
            }
            "join" if self.escapes => {
                let items = self.items(&value)?;
                let safe = |value: &Val| matches!(value, Val::Safe(_));
                if given.values.first().is_some_and(safe) || items.iter().any(safe) {
                    let escaped: Made<Vec<Val>> =
                        items.iter().map(|i| Ok(Val::Str(self.escape(i)?))).collect();
                    let mut given = given;
                    if let Some(between) = given.values.first_mut() {
                        *between = Val::Str(self.escape(between)?);
                    }
                    return Ok(self.plain_filter(name, Val::list(escaped?)?, given)?.made_safe());
                }
            }
            "format" if matches!(value, Val::Safe(_)) => {
                let values = match given.named.is_empty() {
                    true => Val::tuple(given.values)?,
                    false => Val::map(given.named.into_iter().map(|(n, v)| (Val::Str(n), v)), false)?,
                };
                return self.operate(crate::ast::Op::Rem, &value, &values);
            }
            _ => {}
        }
        let keeps = match name {
            "upper" | "lower" | "capitalize" | "trim" | "string" | "indent" | "truncate" | "center"
            | "reverse" => {
                matches!(value, Val::Safe(_))
            }
            "tojson" => true,
            "xmlattr" => self.escapes,
            _ => false,
        };
        let made = self.plain_filter(name, value.plain(), given)?;
        Ok(if keeps { made.made_safe() } else { made })
    }

    fn plain_filter(&mut self, name: &str, value: Val, given: Given) -> Made<Val> {
        self.spend(1)?;
        let shown = |run: &mut Self| run.show(&value);
        match name {
            "default" | "d" => {
                let [default, also_false] = given.take(["default_value", "boolean"])?;
                let missing =
                    matches!(value, Val::Undefined(_)) || (flag(also_false, false) && !value.is_true());
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
                let [chars] = given.take(["chars"])?;
                let text = shown(self)?;
                self.text(stripped(&text, chars.as_ref(), true, true)?.to_string())
            }
            "string" => Ok(Val::Str(shown(self)?)),
            "replace" => {
                let [old, new, count] = given.take(["old", "new", "count"])?;
                let text = shown(self)?;
                let old = self.show(&old.unwrap_or(Val::None))?;
                let new = self.show(&new.unwrap_or(Val::None))?;
                self.replaced(&text, &old, &new, count.as_ref())
            }
            "join" => {
                let [between, attribute] = given.take(["d", "attribute"])?;
                let between = self.show(&between.unwrap_or_else(|| Val::text("")))?;
                let path = path(attribute);
                let mut out = String::new();
                for (i, item) in self.items(&value)?.iter().enumerate() {
                    if i > 0 {
                        out.push_str(&between);
                    }
                    let item = self.below(item, &path)?;
                    out.push_str(&self.show(&item)?);
                    self.make(between.len())?;
                }
                self.text(out)
            }
            "length" | "count" => match &value {
                Val::Str(text) => Ok(Val::Int(text.chars().count() as i128)),
                Val::Bytes(bytes) => Ok(Val::Int(bytes.len() as i128)),
                Val::Undefined(_) => Ok(Val::Int(0)),
                Val::Seq(_) | Val::Map(_) => Ok(Val::Int(self.items(&value)?.len() as i128)),
                other => Err(format!("'length' of {}", other.kind())),
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
                let [reverse, case, attribute] = given.take(["reverse", "case_sensitive", "attribute"])?;
                let (case, reverse) = (flag(case, false), flag(reverse, false));
                let paths: Vec<Path> = match attribute {
                    Some(Val::Str(text)) => text.split(',').map(|one| path(Some(Val::text(one)))).collect(),
                    other => vec![path(other)],
                };
                let items = self.items(&value)?;
                let by = |run: &mut Self, item: &Val| {
                    let keys: Made<Vec<Val>> =
                        paths.iter().map(|path| Ok(folded(run.below(item, path)?, case))).collect();
                    Val::list(keys?)
                };
                let items = self.sorted(items, by, reverse)?;
                self.list(items)
            }
            "dictsort" => {
                let [case, by, reverse] = given.take(["case_sensitive", "by", "reverse"])?;
                let Val::Map(map) = &value else {
                    return Err(match &value {
                        Val::Undefined(name) => undefined(name),
                        other => format!("'dictsort' of {}", other.kind()),
                    });
                };
                let by_value = match by.as_ref().map(Val::show).as_deref() {
                    None | Some("key") => false,
                    Some("value") => true,
                    Some(_) => return Err("'dictsort' is by 'key' or 'value'".into()),
                };
                let case = flag(case, false);
                let entries = map.entries.borrow().clone();
                let pairs: Made<Vec<Val>> =
                    entries.into_iter().map(|(k, v)| Val::tuple(vec![k, v])).collect();
                let key = |run: &mut Self, pair: &Val| {
                    Ok(folded(run.item(pair, &Val::Int(i128::from(by_value)))?, case))
                };
                let pairs = self.sorted(pairs?, key, flag(reverse, false))?;
                self.list(pairs)
            }
            "items" => match &value {
                Val::Undefined(_) => self.list(Vec::new()),
                Val::Map(_) => self.method(&value, "items", Given::default()),
                other => Err(format!("'items' of {}", other.kind())),
            },
            "unique" => {
                let [case, attribute] = given.take(["case_sensitive", "attribute"])?;
                let (case, path) = (flag(case, false), path(attribute));
                let mut seen: Vec<Val> = Vec::new();
                let mut kept = Vec::new();
                for item in self.items(&value)? {
                    let key = folded(self.below(&item, &path)?, case);
                    let each = self.weigh(&key)?;
                    self.spend(seen.len().saturating_mul(each))?;
                    if !seen.iter().any(|s| equal(s, &key)) {
                        seen.push(key);
                        kept.push(item);
                    }
                }
                self.list(kept)
            }
            "min" | "max" => {
                let [case, attribute] = given.take(["case_sensitive", "attribute"])?;
                let (case, path) = (flag(case, false), path(attribute));
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                let mut best: Option<(Val, Val)> = None;
                for item in self.items(&value)? {
                    let key = folded(self.below(&item, &path)?, case);
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
                let [attribute, start] = given.take(["attribute", "start"])?;
                let path = path(attribute);
                let mut total = start.unwrap_or(Val::Int(0));
                for item in self.items(&value)? {
                    let item = self.below(&item, &path)?;
                    total = self.operate(crate::ast::Op::Add, &total, &item)?;
                }
                Ok(total)
            }
            "map" => self.mapped(&value, given),
            "select" | "reject" | "selectattr" | "rejectattr" => self.selected(name, &value, given),
            "groupby" => {
                let [attribute, default, case] = given.take(["attribute", "default", "case_sensitive"])?;
                let (path, case) = (path(attribute), flag(case, false));
                let by = |run: &mut Self, item: &Val| -> Made<Val> {
                    let found = run.below(item, &path)?;
                    Ok(match (&found, &default) {
                        (Val::Undefined(_), Some(default)) => default.clone(),
                        _ => found,
                    })
                };
                let items = self.items(&value)?;
                let items = self.sorted(items, |run, item| Ok(folded(by(run, item)?, case)), false)?;
                let mut groups: Vec<(Val, Vec<Val>)> = Vec::new();
                for item in items {
                    let key = by(self, &item)?;
                    self.weigh(&key)?;
                    let is_same = |old: &Val| equal(&folded(old.clone(), case), &folded(key.clone(), case));
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
                let [count, fill] = given.take(["count", "fill_with"])?;
                let count = size(count.as_ref(), 0)?.max(1);
                let items = self.items(&value)?;
                self.make(count.min(1 << 20) * 32)?;
                let mut rows: Vec<Vec<Val>> = Vec::new();
                if name == "batch" {
                    rows.extend(items.chunks(count).map(<[Val]>::to_vec));
                    if let (Some(fill), Some(last)) = (&fill, rows.last_mut()) {
                        self.make(count.saturating_mul(size_of::<Val>()))?;
                        last.resize(count, fill.clone());
                    }
                } else {
                    self.make(count.saturating_mul(64))?;
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
                let rows = rows.into_iter().map(Val::list).collect::<Made<_>>()?;
                self.list(rows)
            }
            "abs" => match &value {
                Val::Undefined(name) => Err(undefined(name)),
                other => match number(other) {
                    Some(Number::Int(n)) => {
                        Ok(Val::Int(n.checked_abs().ok_or("a number that is too large")?))
                    }
                    Some(Number::Float(f)) => Ok(Val::Float(f.abs())),
                    None => Err(format!("'abs' of {}", other.kind())),
                },
            },
            "int" => {
                let [default, base] = given.take(["default", "base"])?;
                let base = size(base.as_ref(), 10)?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined(name));
                }
                let found = match &value {
                    Val::Float(f) if f.abs() < 1e38 => Some(*f as i128),
                    Val::Str(text) => whole(text, base as u32).or_else(|| {
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
                let [default] = given.take(["default"])?;
                if let Val::Undefined(name) = &value {
                    return Err(undefined(name));
                }
                let found = match &value {
                    Val::Str(text) => text.trim().replace('_', "").parse().ok(),
                    other => number(other).map(|n| n.float()),
                };
                Ok(found.map(Val::Float).or(default).unwrap_or(Val::Float(0.0)))
            }
            "round" => {
                let [digits, method] = given.take(["precision", "method"])?;
                let digits = digits.as_ref().map_or(Some(0), |d| match number(d) {
                    Some(Number::Int(n)) => i32::try_from(n).ok().filter(|n| n.abs() <= 300),
                    _ => None,
                });
                let digits = digits.ok_or("'round' to digits that are no small integer")?;
                let method = self.show(&method.unwrap_or_else(|| Val::text("common")))?;
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
                    (None, _) => Err(format!("'round' of {}", value.kind())),
                    _ => Err("'round' is 'common', 'ceil' or 'floor'".into()),
                }
            }
            "format" => {
                let text = shown(self)?;
                let values = match given.named.is_empty() {
                    true => Val::tuple(given.values)?,
                    false => Val::map(given.named.into_iter().map(|(n, v)| (Val::Str(n), v)), false)?,
                };
                let text = self.printf(&text, &values)?;
                self.text(text)
            }
            "center" => {
                let [width] = given.take(["width"])?;
                let width = size(width.as_ref(), 80)?;
                let text = shown(self)?;
                self.make(width)?;
                self.text(padded(&text, width, " ", "center"))
            }
            "indent" => {
                let [width, first, blank] = given.take(["width", "first", "blank"])?;
                let by = match &width {
                    Some(Val::Str(text)) => text.to_string(),
                    other => {
                        let width = size(other.as_ref(), 4)?;
                        self.make(width)?;
                        " ".repeat(width)
                    }
                };
                let (first, blank) = (flag(first, false), flag(blank, false));
                let text = shown(self)?;
                self.make(text.matches('\n').count().saturating_mul(by.len()))?;
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
                let [length, kill, end, leeway] = given.take(["length", "killwords", "end", "leeway"])?;
                let (length, leeway) = (size(length.as_ref(), 255)?, size(leeway.as_ref(), 5)?);
                let end = self.show(&end.unwrap_or_else(|| Val::text("...")))?;
                let text = shown(self)?;
                if text.chars().count() <= length.saturating_add(leeway) {
                    return Ok(Val::Str(text));
                }
                let keep =
                    length.checked_sub(end.chars().count()).ok_or("'truncate' to less than its end")?;
                let cut: String = text.chars().take(keep).collect();
                let cut =
                    if flag(kill, false) { &cut } else { cut.rsplit_once(' ').map_or(&*cut, |(a, _)| a) };
                self.text(format!("{cut}{end}"))
            }
            "wordwrap" => {
                let [width, long, between, hyphens] =
                    given.take(["width", "break_long_words", "wrapstring", "break_on_hyphens"])?;
                let (width, long) = (size(width.as_ref(), 79)?, flag(long, true));
                if width == 0 {
                    return Err("'wordwrap' to no width".into());
                }
                let hyphens = flag(hyphens, true);
                let between = match between.filter(|between| !matches!(between, Val::None)) {
                    Some(between) => self.show(&between)?,
                    None => "\n".into(),
                };
                let text = shown(self)?;
                let lines: Vec<String> = text
                    .lines()
                    .map(|line| wrap::wrapped(line, width, long, hyphens).join(&between))
                    .collect();
                self.make(text.len() / width * between.len() + text.len())?;
                self.text(lines.join(&between))
            }
            "wordcount" => {
                let text = shown(self)?;
                let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
                Ok(Val::Int(words.count() as i128))
            }
            "filesizeformat" => {
                let [binary] = given.take(["binary"])?;
                let binary = flag(binary, false);
                let bytes = match &value {
                    Val::Str(text) => text.trim().parse::<f64>().ok(),
                    other => number(other).map(|n| n.float()),
                };
                let bytes = bytes.ok_or("'filesizeformat' of what is no number")?;
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
                let [indent] = given.take(["indent"])?;
                let indent = indent.filter(|i| !matches!(i, Val::None));
                let indent = indent.as_ref().map(|i| size(Some(i), 0)).transpose()?;
                self.make(indent.unwrap_or(0))?;
                self.weigh(&value)?;
                let mut out = String::new();
                crate::json::write(&value, indent, 0, &mut out)?;
                self.text(out)
            }
            "urlencode" => match &value {
                Val::Map(_) | Val::Seq(_) => {
                    self.weigh(&value)?;
                    let pairs = self.pairs(&value)?;
                    let pair = |(k, v): &(Val, Val)| {
                        format!("{}={}", percent(&k.show(), false), percent(&v.show(), false))
                    };
                    self.text(pairs.iter().map(pair).collect::<Vec<_>>().join("&"))
                }
                other => {
                    let text = percent(&other.show(), true);
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
                let [name] = given.take(["name"])?;
                let name = self.show(&name.ok_or("'attr' without a name")?)?;
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
                self.weigh(&value)?;
                let text = wrap::pretty(&value);
                self.text(text)
            }
            "xmlattr" => {
                let [space] = given.take(["autospace"])?;
                self.weigh(&value)?;
                let mut out = String::new();
                for (key, value) in self.pairs(&value)? {
                    if !matches!(value, Val::None | Val::Undefined(_)) {
                        let value = self.filter("e", value, Given::default())?;
                        out.push_str(&format!(" {}=\"{}\"", key.show(), value.show()));
                    }
                }
                let text = if flag(space, true) { out } else { out.trim_start().to_string() };
                self.text(text)
            }
            _ => Err(format!("there is no filter '{name}'")),
        }
    }

    /// `map('filter', …)` or `map(attribute='a.b', default=…)`.
    fn mapped(&mut self, value: &Val, mut given: Given) -> Made<Val> {
        let items = self.items(value)?;
        let mut made = Vec::with_capacity(items.len());
        if given.values.is_empty() {
            let [attribute, default] = given.take(["attribute", "default"])?;
            let path = path(Some(attribute.ok_or("'map' without the name of a filter")?));
            for item in items {
                let found = self.below(&item, &path)?;
                made.push(match (found, &default) {
                    (Val::Undefined(_), Some(default)) => default.clone(),
                    (found, _) => found,
                });
            }
        } else {
            let name = self.show(&given.values.remove(0))?;
            for item in items {
                let given = Given { values: given.values.clone(), named: given.named.clone() };
                made.push(self.filter(&name, item, given)?);
            }
        }
        self.list(made)
    }

    fn selected(&mut self, name: &str, value: &Val, mut given: Given) -> Made<Val> {
        let items = self.items(value)?;
        let by_attribute = name.ends_with("attr");
        let path = match by_attribute {
            true if given.values.is_empty() => return Err(format!("'{name}' without an attribute")),
            true => path(Some(given.values.remove(0))),
            false => Vec::new(),
        };
        let test = if given.values.is_empty() { None } else { Some(self.show(&given.values.remove(0))?) };
        let mut kept = Vec::new();
        for item in items {
            let found = self.below(&item, &path)?;
            let fits = match &test {
                None => found.is_true(),
                Some(test) => {
                    let given = Given { values: given.values.clone(), named: given.named.clone() };
                    self.test(test, &found, given)?
                }
            };
            if fits == name.starts_with("select") {
                kept.push(item);
            }
        }
        self.list(kept)
    }

    /// `value is name(…)`.
    pub fn test(&mut self, name: &str, value: &Val, given: Given) -> Made<bool> {
        let argument = |given: Given| match given.values.into_iter().next() {
            Some(argument) => Ok(argument),
            None => Err(format!("'is {name}' without what to compare with")),
        };
        let compare = match name {
            "eq" | "equalto" | "==" => Some(Compare::Eq),
            "ne" | "!=" => Some(Compare::Ne),
            "lt" | "lessthan" | "<" => Some(Compare::Lt),
            "le" | "<=" => Some(Compare::Le),
            "gt" | "greaterthan" | ">" => Some(Compare::Gt),
            "ge" | ">=" => Some(Compare::Ge),
            "in" => Some(Compare::In),
            _ => None,
        };
        if let Some(compare) = compare {
            let right = argument(given)?;
            return self.compare(compare, value, &right);
        }
        let rest = |by: &Val| match (number(value), number(by)) {
            (_, Some(Number::Int(0))) => Err("a division by zero".to_string()),
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.checked_rem(b).unwrap_or(0)),
            (Some(a), Some(b)) => Ok(i128::from(a.float() % b.float() != 0.0)),
            _ => match value {
                Val::Undefined(name) => Err(undefined(name)),
                other => Err(format!("'is {name}' of {}", other.kind())),
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
            "divisibleby" => rest(&argument(given)?)? == 0,
            "sameas" => match (value, &argument(given)?) {
                (Val::Seq(a), Val::Seq(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Map(a), Val::Map(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Bool(_), Val::Int(_)) | (Val::Int(_), Val::Bool(_)) => false,
                (a, b) => a.depth() == 0 && equal(a, b) && a.kind() == b.kind(),
            },
            "lower" => {
                let text = self.show(value)?;
                text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)
            }
            "upper" => {
                let text = self.show(value)?;
                text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
            }
            "filter" => matches!(&value.plain(), Val::Str(text) if crate::NAMES.contains(&&**text)),
            "test" => matches!(&value.plain(), Val::Str(text) if crate::TESTS.contains(&&**text)),
            _ => return Err(format!("there is no test '{name}'")),
        })
    }
}

/// Python's `int(text, base)`.
fn whole(text: &str, base: u32) -> Option<i128> {
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

fn percent(text: &str, slash: bool) -> String {
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
