//! What may be between a template's braces: names and their keys, text, numbers, tuples, `+`, `==`, `in`, `not`,
//! `and`, `or`, `is defined`, and the filters `list`, `sort`, `dictsort`, `join`, `default`, `lower`, `upper`.

use config::{Map, Node, Value};

use super::{BadTemplate, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    term: Term,
    line: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    Name(String),
    Constant(Node),
    Tuple(Vec<Term>),
    Key(Box<Term>, String),
    /// `.items()` of a map.
    Items(Box<Term>),
    Not(Box<Term>),
    Defined(Box<Term>),
    Two(Operator, Box<Term>, Box<Term>),
    Filter(Filter, Box<Term>, Option<Box<Term>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    In,
    Plus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    List,
    Sort,
    /// A map's pairs, sorted by their keys.
    DictSort,
    Join,
    Default,
    /// `default(…, true)`: also for what is false or empty.
    DefaultIfFalse,
    Lower,
    Upper,
}

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    Value(Node),
    /// No value has this name.
    Undefined(String),
}

impl Found {
    pub fn is_true(&self) -> bool {
        matches!(self, Found::Value(v) if !v.is_falsy())
    }
}

pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A value as Python prints it: text as it is, lists and maps with their text quoted.
pub fn text(value: &Node) -> String {
    value.scalar_text().unwrap_or_else(|| quoted(value, 0))
}

fn quoted(value: &Node, depth: usize) -> String {
    let all = |parts: Vec<String>| parts.join(", ");
    match &value.value {
        _ if depth > 50 => "...".into(),
        Value::Str(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        Value::Seq(items) => format!("[{}]", all(items.iter().map(|i| quoted(i, depth + 1)).collect())),
        Value::Map(map) => {
            let pair = |(k, v): (&Node, &Node)| format!("{}: {}", quoted(k, depth + 1), quoted(v, depth + 1));
            format!("{{{}}}", all(map.iter().map(pair).collect()))
        }
        _ => value.scalar_text().unwrap_or_default(),
    }
}

/// What a `for` goes over: a list's items, a map's keys.
pub fn items(value: &Node) -> Option<Vec<Node>> {
    match &value.value {
        Value::Seq(items) => Some(items.clone()),
        Value::Map(map) => Some(map.iter().map(|(k, _)| k.clone()).collect()),
        Value::Str(text) => Some(text.chars().map(|c| Node::from(c.to_string())).collect()),
        _ => None,
    }
}

impl Expression {
    pub fn parse(text: &str, line: usize) -> Result<Expression> {
        let bad = |message: String| BadTemplate { line, message };
        let words = words(text).map_err(|c| bad(format!("'{c}' is not supported in an expression")))?;
        let mut parser = Parser { words: &words, depth: 0 };
        let term = parser.or().map_err(bad)?;
        match parser.words.first() {
            None => Ok(Expression { term, line }),
            Some(word) => Err(bad(format!("{word} is not expected here"))),
        }
    }

    /// Its value with the names of the scopes, the last of which counts first.
    pub fn value(&self, scopes: &[Map]) -> Result<Found> {
        self.term.value(scopes).map_err(|message| BadTemplate { line: self.line, message })
    }
}

/// A word of an expression.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    Name(String),
    Text(String),
    Number(i128),
    Sign(&'static str),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Name(name) => write!(f, "'{name}'"),
            Word::Text(_) => f.write_str("a text"),
            Word::Number(_) => f.write_str("a number"),
            Word::Sign(sign) => write!(f, "'{sign}'"),
        }
    }
}

const SIGNS: [&str; 12] = ["==", "!=", "(", ")", "[", "]", ",", ".", "|", "+", "~", "-"];

/// The words of a text, or the character that begins none.
fn words(text: &str) -> std::result::Result<Vec<Word>, char> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            words.push(Word::Name(rest[..end].to_string()));
            end
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            words.push(Word::Number(rest[..end].parse().map_err(|_| first)?));
            end
        } else if first == '"' || first == '\'' {
            let inside = &rest[1..];
            let end = inside.find(first).ok_or(first)?;
            words.push(Word::Text(inside[..end].to_string()));
            end + 2
        } else {
            let sign = SIGNS.into_iter().find(|s| rest.starts_with(s)).ok_or(first)?;
            words.push(Word::Sign(sign));
            sign.len()
        };
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

struct Parser<'w> {
    words: &'w [Word],
    depth: usize,
}

type Parsed = std::result::Result<Term, String>;

impl Parser<'_> {
    fn name(&mut self, name: &str) -> bool {
        let there = matches!(self.words.first(), Some(Word::Name(n)) if n == name);
        self.words = &self.words[usize::from(there)..];
        there
    }

    fn sign(&mut self, sign: &str) -> bool {
        let there = matches!(self.words.first(), Some(Word::Sign(s)) if *s == sign);
        self.words = &self.words[usize::from(there)..];
        there
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.name("or") {
            left = Term::Two(Operator::Or, left.into(), self.and()?.into());
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        while self.name("and") {
            left = Term::Two(Operator::And, left.into(), self.not()?.into());
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > 50 {
            return Err("the expression is too deep".into());
        }
        let term = if self.name("not") { Term::Not(self.not()?.into()) } else { self.compared()? };
        self.depth -= 1;
        Ok(term)
    }

    fn compared(&mut self) -> Parsed {
        let left = self.sum()?;
        let two = |operator, left: Term, right: Term| Term::Two(operator, left.into(), right.into());
        if self.sign("==") {
            return Ok(two(Operator::Equal, left, self.sum()?));
        }
        if self.sign("!=") {
            return Ok(Term::Not(two(Operator::Equal, left, self.sum()?).into()));
        }
        if self.name("in") {
            return Ok(two(Operator::In, left, self.sum()?));
        }
        if matches!(self.words, [Word::Name(a), Word::Name(b), ..] if a == "not" && b == "in") {
            self.words = &self.words[2..];
            return Ok(Term::Not(two(Operator::In, left, self.sum()?).into()));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.unary()?;
        while self.sign("+") {
            left = Term::Two(Operator::Plus, left.into(), self.unary()?.into());
        }
        Ok(left)
    }

    /// A value, its keys, filters and tests.
    fn unary(&mut self) -> Parsed {
        let mut term = self.simple()?;
        loop {
            if self.sign(".") {
                let Some(Word::Name(key)) = self.words.first() else {
                    return Err("expected a key after '.'".into());
                };
                self.words = &self.words[1..];
                term = match (key.as_str(), self.sign("(")) {
                    ("items", true) if self.sign(")") => Term::Items(term.into()),
                    (_, true) => return Err(format!("the method '{key}' is not supported")),
                    (_, false) => Term::Key(term.into(), key.clone()),
                };
            } else if self.sign("|") {
                term = self.filtered(term)?;
            } else if self.name("is") {
                let negated = self.name("not");
                let defined = Term::Defined(term.into());
                term = match (self.name("defined"), negated) {
                    (true, false) => defined,
                    (true, true) => Term::Not(defined.into()),
                    (false, _) => return Err("of the tests only 'is defined' is supported".into()),
                };
            } else {
                return Ok(term);
            }
        }
    }

    fn filtered(&mut self, term: Term) -> Parsed {
        let Some(Word::Name(name)) = self.words.first() else {
            return Err("expected a filter after '|'".into());
        };
        let mut filter = match name.as_str() {
            "list" => Filter::List,
            "sort" => Filter::Sort,
            "dictsort" => Filter::DictSort,
            "join" => Filter::Join,
            "default" | "d" => Filter::Default,
            "lower" => Filter::Lower,
            "upper" => Filter::Upper,
            _ => return Err(format!("the filter '{name}' is not supported")),
        };
        self.words = &self.words[1..];
        let mut argument = None;
        if self.sign("(") && !self.sign(")") {
            argument = Some(self.or()?.into());
            if filter == Filter::Default && self.sign(",") && (self.name("true") || self.name("True")) {
                filter = Filter::DefaultIfFalse;
            }
            if !self.sign(")") {
                return Err(format!("the filter '{name}' has other arguments"));
            }
        }
        Ok(Term::Filter(filter, term.into(), argument))
    }

    fn simple(&mut self) -> Parsed {
        if self.sign("(") {
            let first = self.or()?;
            if self.sign(")") {
                return Ok(first);
            }
            return self.rest_of_list(vec![first], ")");
        }
        if self.sign("[") {
            if self.sign("]") {
                return Ok(Term::Tuple(Vec::new()));
            }
            let first = self.or()?;
            return self.rest_of_list(vec![first], "]");
        }
        let Some((word, rest)) = self.words.split_first() else {
            return Err("expected an expression".into());
        };
        self.words = rest;
        match word {
            Word::Name(name) => Ok(match name.as_str() {
                "true" | "True" => Term::Constant(Node::from(true)),
                "false" | "False" => Term::Constant(Node::from(false)),
                "none" | "None" => Term::Constant(Node::null()),
                "and" | "or" | "not" | "in" | "is" | "if" | "else" => {
                    return Err(format!("'{name}' is not expected here"));
                }
                _ => Term::Name(name.clone()),
            }),
            Word::Text(text) => Ok(Term::Constant(Node::from(text.as_str()))),
            Word::Number(number) => Ok(Term::Constant(Node::from(Value::Int(*number)))),
            Word::Sign(sign) => Err(format!("'{sign}' is not expected here")),
        }
    }

    /// What follows the first item of a tuple or list.
    fn rest_of_list(&mut self, mut terms: Vec<Term>, end: &str) -> Parsed {
        loop {
            if self.sign(end) {
                return Ok(Term::Tuple(terms));
            }
            if !self.sign(",") {
                return Err(format!("expected ',' or '{end}'"));
            }
            if !self.sign(end) {
                terms.push(self.or()?);
            } else {
                return Ok(Term::Tuple(terms));
            }
        }
    }
}

type Evaluated = std::result::Result<Found, String>;

impl Term {
    fn value(&self, scopes: &[Map]) -> Evaluated {
        let truth = |b: bool| Ok(Found::Value(Node::from(b)));
        match self {
            Term::Name(name) => Ok(match scopes.iter().rev().find_map(|s| s.get(name)) {
                Some(value) => Found::Value(value.clone()),
                None => Found::Undefined(name.clone()),
            }),
            Term::Constant(value) => Ok(Found::Value(value.clone())),
            Term::Tuple(terms) => {
                let values: std::result::Result<Vec<Node>, String> =
                    terms.iter().map(|t| t.defined(scopes)).collect();
                Ok(Found::Value(Node::from(values?)))
            }
            Term::Key(of, key) => Ok(match of.value(scopes)? {
                Found::Undefined(name) => Found::Undefined(format!("{name}.{key}")),
                Found::Value(value) => match value.get(key) {
                    Some(value) => Found::Value(value.clone()),
                    None => Found::Undefined(key.clone()),
                },
            }),
            Term::Items(of) => {
                let value = of.defined(scopes)?;
                let Some(map) = value.as_map() else { return Err("'items()' of what is no map".into()) };
                let pairs = map.iter().map(|(k, v)| Node::from(vec![k.clone(), v.clone()]));
                Ok(Found::Value(Node::from(pairs.collect::<Vec<_>>())))
            }
            Term::Not(of) => truth(!of.value(scopes)?.is_true()),
            Term::Defined(of) => truth(matches!(of.value(scopes)?, Found::Value(_))),
            Term::Two(Operator::Or, a, b) => match a.value(scopes)? {
                found if found.is_true() => Ok(found),
                _ => b.value(scopes),
            },
            Term::Two(Operator::And, a, b) => match a.value(scopes)? {
                found if found.is_true() => b.value(scopes),
                found => Ok(found),
            },
            Term::Two(Operator::Equal, a, b) => truth(a.value(scopes)? == b.value(scopes)?),
            Term::Two(Operator::In, a, b) => {
                let (item, within) = (a.defined(scopes)?, b.defined(scopes)?);
                match (&within.value, item.as_str()) {
                    (Value::Str(text), Some(part)) => truth(text.contains(part)),
                    _ => truth(items(&within).ok_or("'in' what is no list")?.contains(&item)),
                }
            }
            Term::Two(Operator::Plus, a, b) => {
                let (a, b) = (a.defined(scopes)?, b.defined(scopes)?);
                Ok(Found::Value(match (&a.value, &b.value) {
                    (Value::Seq(a), Value::Seq(b)) => Node::from([&a[..], &b[..]].concat()),
                    (Value::Str(a), Value::Str(b)) => Node::from(format!("{a}{b}")),
                    (Value::Int(a), Value::Int(b)) => Node::from(Value::Int(a.saturating_add(*b))),
                    _ => return Err("'+' of values that cannot be added".into()),
                }))
            }
            Term::Filter(filter, of, argument) => {
                filter.apply(of.value(scopes)?, argument.as_deref(), scopes)
            }
        }
    }

    fn defined(&self, scopes: &[Map]) -> std::result::Result<Node, String> {
        match self.value(scopes)? {
            Found::Value(value) => Ok(value),
            Found::Undefined(name) => Err(format!("'{name}' has no value")),
        }
    }
}

impl Filter {
    fn apply(self, found: Found, argument: Option<&Term>, scopes: &[Map]) -> Evaluated {
        let given = || argument.map_or_else(|| Ok(Found::Value(Node::from(""))), |a| a.value(scopes));
        let value = match (self, found) {
            (Filter::Default, Found::Undefined(_)) => return given(),
            (Filter::DefaultIfFalse, found) if !found.is_true() => return given(),
            (Filter::List | Filter::Sort | Filter::Join, Found::Undefined(_)) => Node::from(Vec::new()),
            (_, undefined @ Found::Undefined(_)) => return Ok(undefined),
            (_, Found::Value(value)) => value,
        };
        let list = || items(&value).ok_or("a filter for lists on what is none");
        Ok(Found::Value(match self {
            Filter::Default | Filter::DefaultIfFalse => value,
            Filter::List => Node::from(list()?),
            Filter::Sort => {
                let mut list = list()?;
                // Jinja sorts without regard to case.
                list.sort_by_key(|n| text(n).to_lowercase());
                Node::from(list)
            }
            Filter::DictSort => {
                let map = value.as_map().ok_or("'dictsort' of what is no map")?;
                let mut pairs: Vec<Vec<Node>> = map.iter().map(|(k, v)| vec![k.clone(), v.clone()]).collect();
                pairs.sort_by_key(|pair| text(&pair[0]).to_lowercase());
                Node::from(pairs.into_iter().map(Node::from).collect::<Vec<_>>())
            }
            Filter::Join => {
                let between = argument.map(|a| a.defined(scopes)).transpose()?;
                let between = between.map(|b| text(&b)).unwrap_or_default();
                Node::from(list()?.iter().map(text).collect::<Vec<_>>().join(&between))
            }
            Filter::Lower => Node::from(text(&value).to_lowercase()),
            Filter::Upper => Node::from(text(&value).to_uppercase()),
        }))
    }
}
