//! Carries a template out: what comes of its statements and expressions. Bounded in steps, in depth and in what
//! it makes, whatever the template says.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use config::Map;

use crate::ast::{self, Body, Compare, Expr, For, Macro, Name, Stmt, Target, What};
use crate::value::{Callable, LoopState, MISSING, Made, Val, equal, order, undefined};
use crate::{BadTemplate, Unknown, operators};

/// Steps of a run: some seconds on a slow machine.
const FUEL: u64 = 20_000_000;
/// Calls within calls and expressions within expressions, together.
const MOST_DEPTH: u32 = 120;
/// Of the text that comes out.
const MOST_TEXT: usize = 16 << 20;
/// Of all values together that are made on the way.
const MOST_MADE: usize = 48 << 20;

pub type Scope = Rc<RefCell<Vec<(Name, Val)>>>;
pub type Result<T> = std::result::Result<T, BadTemplate>;

pub struct Run<'v> {
    variables: &'v Map,
    blocks: Vec<(Name, Body)>,
    /// What is printed is escaped, within `autoescape`.
    pub escapes: bool,
    /// Variables that were looked at.
    known: Vec<(Name, Val)>,
    pub scopes: Vec<Scope>,
    pub out: String,
    pub unknown: Vec<Unknown>,
    fuel: u64,
    made: usize,
    depth: u32,
    line: usize,
}

/// What a call is given.
#[derive(Default)]
pub struct Given {
    pub values: Vec<Val>,
    pub named: Vec<(Name, Val)>,
}

impl Given {
    /// Its arguments in the order of their names; `None` where one is not given.
    pub fn take<const N: usize>(self, names: [&str; N]) -> Made<[Option<Val>; N]> {
        let mut found: [Option<Val>; N] = std::array::from_fn(|_| None);
        if self.values.len() > N {
            return Err(format!("{} arguments where {N} are the most", self.values.len()));
        }
        for (place, value) in self.values.into_iter().enumerate() {
            found[place] = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|n| **n == *name) {
                Some(place) if found[place].is_none() => found[place] = Some(value),
                Some(_) => return Err(format!("the argument '{name}' is given twice")),
                None => return Err(format!("an argument '{name}' is not known")),
            }
        }
        Ok(found)
    }
}

impl<'v> Run<'v> {
    pub fn new(variables: &'v Map, blocks: Vec<(Name, Body)>) -> Run<'v> {
        Run {
            variables,
            blocks,
            escapes: false,
            known: Vec::new(),
            scopes: vec![Scope::default()],
            out: String::new(),
            unknown: Vec::new(),
            fuel: FUEL,
            made: 0,
            depth: 0,
            line: 1,
        }
    }

    pub fn whole(&mut self, body: &Body) -> Result<()> {
        self.body(body).map_err(|message| BadTemplate { line: self.line, message })
    }

    /// Costs of work that grows with a value.
    pub fn spend(&mut self, steps: usize) -> Made<()> {
        match self.fuel.checked_sub(steps as u64) {
            Some(rest) => {
                self.fuel = rest;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err("it takes too many steps (a loop that is too long?)".into())
            }
        }
    }

    /// Costs of a value of so many bytes, before it is made.
    pub fn make(&mut self, bytes: usize) -> Made<()> {
        self.made = self.made.saturating_add(bytes);
        if self.made > MOST_MADE {
            return Err(format!("its values need more than {} MiB", MOST_MADE >> 20));
        }
        self.spend(bytes / 64 + 1)
    }

    pub fn text(&mut self, text: String) -> Made<Val> {
        self.make(text.len())?;
        Ok(Val::Str(text.into()))
    }

    pub fn list(&mut self, items: Vec<Val>) -> Made<Val> {
        self.make(items.len() * size_of::<Val>())?;
        Val::list(items)
    }

    /// What a value is as text; as this can be far longer than its parts, it is paid for.
    pub fn show(&mut self, value: &Val) -> Made<Rc<str>> {
        if let Val::Str(text) | Val::Safe(text) = value {
            return Ok(text.clone());
        }
        self.weigh(value)?;
        let text = value.show();
        self.make(text.len())?;
        Ok(text.into())
    }

    /// Pays for a walk over a value, before it is made: few values that are shared can stand for very many.
    pub fn weigh(&mut self, value: &Val) -> Made<usize> {
        let most = 2_000_000.min(usize::try_from(self.fuel).unwrap_or(usize::MAX));
        let mut left = most;
        if !value.weighs(&mut left) {
            return Err("a value that is too large".into());
        }
        self.spend(most - left)?;
        Ok(most - left)
    }

    pub fn same(&mut self, a: &Val, b: &Val) -> Made<bool> {
        self.weigh(a)?;
        Ok(equal(a, b))
    }

    pub fn order(&mut self, a: &Val, b: &Val) -> Made<std::cmp::Ordering> {
        self.weigh(a)?;
        order(a, b)
    }

    fn deeper<T>(&mut self, act: impl FnOnce(&mut Self) -> Made<T>) -> Made<T> {
        if self.depth >= MOST_DEPTH {
            return Err("calls nested too deep (a macro that calls itself?)".into());
        }
        self.depth += 1;
        let done = act(self);
        self.depth -= 1;
        done
    }

    fn put_out(&mut self, text: &str) -> Made<()> {
        if self.out.len() + text.len() > MOST_TEXT {
            return Err(format!("more than {} MiB come out", MOST_TEXT >> 20));
        }
        self.spend(text.len() / 64 + 1)?;
        self.out.push_str(text);
        Ok(())
    }

    pub fn lookup(&mut self, name: &Name) -> Made<Val> {
        for scope in self.scopes.iter().rev() {
            if let Some((_, value)) = scope.borrow().iter().rev().find(|(n, _)| n == name) {
                return Ok(value.clone());
            }
        }
        if let Some((_, value)) = self.known.iter().find(|(n, _)| n == name) {
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
        self.known.push((name.clone(), value.clone()));
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

    fn assign(&mut self, target: &Target, value: Val) -> Made<()> {
        match target {
            Target::Name(name) => self.set(name, value),
            Target::Tuple(targets) => {
                let values = self.items(&value)?;
                if values.len() != targets.len() {
                    let (names, found) = (targets.len(), values.len());
                    return Err(format!("{names} names for {found} values"));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
            Target::Attr(name, key) => match self.lookup(name)? {
                Val::Map(map) if map.namespace => {
                    self.weigh(&value)?;
                    map.put(Val::Str(key.clone()), &value)?;
                }
                _ => return Err(format!("'{name}.{key}' cannot be set: '{name}' is no namespace")),
            },
        }
        Ok(())
    }

    /// What a `for` goes over.
    pub fn items(&mut self, value: &Val) -> Made<Vec<Val>> {
        let items = match value {
            Val::Seq(seq) => seq.items.borrow().clone(),
            Val::Map(map) if !map.namespace => map.entries.borrow().iter().map(|(k, _)| k.clone()).collect(),
            Val::Bytes(bytes) => {
                self.make(bytes.len() * 32)?;
                bytes.iter().map(|byte| Val::Int((*byte).into())).collect()
            }
            Val::Str(text) | Val::Safe(text) => {
                self.make(text.len() * 32)?;
                text.chars().map(|c| Val::text(c.encode_utf8(&mut [0; 4]))).collect()
            }
            Val::Undefined(_) => Vec::new(),
            Val::Callable(callable) => match &**callable {
                Callable::Loop(state) => state.items[state.at.get()..].to_vec(),
                _ => return Err(format!("{} is no list", value.kind())),
            },
            other => return Err(format!("{} is no list", other.kind())),
        };
        self.make(items.len() * size_of::<Val>())?;
        Ok(items)
    }

    /// What a body comes to, as text.
    fn captured(&mut self, act: impl FnOnce(&mut Self) -> Made<()>) -> Made<String> {
        let outer = std::mem::take(&mut self.out);
        let done = act(self);
        let text = std::mem::replace(&mut self.out, outer);
        done?;
        self.make(text.len())?;
        Ok(text)
    }

    /// Something in a scope of its own.
    fn scoped<T>(&mut self, act: impl FnOnce(&mut Self) -> Made<T>) -> Made<T> {
        self.scopes.push(Scope::default());
        let done = act(self);
        self.scopes.pop();
        done
    }

    fn body(&mut self, body: &Body) -> Made<()> {
        body.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt) -> Made<()> {
        self.line = statement.line;
        self.spend(1)?;
        match &statement.what {
            What::Data(text) => self.put_out(text)?,
            What::Print(value) => {
                let value = self.eval(value)?;
                let text = self.printed(&value)?;
                self.note(&text, statement.line);
                self.put_out(&text)?;
            }
            What::Do(value) => drop(self.eval(value)?),
            What::If { branches, none } => {
                let mut chosen = none;
                for (condition, body) in branches {
                    if self.eval(condition)?.is_true() {
                        chosen = body;
                        break;
                    }
                }
                self.deeper(|run| run.body(chosen))?;
            }
            What::For(repeat) => {
                let list = self.eval(&repeat.list)?;
                self.repeat(repeat, &list, 0)?;
            }
            What::Set(target, value) => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            What::SetBlock { target, filters, body } => {
                let text = self.deeper(|run| run.scoped(|run| run.captured(|run| run.body(body))))?;
                let text = self.markup(text);
                let value = self.filters(filters, text)?;
                let value = if self.escapes { value.made_safe() } else { value };
                self.assign(target, value)?;
            }
            What::Macro(of) => {
                let value =
                    Val::Callable(Rc::new(Callable::Macro(of.clone(), self.scopes.clone(), self.escapes)));
                self.set(&of.name, value);
            }
            What::Call { call: Expr::Call(callee, args), caller } => {
                let callee = self.eval(callee)?;
                let mut given = self.given(args)?;
                let caller = Callable::Macro(caller.clone(), self.scopes.clone(), self.escapes);
                given.named.push(("caller".into(), Val::Callable(Rc::new(caller))));
                let value = self.call(&callee, given)?;
                let text = self.show(&value)?;
                self.put_out(&text)?;
            }
            What::Call { .. } => {}
            What::Filter { filters, body } => {
                let text = self.deeper(|run| run.scoped(|run| run.captured(|run| run.body(body))))?;
                let text = self.markup(text);
                let value = self.filters(filters, text)?;
                let text = self.show(&value)?;
                self.put_out(&text)?;
            }
            What::With { names, body } => {
                // Their values do not see one another.
                let values = names.iter().map(|(_, value)| self.eval(value)).collect::<Made<Vec<_>>>()?;
                self.deeper(|run| {
                    run.scoped(|run| {
                        for ((target, _), value) in names.iter().zip(values) {
                            run.assign(target, value)?;
                        }
                        run.body(body)
                    })
                })?;
            }
            What::Block { name, scoped } => {
                let body = self.block(name);
                let scopes =
                    if *scoped { self.scopes.clone() } else { self.scopes.iter().take(1).cloned().collect() };
                let outer = std::mem::replace(&mut self.scopes, scopes);
                let done = self.deeper(|run| run.scoped(|run| run.body(&body)));
                self.scopes = outer;
                done?;
            }
            What::Autoescape(when, body) => {
                let escapes = self.eval(when)?.is_true();
                let outer = std::mem::replace(&mut self.escapes, escapes);
                let done = self.deeper(|run| run.scoped(|run| run.body(body)));
                self.escapes = outer;
                done?;
            }
        }
        Ok(())
    }

    pub fn block(&self, name: &str) -> Body {
        let body = self.blocks.iter().find(|(of, _)| **of == *name).map(|(_, body)| body.clone());
        body.unwrap_or_default()
    }

    pub fn has_block(&self, name: &str) -> bool {
        self.blocks.iter().any(|(of, _)| **of == *name)
    }

    /// Text that came out of the template: what had to be escaped in it is.
    fn markup(&self, text: String) -> Val {
        if self.escapes { Val::safe(text) } else { Val::Str(text.into()) }
    }

    /// A value as it comes out.
    fn printed(&mut self, value: &Val) -> Made<Rc<str>> {
        if self.escapes { self.escape(value) } else { self.show(value) }
    }

    /// The text of a value, escaped unless it is safe already.
    pub fn escape(&mut self, value: &Val) -> Made<Rc<str>> {
        let text = self.show(value)?;
        if matches!(value, Val::Safe(_)) || !text.contains(['&', '<', '>', '"', '\'']) {
            return Ok(text);
        }
        let text = crate::value::escaped(&text);
        self.make(text.len())?;
        Ok(text.into())
    }

    /// Remembers the names without a value that show in a text.
    fn note(&mut self, text: &str, line: usize) {
        for (at, _) in text.match_indices(MISSING) {
            let name = &text[at + MISSING.len()..];
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            let name = &name[..end.min(64)];
            if !name.is_empty() && !self.unknown.iter().any(|u| u.name == name) && self.unknown.len() < 100 {
                self.unknown.push(Unknown { name: name.to_string(), line });
            }
        }
    }

    fn repeat(&mut self, repeat: &Rc<For>, list: &Val, level: usize) -> Made<()> {
        let mut items = match list {
            Val::Undefined(_) => Vec::new(),
            other => self.items(other).map_err(|message| format!("'for': {message}"))?,
        };
        if let Some(only) = &repeat.only {
            let mut kept = Vec::new();
            for item in items {
                let fits = self.scoped(|run| {
                    run.assign(&repeat.target, item.clone())?;
                    run.eval(only)
                })?;
                if fits.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            return self.deeper(|run| run.scoped(|run| run.body(&repeat.none)));
        }
        let state = Rc::new(Callable::Loop(LoopState {
            items,
            at: Cell::new(0),
            level,
            changed: RefCell::new(None),
            again: repeat.recursive.then(|| repeat.clone()),
            scopes: self.scopes.clone(),
        }));
        let Callable::Loop(inner) = &*state else { return Ok(()) };
        for (at, item) in inner.items.iter().enumerate() {
            inner.at.set(at);
            self.deeper(|run| {
                run.scoped(|run| {
                    run.set(&"loop".into(), Val::Callable(state.clone()));
                    run.assign(&repeat.target, item.clone())?;
                    run.body(&repeat.body)
                })
            })?;
        }
        Ok(())
    }

    fn filters(&mut self, filters: &[(Name, ast::Args)], mut value: Val) -> Made<Val> {
        for (name, args) in filters {
            let given = self.given(args)?;
            value = self.filter(name, value, given)?;
        }
        Ok(value)
    }

    fn given(&mut self, args: &ast::Args) -> Made<Given> {
        let mut given = Given::default();
        for value in &args.positional {
            given.values.push(self.eval(value)?);
        }
        for (name, value) in &args.named {
            given.named.push((name.clone(), self.eval(value)?));
        }
        if let Some(rest) = &args.rest {
            let rest = self.eval(rest)?;
            given.values.extend(self.items(&rest)?);
        }
        if let Some(rest) = &args.named_rest {
            let Val::Map(map) = self.eval(rest)? else { return Err("'**' of what is no map".into()) };
            for (key, value) in map.entries.borrow().iter() {
                let Val::Str(key) = key else {
                    return Err("'**' of a map with keys that are no text".into());
                };
                given.named.push((key.clone(), value.clone()));
            }
        }
        Ok(given)
    }

    pub fn eval(&mut self, expression: &Expr) -> Made<Val> {
        self.spend(1)?;
        self.deeper(|run| run.value(expression))
    }

    fn value(&mut self, expression: &Expr) -> Made<Val> {
        Ok(match expression {
            Expr::Name(name) => self.lookup(name)?,
            Expr::None => Val::None,
            Expr::Bool(b) => Val::Bool(*b),
            Expr::Int(n) => Val::Int(*n),
            Expr::Float(f) => Val::Float(*f),
            Expr::Str(text) => Val::Str(text.clone()),
            Expr::List(items) => {
                let items = self.all(items)?;
                self.list(items)?
            }
            Expr::Tuple(items) => Val::tuple(self.all(items)?)?,
            Expr::Map(items) => {
                let mut entries = Vec::new();
                for (key, value) in items {
                    let key = self.eval(key)?;
                    operators::hashable(&key)?;
                    entries.push((key, self.eval(value)?));
                }
                self.make(entries.len() * 2 * size_of::<Val>())?;
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
                            other => return Err(format!("a slice by {}", other.kind())),
                        };
                    }
                }
                self.slice(&of, bounds)?
            }
            Expr::Call(callee, args) => {
                let callee = self.eval(callee)?;
                let given = self.given(args)?;
                self.call(&callee, given)?
            }
            Expr::Filter(of, name, args) => {
                let of = self.eval(of)?;
                let given = self.given(args)?;
                self.filter(name, of, given)?
            }
            Expr::Test(of, name, args) => {
                let of = self.eval(of)?;
                let given = self.given(args)?;
                Val::Bool(self.test(name, &of, given)?)
            }
            Expr::Not(of) => Val::Bool(!self.eval(of)?.is_true()),
            Expr::Neg(of) => {
                let of = self.eval(of)?;
                operators::negative(&of)?
            }
            Expr::Pos(of) => match self.eval(of)? {
                Val::Bool(b) => Val::Int(i128::from(b)),
                value @ (Val::Int(_) | Val::Float(_)) => value,
                Val::Undefined(name) => return Err(undefined(&name)),
                other => return Err(format!("'+' before {}", other.kind())),
            },
            Expr::And(items) => self.first(items, false)?,
            Expr::Or(items) => self.first(items, true)?,
            Expr::If { when, then, otherwise } => match (self.eval(when)?.is_true(), otherwise) {
                (true, _) => self.eval(then)?,
                (false, Some(otherwise)) => self.eval(otherwise)?,
                // Jinja prints nothing here.
                (false, None) => Val::Undefined(Some("".into())),
            },
            Expr::Concat(items) => {
                let items = self.all(items)?;
                let safe = self.escapes && items.iter().any(|item| matches!(item, Val::Safe(_)));
                let mut text = String::new();
                for item in &items {
                    text.push_str(&if safe { self.escape(item)? } else { self.show(item)? });
                }
                let text = self.text(text)?;
                if safe { text.made_safe() } else { text }
            }
            Expr::Two(op, left, right) => {
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

    fn all(&mut self, items: &[Expr]) -> Made<Vec<Val>> {
        items.iter().map(|item| self.eval(item)).collect()
    }

    /// The first value that is true (or false), else the last.
    fn first(&mut self, items: &[Expr], wanted: bool) -> Made<Val> {
        let mut last = Val::None;
        for item in items {
            last = self.eval(item)?;
            if last.is_true() == wanted {
                break;
            }
        }
        Ok(last)
    }

    pub fn compare(&mut self, compare: Compare, left: &Val, right: &Val) -> Made<bool> {
        use std::cmp::Ordering::{Greater, Less};
        Ok(match compare {
            Compare::Eq => self.same(left, right)?,
            Compare::Ne => !self.same(left, right)?,
            Compare::Lt => self.order(left, right)? == Less,
            Compare::Ge => self.order(left, right)? != Less,
            Compare::Gt => self.order(left, right)? == Greater,
            Compare::Le => self.order(left, right)? != Greater,
            Compare::In => self.contains(right, left)?,
            Compare::NotIn => !self.contains(right, left)?,
        })
    }

    /// Calls what is called by name in a template.
    pub fn call(&mut self, callee: &Val, given: Given) -> Made<Val> {
        let Val::Callable(callable) = callee else {
            return Err(match callee {
                Val::Undefined(name) => undefined(name),
                other => format!("{} cannot be called", other.kind()),
            });
        };
        self.spend(1)?;
        match &**callable {
            Callable::Function(name) => self.function(name, given),
            Callable::Method(of, name) => self.method(of, name, given),
            Callable::Macro(of, scopes, escapes) => {
                let outer = std::mem::replace(&mut self.escapes, *escapes);
                let done = self.deeper(|run| run.call_macro(of, scopes, given));
                self.escapes = outer;
                Ok(if outer { done?.made_safe() } else { done? })
            }
            Callable::Template => Err("'self' cannot be called, its blocks can".into()),
            Callable::Block(name) => {
                let body = self.block(name);
                let outer = self.scopes.iter().take(1).cloned().collect();
                let outer = std::mem::replace(&mut self.scopes, outer);
                let text = self.deeper(|run| run.captured(|run| run.scoped(|run| run.body(&body))));
                self.scopes = outer;
                Ok(self.markup(text?))
            }
            Callable::Loop(state) => {
                let Some(again) = &state.again else {
                    return Err("'loop' is called in a 'for' without 'recursive'".into());
                };
                let [list] = given.take(["iterable"])?;
                let list = list.ok_or("'loop' is called without a list")?;
                let outer = std::mem::replace(&mut self.scopes, state.scopes.clone());
                let level = state.level + 1;
                let text = self.deeper(|run| run.captured(|run| run.repeat(again, &list, level)));
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

    fn call_macro(&mut self, of: &Rc<Macro>, scopes: &[Scope], given: Given) -> Made<Val> {
        let outer = std::mem::replace(&mut self.scopes, scopes.to_vec());
        let line = self.line;
        let done = self.scoped(|run| {
            let mut values = given.values.into_iter();
            let mut named = given.named;
            for (name, default) in &of.parameters {
                let by_name = named.iter().position(|(n, _)| n == name).map(|i| named.remove(i).1);
                let value = match (values.next(), by_name, default) {
                    (Some(_), Some(_), _) => return Err(format!("'{name}' is given twice to '{}'", of.name)),
                    (Some(value), ..) | (None, Some(value), _) => value,
                    (None, None, Some(default)) => run.eval(default)?,
                    (None, None, None) => Val::Undefined(Some(name.clone())),
                };
                run.set(name, value);
            }
            let rest: Vec<Val> = values.collect();
            if of.varargs {
                run.set(&"varargs".into(), Val::tuple(rest)?);
            } else if !rest.is_empty() {
                return Err(format!("'{}' takes {} arguments at most", of.name, of.parameters.len()));
            }
            let caller = named.iter().position(|(n, _)| **n == *"caller").map(|i| named.remove(i).1);
            match caller {
                Some(caller) if of.caller => run.set(&"caller".into(), caller),
                Some(_) => return Err(format!("'{}' does not use 'caller'", of.name)),
                None if of.caller => run.set(&"caller".into(), Val::Undefined(Some("caller".into()))),
                None => {}
            }
            if of.kwargs {
                let map = Val::map(named.into_iter().map(|(n, v)| (Val::Str(n), v)), false)?;
                run.set(&"kwargs".into(), map);
            } else if let Some((name, _)) = named.first() {
                return Err(format!("'{}' has no argument '{name}'", of.name));
            }
            run.captured(|run| run.body(&of.body))
        });
        self.scopes = outer;
        let text = done?;
        self.line = line;
        Ok(Val::Str(text.into()))
    }
}
