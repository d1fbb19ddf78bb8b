//! Statements: output, assignments, loops.

use std::rc::Rc;

use super::Interpreter;
use crate::ast::{Body, For, Stmt, StmtKind, Target};
use crate::value::{MISSING_JINJA_PREFIX, Val, ValueResult};

impl Interpreter<'_> {
    /// Runs `act` in a new scope.
    fn in_scope<T>(&mut self, act: impl FnOnce(&mut Self) -> ValueResult<T>) -> ValueResult<T> {
        self.scopes.push(Vec::new());
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
            StmtKind::Data(text) => self.write_output(text, true)?,
            StmtKind::Print(value) => {
                let value = self.eval(value)?;
                let text = self.text_of(&value)?;
                self.write_output(&text, false)?;
                self.record_undefined(&text, statement.line);
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
            StmtKind::For(repeat) => self.run_loop(repeat)?,
            StmtKind::Set(target, value) => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            StmtKind::Capture(target, body) => {
                let (start, lines) = (self.rendered.text.len(), self.rendered.lines.len());
                self.nested(|run| run.in_scope(|run| run.exec_body(body)))?;
                self.charge_memory(self.rendered.text.len() - start)?;
                let text = self.rendered.text.split_off(start);
                self.rendered.lines.truncate(lines);
                self.assign(target, Val::Str(text.into()))?;
            }
        }
        Ok(())
    }

    fn run_loop(&mut self, repeat: &For) -> ValueResult<()> {
        let list = self.eval(&repeat.iterable)?;
        let mut items = self.items(&list).map_err(|message| format!("'for': {message}"))?;
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
        let (items, name): (Rc<[Val]>, Rc<str>) = (items.into(), "loop".into());
        for (at, item) in items.iter().enumerate() {
            self.consume_fuel(1)?;
            self.nested(|run| {
                run.in_scope(|run| {
                    run.set(&name, Val::Loop(items.clone(), at))?;
                    run.assign(&repeat.target, item.clone())?;
                    run.exec_body(&repeat.body)
                })
            })?;
        }
        Ok(())
    }

    fn assign(&mut self, target: &Target, value: Val) -> ValueResult<()> {
        match target {
            Target::Name(name) => self.set(name, value)?,
            Target::Names(names) => {
                let values = self.items(&value)?;
                if values.len() != names.len() {
                    return Err(format!("expected {} values to unpack, got {}", names.len(), values.len()));
                }
                for (name, value) in names.iter().zip(values) {
                    self.set(name, value)?;
                }
            }
            Target::Attr(name, key) => match self.lookup(name)? {
                Val::Map(map) if map.namespace => {
                    let key = Val::Str(key.clone());
                    self.charge_search(&map, &key)?;
                    self.charge_copy(&value)?;
                    map.insert(key, &value)?;
                }
                _ => return Err(format!("cannot assign to '{name}.{key}': '{name}' is not a namespace")),
            },
        }
        Ok(())
    }

    fn write_output(&mut self, text: &str, is_literal: bool) -> ValueResult<()> {
        self.consume_fuel(text.len() / 64 + 1)?;
        self.rendered.push(text, self.line, is_literal)
    }

    /// Records the undefined variables whose placeholders a string contains.
    fn record_undefined(&mut self, text: &str, line: usize) {
        for (at, _) in text.match_indices(MISSING_JINJA_PREFIX) {
            let name = text[at + MISSING_JINJA_PREFIX.len()..].chars();
            let name: String = name.take_while(|c| c.is_alphanumeric() || *c == '_').take(64).collect();
            if !name.is_empty() {
                self.rendered.add_undefined(&name, line);
            }
        }
    }
}
