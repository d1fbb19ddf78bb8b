//! The parser: from tokens to the syntax tree, by Jinja's grammar.

mod expressions;

use std::rc::Rc;

use crate::args::unsupported;
use crate::ast::{Body, Expr, For, Name, Stmt, StmtKind, Target};
use crate::lexer::Token;
use crate::rendered::TemplateError;

type Result<T> = std::result::Result<T, TemplateError>;

/// The maximum nesting of blocks and expressions; templates written by hand have about five levels.
const MAX_DEPTH: usize = 40;
/// The maximum length of a chain of operators, filters or keys, each of which makes the tree deeper.
const MAX_CHAIN: usize = 30;

/// The supported tags.
const TAGS: [&str; 5] = ["do", "for", "if", "raw", "set"];

/// Returns the template's body.
pub fn parse(tokens: Vec<(Token, usize)>) -> Result<Body> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let (body, end) = parser.body(&[])?;
    debug_assert!(end.is_empty());
    Ok(body)
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
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

    /// Parses items separated by commas up to `end`, before which a comma is accepted.
    fn list<T>(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        while !self.eat(end) {
            if !found.is_empty() {
                self.expect(",")?;
                if self.eat(end) {
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
        let mut found = Body::new();
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
                        return Ok((found, end));
                    }
                    self.nested(Self::statement)?
                }
            };
            found.push(Stmt { line, kind });
        }
        let Some(end) = ends.last() else { return Ok((found, "")) };
        let message = format!("'{}' without '{end}'", end.strip_prefix("end").unwrap_or(end));
        Err(TemplateError { line: begun, message })
    }

    /// Parses a body and its closing tag.
    fn closed_body(&mut self, end: &'static str) -> Result<Body> {
        self.expect("%}")?;
        let (body, _) = self.body(&[end])?;
        self.expect("%}")?;
        Ok(body)
    }

    /// Parses what follows the keyword that a body ended with: the body after `else`, or the rest of the closing tag.
    fn else_body(&mut self, found: &str, end: &'static str) -> Result<Body> {
        if found == "else" {
            return self.closed_body(end);
        }
        self.expect("%}")?;
        Ok(Body::new())
    }

    /// Parses the values of a tag that has no body.
    fn tag_values(&mut self) -> Result<Expr> {
        let value = self.tuple(true)?;
        self.expect("%}")?;
        Ok(value)
    }

    fn statement(&mut self) -> Result<StmtKind> {
        let line = self.line();
        let word = self.name()?;
        match &*word {
            "if" => self.if_statement(),
            "for" => self.for_statement(),
            "set" => self.set_statement(),
            "do" => Ok(StmtKind::Do(self.tag_values()?)),
            other => {
                let message = match other.strip_prefix("end").unwrap_or(other) {
                    "else" | "elif" => format!("'{other}' without an 'if' or 'for'"),
                    begin if begin != other => format!("'{other}' without '{begin}'"),
                    _ => unsupported("tag", other, TAGS.into_iter()),
                };
                Err(TemplateError { line, message })
            }
        }
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
        if self.at_word("recursive") {
            return self.error("a recursive 'for' is not supported");
        }
        self.expect("%}")?;
        let (body, end) = self.body(&["else", "endfor"])?;
        let otherwise = self.else_body(end, "endfor")?;
        Ok(StmtKind::For(For { target, iterable, condition, body, otherwise }))
    }

    fn set_statement(&mut self) -> Result<StmtKind> {
        let target = self.target()?;
        if self.eat("=") {
            return Ok(StmtKind::Set(target, self.tag_values()?));
        }
        if self.at_operator("|") {
            return self.error("filters of a 'set' block are not supported");
        }
        Ok(StmtKind::Capture(target, self.closed_body("endset")?))
    }

    /// Parses `name`, `a, b`, `(a, b)` or `namespace.name`.
    fn target(&mut self) -> Result<Target> {
        let in_parentheses = self.eat("(");
        let first = self.variable()?;
        if self.eat(".") {
            return Ok(Target::Attr(first, self.name()?));
        }
        let mut names = vec![first];
        let mut is_list = in_parentheses;
        while self.eat(",") {
            is_list = true;
            if matches!(self.peek(), Some(Token::Name(word)) if word != "in") {
                names.push(self.variable()?);
            }
        }
        if in_parentheses {
            self.expect(")")?;
        }
        Ok(if is_list { Target::Names(names) } else { Target::Name(names.swap_remove(0)) })
    }

    fn variable(&mut self) -> Result<Name> {
        let name = self.name()?;
        if ["true", "false", "none", "True", "False", "None"].contains(&&*name) {
            return self.error(format!("cannot assign to '{name}'"));
        }
        Ok(name)
    }
}
