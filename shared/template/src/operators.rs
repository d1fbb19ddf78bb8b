//! Python's operators on a template's values: arithmetic, `in`, keys and slices.

use std::rc::Rc;

use crate::ast::BinaryOp;
use crate::eval::Interpreter;
use crate::value::{Callable, Number, Val, ValueResult, equal, number, undefined_error};

pub const TOO_LARGE: &str = "a number that is too large";

pub fn check_hashable(key: &Val) -> ValueResult<()> {
    match key {
        // A tuple of plain values is accepted; comparing deeper ones could cost too much.
        Val::Seq(seq) if seq.tuple && seq.depth.get() == 1 => Ok(()),
        Val::Seq(_) | Val::Map(_) => Err(format!("{} as a key", key.type_name())),
        _ => Ok(()),
    }
}

pub fn negate(value: &Val) -> ValueResult<Val> {
    match value {
        Val::Undefined(name) => Err(undefined_error(name)),
        other => match number(other) {
            Some(Number::Int(n)) => Ok(Val::Int(n.checked_neg().ok_or(TOO_LARGE)?)),
            Some(Number::Float(f)) => Ok(Val::Float(-f)),
            None => Err(format!("'-' before {}", other.type_name())),
        },
    }
}

fn operator_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::FloorDiv => "//",
        BinaryOp::Rem => "%",
        BinaryOp::Pow => "**",
    }
}

fn integer_op(op: BinaryOp, a: i128, b: i128) -> ValueResult<Val> {
    let zero = || Err("a division by zero".to_string());
    let found = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div if b == 0 => return zero(),
        BinaryOp::Div => return Ok(Val::Float(a as f64 / b as f64)),
        BinaryOp::FloorDiv | BinaryOp::Rem if b == 0 => return zero(),
        BinaryOp::FloorDiv => {
            a.checked_div(b).map(|q| if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
        }
        BinaryOp::Rem => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        BinaryOp::Pow if b < 0 && a == 0 => return zero(),
        BinaryOp::Pow if b < 0 => return Ok(Val::Float((a as f64).powf(b as f64))),
        BinaryOp::Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    found.map(Val::Int).ok_or_else(|| TOO_LARGE.into())
}

fn float_op(op: BinaryOp, a: f64, b: f64) -> ValueResult<Val> {
    if b == 0.0 && matches!(op, BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Rem) {
        return Err("a division by zero".into());
    }
    Ok(Val::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::FloorDiv => (a / b).floor(),
        BinaryOp::Rem => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        BinaryOp::Pow => a.powf(b),
    }))
}

/// The methods of a type. They take precedence over a map's keys.
fn methods(of: &Val) -> &'static [&'static str] {
    match of {
        Val::Bytes(_) => &["decode", "hex"],
        Val::Str(_) | Val::Safe(_) => &[
            "capitalize",
            "casefold",
            "center",
            "count",
            "encode",
            "endswith",
            "find",
            "format",
            "index",
            "isalnum",
            "isalpha",
            "isdecimal",
            "isdigit",
            "islower",
            "isnumeric",
            "isspace",
            "isupper",
            "join",
            "ljust",
            "lower",
            "lstrip",
            "partition",
            "removeprefix",
            "removesuffix",
            "replace",
            "rfind",
            "rindex",
            "rjust",
            "rpartition",
            "rsplit",
            "rstrip",
            "split",
            "splitlines",
            "startswith",
            "strip",
            "swapcase",
            "title",
            "upper",
            "zfill",
        ],
        Val::Seq(seq) if seq.tuple => &["count", "index"],
        Val::Seq(_) => &[
            "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse",
            "sort",
        ],
        Val::Map(map) if map.namespace => &[],
        Val::Map(_) => {
            &["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"]
        }
        Val::Float(_) => &["is_integer"],
        Val::Callable(callable) => match &**callable {
            Callable::Loop(_) => &["cycle", "changed"],
            Callable::Cycler { .. } => &["next", "reset"],
            _ => &[],
        },
        _ => &[],
    }
}

impl Interpreter<'_> {
    pub fn operate(&mut self, op: BinaryOp, a: &Val, b: &Val) -> ValueResult<Val> {
        if let (Val::Undefined(Some(a)), BinaryOp::Sub) = (a, op) {
            let b = match b {
                Val::Undefined(name) => name.as_deref().unwrap_or("None").to_string(),
                other => self.text_of(other)?.to_string(),
            };
            return Err(format!("'{a}-{b}' subtracts from an undefined variable; did you mean '{a}_{b}'?"));
        }
        if let (Val::Safe(text), BinaryOp::Rem) = (a, op) {
            let values = match b {
                Val::Seq(seq) if seq.tuple => {
                    let items = seq.items.borrow().clone();
                    Val::tuple(items.iter().map(|item| self.escaped_text(item)).collect::<ValueResult<_>>()?)?
                }
                other => self.escaped_text(other)?,
            };
            let text = self.printf(text, &values)?;
            return Ok(self.text(text)?.into_safe());
        }
        match (a, b, op) {
            (Val::Safe(_), Val::Str(_) | Val::Safe(_), BinaryOp::Add)
            | (Val::Str(_), Val::Safe(_), BinaryOp::Add) => {
                let (a, b) = (self.escape(a)?, self.escape(b)?);
                return Ok(self.operate(op, &Val::Str(a), &Val::Str(b))?.into_safe());
            }
            (Val::Safe(_), _, BinaryOp::Mul) | (_, Val::Safe(_), BinaryOp::Mul) => {
                return Ok(self.operate(op, &a.plain(), &b.plain())?.into_safe());
            }
            (Val::Str(a), Val::Undefined(_), BinaryOp::Rem) => {
                let text = self.printf(a, b)?;
                return self.text(text);
            }
            (Val::Undefined(name), ..) | (_, Val::Undefined(name), _) => return Err(undefined_error(name)),
            _ => {}
        }
        match (number(a), number(b)) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => return integer_op(op, a, b),
            (Some(a), Some(b)) => return float_op(op, a.float(), b.float()),
            _ => {}
        }
        match (op, a, b) {
            (BinaryOp::Add, Val::Str(a), Val::Str(b)) => {
                self.charge_memory(a.len() + b.len())?;
                Ok(Val::Str(format!("{a}{b}").into()))
            }
            (BinaryOp::Add, Val::Seq(x), Val::Seq(y)) if x.tuple == y.tuple => {
                let mut items = x.items.borrow().clone();
                items.extend(y.items.borrow().iter().cloned());
                self.charge_memory(items.len() * size_of::<Val>())?;
                if x.tuple { Val::tuple(items) } else { Val::list(items) }
            }
            (BinaryOp::Mul, Val::Str(text), times) | (BinaryOp::Mul, times, Val::Str(text))
                if number(times).is_some() =>
            {
                let times = self.repeat_count(times)?;
                self.charge_memory(text.len().saturating_mul(times))?;
                Ok(Val::Str(text.repeat(times).into()))
            }
            (BinaryOp::Mul, Val::Seq(seq), times) | (BinaryOp::Mul, times, Val::Seq(seq))
                if number(times).is_some() =>
            {
                let times = self.repeat_count(times)?;
                let items = seq.items.borrow();
                self.charge_memory(items.len().saturating_mul(times).saturating_mul(size_of::<Val>()))?;
                let all = (0..times).flat_map(|_| items.iter().cloned()).collect();
                if seq.tuple { Val::tuple(all) } else { Val::list(all) }
            }
            (BinaryOp::Rem, Val::Str(text), given) => {
                let text = self.printf(text, given)?;
                self.text(text)
            }
            _ => Err(format!("'{}' of {} and {}", operator_text(op), a.type_name(), b.type_name())),
        }
    }

    fn escaped_text(&mut self, value: &Val) -> ValueResult<Val> {
        Ok(match value {
            Val::Str(_) => Val::Str(self.escape(value)?),
            other => other.plain(),
        })
    }

    fn repeat_count(&mut self, times: &Val) -> ValueResult<usize> {
        match number(times) {
            Some(Number::Int(n)) => Ok(usize::try_from(n.max(0)).map_err(|_| TOO_LARGE)?),
            _ => Err("'*' with a float".into()),
        }
    }

    pub fn contains(&mut self, within: &Val, value: &Val) -> ValueResult<bool> {
        match within {
            Val::Str(text) | Val::Safe(text) => match value {
                Val::Str(part) | Val::Safe(part) => {
                    self.consume_fuel(text.len() / 64)?;
                    Ok(text.contains(&**part))
                }
                Val::Undefined(name) => Err(undefined_error(name)),
                other => Err(format!("'in' a string of {}", other.type_name())),
            },
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                let each = self.charge_walk(value)?;
                self.consume_fuel(items.len().saturating_mul(each))?;
                Ok(items.iter().any(|item| equal(item, value)))
            }
            Val::Map(map) => {
                self.consume_fuel(map.entries.borrow().len())?;
                Ok(map.get(value).is_some())
            }
            Val::Undefined(_) => Ok(false),
            other => Err(format!("'in' of {}", other.type_name())),
        }
    }

    /// Evaluates `of.name`: a method, or a key.
    pub fn attribute(&mut self, of: &Val, name: &Rc<str>) -> ValueResult<Val> {
        if let Some(method) = methods(of).iter().find(|method| ***method == **name) {
            return Ok(Val::Callable(Rc::new(Callable::Method(of.clone(), method))));
        }
        match of {
            Val::Undefined(of) => Err(undefined_error(of)),
            Val::Map(map) => {
                self.consume_fuel(map.entries.borrow().len() / 4)?;
                Ok(map.get_str(name).unwrap_or_else(|| Val::Undefined(Some(name.clone()))))
            }
            Val::Seq(seq) if seq.tuple && seq.items.borrow().len() == 2 => Ok(match &**name {
                // The fields of an item of `groupby`.
                "grouper" => seq.items.borrow()[0].clone(),
                "list" => seq.items.borrow()[1].clone(),
                _ => Val::Undefined(Some(name.clone())),
            }),
            Val::Callable(callable) if matches!(**callable, Callable::Template) => {
                Ok(match self.has_block(name) {
                    true => Val::Callable(Rc::new(Callable::Block(name.clone()))),
                    false => Val::Undefined(Some(name.clone())),
                })
            }
            Val::Callable(callable) => Ok(crate::functions::callable_attribute(callable, name)?
                .unwrap_or(Val::Undefined(Some(name.clone())))),
            _ => Ok(Val::Undefined(Some(name.clone()))),
        }
    }

    /// Evaluates `of[key]`: a key or index, or a method.
    pub fn item(&mut self, of: &Val, key: &Val) -> ValueResult<Val> {
        if let (Val::Safe(_), _) | (_, Val::Safe(_)) = (of, key) {
            let found = self.item(&of.plain(), &key.plain())?;
            return Ok(if matches!(of, Val::Safe(_)) { found.into_safe() } else { found });
        }
        let shown = if key.depth() == 0 { self.text_of(key)? } else { "key".into() };
        let missing = || Val::Undefined(Some(shown.clone()));
        Ok(match (of, key) {
            (Val::Undefined(of), _) => return Err(undefined_error(of)),
            (Val::Map(map), _) => {
                self.consume_fuel(map.entries.borrow().len() / 4)?;
                match (map.get(key), key) {
                    (Some(found), _) => found,
                    (None, Val::Str(name)) => self.attribute(of, name)?,
                    (None, _) => missing(),
                }
            }
            (_, Val::Int(_) | Val::Bool(_)) => {
                let Some(Number::Int(at)) = number(key) else { return Ok(missing()) };
                let place = |length: usize| {
                    let at = if at < 0 { at + length as i128 } else { at };
                    usize::try_from(at).ok().filter(|at| *at < length)
                };
                match of {
                    Val::Bytes(bytes) => {
                        place(bytes.len()).map_or_else(missing, |at| Val::Int(bytes[at].into()))
                    }
                    Val::Seq(seq) => {
                        let items = seq.items.borrow();
                        place(items.len()).map_or_else(missing, |at| items[at].clone())
                    }
                    Val::Str(text) => {
                        self.consume_fuel(text.len() / 16)?;
                        let at = place(text.chars().count()).and_then(|at| text.chars().nth(at));
                        at.map_or_else(missing, |c| Val::text(c.encode_utf8(&mut [0; 4])))
                    }
                    _ => missing(),
                }
            }
            (_, Val::Str(name)) => self.attribute(of, name)?,
            _ => missing(),
        })
    }

    pub fn slice(&mut self, of: &Val, bounds: [Option<i128>; 3]) -> ValueResult<Val> {
        if matches!(of, Val::Safe(_)) {
            return Ok(self.slice(&of.plain(), bounds)?.into_safe());
        }
        let items = match of {
            Val::Seq(seq) => seq.items.borrow().clone(),
            Val::Str(_) => self.items(of)?,
            // Jinja looks for a key first, and a slice cannot be one.
            Val::Undefined(name) => return Err(undefined_error(name)),
            _ => return Ok(Val::Undefined(None)),
        };
        let length = items.len() as i128;
        let [from, to, step] = bounds;
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err("a slice with a step of zero".into());
        }
        let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |given: Option<i128>, usual: i128| match given {
            None => usual,
            Some(n) if n < 0 => n.saturating_add(length).clamp(lowest, highest),
            Some(n) => n.clamp(lowest, highest),
        };
        let (mut at, end) = if step > 0 {
            (place(from, 0), place(to, length))
        } else {
            (place(from, length - 1), place(to, -1))
        };
        let mut found = Vec::new();
        while (step > 0 && at < end) || (step < 0 && at > end) {
            found.extend(usize::try_from(at).ok().and_then(|at| items.get(at).cloned()));
            at = at.saturating_add(step);
        }
        self.charge_memory(found.len() * size_of::<Val>())?;
        match of {
            Val::Str(_) => {
                let text = found.iter().map(Val::to_text).collect();
                self.text(text)
            }
            Val::Seq(seq) if seq.tuple => Val::tuple(found),
            _ => Val::list(found),
        }
    }
}
