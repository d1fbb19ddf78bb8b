//! The syntax tree of a template. Operators are named by their signs.

use std::rc::Rc;

use crate::value::Val;

pub type Name = Rc<str>;
pub type Body = Rc<[Stmt]>;
/// Filters with their arguments, in the order in which they apply.
pub type Filters = Vec<(Name, Args)>;

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
    For(Rc<For>),
    Set(Target, Expr),
    /// A `filter` block, or a `set` block with its target.
    Capture {
        target: Option<Target>,
        filters: Filters,
        body: Body,
    },
    Macro(Rc<Macro>),
    Call {
        callee: Expr,
        args: Args,
        caller: Rc<Macro>,
    },
    With {
        names: Vec<(Target, Expr)>,
        body: Body,
    },
    /// Scoped blocks see the local variables around them, others only those of the template.
    Block {
        name: Name,
        scoped: bool,
    },
    Autoescape(Expr, Body),
}

pub struct For {
    pub target: Target,
    pub iterable: Expr,
    pub condition: Option<Expr>,
    pub recursive: bool,
    pub body: Body,
    pub otherwise: Body,
}

pub struct Macro {
    pub name: Name,
    pub parameters: Vec<(Name, Option<Expr>)>,
    pub body: Body,
    /// Whether the body refers to `varargs`, `kwargs` and `caller`.
    pub varargs: bool,
    pub kwargs: bool,
    pub caller: bool,
}

pub enum Target {
    Name(Name),
    Tuple(Vec<Target>),
    /// `namespace.name`
    Attr(Name, Name),
}

#[derive(Default)]
pub struct Args {
    pub positional: Vec<Expr>,
    pub named: Vec<(Name, Expr)>,
    pub star_args: Option<Expr>,
    pub star_kwargs: Option<Expr>,
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
    Call(Box<Expr>, Box<Args>),
    Filter(Box<Expr>, Name, Box<Args>),
    Test(Box<Expr>, Name, Box<Args>),
    Not(Box<Expr>),
    /// `-` or `+` before a value.
    Unary(&'static str, Box<Expr>),
    /// Values between `or` (true) or `and` (false).
    Logic(bool, Vec<Expr>),
    If {
        when: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    Concat(Vec<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
}
