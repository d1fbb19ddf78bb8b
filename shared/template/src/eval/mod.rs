//! The interpreter of statements and expressions, with limits for steps, depth and memory.

mod statements;

use std::rc::Rc;

use config::Map;

use crate::args::{self, CallArgs, Row};
use crate::ast::{Args, Body, Expr, Name};
use crate::rendered::{Rendered, TemplateError};
use crate::value::{Dict, MAX_VALUES, Val, ValueResult, check_hashable};

/// The maximum number of steps of a template, or of several that share it: some seconds on a slow machine.
pub const MAX_STEPS: u64 = 20_000_000;
/// The maximum depth of nested blocks and expressions.
const MAX_DEPTH: u32 = 120;
/// The size limit of all values that are created, in bytes.
const MAX_ALLOCATED: usize = 48 << 20;

pub type Result<T> = std::result::Result<T, TemplateError>;

pub struct Interpreter<'v> {
    variables: &'v Map,
    /// The variables that were looked up, as values.
    cache: Vec<(Name, Val)>,
    /// The number of values that variables may still be converted to.
    values: usize,
    /// The template's own variables: first the global ones, then those of each open loop.
    scopes: Vec<Vec<(Name, Val)>>,
    pub rendered: Rendered,
    pub fuel: u64,
    allocated: usize,
    depth: u32,
    line: usize,
}

impl<'v> Interpreter<'v> {
    pub fn new(variables: &'v Map, fuel: u64) -> Interpreter<'v> {
        Interpreter {
            variables,
            cache: Vec::new(),
            values: MAX_VALUES,
            scopes: vec![Vec::new()],
            rendered: Rendered::default(),
            fuel,
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

    /// Returns the string that `make` returns, after charging for the most bytes that it has.
    pub fn text(&mut self, bytes: usize, make: impl FnOnce() -> String) -> ValueResult<Val> {
        self.charge_memory(bytes)?;
        Ok(Val::Str(make().into()))
    }

    pub fn concat(&mut self, a: &str, b: &str) -> ValueResult<Val> {
        self.text(a.len() + b.len(), || [a, b].concat())
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
        if let Val::Str(text) = value {
            return Ok(text.clone());
        }
        self.charge_walk(value)?;
        self.charge_memory(value.max_written_len(0, 0))?;
        Ok(value.to_text().into())
    }

    /// Charges for a walk over a value, before the walk: a few shared values can expand to very many.
    pub fn charge_walk(&mut self, value: &Val) -> ValueResult<usize> {
        self.charge_steps(value, false)
    }

    /// Charges for a comparison with a value.
    pub fn charge_comparison(&mut self, value: &Val) -> ValueResult<usize> {
        let steps = self.charge_steps(value, true)?;
        // At each level two lists are first searched for their first difference.
        Ok(steps * (1 + usize::from(value.depth())))
    }

    fn charge_steps(&mut self, value: &Val, compared: bool) -> ValueResult<usize> {
        let max = 2_000_000.min(usize::try_from(self.fuel).unwrap_or(usize::MAX));
        let mut left = max;
        if !value.fits_budget(&mut left, compared) {
            return Err("a value that is too large".into());
        }
        self.consume_fuel(max - left)?;
        Ok(max - left)
    }

    /// Charges for the search for a key in a map.
    pub fn charge_search(&mut self, map: &Dict, key: &Val) -> ValueResult<()> {
        let each = self.charge_comparison(key)?;
        self.consume_fuel(map.entries.borrow().len().saturating_mul(each) / 4)
    }

    /// Charges for the search for a name among this many.
    fn charge_names(&mut self, count: usize, name: &str) -> ValueResult<()> {
        self.consume_fuel(count.saturating_mul(name.len() / 8 + 1) / 4)
    }

    pub fn nested<T>(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<T>) -> ValueResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let done = act(self);
        self.depth -= 1;
        done
    }

    /// Returns what can be called by this name and its arguments, after charging for a walk over them.
    pub fn bound<F>(
        &mut self,
        tables: &[&'static [Row<F>]],
        kind: &str,
        name: &str,
        args: CallArgs,
    ) -> ValueResult<(&'static F, args::Args)> {
        let (_, parameters, call) = args::find(tables, kind, name)?;
        self.consume_fuel(1)?;
        args.values.iter().try_for_each(|value| self.charge_walk(value).map(drop))?;
        for (name, value) in &args.named {
            self.charge_names(args.named.len(), name)?;
            self.charge_walk(value)?;
        }
        Ok((call, args.bind(parameters)?))
    }

    /// Charges for a copy of a value.
    pub fn charge_copy(&mut self, value: &Val) -> ValueResult<()> {
        let count = self.charge_walk(value)?;
        self.charge_items(count)
    }

    fn lookup(&mut self, name: &Name) -> ValueResult<Val> {
        self.charge_names(self.scopes.iter().map(Vec::len).sum::<usize>() + self.cache.len(), name)?;
        let scopes = self.scopes.iter().rev().chain([&self.cache]);
        if let Some((_, value)) = scopes.flatten().find(|(n, _)| n == name) {
            return Ok(value.clone());
        }
        let Some(node) = self.variables.get(name) else { return Ok(Val::undefined(name)) };
        let value = Val::from_node(node, &mut self.values)?;
        self.cache.push((name.clone(), value.clone()));
        Ok(value)
    }

    fn set(&mut self, name: &Name, value: Val) -> ValueResult<()> {
        self.charge_names(self.scopes.last().map_or(0, Vec::len), name)?;
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match scope.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => scope.push((name.clone(), value)),
        }
        Ok(())
    }

    /// Returns a map, after charging for the search of each key among the others.
    pub fn map(&mut self, entries: Vec<(Val, Val)>, namespace: bool) -> ValueResult<Val> {
        for (key, _) in &entries {
            let each = self.charge_comparison(key)?;
            self.consume_fuel(entries.len().saturating_mul(each) / 16)?;
        }
        self.charge_items(entries.len() * 2)?;
        Val::map(entries, namespace)
    }

    /// Returns the items that a `for` iterates over.
    pub fn items(&mut self, value: &Val) -> ValueResult<Vec<Val>> {
        Ok(match value {
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                self.charge_items(items.len())?;
                items.clone()
            }
            Val::Map(map) if !map.namespace => {
                let entries = map.entries.borrow();
                self.charge_items(entries.len())?;
                entries.iter().map(|(k, _)| k.clone()).collect()
            }
            Val::Str(text) => {
                self.charge_items(text.len() * 2)?;
                text.chars().map(|c| Val::text(c.encode_utf8(&mut [0; 4]))).collect()
            }
            Val::Undefined(_) => Vec::new(),
            other => return Err(format!("{} is not iterable", other.type_name())),
        })
    }

    fn eval_args(&mut self, args: &Args) -> ValueResult<CallArgs> {
        let mut call_args = CallArgs { values: self.eval_all(&args.positional)?, named: Vec::new() };
        for (name, value) in &args.named {
            call_args.named.push((name.clone(), self.eval(value)?));
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
            Expr::Tuple(items) => {
                let items = self.eval_all(items)?;
                self.seq(items, true)?
            }
            Expr::Map(items) => {
                let mut entries = Vec::new();
                for (key, value) in items {
                    let key = self.eval(key)?;
                    check_hashable(&key)?;
                    entries.push((key, self.eval(value)?));
                }
                self.map(entries, false)?
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
            Expr::Function(name, args) => {
                let args = self.eval_args(args)?;
                self.function(name, args)?
            }
            Expr::Method(of, name, args) => {
                let (of, args) = (self.eval(of)?, self.eval_args(args)?);
                self.method(&of, name, args)?
            }
            Expr::Filter(of, name, args) => {
                let (of, args) = (self.eval(of)?, self.eval_args(args)?);
                self.filter(name, of, args)?
            }
            Expr::Test(of, name, args) => {
                let (of, args) = (self.eval(of)?, self.eval_args(args)?);
                Val::Bool(self.test(name, &of, args)?)
            }
            Expr::Not(of) => Val::Bool(!self.eval(of)?.is_true()),
            Expr::Negative(of) => self.eval(of)?.negative()?,
            Expr::Logic(wanted, items) => self.short_circuit(items, *wanted)?,
            Expr::If { when, then, otherwise } => match (self.eval(when)?.is_true(), otherwise) {
                (true, _) => self.eval(then)?,
                (false, Some(otherwise)) => self.eval(otherwise)?,
                // Jinja renders nothing here.
                (false, None) => Val::Undefined(Some("".into())),
            },
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
}
