//! The values of a template, which are Python's: how they are printed, compared and counted as true. Containers
//! are shared, as `do list.append(…)` changes them. Each knows how deep it is, so that walking it ends.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use config::Node;
use encoding::python::put_repr;

use crate::ast::{Macro, Name};
use crate::eval::Scope;

/// The maximum nesting of containers.
pub const MAX_NESTING: u16 = 60;

/// The prefix that upstream prints for an undefined variable; users search their files for it.
pub const MISSING_JINJA_PREFIX: &str = "CI_MISSING_JINJA_VAR/";

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
    /// Text that needs no escaping: Python's `Markup`.
    Safe(Rc<str>),
    Bytes(Rc<[u8]>),
    Seq(Rc<Seq>),
    Map(Rc<Dict>),
    Callable(Rc<Callable>),
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

pub enum Callable {
    Function(&'static str),
    Method(Val, &'static str),
    /// A macro, and whether its output is escaped.
    Macro(Rc<Macro>, Vec<Scope>, bool),
    /// A block of this name, called through `self`.
    Template,
    Block(Name),
    Loop(LoopState),
    Cycler {
        items: Vec<Val>,
        at: Cell<usize>,
    },
    Joiner {
        between: Val,
        used: Cell<bool>,
    },
}

/// The variable `loop` of a `for`.
pub struct LoopState {
    pub items: Vec<Val>,
    pub index: Cell<usize>,
    pub level: usize,
    pub changed: RefCell<Option<Vec<Val>>>,
    pub recursive: Option<Rc<crate::ast::For>>,
    pub scopes: Vec<Scope>,
}

pub type ValueResult<T> = Result<T, String>;

fn checked_depth<'a>(values: impl Iterator<Item = &'a Val>) -> ValueResult<u16> {
    let most = values.map(Val::depth).max().unwrap_or(0) + 1;
    if most > MAX_NESTING { Err(format!("values nested deeper than {MAX_NESTING} levels")) } else { Ok(most) }
}

impl Dict {
    pub fn get(&self, key: &Val) -> Option<Val> {
        self.entries.borrow().iter().find(|(k, _)| equal(k, key)).map(|(_, v)| v.clone())
    }

    pub fn get_str(&self, key: &str) -> Option<Val> {
        let is = |k: &Val| matches!(k, Val::Str(k) if **k == *key);
        self.entries.borrow().iter().find(|(k, _)| is(k)).map(|(_, v)| v.clone())
    }

    /// Returns the entries in the order of their keys; keys without an order are sorted by the names of their types.
    pub fn sorted(&self) -> Vec<(Val, Val)> {
        let mut entries = self.entries.borrow().clone();
        let by_type = |a: &Val, b: &Val| a.python_type().cmp(b.python_type());
        sort::sort_by(&mut entries, |(a, _), (b, _)| order(a, b).unwrap_or_else(|_| by_type(a, b)));
        entries
    }

    /// Inserts a copy of the value, so that no value contains itself.
    pub fn insert(&self, key: Val, value: &Val) -> ValueResult<()> {
        let value = value.deep_copy()?;
        self.depth.set(self.depth.get().max(checked_depth([&value].into_iter())?));
        let mut entries = self.entries.borrow_mut();
        match entries.iter_mut().find(|(k, _)| equal(k, &key)) {
            Some((_, old)) => *old = value,
            None => entries.push((key, value)),
        }
        Ok(())
    }
}

impl Seq {
    pub fn insert(&self, at: usize, value: &Val) -> ValueResult<()> {
        let value = value.deep_copy()?;
        self.depth.set(self.depth.get().max(checked_depth([&value].into_iter())?));
        let mut items = self.items.borrow_mut();
        let at = at.min(items.len());
        items.insert(at, value);
        Ok(())
    }
}

impl Val {
    pub fn safe(text: impl Into<Rc<str>>) -> Val {
        Val::Safe(text.into())
    }

    /// Returns the value with safe text as ordinary text.
    pub fn plain(&self) -> Val {
        match self {
            Val::Safe(text) => Val::Str(text.clone()),
            other => other.clone(),
        }
    }

    /// Marks text that was derived from safe text as safe.
    pub fn into_safe(self) -> Val {
        match self {
            Val::Str(text) => Val::Safe(text),
            other => other,
        }
    }

    pub fn text(text: &str) -> Val {
        Val::Str(text.into())
    }

    pub fn list(items: Vec<Val>) -> ValueResult<Val> {
        let depth = Cell::new(checked_depth(items.iter())?);
        Ok(Val::Seq(Rc::new(Seq { items: RefCell::new(items), depth, tuple: false })))
    }

    pub fn tuple(items: Vec<Val>) -> ValueResult<Val> {
        let depth = Cell::new(checked_depth(items.iter())?);
        Ok(Val::Seq(Rc::new(Seq { items: RefCell::new(items), depth, tuple: true })))
    }

    /// Returns a map. Later values of a key replace earlier ones.
    pub fn map(entries: impl IntoIterator<Item = (Val, Val)>, namespace: bool) -> ValueResult<Val> {
        let mut found: Vec<(Val, Val)> = Vec::new();
        for (key, value) in entries {
            match found.iter_mut().find(|(k, _)| equal(k, &key)) {
                Some((_, old)) => *old = value,
                None => found.push((key, value)),
            }
        }
        let depth = Cell::new(checked_depth(found.iter().map(|(_, v)| v))?);
        Ok(Val::Map(Rc::new(Dict { entries: RefCell::new(found), depth, namespace })))
    }

    pub fn from_node(node: &Node) -> ValueResult<Val> {
        use config::Value;
        Ok(match &node.value {
            Value::Null => Val::None,
            Value::Bool(b) => Val::Bool(*b),
            Value::Int(n) => Val::Int(*n),
            Value::Float(f) => Val::Float(*f),
            Value::Str(text) => Val::text(text),
            Value::Bytes(bytes) => Val::text(&String::from_utf8_lossy(bytes)),
            Value::Seq(items) => Val::list(items.iter().map(Val::from_node).collect::<ValueResult<_>>()?)?,
            Value::Set(map) => {
                Val::list(map.iter().map(|(key, _)| Val::from_node(key)).collect::<ValueResult<_>>()?)?
            }
            Value::Map(map) => {
                let pairs: ValueResult<Vec<_>> =
                    map.iter().map(|(k, v)| Ok((Val::from_node(k)?, Val::from_node(v)?))).collect();
                let pairs = pairs?;
                let depth = Cell::new(checked_depth(pairs.iter().map(|(_, v)| v))?);
                Val::Map(Rc::new(Dict { entries: RefCell::new(pairs), depth, namespace: false }))
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
    pub fn fits_budget(&self, left: &mut usize) -> bool {
        let own = match self {
            Val::Str(text) | Val::Safe(text) => text.len() / 8 + 1,
            Val::Bytes(bytes) => bytes.len() / 8 + 1,
            _ => 1,
        };
        *left = left.saturating_sub(own);
        *left > 0
            && match self {
                Val::Seq(seq) => seq.items.borrow().iter().all(|item| item.fits_budget(left)),
                Val::Map(map) => map
                    .entries
                    .borrow()
                    .iter()
                    .all(|(key, value)| key.fits_budget(left) && value.fits_budget(left)),
                _ => true,
            }
    }

    /// Returns a copy that shares no mutable container with this value.
    pub fn deep_copy(&self) -> ValueResult<Val> {
        match self {
            Val::Seq(seq) => {
                let items = seq.items.borrow().iter().map(Val::deep_copy).collect::<ValueResult<_>>()?;
                if seq.tuple { Val::tuple(items) } else { Val::list(items) }
            }
            Val::Map(map) if map.namespace => Err("a namespace within another value".into()),
            Val::Map(map) => {
                let pairs: ValueResult<Vec<_>> =
                    map.entries.borrow().iter().map(|(k, v)| Ok((k.clone(), v.deep_copy()?))).collect();
                let pairs = pairs?;
                let depth = Cell::new(checked_depth(pairs.iter().map(|(_, v)| v))?);
                Ok(Val::Map(Rc::new(Dict { entries: RefCell::new(pairs), depth, namespace: false })))
            }
            Val::Callable(_) => Err("a function or loop within another value".into()),
            other => Ok(other.clone()),
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Val::Undefined(_) | Val::None => false,
            Val::Bool(b) => *b,
            Val::Int(n) => *n != 0,
            Val::Float(f) => *f != 0.0,
            Val::Str(text) | Val::Safe(text) => !text.is_empty(),
            Val::Bytes(bytes) => !bytes.is_empty(),
            Val::Seq(seq) => !seq.items.borrow().is_empty(),
            Val::Map(map) => !map.entries.borrow().is_empty(),
            Val::Callable(_) => true,
        }
    }

    /// Returns Python's name of the type, by which its pprint sorts keys that have no order.
    fn python_type(&self) -> &'static str {
        match self {
            Val::Undefined(_) => "Undefined",
            Val::None => "NoneType",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Float(_) => "float",
            Val::Str(_) => "str",
            Val::Safe(_) => "Markup",
            Val::Bytes(_) => "bytes",
            Val::Seq(seq) => ["list", "tuple"][usize::from(seq.tuple)],
            Val::Map(_) => "dict",
            Val::Callable(_) => "function",
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
            Val::Str(_) | Val::Safe(_) => "a string",
            Val::Bytes(_) => "bytes",
            Val::Seq(seq) => ["a list", "a tuple"][usize::from(seq.tuple)],
            Val::Map(_) => "a map",
            Val::Callable(_) => "a function",
        }
    }

    /// Returns `str(value)`.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    pub fn write(&self, out: &mut String) {
        match self {
            Val::Str(text) | Val::Safe(text) => out.push_str(text),
            other => other.write_repr(out),
        }
    }

    /// Returns `repr(value)`.
    pub fn write_repr(&self, out: &mut String) {
        self.write_repr_as(false, out);
    }

    /// Does the same as [`Val::write_repr`], with the keys of maps sorted if `sorted`.
    pub fn write_repr_as(&self, sorted: bool, out: &mut String) {
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
            Val::Safe(text) => {
                out.push_str("Markup(");
                put_repr(text, out);
                out.push(')');
            }
            Val::Bytes(bytes) => write_bytes(bytes, out),
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                out.push(if seq.tuple { '(' } else { '[' });
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    item.write_inner(sorted, out);
                }
                if seq.tuple && items.len() == 1 {
                    out.push(',');
                }
                out.push(if seq.tuple { ')' } else { ']' });
            }
            Val::Map(map) => {
                out.push_str(if map.namespace { "<Namespace {" } else { "{" });
                let sorted = sorted && !map.namespace;
                let entries = if sorted { map.sorted() } else { map.entries.borrow().clone() };
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    key.write_inner(sorted, out);
                    out.push_str(": ");
                    value.write_inner(sorted, out);
                }
                out.push_str(if map.namespace { "}>" } else { "}" });
            }
            Val::Callable(callable) => match &**callable {
                Callable::Loop(state) => {
                    out.push_str(&format!("<LoopContext {}/{}>", state.index.get() + 1, state.items.len()));
                }
                Callable::Template => out.push_str("<TemplateReference None>"),
                Callable::Block(name) => out.push_str(&format!("<BlockReference '{name}'>")),
                Callable::Macro(of, ..) => out.push_str(&format!("<Macro '{}'>", of.name)),
                Callable::Function(name) | Callable::Method(_, name) => {
                    out.push_str(&format!("<function {name}>"));
                }
                Callable::Cycler { .. } => out.push_str("<Cycler>"),
                Callable::Joiner { .. } => out.push_str("<Joiner>"),
            },
        }
    }

    fn write_inner(&self, sorted: bool, out: &mut String) {
        match self {
            Val::Undefined(_) if !sorted => out.push_str("Undefined"),
            other => other.write_repr_as(sorted, out),
        }
    }
}

fn write_bytes(bytes: &[u8], out: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.extend(['b', quote]);
    for byte in bytes {
        match char::from(*byte) {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote || c == '\\' => out.extend(['\\', c]),
            c @ ' '..='~' => out.push(c),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
}

/// Escapes text for HTML.
pub fn html_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns the value as a number; booleans are numbers in Python.
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

pub fn number(value: &Val) -> Option<Number> {
    Some(match value {
        Val::Bool(b) => Number::Int(i128::from(*b)),
        Val::Int(n) => Number::Int(*n),
        Val::Float(f) => Number::Float(*f),
        _ => return None,
    })
}

pub fn equal(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Undefined(_), Val::Undefined(_)) | (Val::None, Val::None) => true,
        (Val::Str(a) | Val::Safe(a), Val::Str(b) | Val::Safe(b)) => a == b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Seq(a), Val::Seq(b)) => {
            let (x, y) = (a.items.borrow(), b.items.borrow());
            a.tuple == b.tuple && x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| equal(x, y))
        }
        (Val::Map(a), Val::Map(b)) => {
            let (x, y) = (a.entries.borrow(), b.entries.borrow());
            x.len() == y.len() && x.iter().all(|(k, v)| b.get(k).is_some_and(|other| equal(v, &other)))
        }
        (Val::Callable(a), Val::Callable(b)) => Rc::ptr_eq(a, b),
        _ => match (number(a), number(b)) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => a == b,
            (Some(a), Some(b)) => a.float() == b.float(),
            _ => false,
        },
    }
}

/// Orders two values; fails where Python raises a TypeError.
pub fn order(a: &Val, b: &Val) -> ValueResult<Ordering> {
    match (a, b) {
        (Val::Str(a) | Val::Safe(a), Val::Str(b) | Val::Safe(b)) => Ok(a.cmp(b)),
        (Val::Seq(a), Val::Seq(b)) if a.tuple == b.tuple => {
            let (a, b) = (a.items.borrow(), b.items.borrow());
            for (x, y) in a.iter().zip(b.iter()) {
                if !equal(x, y) {
                    return order(x, y);
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        (Val::Undefined(name), _) | (_, Val::Undefined(name)) => Err(undefined_error(name)),
        _ => match (number(a), number(b)) {
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
