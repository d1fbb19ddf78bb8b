//! The parser: from tokens to the syntax tree, by Jinja's grammar.

mod expressions;

use std::rc::Rc;

use crate::TemplateError;
use crate::ast::{Args, Body, Expr, For, Macro, Name, Stmt, StmtKind, Target};
use crate::lexer::Token;

type Result<T> = std::result::Result<T, TemplateError>;

/// The maximum nesting of blocks and expressions; templates written by hand have about five levels.
const MAX_DEPTH: usize = 40;
/// The maximum length of a chain of operators, filters or keys, each of which makes the tree deeper.
const MAX_CHAIN: usize = 30;

/// The template's body, and those of its blocks.
pub fn parse(tokens: Vec<(Token, usize)>) -> Result<(Body, Vec<(Name, Body)>)> {
    let mut parser = Parser { tokens, at: 0, depth: 0, macros: Vec::new(), blocks: Vec::new() };
    let (body, end) = parser.body(&[])?;
    debug_assert!(end.is_empty());
    Ok((body, parser.blocks))
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    /// For each macro that is open: whether it speaks of varargs, kwargs and caller.
    macros: Vec<[bool; 3]>,
    blocks: Vec<(Name, Body)>,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(TemplateError { line: self.line(), message: message.into() })
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        match self.peek() {
            Some(token) => self.error(format!("expected {wanted}, found {token}")),
            None => self.error(format!("expected {wanted}, found the end")),
        }
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.at_operator(sign);
        self.at += usize::from(found);
        found
    }

    fn at_operator(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(s)) if *s == sign)
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.eat(sign) { Ok(()) } else { self.unexpected(&format!("'{sign}'")) }
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(name)) if name == word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Result<Name> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = Rc::from(name.as_str());
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn block_end(&mut self) -> Result<()> {
        match self.peek() {
            Some(Token::BlockEnd) => {
                self.at += 1;
                Ok(())
            }
            _ => self.unexpected("'%}'"),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.error(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Statements up to one of the words that end them, which is returned, its tag open behind it.
    fn body(&mut self, ends: &[&'static str]) -> Result<(Body, &'static str)> {
        let begun = self.line();
        let mut found: Vec<Stmt> = Vec::new();
        while self.at < self.tokens.len() {
            let line = self.line();
            let token = std::mem::replace(&mut self.tokens[self.at].0, Token::Operator(""));
            self.at += 1;
            let what = match token {
                Token::Data(text) => StmtKind::Data(text),
                Token::PrintBegin => {
                    let value = self.tuple(true)?;
                    if self.peek() != Some(&Token::PrintEnd) {
                        return self.unexpected("'}}'");
                    }
                    self.at += 1;
                    StmtKind::Print(value)
                }
                _ => {
                    if let Some(end) = ends.iter().find(|end| self.at_word(end)) {
                        self.at += 1;
                        return Ok((found.into(), end));
                    }
                    self.nested(Self::statement)?
                }
            };
            found.push(Stmt { line, kind: what });
        }
        if ends.is_empty() {
            return Ok((found.into(), ""));
        }
        let end = ends.last().unwrap_or(&"");
        let message = format!("'{}' without '{end}'", end.strip_prefix("end").unwrap_or(end));
        Err(TemplateError { line: begun, message })
    }

    /// A body with its closing tag.
    fn closed_body(&mut self, end: &'static str) -> Result<Body> {
        self.block_end()?;
        let (body, _) = self.body(&[end])?;
        if end == "endblock" && matches!(self.peek(), Some(Token::Name(_))) {
            self.at += 1;
        }
        self.block_end()?;
        Ok(body)
    }

    fn statement(&mut self) -> Result<StmtKind> {
        let line = self.line();
        let word = self.name()?;
        Ok(match &*word {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "do" => {
                let value = self.tuple(true)?;
                self.block_end()?;
                StmtKind::Do(value)
            }
            "print" => {
                let value = self.tuple(true)?;
                self.block_end()?;
                StmtKind::Print(if let Expr::Tuple(items) = value { Expr::Concat(items) } else { value })
            }
            "macro" => {
                let name = self.name()?;
                let parameters = self.parameters()?;
                StmtKind::Macro(self.macro_body(name, parameters, "endmacro")?)
            }
            "call" => {
                let parameters = if self.at_operator("(") { self.parameters()? } else { Vec::new() };
                let call = self.expression(true)?;
                if !matches!(call, Expr::Call(..)) {
                    return self.error("expected a call");
                }
                StmtKind::Call { call, caller: self.macro_body("caller".into(), parameters, "endcall")? }
            }
            "filter" => {
                let filters = self.filters(true)?;
                StmtKind::Filter { filters, body: self.closed_body("endfilter")? }
            }
            "with" => {
                let mut names = Vec::new();
                while self.peek() != Some(&Token::BlockEnd) {
                    if !names.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target()?;
                    self.expect("=")?;
                    names.push((target, self.expression(true)?));
                }
                StmtKind::With { names, body: self.closed_body("endwith")? }
            }
            "autoescape" => {
                let when = self.expression(true)?;
                StmtKind::Autoescape(when, self.closed_body("endautoescape")?)
            }
            "block" => {
                let name = self.name()?;
                if self.blocks.iter().any(|(other, _)| *other == name) {
                    return Err(TemplateError { line, message: format!("duplicate block '{name}'") });
                }
                // Known before it is complete, for blocks within it.
                self.blocks.push((name.clone(), Rc::default()));
                let mut scoped = false;
                loop {
                    match () {
                        () if self.eat_word("scoped") => scoped = true,
                        () if self.eat_word("required") => {
                            let message = "a required block needs another template that fills it".into();
                            return Err(TemplateError { line, message });
                        }
                        () => break,
                    }
                }
                let body = self.closed_body("endblock")?;
                self.blocks
                    .iter_mut()
                    .filter(|(other, _)| *other == name)
                    .for_each(|(_, of)| *of = body.clone());
                StmtKind::Block { name, scoped }
            }
            "include" | "import" | "from" | "extends" => {
                return Err(TemplateError {
                    line,
                    message: format!("'{word}': loading other templates is not supported"),
                });
            }
            other => {
                let message = match other.strip_prefix("end").unwrap_or(other) {
                    "else" | "elif" => format!("'{other}' without an 'if' or 'for'"),
                    begin if begin != other => format!("'{other}' without '{begin}'"),
                    _ => format!("unknown tag '{other}'"),
                };
                return Err(TemplateError { line, message });
            }
        })
    }

    fn if_statement(&mut self) -> Result<StmtKind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false)?;
            self.block_end()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            let otherwise = match end {
                "elif" => continue,
                "else" => self.closed_body("endif")?,
                _ => {
                    self.block_end()?;
                    Rc::default()
                }
            };
            return Ok(StmtKind::If { branches, otherwise });
        }
    }

    fn for_statement(&mut self) -> Result<StmtKind> {
        let target = self.target()?;
        if !self.eat_word("in") {
            return self.unexpected("'in'");
        }
        let iterable = self.tuple(false)?;
        let condition = if self.eat_word("if") { Some(self.expression(true)?) } else { None };
        let recursive = self.eat_word("recursive");
        self.block_end()?;
        let (body, end) = self.body(&["else", "endfor"])?;
        let otherwise = match end {
            "else" => self.closed_body("endfor")?,
            _ => {
                self.block_end()?;
                Rc::default()
            }
        };
        Ok(StmtKind::For(Rc::new(For { target, iterable, condition, recursive, body, otherwise })))
    }

    fn set_statement(&mut self) -> Result<StmtKind> {
        let target = self.target()?;
        if self.eat("=") {
            let value = self.tuple(true)?;
            self.block_end()?;
            return Ok(StmtKind::Set(target, value));
        }
        let filters = self.filters(false)?;
        Ok(StmtKind::SetBlock { target, filters, body: self.closed_body("endset")? })
    }

    /// `name`, `a, b`, `(a, b)` or `namespace.name`.
    fn target(&mut self) -> Result<Target> {
        let one = |parser: &mut Self| {
            parser.nested(|parser| {
                if parser.eat("(") {
                    let inner = parser.target()?;
                    parser.expect(")")?;
                    return Ok(inner);
                }
                let name = parser.name()?;
                if ["true", "false", "none", "True", "False", "None"].contains(&&*name) {
                    return parser.error(format!("cannot assign to '{name}'"));
                }
                if parser.eat(".") { Ok(Target::Attr(name, parser.name()?)) } else { Ok(Target::Name(name)) }
            })
        };
        let mut found = vec![one(self)?];
        let mut comma = false;
        while self.eat(",") {
            comma = true;
            if !matches!(self.peek(), Some(Token::Name(_) | Token::Operator("("))) || self.at_word("in") {
                break;
            }
            found.push(one(self)?);
        }
        match (comma, found.pop()) {
            (false, Some(single)) => Ok(single),
            (_, last) => {
                found.extend(last);
                Ok(Target::Tuple(found))
            }
        }
    }

    fn parameters(&mut self) -> Result<Vec<(Name, Option<Expr>)>> {
        self.expect("(")?;
        let mut found: Vec<(Name, Option<Expr>)> = Vec::new();
        while !self.eat(")") {
            if !found.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            let value = if self.eat("=") { Some(self.expression(true)?) } else { None };
            if value.is_none() && found.last().is_some_and(|(_, value)| value.is_some()) {
                return self.error("parameter without a default after one with a default");
            }
            found.push((name, value));
        }
        Ok(found)
    }

    fn macro_body(
        &mut self,
        name: Name,
        parameters: Vec<(Name, Option<Expr>)>,
        end: &'static str,
    ) -> Result<Rc<Macro>> {
        self.macros.push([false; 3]);
        let body = self.closed_body(end);
        let [varargs, kwargs, caller] = self.macros.pop().unwrap_or_default();
        Ok(Rc::new(Macro { name, parameters, body: body?, varargs, kwargs, caller }))
    }

    /// `a|b(c)` without what is filtered; with `first`, the first one has no `|` before it.
    fn filters(&mut self, first: bool) -> Result<Vec<(Name, Args)>> {
        let mut found = Vec::new();
        while (first && found.is_empty()) || self.eat("|") {
            let name = self.dotted()?;
            let args = if self.at_operator("(") { self.arguments()? } else { Args::default() };
            found.push((name, args));
        }
        Ok(found)
    }

    fn dotted(&mut self) -> Result<Name> {
        let mut name = self.name()?.to_string();
        while self.eat(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name.into())
    }
}
