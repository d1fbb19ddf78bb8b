//! The interpreter of statements and expressions, with limits for steps, depth and memory.

mod statements;

use std::cell::RefCell;
use std::rc::Rc;

use config::Map;

use crate::ast::{self, Body, CompareOp, Expr, Name};
use crate::value::{Callable, Val, ValueResult, equal, order, undefined_error};
use crate::{TemplateError, UndefinedVariable, operators};

/// The maximum number of steps: some seconds on a slow machine.
const FUEL: u64 = 20_000_000;
/// The maximum depth of nested calls and expressions.
const MAX_DEPTH: u32 = 120;
/// The size limit of the output in bytes.
const MAX_OUTPUT: usize = 16 << 20;
/// The size limit of all values that are created, in bytes.
const MAX_ALLOCATED: usize = 48 << 20;

pub type Scope = Rc<RefCell<Vec<(Name, Val)>>>;
pub type Result<T> = std::result::Result<T, TemplateError>;

pub struct Interpreter<'v> {
    variables: &'v Map,
    blocks: Vec<(Name, Body)>,
    /// Whether output is escaped: within `autoescape`.
    pub autoescape: bool,
    /// The variables that were looked up, as values.
    cache: Vec<(Name, Val)>,
    pub scopes: Vec<Scope>,
    pub out: String,
    pub undefined: Vec<UndefinedVariable>,
    fuel: u64,
    allocated: usize,
    depth: u32,
    line: usize,
}

/// The arguments of a call.
#[derive(Default)]
pub struct CallArgs {
    pub values: Vec<Val>,
    pub named: Vec<(Name, Val)>,
}

impl CallArgs {
    /// Returns the arguments in the order of `names`; `None` for a missing one.
    pub fn bind<const N: usize>(self, names: [&str; N]) -> ValueResult<[Option<Val>; N]> {
        let mut found: [Option<Val>; N] = std::array::from_fn(|_| None);
        if self.values.len() > N {
            return Err(format!("expected at most {N} arguments, got {}", self.values.len()));
        }
        for (place, value) in self.values.into_iter().enumerate() {
            found[place] = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|n| **n == *name) {
                Some(place) if found[place].is_none() => found[place] = Some(value),
                Some(_) => return Err(format!("duplicate argument '{name}'")),
                None => return Err(format!("unexpected argument '{name}'")),
            }
        }
        Ok(found)
    }
}

impl<'v> Interpreter<'v> {
    pub fn new(variables: &'v Map, blocks: Vec<(Name, Body)>) -> Interpreter<'v> {
        Interpreter {
            variables,
            blocks,
            autoescape: false,
            cache: Vec::new(),
            scopes: vec![Scope::default()],
            out: String::new(),
            undefined: Vec::new(),
            fuel: FUEL,
            allocated: 0,
            depth: 0,
            line: 1,
        }
    }

    pub fn run(&mut self, body: &Body) -> Result<()> {
        self.exec_body(body).map_err(|message| TemplateError { line: self.line, message })
    }

    /// Consumes fuel for work whose cost grows with a value.
    pub fn consume_fuel(&mut self, steps: usize) -> ValueResult<()> {
        match self.fuel.checked_sub(steps as u64) {
            Some(rest) => {
                self.fuel = rest;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err("step limit exceeded".into())
            }
        }
    }

    /// Charges the memory of a value of this many bytes, before it is created.
    pub fn charge_memory(&mut self, bytes: usize) -> ValueResult<()> {
        self.allocated = self.allocated.saturating_add(bytes);
        if self.allocated > MAX_ALLOCATED {
            return Err(format!("memory limit of {} MiB exceeded", MAX_ALLOCATED >> 20));
        }
        self.consume_fuel(bytes / 64 + 1)
    }

    pub fn text(&mut self, text: String) -> ValueResult<Val> {
        self.charge_memory(text.len())?;
        Ok(Val::Str(text.into()))
    }

    pub fn list(&mut self, items: Vec<Val>) -> ValueResult<Val> {
        self.charge_memory(items.len() * size_of::<Val>())?;
        Val::list(items)
    }

    /// Returns a value as text, and charges for it, as the text can be much longer than the value.
    pub fn text_of(&mut self, value: &Val) -> ValueResult<Rc<str>> {
        if let Val::Str(text) | Val::Safe(text) = value {
            return Ok(text.clone());
        }
        self.charge_walk(value)?;
        let text = value.to_text();
        self.charge_memory(text.len())?;
        Ok(text.into())
    }

    /// Charges for a walk over a value, before the walk: a few shared values can expand to very many.
    pub fn charge_walk(&mut self, value: &Val) -> ValueResult<usize> {
        let max = 2_000_000.min(usize::try_from(self.fuel).unwrap_or(usize::MAX));
        let mut left = max;
        if !value.fits_budget(&mut left) {
            return Err("a value that is too large".into());
        }
        self.consume_fuel(max - left)?;
        Ok(max - left)
    }

    pub fn equals(&mut self, a: &Val, b: &Val) -> ValueResult<bool> {
        self.charge_walk(a)?;
        Ok(equal(a, b))
    }

    pub fn order(&mut self, a: &Val, b: &Val) -> ValueResult<std::cmp::Ordering> {
        self.charge_walk(a)?;
        order(a, b)
    }

    fn nested<T>(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<T>) -> ValueResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err("calls nested too deep (a macro that calls itself?)".into());
        }
        self.depth += 1;
        let done = act(self);
        self.depth -= 1;
        done
    }

    pub fn lookup(&mut self, name: &Name) -> ValueResult<Val> {
        for scope in self.scopes.iter().rev() {
            if let Some((_, value)) = scope.borrow().iter().rev().find(|(n, _)| n == name) {
                return Ok(value.clone());
            }
        }
        if let Some((_, value)) = self.cache.iter().find(|(n, _)| n == name) {
            return Ok(value.clone());
        }
        let Some(node) = self.variables.get(name) else {
            return Ok(match crate::functions::GLOBALS.iter().find(|global| ***global == **name) {
                Some(global) => Val::Callable(Rc::new(Callable::Function(global))),
                None if **name == *"self" => Val::Callable(Rc::new(Callable::Template)),
                None => Val::Undefined(Some(name.clone())),
            });
        };
        let value = Val::from_node(node)?;
        self.cache.push((name.clone(), value.clone()));
        Ok(value)
    }

    pub fn set(&mut self, name: &Name, value: Val) {
        let Some(scope) = self.scopes.last() else { return };
        let mut scope = scope.borrow_mut();
        match scope.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => scope.push((name.clone(), value)),
        }
    }

    /// Returns the items that a `for` iterates over.
    pub fn items(&mut self, value: &Val) -> ValueResult<Vec<Val>> {
        let items = match value {
            Val::Seq(seq) => seq.items.borrow().clone(),
            Val::Map(map) if !map.namespace => map.entries.borrow().iter().map(|(k, _)| k.clone()).collect(),
            Val::Bytes(bytes) => {
                self.charge_memory(bytes.len() * 32)?;
                bytes.iter().map(|byte| Val::Int((*byte).into())).collect()
            }
            Val::Str(text) | Val::Safe(text) => {
                self.charge_memory(text.len() * 32)?;
                text.chars().map(|c| Val::text(c.encode_utf8(&mut [0; 4]))).collect()
            }
            Val::Undefined(_) => Vec::new(),
            Val::Callable(callable) => match &**callable {
                Callable::Loop(state) => state.items[state.index.get()..].to_vec(),
                _ => return Err(format!("{} is not iterable", value.type_name())),
            },
            other => return Err(format!("{} is not iterable", other.type_name())),
        };
        self.charge_memory(items.len() * size_of::<Val>())?;
        Ok(items)
    }

    pub fn block(&self, name: &str) -> Body {
        let body = self.blocks.iter().find(|(of, _)| **of == *name).map(|(_, body)| body.clone());
        body.unwrap_or_default()
    }

    pub fn has_block(&self, name: &str) -> bool {
        self.blocks.iter().any(|(of, _)| **of == *name)
    }

    /// Returns the text of a value, escaped unless it is safe.
    pub fn escape(&mut self, value: &Val) -> ValueResult<Rc<str>> {
        let text = self.text_of(value)?;
        if matches!(value, Val::Safe(_)) || !text.contains(['&', '<', '>', '"', '\'']) {
            return Ok(text);
        }
        let text = crate::value::html_escaped(&text);
        self.charge_memory(text.len())?;
        Ok(text.into())
    }

    fn apply_filters(&mut self, filters: &[(Name, ast::Args)], mut value: Val) -> ValueResult<Val> {
        for (name, args) in filters {
            let call_args = self.eval_args(args)?;
            value = self.filter(name, value, call_args)?;
        }
        Ok(value)
    }

    fn eval_args(&mut self, args: &ast::Args) -> ValueResult<CallArgs> {
        let mut call_args = CallArgs::default();
        for value in &args.positional {
            call_args.values.push(self.eval(value)?);
        }
        for (name, value) in &args.named {
            call_args.named.push((name.clone(), self.eval(value)?));
        }
        if let Some(rest) = &args.star_args {
            let rest = self.eval(rest)?;
            call_args.values.extend(self.items(&rest)?);
        }
        if let Some(rest) = &args.star_kwargs {
            let Val::Map(map) = self.eval(rest)? else {
                return Err("'**' of a value that is not a map".into());
            };
            for (key, value) in map.entries.borrow().iter() {
                let Val::Str(key) = key else {
                    return Err("'**' of a map with keys that are not strings".into());
                };
                call_args.named.push((key.clone(), value.clone()));
            }
        }
        Ok(call_args)
    }

    pub fn eval(&mut self, expression: &Expr) -> ValueResult<Val> {
        self.consume_fuel(1)?;
        self.nested(|run| run.value(expression))
    }

    fn value(&mut self, expression: &Expr) -> ValueResult<Val> {
        Ok(match expression {
            Expr::Name(name) => self.lookup(name)?,
            Expr::None => Val::None,
            Expr::Bool(b) => Val::Bool(*b),
            Expr::Int(n) => Val::Int(*n),
            Expr::Float(f) => Val::Float(*f),
            Expr::Str(text) => Val::Str(text.clone()),
            Expr::List(items) => {
                let items = self.eval_all(items)?;
                self.list(items)?
            }
            Expr::Tuple(items) => Val::tuple(self.eval_all(items)?)?,
            Expr::Map(items) => {
                let mut entries = Vec::new();
                for (key, value) in items {
                    let key = self.eval(key)?;
                    operators::check_hashable(&key)?;
                    entries.push((key, self.eval(value)?));
                }
                self.charge_memory(entries.len() * 2 * size_of::<Val>())?;
                Val::map(entries, false)?
            }
            Expr::Attr(of, name) => {
                let of = self.eval(of)?;
                self.attribute(&of, name)?
            }
            Expr::Item(of, key) => {
                let (of, key) = (self.eval(of)?, self.eval(key)?);
                self.item(&of, &key)?
            }
            Expr::Slice(of, parts) => {
                let of = self.eval(of)?;
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    if let Some(part) = part {
                        *bound = match self.eval(part)? {
                            Val::None => None,
                            Val::Int(n) => Some(n),
                            other => return Err(format!("a slice by {}", other.type_name())),
                        };
                    }
                }
                self.slice(&of, bounds)?
            }
            Expr::Call(callee, args) => {
                let callee = self.eval(callee)?;
                let call_args = self.eval_args(args)?;
                self.call(&callee, call_args)?
            }
            Expr::Filter(of, name, args) => {
                let of = self.eval(of)?;
                let call_args = self.eval_args(args)?;
                self.filter(name, of, call_args)?
            }
            Expr::Test(of, name, args) => {
                let of = self.eval(of)?;
                let call_args = self.eval_args(args)?;
                Val::Bool(self.test(name, &of, call_args)?)
            }
            Expr::Not(of) => Val::Bool(!self.eval(of)?.is_true()),
            Expr::Neg(of) => {
                let of = self.eval(of)?;
                operators::negate(&of)?
            }
            Expr::Pos(of) => match self.eval(of)? {
                Val::Bool(b) => Val::Int(i128::from(b)),
                value @ (Val::Int(_) | Val::Float(_)) => value,
                Val::Undefined(name) => return Err(undefined_error(&name)),
                other => return Err(format!("'+' before {}", other.type_name())),
            },
            Expr::And(items) => self.short_circuit(items, false)?,
            Expr::Or(items) => self.short_circuit(items, true)?,
            Expr::If { when, then, otherwise } => match (self.eval(when)?.is_true(), otherwise) {
                (true, _) => self.eval(then)?,
                (false, Some(otherwise)) => self.eval(otherwise)?,
                // Jinja renders nothing here.
                (false, None) => Val::Undefined(Some("".into())),
            },
            Expr::Concat(items) => {
                let items = self.eval_all(items)?;
                let safe = self.autoescape && items.iter().any(|item| matches!(item, Val::Safe(_)));
                let mut text = String::new();
                for item in &items {
                    text.push_str(&if safe { self.escape(item)? } else { self.text_of(item)? });
                }
                let text = self.text(text)?;
                if safe { text.into_safe() } else { text }
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                self.operate(*op, &left, &right)?
            }
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (compare, right) in rest {
                    let right = self.eval(right)?;
                    if !self.compare(*compare, &left, &right)? {
                        return Ok(Val::Bool(false));
                    }
                    left = right;
                }
                Val::Bool(true)
            }
        })
    }

    fn eval_all(&mut self, items: &[Expr]) -> ValueResult<Vec<Val>> {
        items.iter().map(|item| self.eval(item)).collect()
    }

    /// Returns the first value that is `wanted` (true or false), or the last one.
    fn short_circuit(&mut self, items: &[Expr], wanted: bool) -> ValueResult<Val> {
        let mut last = Val::None;
        for item in items {
            last = self.eval(item)?;
            if last.is_true() == wanted {
                break;
            }
        }
        Ok(last)
    }

    pub fn compare(&mut self, compare: CompareOp, left: &Val, right: &Val) -> ValueResult<bool> {
        use std::cmp::Ordering::{Greater, Less};
        Ok(match compare {
            CompareOp::Eq => self.equals(left, right)?,
            CompareOp::Ne => !self.equals(left, right)?,
            CompareOp::Lt => self.order(left, right)? == Less,
            CompareOp::Ge => self.order(left, right)? != Less,
            CompareOp::Gt => self.order(left, right)? == Greater,
            CompareOp::Le => self.order(left, right)? != Greater,
            CompareOp::In => self.contains(right, left)?,
            CompareOp::NotIn => !self.contains(right, left)?,
        })
    }

    /// Calls a value.
    pub fn call(&mut self, callee: &Val, call_args: CallArgs) -> ValueResult<Val> {
        let Val::Callable(callable) = callee else {
            return Err(match callee {
                Val::Undefined(name) => undefined_error(name),
                other => format!("{} cannot be called", other.type_name()),
            });
        };
        self.consume_fuel(1)?;
        match &**callable {
            Callable::Function(name) => self.function(name, call_args),
            Callable::Method(of, name) => self.method(of, name, call_args),
            Callable::Macro(of, scopes, escapes) => {
                let outer = std::mem::replace(&mut self.autoescape, *escapes);
                let done = self.nested(|run| run.call_macro(of, scopes, call_args));
                self.autoescape = outer;
                Ok(if outer { done?.into_safe() } else { done? })
            }
            Callable::Template => Err("'self' cannot be called, its blocks can".into()),
            Callable::Block(name) => {
                let body = self.block(name);
                let outer = self.scopes.iter().take(1).cloned().collect();
                let outer = std::mem::replace(&mut self.scopes, outer);
                let escapes = std::mem::take(&mut self.autoescape);
                let text = self.nested(|run| run.capture(|run| run.in_scope(|run| run.exec_body(&body))));
                (self.scopes, self.autoescape) = (outer, escapes);
                Ok(self.markup(text?))
            }
            Callable::Loop(state) => {
                let Some(recursive) = &state.recursive else {
                    return Err("'loop' is called in a 'for' without 'recursive'".into());
                };
                let [list] = call_args.bind(["iterable"])?;
                let list = list.ok_or("'loop' is called without a list")?;
                let outer = std::mem::replace(&mut self.scopes, state.scopes.clone());
                let level = state.level + 1;
                let text = self.nested(|run| run.capture(|run| run.run_loop(recursive, &list, level)));
                self.scopes = outer;
                Ok(self.markup(text?))
            }
            Callable::Cycler { items, at } => {
                let item = items[at.get() % items.len().max(1)].clone();
                at.set(at.get() + 1);
                Ok(item)
            }
            Callable::Joiner { between, used } => {
                Ok(if used.replace(true) { between.clone() } else { Val::text("") })
            }
        }
    }
}
