//! Statements: output, assignments, loops, macros.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Interpreter;
use crate::args::CallArgs;
use crate::ast::{Body, For, Macro, Stmt, StmtKind, Target};
use crate::value::{Callable, LoopState, MISSING_JINJA_PREFIX, Scope, Val, ValueResult};

impl Interpreter<'_> {
    /// Returns the output of `act`.
    pub(super) fn capture(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<()>) -> ValueResult<String> {
        let outer = std::mem::take(&mut self.rendered.text);
        let done = act(self);
        let text = std::mem::replace(&mut self.rendered.text, outer);
        done?;
        self.charge_memory(text.len())?;
        Ok(text)
    }

    /// Runs `act` in a new scope.
    pub(super) fn in_scope<T>(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<T>) -> ValueResult<T> {
        self.scopes.push(Scope::default());
        let done = act(self);
        self.scopes.pop();
        done
    }

    pub(super) fn exec_body(&mut self, body: &Body) -> ValueResult<()> {
        body.iter().try_for_each(|statement| self.exec(statement))
    }

    fn exec(&mut self, statement: &Stmt) -> ValueResult<()> {
        self.line = statement.line;
        self.consume_fuel(1)?;
        match &statement.kind {
            StmtKind::Data(text) => self.write_output(text)?,
            StmtKind::Print(value) => {
                let value = self.eval(value)?;
                let text = if self.autoescape { self.escape(&value)? } else { self.text_of(&value)? };
                self.record_undefined(&text, statement.line);
                self.write_output(&text)?;
            }
            StmtKind::Do(value) => drop(self.eval(value)?),
            StmtKind::If { branches, otherwise } => {
                let mut chosen = otherwise;
                for (condition, body) in branches {
                    if self.eval(condition)?.is_true() {
                        chosen = body;
                        break;
                    }
                }
                self.nested(|run| run.exec_body(chosen))?;
            }
            StmtKind::For(repeat) => {
                let list = self.eval(&repeat.iterable)?;
                self.run_loop(repeat, &list, 0)?;
            }
            StmtKind::Set(target, value) => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            StmtKind::Capture { target, filters, body } => {
                let text = self.nested(|run| run.in_scope(|run| run.capture(|run| run.exec_body(body))))?;
                let value = self.apply_filters(filters, self.markup(text))?;
                match target {
                    Some(target) if self.autoescape => self.assign(target, value.into_safe())?,
                    Some(target) => self.assign(target, value)?,
                    None => self.write_value(&value)?,
                }
            }
            StmtKind::Macro(of) => {
                let value = self.closure(of);
                self.set(&of.name, value);
            }
            StmtKind::Call { callee, args, caller } => {
                let callee = self.eval(callee)?;
                let mut call_args = self.eval_args(args)?;
                call_args.named.push(("caller".into(), self.closure(caller)));
                let value = self.call(&callee, call_args)?;
                self.write_value(&value)?;
            }
            StmtKind::With { names, body } => {
                // The values cannot refer to one another.
                let values =
                    names.iter().map(|(_, value)| self.eval(value)).collect::<ValueResult<Vec<_>>>()?;
                self.nested(|run| {
                    run.in_scope(|run| {
                        let mut pairs = names.iter().zip(values);
                        pairs.try_for_each(|((target, _), value)| run.assign(target, value))?;
                        run.exec_body(body)
                    })
                })?;
            }
            StmtKind::Block { name, scoped } => {
                let body = self.block(name).unwrap_or_default();
                let scopes = if *scoped { self.scopes.clone() } else { self.global_scopes() };
                // An enclosing `autoescape` does not apply inside a block.
                self.switched(scopes, false, |run| run.in_scope(|run| run.exec_body(&body)))?;
            }
            StmtKind::Autoescape(when, body) => {
                let escapes = self.eval(when)?.is_true();
                self.switched(self.scopes.clone(), escapes, |run| run.in_scope(|run| run.exec_body(body)))?;
            }
        }
        Ok(())
    }

    /// Returns a macro with the variables and the `autoescape` that it sees.
    fn closure(&self, of: &Rc<Macro>) -> Val {
        Callable::Macro(of.clone(), self.scopes.clone(), self.autoescape).into()
    }

    pub(super) fn run_loop(&mut self, repeat: &Rc<For>, list: &Val, level: usize) -> ValueResult<()> {
        let mut items = self.items(list).map_err(|message| format!("'for': {message}"))?;
        if let Some(condition) = &repeat.condition {
            let mut kept = Vec::new();
            for item in items {
                let fits = self.in_scope(|run| {
                    run.assign(&repeat.target, item.clone())?;
                    run.eval(condition)
                })?;
                if fits.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            return self.nested(|run| run.in_scope(|run| run.exec_body(&repeat.otherwise)));
        }
        let state = Val::from(Callable::Loop(LoopState {
            items,
            index: Cell::new(0),
            level,
            changed: RefCell::new(None),
            recursive: repeat.recursive.then(|| repeat.clone()),
            scopes: self.scopes.clone(),
        }));
        let Some(inner) = state.as_loop() else { return Ok(()) };
        for (at, item) in inner.items.iter().enumerate() {
            inner.index.set(at);
            self.nested(|run| {
                run.in_scope(|run| {
                    run.set(&"loop".into(), state.clone());
                    run.assign(&repeat.target, item.clone())?;
                    run.exec_body(&repeat.body)
                })
            })?;
        }
        Ok(())
    }

    pub(super) fn call_macro(&mut self, of: &Rc<Macro>, call_args: CallArgs) -> ValueResult<String> {
        let line = self.line;
        let text = self.in_scope(|run| {
            let mut values = call_args.values.into_iter();
            let mut named = call_args.named;
            let mut take =
                |name: &str| named.iter().position(|(n, _)| **n == *name).map(|i| named.remove(i).1);
            for (name, default) in &of.parameters {
                let value = match (values.next(), take(name), default) {
                    (Some(_), Some(_), _) => {
                        return Err(format!("duplicate argument '{name}' of '{}'", of.name));
                    }
                    (Some(value), ..) | (None, Some(value), _) => value,
                    (None, None, Some(default)) => run.eval(default)?,
                    (None, None, None) => Val::undefined(name),
                };
                run.set(name, value);
            }
            let rest: Vec<Val> = values.collect();
            if of.varargs {
                run.set(&"varargs".into(), Val::tuple(rest)?);
            } else if !rest.is_empty() {
                return Err(format!("'{}' takes {} arguments at most", of.name, of.parameters.len()));
            }
            let (name, caller) = ("caller".into(), take("caller"));
            if of.caller {
                run.set(&name, caller.unwrap_or_else(|| Val::undefined(&name)));
            } else if caller.is_some() {
                return Err(format!("'{}' does not use 'caller'", of.name));
            }
            if of.kwargs {
                run.set(&"kwargs".into(), Val::map_of_named(named)?);
            } else if let Some((name, _)) = named.first() {
                return Err(format!("'{}' has no argument '{name}'", of.name));
            }
            run.capture(|run| run.exec_body(&of.body))
        })?;
        self.line = line;
        Ok(text)
    }

    fn assign(&mut self, target: &Target, value: Val) -> ValueResult<()> {
        match target {
            Target::Name(name) => self.set(name, value),
            Target::Tuple(targets) => {
                let values = self.items(&value)?;
                if values.len() != targets.len() {
                    let (names, found) = (targets.len(), values.len());
                    return Err(format!("expected {names} values to unpack, got {found}"));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
            Target::Attr(name, key) => match self.lookup(name)? {
                Val::Map(map) if map.namespace => {
                    self.charge_walk(&value)?;
                    map.insert(Val::Str(key.clone()), &value)?;
                }
                _ => return Err(format!("cannot assign to '{name}.{key}': '{name}' is not a namespace")),
            },
        }
        Ok(())
    }

    /// Returns output of the template as a value; with `autoescape` it is already escaped.
    pub(super) fn markup(&self, text: String) -> Val {
        if self.autoescape { Val::Safe(text.into()) } else { Val::Str(text.into()) }
    }

    /// Writes a value that is not escaped.
    fn write_value(&mut self, value: &Val) -> ValueResult<()> {
        let text = self.text_of(value)?;
        self.write_output(&text)
    }

    fn write_output(&mut self, text: &str) -> ValueResult<()> {
        self.rendered.push(text)?;
        self.consume_fuel(text.len() / 64 + 1)
    }

    /// Records the undefined variables whose placeholders a string contains.
    fn record_undefined(&mut self, text: &str, line: usize) {
        for (at, _) in text.match_indices(MISSING_JINJA_PREFIX) {
            let name = &text[at + MISSING_JINJA_PREFIX.len()..];
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            let name = &name[..end.min(64)];
            if !name.is_empty() {
                self.rendered.add_undefined(name, line);
            }
        }
    }
}
