//! Expressions, from the weakest operator to the strongest.

use std::rc::Rc;

use super::{MAX_CHAIN, Parser, Result};
use crate::ast::{Args, BinaryOp, CompareOp, Expr};
use crate::lexer::Token;

impl Parser {
    /// One expression, or several with commas between them.
    pub(super) fn tuple(&mut self, conditional: bool) -> Result<Expr> {
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

    pub(super) fn expression(&mut self, conditional: bool) -> Result<Expr> {
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
    pub(super) fn binary(
        &mut self,
        signs: &[(&str, BinaryOp)],
        operand: fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
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

    pub(super) fn unary(&mut self, filters: bool) -> Result<Expr> {
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

    pub(super) fn arguments(&mut self) -> Result<Args> {
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
