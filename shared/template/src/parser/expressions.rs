//! Expressions, from the weakest operator to the strongest.

use super::{MAX_CHAIN, Parser, Result};
use crate::ast::{Args, Expr};
use crate::lexer::Token;
use crate::value::Val;

impl Parser {
    /// Parses one expression, or several separated by commas.
    pub(super) fn tuple(&mut self, conditional: bool) -> Result<Expr> {
        let first = self.expression(conditional)?;
        if !self.at_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.eat(",") {
            let ends = matches!(self.peek(), None | Some(Token::Operator(")" | "]" | "}}" | "%}")));
            if ends || self.at_word("if") {
                break;
            }
            items.push(self.expression(conditional)?);
        }
        Ok(Expr::Tuple(items))
    }

    pub(super) fn expression(&mut self, conditional: bool) -> Result<Expr> {
        self.nested(|parser| {
            let mut value = parser.or()?;
            let mut length = 0;
            while conditional && parser.eat_word("if") {
                let when = Box::new(parser.or()?);
                let otherwise =
                    if parser.eat_word("else") { Some(Box::new(parser.expression(true)?)) } else { None };
                value = Expr::If { when, then: Box::new(value), otherwise };
                length = parser.check_chain(length)?;
            }
            Ok(value)
        })
    }

    /// Limits the length of a chain of operators, which becomes a deep tree.
    fn check_chain(&self, length: usize) -> Result<usize> {
        if length >= MAX_CHAIN { self.error("too many operators in an expression") } else { Ok(length + 1) }
    }

    /// Parses operators of the same precedence, from left to right.
    fn binary(&mut self, signs: &[&'static str], operand: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = operand(self)?;
        let mut length = 0;
        while let Some(sign) = signs.iter().find(|sign| self.eat(sign)) {
            left = Expr::Binary(sign, Box::new(left), Box::new(operand(self)?));
            length = self.check_chain(length)?;
        }
        Ok(left)
    }

    fn or(&mut self) -> Result<Expr> {
        self.logic("or", |parser| parser.logic("and", Self::not))
    }

    /// Parses operands between `or` or `and`.
    fn logic(&mut self, word: &str, operand: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut items = vec![operand(self)?];
        while self.eat_word(word) {
            items.push(operand(self)?);
        }
        Ok(if items.len() > 1 { Expr::Logic(word == "or", items) } else { items.swap_remove(0) })
    }

    fn not(&mut self) -> Result<Expr> {
        if self.eat_word("not") {
            return self.nested(|parser| Ok(Expr::Not(Box::new(parser.not()?))));
        }
        let first = self.sum()?;
        let mut found = Vec::new();
        while let Some(compare) = self.comparison() {
            found.push((compare, self.sum()?));
        }
        Ok(if found.is_empty() { first } else { Expr::Compare(Box::new(first), found) })
    }

    fn comparison(&mut self) -> Option<&'static str> {
        if self.eat_word("in") {
            return Some("in");
        }
        if self.at_word("not") && matches!(self.peek_second(), Some(Token::Name(word)) if word == "in") {
            self.at += 2;
            return Some("not in");
        }
        ["==", "!=", "<", "<=", ">", ">="].into_iter().find(|sign| self.eat(sign))
    }

    fn sum(&mut self) -> Result<Expr> {
        self.binary(&["+", "-"], |parser| parser.binary(&["~"], Self::product))
    }

    fn product(&mut self) -> Result<Expr> {
        self.binary(&["*", "/", "//", "%"], Self::filtered)
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.eat("-") {
            return self.nested(|parser| Ok(Expr::Negative(Box::new(parser.unary()?))));
        }
        self.postfix()
    }

    fn primary(&mut self) -> Result<Expr> {
        let value = match self.peek() {
            Some(Token::Name(name)) => match name.as_str() {
                "true" | "True" => Val::Bool(true),
                "false" | "False" => Val::Bool(false),
                "none" | "None" => Val::None,
                _ => {
                    let name = self.name()?;
                    return Ok(match self.at_operator("(") {
                        true => Expr::Function(name, self.arguments()?),
                        false => Expr::Name(name),
                    });
                }
            },
            Some(Token::Str(text)) => {
                let mut text = text.clone();
                while let Some(Token::Str(more)) = self.peek_second() {
                    text.push_str(more);
                    self.at += 1;
                }
                Val::Str(text.into())
            }
            Some(Token::Int(number)) => Val::Int(*number),
            Some(Token::Float(number)) => Val::Float(*number),
            Some(Token::Operator("(")) => return self.nested(Self::parentheses),
            Some(Token::Operator("[")) => {
                self.at += 1;
                return Ok(Expr::List(self.list("]", |parser| parser.expression(true))?));
            }
            Some(Token::Operator("{")) => {
                self.at += 1;
                let entries = self.list("}", |parser| {
                    let key = parser.expression(true)?;
                    parser.expect(":")?;
                    Ok((key, parser.expression(true)?))
                });
                return Ok(Expr::Map(entries?));
            }
            _ => return self.unexpected("an expression"),
        };
        self.at += 1;
        Ok(Expr::Constant(value))
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

    fn postfix(&mut self) -> Result<Expr> {
        let mut value = self.primary()?;
        let mut length = 0;
        loop {
            value = if self.eat(".") {
                if let Some(Token::Int(number)) = self.peek() {
                    let key = Expr::Constant(Val::Int(*number));
                    self.at += 1;
                    Expr::Item(Box::new(value), Box::new(key))
                } else {
                    let name = self.name()?;
                    match self.at_operator("(") {
                        true => Expr::Method(Box::new(value), name, self.arguments()?),
                        false => Expr::Attr(Box::new(value), name),
                    }
                }
            } else if self.eat("[") {
                self.subscript(value)?
            } else if self.at_operator("(") {
                return self.error("only functions and methods can be called");
            } else {
                return Ok(value);
            };
            length = self.check_chain(length)?;
        }
    }

    fn subscript(&mut self, value: Expr) -> Result<Expr> {
        let mut parts: [Option<Box<Expr>>; 3] = Default::default();
        let mut place = 0;
        while !self.eat("]") {
            if self.eat(":") {
                place += 1;
                if place > 2 {
                    return self.error("a slice has at most three parts");
                }
            } else if parts[place].is_some() {
                return self.unexpected("']'");
            } else {
                parts[place] = Some(Box::new(self.expression(true)?));
            }
        }
        match (place, parts) {
            (0, [Some(key), ..]) => Ok(Expr::Item(Box::new(value), key)),
            (0, _) => self.error("expected an index or slice between '[' and ']'"),
            (_, parts) => Ok(Expr::Slice(Box::new(value), parts)),
        }
    }

    fn arguments(&mut self) -> Result<Args> {
        self.expect("(")?;
        let mut args = Args::default();
        self.list(")", |parser| {
            if parser.at_operator("*") || parser.at_operator("**") {
                return parser.error("'*' before an argument is not supported");
            }
            let is_name = matches!(parser.peek(), Some(Token::Name(_)));
            if is_name && matches!(parser.peek_second(), Some(Token::Operator("="))) {
                let name = parser.name()?;
                parser.at += 1;
                args.named.push((name, parser.expression(true)?));
            } else if !args.named.is_empty() {
                return parser.error("positional argument after keyword argument");
            } else {
                args.positional.push(parser.expression(true)?);
            }
            Ok(())
        })?;
        Ok(args)
    }

    /// Parses arguments in parentheses, if there are any.
    fn optional_arguments(&mut self) -> Result<Args> {
        if self.at_operator("(") { self.arguments() } else { Ok(Args::default()) }
    }

    /// Parses a value with its filters and tests.
    fn filtered(&mut self) -> Result<Expr> {
        let mut value = self.unary()?;
        let mut length = 0;
        loop {
            value = if self.eat("|") {
                Expr::Filter(Box::new(value), self.name()?, self.optional_arguments()?)
            } else if self.eat_word("is") {
                self.test(value)?
            } else {
                return Ok(value);
            };
            length = self.check_chain(length)?;
        }
    }

    fn test(&mut self, value: Expr) -> Result<Expr> {
        const NO_ARGUMENT: [&str; 6] = ["else", "or", "and", "if", "not", "in"];
        let negated = self.eat_word("not");
        let name = self.name()?;
        let args = match self.peek() {
            Some(Token::Name(word)) if NO_ARGUMENT.contains(&word.as_str()) => Args::default(),
            Some(Token::Name(word)) if word == "is" => return self.error("chained 'is'"),
            Some(
                Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Operator("[" | "{"),
            ) => Args { positional: vec![self.postfix()?], ..Args::default() },
            _ => self.optional_arguments()?,
        };
        let test = Expr::Test(Box::new(value), name, args);
        Ok(if negated { Expr::Not(Box::new(test)) } else { test })
    }
}
