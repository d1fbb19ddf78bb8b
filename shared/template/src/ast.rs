//! The syntax tree of a template. Operators are named by their signs.

use std::rc::Rc;

use crate::value::Val;

pub type Name = Rc<str>;
pub type Body = Vec<Stmt>;

pub struct Stmt {
    pub line: usize,
    pub kind: StmtKind,
}

pub enum StmtKind {
    Data(String),
    Print(Expr),
    Do(Expr),
    If {
        branches: Vec<(Expr, Body)>,
        otherwise: Body,
    },
    For(For),
    Set(Target, Expr),
    /// A `set` block: the variable has the output of the body.
    Capture(Target, Body),
}

pub struct For {
    pub target: Target,
    pub iterable: Expr,
    pub condition: Option<Expr>,
    pub body: Body,
    pub otherwise: Body,
}

pub enum Target {
    Name(Name),
    /// Several names, to which the items of a list are assigned.
    Names(Vec<Name>),
    /// `namespace.name`
    Attr(Name, Name),
}

#[derive(Default)]
pub struct Args {
    pub positional: Vec<Expr>,
    pub named: Vec<(Name, Expr)>,
}

pub enum Expr {
    Name(Name),
    Constant(Val),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Attr(Box<Expr>, Name),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Function(Name, Args),
    Method(Box<Expr>, Name, Args),
    Filter(Box<Expr>, Name, Args),
    Test(Box<Expr>, Name, Args),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    /// Values between `or` (true) or `and` (false).
    Logic(bool, Vec<Expr>),
    If {
        when: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
}
