//! The syntax tree of a template.

use std::rc::Rc;

pub type Name = Rc<str>;
pub type Body = Rc<[Stmt]>;

#[derive(Debug)]
pub struct Stmt {
    pub line: usize,
    pub kind: StmtKind,
}

#[derive(Debug)]
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
    SetBlock {
        target: Target,
        filters: Vec<(Name, Args)>,
        body: Body,
    },
    Macro(Rc<Macro>),
    Call {
        call: Expr,
        caller: Rc<Macro>,
    },
    Filter {
        filters: Vec<(Name, Args)>,
        body: Body,
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

#[derive(Debug)]
pub struct For {
    pub target: Target,
    pub iterable: Expr,
    pub condition: Option<Expr>,
    pub recursive: bool,
    pub body: Body,
    pub otherwise: Body,
}

#[derive(Debug)]
pub struct Macro {
    pub name: Name,
    pub parameters: Vec<(Name, Option<Expr>)>,
    pub body: Body,
    /// Whether the body refers to `varargs`, `kwargs` and `caller`.
    pub varargs: bool,
    pub kwargs: bool,
    pub caller: bool,
}

#[derive(Debug)]
pub enum Target {
    Name(Name),
    Tuple(Vec<Target>),
    /// `namespace.name`
    Attr(Name, Name),
}

#[derive(Debug, Default)]
pub struct Args {
    pub positional: Vec<Expr>,
    pub named: Vec<(Name, Expr)>,
    pub star_args: Option<Box<Expr>>,
    pub star_kwargs: Option<Box<Expr>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
    Pow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Debug)]
pub enum Expr {
    Name(Name),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Name),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Attr(Box<Expr>, Name),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Box<Args>),
    /// `None` stands for the content of the enclosing `filter` block.
    Filter(Box<Expr>, Name, Box<Args>),
    Test(Box<Expr>, Name, Box<Args>),
    Not(Box<Expr>),
    Neg(Box<Expr>),
    Pos(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    If {
        when: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    Concat(Vec<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
}
