//! The parser: from tokens to the syntax tree, by Jinja's grammar.

mod expressions;

use std::rc::Rc;

use crate::ast::{Body, Expr, Filters, For, Macro, Name, Stmt, StmtKind, Target};
use crate::lexer::Token;
use crate::rendered::TemplateError;

type Result<T> = std::result::Result<T, TemplateError>;

/// The maximum nesting of blocks and expressions; templates written by hand have about five levels.
const MAX_DEPTH: usize = 40;
/// The maximum length of a chain of operators, filters or keys, each of which makes the tree deeper.
const MAX_CHAIN: usize = 30;

/// Returns the template's body and those of its blocks.
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
    /// For each open macro, whether it refers to varargs, kwargs and caller.
    macros: Vec<[bool; 3]>,
    blocks: Vec<(Name, Body)>,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(TemplateError { line: self.line(), message: message.into() })
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let found = self.peek().map_or("the end".into(), Token::to_string);
        self.error(format!("expected {wanted}, found {found}"))
    }

    fn at_operator(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(s)) if *s == sign)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.at_operator(sign);
        self.at += usize::from(found);
        found
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
        let Some(Token::Name(name)) = self.peek() else { return self.unexpected("a name") };
        let name = Rc::from(name.as_str());
        self.at += 1;
        Ok(name)
    }

    /// Parses `name` or `name.name`.
    fn dotted(&mut self) -> Result<Name> {
        let mut name = self.name()?.to_string();
        while self.eat(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name.into())
    }

    /// Parses items separated by commas up to `end`, before which a comma may be accepted.
    fn list<T>(
        &mut self,
        end: &str,
        comma_at_end: bool,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        while !self.eat(end) {
            if !found.is_empty() {
                self.expect(",")?;
                if comma_at_end && self.eat(end) {
                    break;
                }
            }
            found.push(item(self)?);
        }
        Ok(found)
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

    /// Parses statements up to one of the closing keywords. Returns that keyword; the rest of its tag is not parsed yet.
    fn body(&mut self, ends: &[&'static str]) -> Result<(Body, &'static str)> {
        let begun = self.line();
        let mut found: Vec<Stmt> = Vec::new();
        while self.at < self.tokens.len() {
            let line = self.line();
            let token = std::mem::replace(&mut self.tokens[self.at].0, Token::Operator(""));
            self.at += 1;
            let kind = match token {
                Token::Data(text) => StmtKind::Data(text),
                Token::Operator("{{") => {
                    let value = self.tuple(true)?;
                    self.expect("}}")?;
                    StmtKind::Print(value)
                }
                _ => {
                    if let Some(end) = ends.iter().find(|end| self.eat_word(end)) {
                        return Ok((found.into(), end));
                    }
                    self.nested(Self::statement)?
                }
            };
            found.push(Stmt { line, kind });
        }
        let Some(end) = ends.last() else { return Ok((found.into(), "")) };
        let message = format!("'{}' without '{end}'", end.strip_prefix("end").unwrap_or(end));
        Err(TemplateError { line: begun, message })
    }

    /// Parses a body and its closing tag.
    fn closed_body(&mut self, end: &'static str) -> Result<Body> {
        self.expect("%}")?;
        let (body, _) = self.body(&[end])?;
        if end == "endblock" && matches!(self.peek(), Some(Token::Name(_))) {
            self.at += 1;
        }
        self.expect("%}")?;
        Ok(body)
    }

    /// Parses what follows the keyword that a body ended with: the body after `else`, or the rest of the closing tag.
    fn else_body(&mut self, found: &str, end: &'static str) -> Result<Body> {
        if found == "else" {
            return self.closed_body(end);
        }
        self.expect("%}")?;
        Ok(Rc::default())
    }

    /// Parses the values of a tag that has no body.
    fn tag_values(&mut self) -> Result<Expr> {
        let value = self.tuple(true)?;
        self.expect("%}")?;
        Ok(value)
    }

    fn statement(&mut self) -> Result<StmtKind> {
        let line = self.line();
        let error = |message: String| Err(TemplateError { line, message });
        let word = self.name()?;
        Ok(match &*word {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "do" => StmtKind::Do(self.tag_values()?),
            "print" => StmtKind::Print(match self.tag_values()? {
                Expr::Tuple(items) => Expr::Concat(items),
                value => value,
            }),
            "macro" => {
                let name = self.name()?;
                let parameters = self.parameters()?;
                StmtKind::Macro(self.macro_body(name, parameters, "endmacro")?)
            }
            "call" => {
                let parameters = if self.at_operator("(") { self.parameters()? } else { Vec::new() };
                let Expr::Call(callee, args) = self.expression(true)? else {
                    return self.error("expected a call");
                };
                let caller = self.macro_body("caller".into(), parameters, "endcall")?;
                StmtKind::Call { callee: *callee, args: *args, caller }
            }
            "filter" => {
                let filters = self.filters(true)?;
                StmtKind::Capture { target: None, filters, body: self.closed_body("endfilter")? }
            }
            "with" => {
                let mut names = Vec::new();
                while !self.at_operator("%}") {
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
                    return error(format!("duplicate block '{name}'"));
                }
                // Registered before it is complete, for blocks within it.
                let place = self.blocks.len();
                self.blocks.push((name.clone(), Rc::default()));
                let mut scoped = false;
                while self.eat_word("scoped") {
                    scoped = true;
                }
                if self.eat_word("required") {
                    return error("a required block needs another template that fills it".into());
                }
                self.blocks[place].1 = self.closed_body("endblock")?;
                StmtKind::Block { name, scoped }
            }
            "include" | "import" | "from" | "extends" => {
                return error(format!("'{word}': loading other templates is not supported"));
            }
            other => {
                return error(match other.strip_prefix("end").unwrap_or(other) {
                    "else" | "elif" => format!("'{other}' without an 'if' or 'for'"),
                    begin if begin != other => format!("'{other}' without '{begin}'"),
                    _ => format!("unknown tag '{other}'"),
                });
            }
        })
    }

    fn if_statement(&mut self) -> Result<StmtKind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false)?;
            self.expect("%}")?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if end != "elif" {
                return Ok(StmtKind::If { branches, otherwise: self.else_body(end, "endif")? });
            }
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
        self.expect("%}")?;
        let (body, end) = self.body(&["else", "endfor"])?;
        let otherwise = self.else_body(end, "endfor")?;
        Ok(StmtKind::For(Rc::new(For { target, iterable, condition, recursive, body, otherwise })))
    }

    fn set_statement(&mut self) -> Result<StmtKind> {
        let target = self.target()?;
        if self.eat("=") {
            return Ok(StmtKind::Set(target, self.tag_values()?));
        }
        let filters = self.filters(false)?;
        Ok(StmtKind::Capture { target: Some(target), filters, body: self.closed_body("endset")? })
    }

    /// Parses `name`, `a, b`, `(a, b)` or `namespace.name`.
    fn target(&mut self) -> Result<Target> {
        let mut found = vec![self.nested(Self::single_target)?];
        let mut comma = false;
        while self.eat(",") {
            comma = true;
            if !matches!(self.peek(), Some(Token::Name(_) | Token::Operator("("))) || self.at_word("in") {
                break;
            }
            found.push(self.nested(Self::single_target)?);
        }
        Ok(if comma { Target::Tuple(found) } else { found.swap_remove(0) })
    }

    fn single_target(&mut self) -> Result<Target> {
        if self.eat("(") {
            let inner = self.target()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let name = self.name()?;
        if ["true", "false", "none", "True", "False", "None"].contains(&&*name) {
            return self.error(format!("cannot assign to '{name}'"));
        }
        Ok(if self.eat(".") { Target::Attr(name, self.name()?) } else { Target::Name(name) })
    }

    fn parameters(&mut self) -> Result<Vec<(Name, Option<Expr>)>> {
        self.expect("(")?;
        let mut defaults = false;
        self.list(")", false, |parser| {
            let name = parser.name()?;
            if parser.eat("=") {
                defaults = true;
                return Ok((name, Some(parser.expression(true)?)));
            }
            match defaults {
                true => parser.error("parameter without a default after one with a default"),
                false => Ok((name, None)),
            }
        })
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

    /// Parses the filters of `a|b(c)` without `a`; with `first`, the first one has no `|` before it.
    fn filters(&mut self, first: bool) -> Result<Filters> {
        let mut found = Vec::new();
        while (first && found.is_empty()) || self.eat("|") {
            found.push((self.dotted()?, self.optional_arguments()?));
        }
        Ok(found)
    }
}
