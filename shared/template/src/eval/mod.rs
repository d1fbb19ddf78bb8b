//! The interpreter of statements and expressions, with limits for steps, depth and memory.

mod statements;

use std::rc::Rc;

use config::Map;

use crate::args::CallArgs;
use crate::ast::{Args, Body, Expr, Filters, Name};
use crate::functions::{global, next_of};
use crate::rendered::{Rendered, TemplateError};
use crate::value::{Callable, Scope, Val, ValueResult, check_hashable, html_escaped, undefined_error};

/// The maximum number of steps: some seconds on a slow machine.
const FUEL: u64 = 20_000_000;
/// The maximum depth of nested calls and expressions.
const MAX_DEPTH: u32 = 120;
/// The size limit of all values that are created, in bytes.
const MAX_ALLOCATED: usize = 48 << 20;

pub type Result<T> = std::result::Result<T, TemplateError>;

pub struct Interpreter<'v> {
    variables: &'v Map,
    blocks: Vec<(Name, Body)>,
    /// Whether output is escaped: within `autoescape`.
    pub autoescape: bool,
    /// The variables that were looked up, as values.
    cache: Vec<(Name, Val)>,
    pub scopes: Vec<Scope>,
    pub rendered: Rendered,
    fuel: u64,
    allocated: usize,
    depth: u32,
    line: usize,
}

impl<'v> Interpreter<'v> {
    pub fn new(variables: &'v Map, blocks: Vec<(Name, Body)>) -> Interpreter<'v> {
        Interpreter {
            variables,
            blocks,
            autoescape: false,
            cache: Vec::new(),
            scopes: vec![Scope::default()],
            rendered: Rendered::default(),
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
        let rest = self.fuel.checked_sub(steps as u64);
        self.fuel = rest.unwrap_or(0);
        rest.map(drop).ok_or_else(|| "step limit exceeded".into())
    }

    /// Charges the memory of a value of this many bytes, before it is created.
    pub fn charge_memory(&mut self, bytes: usize) -> ValueResult<()> {
        self.allocated = self.allocated.saturating_add(bytes);
        if self.allocated > MAX_ALLOCATED {
            return Err(format!("memory limit of {} MiB exceeded", MAX_ALLOCATED >> 20));
        }
        self.consume_fuel(bytes / 64 + 1)
    }

    /// Charges the memory of a list of this length.
    pub fn charge_items(&mut self, count: usize) -> ValueResult<()> {
        self.charge_memory(count.saturating_mul(size_of::<Val>()))
    }

    pub fn text(&mut self, text: String) -> ValueResult<Val> {
        self.charge_memory(text.len())?;
        Ok(Val::Str(text.into()))
    }

    pub fn list(&mut self, items: Vec<Val>) -> ValueResult<Val> {
        self.seq(items, false)
    }

    /// Returns a list or tuple, whose memory it charges.
    pub fn seq(&mut self, items: Vec<Val>, tuple: bool) -> ValueResult<Val> {
        self.charge_items(items.len())?;
        Val::seq(items, tuple)
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

    fn nested<T>(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<T>) -> ValueResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err("calls nested too deeply (a macro that calls itself?)".into());
        }
        self.depth += 1;
        let done = act(self);
        self.depth -= 1;
        done
    }

    /// Runs `act` with other variables and another `autoescape`.
    fn switched<T>(
        &mut self,
        scopes: Vec<Scope>,
        autoescape: bool,
        act: impl FnOnce(&mut Self) -> ValueResult<T>,
    ) -> ValueResult<T> {
        let outer = std::mem::replace(&mut self.scopes, scopes);
        let escapes = std::mem::replace(&mut self.autoescape, autoescape);
        let done = self.nested(act);
        (self.scopes, self.autoescape) = (outer, escapes);
        done
    }

    /// Returns only the variables of the template, which all blocks see.
    fn global_scopes(&self) -> Vec<Scope> {
        self.scopes.iter().take(1).cloned().collect()
    }

    pub fn lookup(&mut self, name: &Name) -> ValueResult<Val> {
        let of = |entries: &[(Name, Val)]| {
            entries.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone())
        };
        let found = self.scopes.iter().rev().find_map(|scope| of(&scope.borrow()));
        if let Some(value) = found.or_else(|| of(&self.cache)) {
            return Ok(value);
        }
        let Some(node) = self.variables.get(name) else {
            return Ok(match global(name) {
                Some(function) => function,
                None if **name == *"self" => Callable::Template.into(),
                None => Val::undefined(name),
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
            other => match other.as_loop() {
                Some(state) => state.items[state.index.get()..].to_vec(),
                None => return Err(format!("{} is not iterable", other.type_name())),
            },
        };
        self.charge_items(items.len())?;
        Ok(items)
    }

    /// Returns the body of a block.
    pub fn block(&self, name: &str) -> Option<Body> {
        self.blocks.iter().find(|(of, _)| **of == *name).map(|(_, body)| body.clone())
    }

    /// Returns the text of a value, escaped unless it is safe.
    pub fn escape(&mut self, value: &Val) -> ValueResult<Rc<str>> {
        let text = self.text_of(value)?;
        if matches!(value, Val::Safe(_)) || !text.contains(['&', '<', '>', '"', '\'']) {
            return Ok(text);
        }
        let text = html_escaped(&text);
        self.charge_memory(text.len())?;
        Ok(text.into())
    }

    fn apply_filters(&mut self, filters: &Filters, mut value: Val) -> ValueResult<Val> {
        for (name, args) in filters {
            let call_args = self.eval_args(args)?;
            value = self.filter(name, value, call_args)?;
        }
        Ok(value)
    }

    fn eval_args(&mut self, args: &Args) -> ValueResult<CallArgs> {
        let mut call_args = CallArgs { values: self.eval_all(&args.positional)?, named: Vec::new() };
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
            Expr::Constant(value) => value.clone(),
            Expr::List(items) => {
                let items = self.eval_all(items)?;
                self.list(items)?
            }
            Expr::Tuple(items) => Val::tuple(self.eval_all(items)?)?,
            Expr::Map(items) => {
                let mut entries = Vec::new();
                for (key, value) in items {
                    let key = self.eval(key)?;
                    check_hashable(&key)?;
                    entries.push((key, self.eval(value)?));
                }
                self.charge_items(entries.len() * 2)?;
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
            Expr::Unary(sign, of) => self.eval(of)?.signed(sign)?,
            Expr::Logic(wanted, items) => self.short_circuit(items, *wanted)?,
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
                self.operate(op, &left, &right)?
            }
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (compare, right) in rest {
                    let right = self.eval(right)?;
                    if !self.compare(compare, &left, &right)? {
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

    /// Calls a value.
    pub fn call(&mut self, callee: &Val, call_args: CallArgs) -> ValueResult<Val> {
        let Val::Callable(callable) = callee else {
            return Err(match callee {
                Val::Undefined(name) => undefined_error(name),
                other => format!("{} cannot be called", other.type_name()),
            });
        };
        self.consume_fuel(1)?;
        let text = match &**callable {
            Callable::Function((_, parameters, call)) => return call(self, call_args.bind(parameters)?),
            Callable::Method(of, name) => return self.method(of, name, call_args),
            Callable::Cycler { items, at } => return Ok(next_of(items, at)),
            Callable::Joiner { between, used } => {
                return Ok(if used.replace(true) { between.clone() } else { Val::text("") });
            }
            Callable::Template => return Err("'self' cannot be called, its blocks can".into()),
            Callable::Macro(of, scopes, escapes) => {
                self.switched(scopes.clone(), *escapes, |run| run.call_macro(of, call_args))?
            }
            Callable::Block(name) => {
                let body = self.block(name).unwrap_or_default();
                self.switched(self.global_scopes(), false, |run| {
                    run.capture(|run| run.in_scope(|run| run.exec_body(&body)))
                })?
            }
            Callable::Loop(state) => {
                let Some(recursive) = &state.recursive else {
                    return Err("'loop' is called in a 'for' without 'recursive'".into());
                };
                let [list, ..] = call_args.bind("iterable")?;
                let list = list.0.ok_or("'loop' is called without a list")?;
                self.switched(state.scopes.clone(), self.autoescape, |run| {
                    run.capture(|run| run.run_loop(recursive, &list, state.level + 1))
                })?
            }
        };
        Ok(self.markup(text))
    }
}
