//! Python's operators on a template's values: arithmetic, comparisons, keys and slices.

use std::rc::Rc;

use crate::args::int;
use crate::eval::Interpreter;
use crate::functions::{loop_attribute, steps};
use crate::value::{Number, TOO_LARGE, Val, ValueResult, order, resolve_index, undefined_error};

fn integer_op(sign: &str, a: i128, b: i128) -> ValueResult<Val> {
    let found = match sign {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" | "//" | "%" if b == 0 => return Err("a division by zero".into()),
        "/" => return Ok(Val::Float(a as f64 / b as f64)),
        "//" => {
            a.checked_div(b).map(|q| if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
        }
        _ => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
    };
    found.map(Val::Int).ok_or_else(|| TOO_LARGE.into())
}

fn float_op(sign: &str, a: f64, b: f64) -> ValueResult<Val> {
    Ok(Val::Float(match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" | "//" | "%" if b == 0.0 => return Err("a division by zero".into()),
        "/" => a / b,
        "//" => (a / b).floor(),
        _ => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
    }))
}

impl Val {
    /// Returns the value after `-`.
    pub fn negative(&self) -> ValueResult<Val> {
        match self.number() {
            Some(Number::Int(n)) => Ok(Val::Int(n.checked_neg().ok_or(TOO_LARGE)?)),
            Some(Number::Float(f)) => Ok(Val::Float(-f)),
            None => Err(self.operand_error("'-' before")),
        }
    }
}

impl Interpreter<'_> {
    pub fn operate(&mut self, sign: &str, a: &Val, b: &Val) -> ValueResult<Val> {
        match (sign, a, b) {
            ("-", Val::Undefined(Some(a)), _) => {
                let b = match b {
                    Val::Undefined(name) => name.as_deref().unwrap_or("None").into(),
                    other => self.text_of(other)?,
                };
                Err(format!("'{a}-{b}' subtracts from an undefined variable; did you mean '{a}_{b}'?"))
            }
            ("~", ..) => {
                let (a, b) = (self.text_of(a)?, self.text_of(b)?);
                self.concat(&a, &b)
            }
            ("%", Val::Str(text), _) => self.printf(text, b),
            (_, Val::Undefined(name), _) | (_, _, Val::Undefined(name)) => Err(undefined_error(name)),
            ("+", Val::Str(a), Val::Str(b)) => self.concat(a, b),
            ("+", Val::Seq(x), Val::Seq(y)) if x.tuple == y.tuple => {
                let (a, b) = (x.items.borrow(), y.items.borrow());
                self.charge_items(a.len() + b.len())?;
                Val::seq([&**a, &**b].concat(), x.tuple)
            }
            ("*", Val::Str(text), times) | ("*", times, Val::Str(text)) => {
                let times = usize::try_from(int(times)?.max(0)).map_err(|_| TOO_LARGE)?;
                self.text(text.len().saturating_mul(times), || text.repeat(times))
            }
            _ => match (a.number(), b.number()) {
                (Some(Number::Int(a)), Some(Number::Int(b))) => integer_op(sign, a, b),
                (Some(a), Some(b)) => float_op(sign, a.float(), b.float()),
                _ => Err(format!("'{sign}' of {} and {}", a.type_name(), b.type_name())),
            },
        }
    }

    pub fn compare(&mut self, sign: &str, left: &Val, right: &Val) -> ValueResult<bool> {
        let steps = self.charge_comparison(left)?;
        self.consume_fuel(steps)?;
        Ok(match sign {
            "==" => left == right,
            "!=" => left != right,
            "<" => order(left, right)?.is_lt(),
            ">=" => order(left, right)?.is_ge(),
            ">" => order(left, right)?.is_gt(),
            "<=" => order(left, right)?.is_le(),
            "in" => self.contains(right, left)?,
            _ => !self.contains(right, left)?,
        })
    }

    fn contains(&mut self, within: &Val, value: &Val) -> ValueResult<bool> {
        match (within, value) {
            (Val::Str(text), Val::Str(part)) => {
                self.consume_fuel(text.len() / 64)?;
                Ok(text.contains(&**part))
            }
            (Val::Str(_), other) => Err(other.operand_error("'in' a string of")),
            (Val::Seq(seq), _) => {
                let items = seq.items.borrow();
                let each = self.charge_comparison(value)?;
                self.consume_fuel(items.len().saturating_mul(each))?;
                Ok(items.contains(value))
            }
            (Val::Map(map), _) => {
                self.charge_search(map, value)?;
                Ok(map.get(value).is_some())
            }
            (Val::Undefined(_), _) => Ok(false),
            (other, _) => Err(format!("'in' of {}", other.type_name())),
        }
    }

    /// Evaluates `of.name`.
    pub fn attribute(&mut self, of: &Val, name: &Rc<str>) -> ValueResult<Val> {
        let found = match of {
            Val::Undefined(of) => return Err(undefined_error(of)),
            Val::Map(map) => {
                let key = Val::Str(name.clone());
                self.charge_search(map, &key)?;
                map.get(&key)
            }
            Val::Loop(items, at) => loop_attribute(items, *at, name),
            _ => None,
        };
        Ok(found.unwrap_or_else(|| Val::undefined(name)))
    }

    /// Evaluates `of[key]`.
    pub fn item(&mut self, of: &Val, key: &Val) -> ValueResult<Val> {
        if let Val::Str(name) = key {
            return self.attribute(of, name);
        }
        self.consume_fuel(1)?;
        let shown = if key.depth() == 0 { self.text_of(key)? } else { "key".into() };
        let place = |length: usize| resolve_index(int(key).ok()?, length);
        let found = match of {
            Val::Undefined(of) => return Err(undefined_error(of)),
            Val::Map(map) => {
                self.charge_search(map, key)?;
                map.get(key)
            }
            Val::Seq(seq) => {
                let items = seq.items.borrow();
                place(items.len()).map(|at| items[at].clone())
            }
            Val::Str(text) => {
                // The characters of other text than ASCII are counted one by one.
                self.consume_fuel(if text.is_ascii() { text.len() / 16 } else { text.len() })?;
                let at = place(text.chars().count()).and_then(|at| text.chars().nth(at));
                at.map(|c| Val::text(c.encode_utf8(&mut [0; 4])))
            }
            _ => None,
        };
        Ok(found.unwrap_or_else(|| Val::undefined(&shown)))
    }

    pub fn slice(&mut self, of: &Val, bounds: [Option<i128>; 3]) -> ValueResult<Val> {
        let items = match of {
            Val::Seq(_) | Val::Str(_) => self.items(of)?,
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
        let place = |given: Option<i128>, default: i128| match given {
            None => default,
            Some(n) if n < 0 => n.saturating_add(length).clamp(lowest, highest),
            Some(n) => n.clamp(lowest, highest),
        };
        let (first, end) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
        let places = steps(place(from, first), place(to, end), step);
        let found: Vec<Val> = places.filter_map(|at| items.get(usize::try_from(at).ok()?).cloned()).collect();
        match of {
            Val::Seq(seq) => self.seq(found, seq.tuple),
            _ => self.text(found.len() * 4, || found.iter().map(Val::to_text).collect()),
        }
    }
}
