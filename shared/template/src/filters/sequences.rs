//! Filters on lists and maps.

use std::cmp::Ordering;

use super::{bool_arg, size_arg};
use crate::eval::{CallArgs, Interpreter};
use crate::value::{Val, ValueResult, equal, undefined_error};

/// Where a value is taken from below another one: `a.b`, `0`, or nothing.
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
    fn lookup_path(&mut self, value: &Val, path: &Path) -> ValueResult<Val> {
        path.iter().try_fold(value.clone(), |value, key| self.item(&value, key))
    }

    /// Applies a filter on lists and maps, or one of the others.
    pub(super) fn sequence_filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        match name {
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
            _ => self.number_filter(name, value, args),
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
}
