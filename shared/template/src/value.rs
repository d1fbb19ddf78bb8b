//! The values of a template, which are Python's: how they are printed, compared and counted as true. Containers
//! are shared, as `do list.append(…)` changes them. Each knows how deep it is, so that walking it ends.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use config::Node;
use encoding::python::put_repr;

/// The maximum nesting of containers.
pub const MAX_NESTING: u16 = 60;

/// The prefix that upstream prints for an undefined variable; users search their files for it.
pub const MISSING_JINJA_PREFIX: &str = "CI_MISSING_JINJA_VAR/";

/// The maximum number of values that variables are converted to; aliases share what they name, and the copies do not.
pub const MAX_VALUES: usize = 1_000_000;

pub const TOO_LARGE: &str = "a number that is too large";

#[derive(Clone)]
pub enum Val {
    /// With the name of the undefined variable; `None` for a value without a name, such as the first item of an
    /// empty list.
    Undefined(Option<Rc<str>>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Rc<str>),
    Seq(Rc<Seq>),
    Map(Rc<Dict>),
    /// The variable `loop` of a `for`: its items, and the index of the current one.
    Loop(Rc<[Val]>, usize),
}

pub struct Seq {
    pub items: RefCell<Vec<Val>>,
    pub depth: Cell<u16>,
    pub tuple: bool,
}

#[derive(Default)]
pub struct Dict {
    pub entries: RefCell<Vec<(Val, Val)>>,
    pub depth: Cell<u16>,
    /// A `namespace()`: its attributes can be assigned to.
    pub namespace: bool,
}

pub type ValueResult<T> = Result<T, String>;

fn checked_depth<'a>(values: impl IntoIterator<Item = &'a Val>) -> ValueResult<Cell<u16>> {
    let most = values.into_iter().map(Val::depth).max().unwrap_or(0) + 1;
    if most > MAX_NESTING {
        return Err(format!("values nested deeper than {MAX_NESTING} levels"));
    }
    Ok(Cell::new(most))
}

/// Returns a copy of a value to be put into a container, so that no value contains itself, and updates the container's depth.
fn copy_into(value: &Val, depth: &Cell<u16>) -> ValueResult<Val> {
    let value = value.deep_copy()?;
    depth.set(depth.get().max(checked_depth([&value])?.get()));
    Ok(value)
}

impl Dict {
    pub fn index_of(&self, key: &Val) -> Option<usize> {
        self.entries.borrow().iter().position(|(k, _)| k == key)
    }

    pub fn get(&self, key: &Val) -> Option<Val> {
        self.index_of(key).map(|at| self.entries.borrow()[at].1.clone())
    }

    pub fn insert(&self, key: Val, value: &Val) -> ValueResult<()> {
        let value = copy_into(value, &self.depth)?;
        match self.index_of(&key) {
            Some(at) => self.entries.borrow_mut()[at].1 = value,
            None => self.entries.borrow_mut().push((key, value)),
        }
        Ok(())
    }
}

impl Seq {
    pub fn push(&self, value: &Val) -> ValueResult<()> {
        let value = copy_into(value, &self.depth)?;
        self.items.borrow_mut().push(value);
        Ok(())
    }
}

impl Val {
    pub fn text(text: &str) -> Val {
        Val::Str(text.into())
    }

    pub fn int(n: usize) -> Val {
        Val::Int(n as i128)
    }

    pub fn undefined(name: &Rc<str>) -> Val {
        Val::Undefined(Some(name.clone()))
    }

    pub fn list(items: Vec<Val>) -> ValueResult<Val> {
        Val::seq(items, false)
    }

    pub fn tuple(items: Vec<Val>) -> ValueResult<Val> {
        Val::seq(items, true)
    }

    pub fn seq(items: Vec<Val>, tuple: bool) -> ValueResult<Val> {
        let depth = checked_depth(&items)?;
        Ok(Val::Seq(Rc::new(Seq { items: RefCell::new(items), depth, tuple })))
    }

    /// Returns a map. Later values of a key replace earlier ones.
    pub fn map(entries: impl IntoIterator<Item = (Val, Val)>, namespace: bool) -> ValueResult<Val> {
        let mut found: Vec<(Val, Val)> = Vec::new();
        for (key, value) in entries {
            match found.iter_mut().find(|(k, _)| *k == key) {
                Some((_, old)) => *old = value,
                None => found.push((key, value)),
            }
        }
        Val::map_of_unique(found, namespace)
    }

    /// Returns a map of entries with different keys.
    fn map_of_unique(entries: Vec<(Val, Val)>, namespace: bool) -> ValueResult<Val> {
        let depth = checked_depth(entries.iter().map(|(_, value)| value))?;
        Ok(Val::Map(Rc::new(Dict { entries: RefCell::new(entries), depth, namespace })))
    }

    /// Converts a variable; fails if that takes more than `left` values, and subtracts them.
    pub fn from_node(node: &Node, left: &mut usize) -> ValueResult<Val> {
        use config::Value;
        *left = left.checked_sub(1).ok_or("a variable that is too large")?;
        Ok(match &node.value {
            Value::Null => Val::None,
            Value::Bool(b) => Val::Bool(*b),
            Value::Int(n) => Val::Int(*n),
            Value::Float(f) => Val::Float(*f),
            Value::Str(text) => Val::text(text),
            Value::Bytes(bytes) => Val::text(&String::from_utf8_lossy(bytes)),
            Value::Seq(items) => {
                Val::list(items.iter().map(|item| Val::from_node(item, left)).collect::<ValueResult<_>>()?)?
            }
            Value::Set(map) => {
                Val::list(map.iter().map(|(key, _)| Val::from_node(key, left)).collect::<ValueResult<_>>()?)?
            }
            Value::Map(map) => {
                let entries =
                    map.iter().map(|(k, v)| Ok((Val::from_node(k, left)?, Val::from_node(v, left)?)));
                Val::map_of_unique(entries.collect::<ValueResult<_>>()?, false)?
            }
        })
    }

    pub fn depth(&self) -> u16 {
        match self {
            Val::Seq(seq) => seq.depth.get(),
            Val::Map(map) => map.depth.get(),
            _ => 0,
        }
    }

    /// Returns whether a walk over the value takes less than `left` steps, and subtracts them. Shared values count each time.
    /// If the value is compared, each key of a map is searched for in another map.
    pub fn fits_budget(&self, left: &mut usize, compared: bool) -> bool {
        let own = match self {
            Val::Str(text) => text.len() / 8 + 1,
            _ => 1,
        };
        *left = left.saturating_sub(own);
        *left > 0
            && match self {
                Val::Seq(seq) => seq.items.borrow().iter().all(|item| item.fits_budget(left, compared)),
                Val::Map(map) => {
                    let entries = map.entries.borrow();
                    let before = *left;
                    let fits = entries.iter().all(|(key, _)| key.fits_budget(left, compared));
                    let searches =
                        if compared { (before - *left).saturating_mul(entries.len()) / 16 } else { 0 };
                    *left = left.saturating_sub(searches);
                    fits && entries.iter().all(|(_, value)| value.fits_budget(left, compared))
                }
                _ => *left > 0,
            }
    }

    /// Returns the most bytes that the value takes as Python's `repr` or as JSON with this indentation.
    pub fn max_written_len(&self, indent: usize, level: usize) -> usize {
        let place = indent.saturating_mul(level + 1).saturating_add(4);
        match self {
            Val::Str(text) => {
                let is_plain = |c| matches!(c, ' '..='~') && !"'\"\\<>&".contains(c);
                text.chars().map(|c| if is_plain(c) { 1 } else { 12 }).sum::<usize>() + 2
            }
            Val::Undefined(Some(name)) => MISSING_JINJA_PREFIX.len() + name.len(),
            Val::Int(n) => n.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 2,
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                let lengths = items.iter().flat_map(|item| [item.max_written_len(indent, level + 1), place]);
                lengths.fold(place, usize::saturating_add)
            }
            Val::Map(map) => {
                let entries = map.entries.borrow();
                let lengths = entries.iter().flat_map(|(key, value)| {
                    [key.max_written_len(0, 0), value.max_written_len(indent, level + 1), place]
                });
                lengths.fold(place.saturating_add("<Namespace >".len()), usize::saturating_add)
            }
            _ => 64,
        }
    }

    /// Returns a copy that shares no mutable container with this value.
    pub fn deep_copy(&self) -> ValueResult<Val> {
        match self {
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                Val::seq(items.iter().map(Val::deep_copy).collect::<ValueResult<_>>()?, seq.tuple)
            }
            Val::Map(map) if map.namespace => Err("a namespace within another value".into()),
            Val::Map(map) => {
                let entries = map.entries.borrow();
                let entries = entries.iter().map(|(k, v)| Ok((k.clone(), v.deep_copy()?)));
                Val::map_of_unique(entries.collect::<ValueResult<_>>()?, false)
            }
            Val::Loop(..) => Err("a loop within another value".into()),
            other => Ok(other.clone()),
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Val::Undefined(_) | Val::None => false,
            Val::Bool(b) => *b,
            Val::Int(n) => *n != 0,
            Val::Float(f) => *f != 0.0,
            Val::Str(text) => !text.is_empty(),
            Val::Seq(seq) => !seq.items.borrow().is_empty(),
            Val::Map(map) => !map.entries.borrow().is_empty(),
            Val::Loop(..) => true,
        }
    }

    /// Returns the type's name for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Undefined(_) => "undefined",
            Val::None => "None",
            Val::Bool(_) => "a boolean",
            Val::Int(_) => "an integer",
            Val::Float(_) => "a float",
            Val::Str(_) => "a string",
            Val::Seq(seq) if seq.tuple => "a tuple",
            Val::Seq(_) => "a list",
            Val::Map(_) => "a map",
            Val::Loop(..) => "a loop",
        }
    }

    /// Returns the error of an operation on a value of this type, such as `'abs' of`.
    pub fn operand_error(&self, operation: &str) -> String {
        match self {
            Val::Undefined(name) => undefined_error(name),
            other => format!("{operation} {}", other.type_name()),
        }
    }

    /// Returns the value as a number; booleans are numbers in Python.
    pub fn number(&self) -> Option<Number> {
        Some(match self {
            Val::Bool(b) => Number::Int(i128::from(*b)),
            Val::Int(n) => Number::Int(*n),
            Val::Float(f) => Number::Float(*f),
            _ => return None,
        })
    }

    /// Returns `str(value)`.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        match self {
            Val::Str(text) => out.push_str(text),
            other => other.write_repr(&mut out),
        }
        out
    }

    /// Writes `repr(value)`, except of an undefined value, which becomes its placeholder.
    fn write_repr(&self, out: &mut String) {
        let inner = |value: &Val, out: &mut String| match value {
            Val::Undefined(_) => out.push_str("Undefined"),
            other => other.write_repr(out),
        };
        match self {
            Val::Undefined(Some(name)) if name.is_empty() => {}
            Val::Undefined(name) => {
                out.push_str(MISSING_JINJA_PREFIX);
                out.push_str(name.as_deref().unwrap_or("None"));
            }
            Val::None => out.push_str("None"),
            Val::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
            Val::Int(n) => out.push_str(&n.to_string()),
            Val::Float(f) => out.push_str(&Node::from(*f).scalar_text().unwrap_or_default()),
            Val::Str(text) => put_repr(text, out),
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                let (open, close) = match (seq.tuple, items.len()) {
                    (false, _) => ("[", "]"),
                    (true, 1) => ("(", ",)"),
                    (true, _) => ("(", ")"),
                };
                write_list(open, &items, close, out, inner);
            }
            Val::Map(map) => {
                let (open, close) = if map.namespace { ("<Namespace {", "}>") } else { ("{", "}") };
                write_list(open, &map.entries.borrow(), close, out, |(key, value), out| {
                    inner(key, out);
                    out.push_str(": ");
                    inner(value, out);
                });
            }
            Val::Loop(items, at) => out.push_str(&format!("<LoopContext {}/{}>", at + 1, items.len())),
        }
    }
}

fn write_list<T>(open: &str, items: &[T], close: &str, out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push_str(open);
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write(item, out);
    }
    out.push_str(close);
}

pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn float(&self) -> f64 {
        match self {
            Number::Int(n) => *n as f64,
            Number::Float(f) => *f,
        }
    }
}

/// Python's `==`.
impl PartialEq for Val {
    fn eq(&self, other: &Val) -> bool {
        match (self, other) {
            (Val::Undefined(_), Val::Undefined(_)) | (Val::None, Val::None) => true,
            (Val::Str(a), Val::Str(b)) => a == b,
            (Val::Seq(a), Val::Seq(b)) => a.tuple == b.tuple && a.items == b.items,
            (Val::Map(a), Val::Map(b)) => {
                let (x, y) = (a.entries.borrow(), b.entries.borrow());
                x.len() == y.len() && x.iter().all(|(key, value)| b.get(key).as_ref() == Some(value))
            }
            (a, b) => match (a.number(), b.number()) {
                (Some(Number::Int(a)), Some(Number::Int(b))) => a == b,
                (Some(a), Some(b)) => a.float() == b.float(),
                _ => false,
            },
        }
    }
}

/// Orders two values; fails where Python raises a TypeError.
pub fn order(a: &Val, b: &Val) -> ValueResult<Ordering> {
    match (a, b) {
        (Val::Str(a), Val::Str(b)) => Ok(a.cmp(b)),
        (Val::Seq(a), Val::Seq(b)) if a.tuple == b.tuple => {
            let (a, b) = (a.items.borrow(), b.items.borrow());
            match a.iter().zip(b.iter()).find(|(x, y)| x != y) {
                Some((x, y)) => order(x, y),
                None => Ok(a.len().cmp(&b.len())),
            }
        }
        (Val::Undefined(name), _) | (_, Val::Undefined(name)) => Err(undefined_error(name)),
        _ => match (a.number(), b.number()) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.cmp(&b)),
            (Some(a), Some(b)) => Ok(a.float().partial_cmp(&b.float()).unwrap_or(Ordering::Equal)),
            _ => Err(format!("cannot compare {} and {}", a.type_name(), b.type_name())),
        },
    }
}

pub fn undefined_error(name: &Option<Rc<str>>) -> String {
    match name {
        Some(name) => format!("'{name}' is undefined"),
        None => "undefined value used".into(),
    }
}

pub fn check_hashable(key: &Val) -> ValueResult<()> {
    match key {
        // A tuple of plain values is accepted; comparing deeper ones could cost too much.
        Val::Seq(seq) if seq.tuple && seq.depth.get() == 1 => Ok(()),
        Val::Seq(_) | Val::Map(_) => Err(format!("{} as a key", key.type_name())),
        _ => Ok(()),
    }
}

/// Returns the position of an index in a sequence of this length; a negative index counts from the end.
pub fn resolve_index(index: i128, length: usize) -> Option<usize> {
    let at = if index < 0 { index.saturating_add(length as i128) } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}
