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
            if ends || self.at_word("recursive") || self.at_word("if") {
                break;
            }
            items.push(self.expression(conditional)?);
        }
        Ok(Expr::Tuple(items))
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

    /// Limits the length of a chain of operators, which becomes a deep tree.
    fn check_chain(&self, length: usize) -> Result<usize> {
        if length >= MAX_CHAIN { self.error("too many operators in an expression") } else { Ok(length + 1) }
    }

    /// Parses operands between operators that `eat` recognises, which become one expression.
    fn chain(
        &mut self,
        eat: fn(&mut Self) -> bool,
        operand: fn(&mut Self) -> Result<Expr>,
        make: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr> {
        let mut items = vec![operand(self)?];
        while eat(self) {
            items.push(operand(self)?);
        }
        Ok(if items.len() > 1 { make(items) } else { items.swap_remove(0) })
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
        self.chain(|parser| parser.eat_word("or"), Self::and, |items| Expr::Logic(true, items))
    }

    fn and(&mut self) -> Result<Expr> {
        self.chain(|parser| parser.eat_word("and"), Self::not, |items| Expr::Logic(false, items))
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
        self.comparison_sign()
    }

    fn comparison_sign(&mut self) -> Option<&'static str> {
        ["==", "!=", "<", "<=", ">", ">="].into_iter().find(|sign| self.eat(sign))
    }

    fn sum(&mut self) -> Result<Expr> {
        self.binary(&["+", "-"], |parser| parser.chain(|parser| parser.eat("~"), Self::product, Expr::Concat))
    }

    fn product(&mut self) -> Result<Expr> {
        self.binary(&["*", "/", "//", "%"], |parser| {
            parser.binary(&["**"], |parser| {
                let value = parser.unary()?;
                parser.filters_and_tests(value)
            })
        })
    }

    fn unary(&mut self) -> Result<Expr> {
        let sign = ["-", "+"].into_iter().find(|sign| self.eat(sign));
        let value = match sign {
            Some(sign) => self.nested(|parser| Ok(Expr::Unary(sign, Box::new(parser.unary()?))))?,
            None => self.primary()?,
        };
        self.postfix(value)
    }

    fn primary(&mut self) -> Result<Expr> {
        let value = match self.peek() {
            Some(Token::Name(name)) => match name.as_str() {
                "true" | "True" => Val::Bool(true),
                "false" | "False" => Val::Bool(false),
                "none" | "None" => Val::None,
                _ => {
                    let name = self.name()?;
                    if let Some(special) = self.macros.last_mut() {
                        let words = ["varargs", "kwargs", "caller"];
                        words.iter().zip(special).for_each(|(word, used)| *used |= *name == **word);
                    }
                    return Ok(Expr::Name(name));
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
                return Ok(Expr::List(self.list("]", true, |parser| parser.expression(true))?));
            }
            Some(Token::Operator("{")) => {
                self.at += 1;
                let entries = self.list("}", true, |parser| {
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

    fn postfix(&mut self, mut value: Expr) -> Result<Expr> {
        let mut length = 0;
        loop {
            value = if self.eat(".") {
                match self.peek() {
                    Some(Token::Int(number)) => {
                        let key = Expr::Constant(Val::Int(*number));
                        self.at += 1;
                        Expr::Item(Box::new(value), Box::new(key))
                    }
                    _ => Expr::Attr(Box::new(value), self.name()?),
                }
            } else if self.eat("[") {
                self.subscript(value)?
            } else if self.at_operator("(") {
                Expr::Call(Box::new(value), Box::new(self.arguments()?))
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

    pub(super) fn arguments(&mut self) -> Result<Args> {
        self.expect("(")?;
        let mut args = Args::default();
        self.list(")", true, |parser| {
            if parser.eat("*") {
                args.star_args = Some(parser.expression(true)?);
            } else if parser.eat("**") {
                args.star_kwargs = Some(parser.expression(true)?);
            } else if matches!(parser.peek(), Some(Token::Name(_)))
                && matches!(parser.peek_second(), Some(Token::Operator("=")))
            {
                let name = parser.name()?;
                parser.at += 1;
                args.named.push((name, parser.expression(true)?));
            } else if !args.named.is_empty() || args.star_kwargs.is_some() {
                return parser.error("positional argument after keyword argument");
            } else {
                args.positional.push(parser.expression(true)?);
            }
            Ok(())
        })?;
        Ok(args)
    }

    /// Parses arguments in parentheses, if there are any.
    pub(super) fn optional_arguments(&mut self) -> Result<Args> {
        if self.at_operator("(") { self.arguments() } else { Ok(Args::default()) }
    }

    fn filters_and_tests(&mut self, mut value: Expr) -> Result<Expr> {
        let mut length = 0;
        loop {
            value = if self.eat("|") {
                let name = self.dotted()?;
                Expr::Filter(Box::new(value), name, Box::new(self.optional_arguments()?))
            } else if self.eat_word("is") {
                self.test(value)?
            } else if self.at_operator("(") {
                Expr::Call(Box::new(value), Box::new(self.arguments()?))
            } else {
                return Ok(value);
            };
            length = self.check_chain(length)?;
        }
    }

    fn test(&mut self, value: Expr) -> Result<Expr> {
        const NO_ARGUMENT: [&str; 7] = ["else", "or", "and", "if", "recursive", "not", "in"];
        let negated = self.eat_word("not");
        let name = match self.comparison_sign() {
            Some(sign) => sign.into(),
            None => self.dotted()?,
        };
        let args = match self.peek() {
            Some(Token::Name(word)) if NO_ARGUMENT.contains(&word.as_str()) => Args::default(),
            Some(Token::Name(word)) if word == "is" => return self.error("chained 'is'"),
            Some(
                Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Operator("[" | "{"),
            ) => {
                let argument = self.primary()?;
                Args { positional: vec![self.postfix(argument)?], ..Args::default() }
            }
            _ => self.optional_arguments()?,
        };
        let test = Expr::Test(Box::new(value), name, Box::new(args));
        Ok(if negated { Expr::Not(Box::new(test)) } else { test })
    }
}
