//! The parser: from tokens to the syntax tree, by Jinja's grammar.

use std::rc::Rc;

use crate::TemplateError;
use crate::ast::{Args, BinaryOp, Body, CompareOp, Expr, For, Macro, Name, Stmt, StmtKind, Target};
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

    /// One expression, or several with commas between them.
    fn tuple(&mut self, conditional: bool) -> Result<Expr> {
        let first = self.expression(conditional)?;
        if !self.at_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.eat(",") {
            if self.ends_tuple() {
                break;
            }
            items.push(self.expression(conditional)?);
        }
        Ok(Expr::Tuple(items))
    }

    fn ends_tuple(&self) -> bool {
        matches!(self.peek(), None | Some(Token::PrintEnd | Token::BlockEnd | Token::Operator(")" | "]")))
            || self.at_word("recursive")
            || self.at_word("if")
    }

    fn expression(&mut self, conditional: bool) -> Result<Expr> {
        self.nested(|parser| {
            let mut value = parser.or()?;
            while conditional && parser.eat_word("if") {
                let when = Box::new(parser.or()?);
                let otherwise =
                    if parser.eat_word("else") { Some(Box::new(parser.expression(true)?)) } else { None };
                value = Expr::If { when, then: Box::new(value), otherwise };
            }
            Ok(value)
        })
    }

    fn or(&mut self) -> Result<Expr> {
        let mut items = vec![self.and()?];
        while self.eat_word("or") {
            items.push(self.and()?);
        }
        Ok(if items.len() == 1 { items.remove(0) } else { Expr::Or(items) })
    }

    /// A chain of operators is a deep tree.
    fn check_chain(&self, length: usize) -> Result<usize> {
        if length >= MAX_CHAIN { self.error("an expression of too many operators") } else { Ok(length + 1) }
    }

    fn and(&mut self) -> Result<Expr> {
        let mut items = vec![self.not()?];
        while self.eat_word("and") {
            items.push(self.not()?);
        }
        Ok(if items.len() == 1 { items.remove(0) } else { Expr::And(items) })
    }

    fn not(&mut self) -> Result<Expr> {
        if self.eat_word("not") {
            return self.nested(|parser| Ok(Expr::Not(Box::new(parser.not()?))));
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<Expr> {
        let first = self.sum()?;
        let mut found = Vec::new();
        loop {
            let compare = match self.peek() {
                Some(Token::Operator("==")) => CompareOp::Eq,
                Some(Token::Operator("!=")) => CompareOp::Ne,
                Some(Token::Operator("<")) => CompareOp::Lt,
                Some(Token::Operator("<=")) => CompareOp::Le,
                Some(Token::Operator(">")) => CompareOp::Gt,
                Some(Token::Operator(">=")) => CompareOp::Ge,
                Some(Token::Name(name)) if name == "in" => CompareOp::In,
                Some(Token::Name(name))
                    if name == "not"
                        && matches!(self.tokens.get(self.at + 1), Some((Token::Name(n), _)) if n == "in") =>
                {
                    self.at += 1;
                    CompareOp::NotIn
                }
                _ => break,
            };
            self.at += 1;
            found.push((compare, self.sum()?));
        }
        Ok(if found.is_empty() { first } else { Expr::Compare(Box::new(first), found) })
    }

    /// Operators of one rank, from left to right.
    fn binary(&mut self, signs: &[(&str, BinaryOp)], operand: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = operand(self)?;
        let mut length = 0;
        loop {
            let Some((_, op)) = signs.iter().find(|(sign, _)| self.at_operator(sign)) else {
                return Ok(left);
            };
            self.at += 1;
            left = Expr::Binary(*op, Box::new(left), Box::new(operand(self)?));
            length = self.check_chain(length)?;
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        self.binary(&[("+", BinaryOp::Add), ("-", BinaryOp::Sub)], Self::concat)
    }

    fn concat(&mut self) -> Result<Expr> {
        let mut items = vec![self.product()?];
        while self.eat("~") {
            items.push(self.product()?);
        }
        Ok(if items.len() == 1 { items.remove(0) } else { Expr::Concat(items) })
    }

    fn product(&mut self) -> Result<Expr> {
        let signs =
            [("*", BinaryOp::Mul), ("/", BinaryOp::Div), ("//", BinaryOp::FloorDiv), ("%", BinaryOp::Rem)];
        self.binary(&signs, Self::power)
    }

    fn power(&mut self) -> Result<Expr> {
        self.binary(&[("**", BinaryOp::Pow)], |parser| parser.unary(true))
    }

    fn unary(&mut self, filters: bool) -> Result<Expr> {
        let value = if self.eat("-") {
            self.nested(|parser| Ok(Expr::Neg(Box::new(parser.unary(false)?))))?
        } else if self.eat("+") {
            self.nested(|parser| Ok(Expr::Pos(Box::new(parser.unary(false)?))))?
        } else {
            self.primary()?
        };
        let value = self.postfix(value)?;
        if filters { self.filters_and_tests(value) } else { Ok(value) }
    }

    fn primary(&mut self) -> Result<Expr> {
        let Some((token, _)) = self.tokens.get(self.at) else { return self.unexpected("an expression") };
        let value = match token {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Bool(true),
                "false" | "False" => Expr::Bool(false),
                "none" | "None" => Expr::None,
                name => {
                    if let Some(special) = self.macros.last_mut() {
                        let words = ["varargs", "kwargs", "caller"];
                        words.iter().zip(special).filter(|(w, _)| **w == name).for_each(|(_, s)| *s = true);
                    }
                    Expr::Name(name.into())
                }
            },
            Token::Str(text) => {
                let mut text = text.clone();
                while let Some((Token::Str(more), _)) = self.tokens.get(self.at + 1) {
                    text.push_str(more);
                    self.at += 1;
                }
                Expr::Str(text.into())
            }
            Token::Int(number) => Expr::Int(*number),
            Token::Float(number) => Expr::Float(*number),
            Token::Operator("(") => return self.nested(Self::parentheses),
            Token::Operator("[") => {
                self.at += 1;
                return Ok(Expr::List(self.items("]")?));
            }
            Token::Operator("{") => return self.map(),
            _ => return self.unexpected("an expression"),
        };
        self.at += 1;
        Ok(value)
    }

    fn parentheses(&mut self) -> Result<Expr> {
        self.at += 1;
        if self.eat(")") {
            return Ok(Expr::Tuple(Vec::new()));
        }
        let value = self.tuple(true)?;
        self.expect(")")?;
        Ok(value)
    }

    fn items(&mut self, end: &str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.eat(end) {
                    break;
                }
            }
            items.push(self.expression(true)?);
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Expr> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.eat("}") {
            if !items.is_empty() {
                self.expect(",")?;
                if self.eat("}") {
                    break;
                }
            }
            let key = self.expression(true)?;
            self.expect(":")?;
            items.push((key, self.expression(true)?));
        }
        Ok(Expr::Map(items))
    }

    fn postfix(&mut self, mut value: Expr) -> Result<Expr> {
        let mut length = 0;
        loop {
            value = match self.peek() {
                Some(Token::Operator(".")) => {
                    self.at += 1;
                    match self.peek() {
                        Some(Token::Int(number)) => {
                            let number = *number;
                            self.at += 1;
                            Expr::Item(Box::new(value), Box::new(Expr::Int(number)))
                        }
                        _ => Expr::Attr(Box::new(value), self.name()?),
                    }
                }
                Some(Token::Operator("[")) => {
                    self.at += 1;
                    self.subscript(value)?
                }
                Some(Token::Operator("(")) => Expr::Call(Box::new(value), Box::new(self.arguments()?)),
                _ => return Ok(value),
            };
            length = self.check_chain(length)?;
        }
    }

    fn subscript(&mut self, value: Expr) -> Result<Expr> {
        let mut parts: [Option<Box<Expr>>; 3] = Default::default();
        let mut place = 0;
        loop {
            if self.eat("]") {
                break;
            }
            if self.eat(":") {
                place += 1;
                if place > 2 {
                    return self.error("a slice has three parts at most");
                }
                continue;
            }
            if parts[place].is_some() {
                return self.unexpected("']'");
            }
            parts[place] = Some(Box::new(self.expression(true)?));
        }
        if place > 0 {
            return Ok(Expr::Slice(Box::new(value), parts));
        }
        match parts[0].take() {
            Some(key) => Ok(Expr::Item(Box::new(value), key)),
            None => self.error("expected what is between '[' and ']'"),
        }
    }

    fn arguments(&mut self) -> Result<Args> {
        self.expect("(")?;
        let mut args = Args::default();
        let mut first = true;
        while !self.eat(")") {
            if !first {
                self.expect(",")?;
                if self.eat(")") {
                    break;
                }
            }
            first = false;
            if self.eat("*") {
                args.star_args = Some(Box::new(self.expression(true)?));
            } else if self.eat("**") {
                args.star_kwargs = Some(Box::new(self.expression(true)?));
            } else if let (Some(Token::Name(_)), Some((Token::Operator("="), _))) =
                (self.peek(), self.tokens.get(self.at + 1))
            {
                let name = self.name()?;
                self.at += 1;
                args.named.push((name, self.expression(true)?));
            } else if !args.named.is_empty() || args.star_kwargs.is_some() {
                return self.error("positional argument after keyword argument");
            } else {
                args.positional.push(self.expression(true)?);
            }
        }
        Ok(args)
    }

    fn filters_and_tests(&mut self, mut value: Expr) -> Result<Expr> {
        let mut length = 0;
        loop {
            if self.eat("|") {
                let name = self.dotted()?;
                let args = if self.at_operator("(") { self.arguments()? } else { Args::default() };
                value = Expr::Filter(Box::new(value), name, Box::new(args));
            } else if self.eat_word("is") {
                value = self.test(value)?;
            } else if self.at_operator("(") {
                value = Expr::Call(Box::new(value), Box::new(self.arguments()?));
            } else {
                return Ok(value);
            }
            length = self.check_chain(length)?;
        }
    }

    fn test(&mut self, value: Expr) -> Result<Expr> {
        let negated = self.eat_word("not");
        let name = match self.peek() {
            Some(Token::Operator(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">="))) => {
                let name = Rc::from(*sign);
                self.at += 1;
                name
            }
            _ => self.dotted()?,
        };
        let args = match self.peek() {
            Some(Token::Operator("(")) => self.arguments()?,
            Some(Token::Name(word)) if ["else", "or", "and", "if", "recursive"].contains(&word.as_str()) => {
                Args::default()
            }
            Some(Token::Name(word)) if word == "is" => return self.error("chained 'is'"),
            Some(Token::Name(word)) if word == "not" || word == "in" => Args::default(),
            Some(
                Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Operator("[" | "{"),
            ) => {
                let argument = self.primary()?;
                Args { positional: vec![self.postfix(argument)?], ..Args::default() }
            }
            _ => Args::default(),
        };
        let test = Expr::Test(Box::new(value), name, Box::new(args));
        Ok(if negated { Expr::Not(Box::new(test)) } else { test })
    }
}
