//! Python's formatting: `%` of a string, `str.format`, and numbers as text.

use crate::args::{int, unsupported};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// The supported types of a specification.
const FORMATS: [&str; 6] = ["d", "f", "i", "s", "x", "X"];

/// How a value is formatted: `[[fill]align][+][0][width][.precision][kind]`.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    plus: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Removes the digits at the start of a string, and returns them as a number.
fn take_digits(rest: &mut &str) -> Option<usize> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at(end);
    *rest = tail;
    digits.parse().ok()
}

/// Removes a character at the start of a string if it is this one.
fn take(rest: &mut &str, wanted: char) -> bool {
    let tail = rest.strip_prefix(wanted);
    *rest = tail.unwrap_or(rest);
    tail.is_some()
}

impl Spec {
    /// Parses `[+][0][width][.precision][kind]` after the alignment. Returns also the rest of the text.
    fn parse_rest(mut self, mut rest: &str) -> (Spec, &str) {
        self.plus = take(&mut rest, '+');
        self.zeros = take(&mut rest, '0');
        self.width = take_digits(&mut rest).unwrap_or(0);
        if take(&mut rest, '.') {
            self.precision = Some(take_digits(&mut rest).unwrap_or(0));
        }
        let mut chars = rest.chars();
        self.kind = chars.next();
        (self, chars.as_str())
    }

    /// Parses what follows `%`.
    fn parse_printf(mut text: &str) -> (Spec, &str) {
        let align = if take(&mut text, '-') { '<' } else { '>' };
        Spec { align: Some(align), ..Spec::default() }.parse_rest(text)
    }

    /// Parses what follows the colon of a field.
    fn parse_format(text: &str) -> (Spec, &str) {
        let is_align = |c: &char| "<>^".contains(*c);
        let mut chars = text.chars();
        let first = chars.next();
        let after_first = chars.as_str();
        let (fill, align, rest) = match (chars.next().filter(is_align), first.filter(is_align)) {
            (Some(align), _) => (first, Some(align), chars.as_str()),
            (None, Some(align)) => (None, Some(align), after_first),
            (None, None) => (None, None, text),
        };
        Spec { fill, align, ..Spec::default() }.parse_rest(rest)
    }
}

impl Interpreter<'_> {
    fn formatted(&mut self, value: &Val, spec: &Spec) -> ValueResult<String> {
        self.charge_memory(spec.width)?;
        let number = value.number().map(|number| number.float());
        let is_number =
            number.is_some() && !matches!((value, spec.kind), (Val::Bool(_), None) | (_, Some('s')));
        let mut shown = match (spec.kind, number) {
            (None, Some(_)) if spec.precision.is_some() => {
                return Err("the precision of a number requires the format 'f'".into());
            }
            (None | Some('s'), _) => {
                let text = self.text_of(value)?;
                text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect()
            }
            (Some('d' | 'i'), Some(f)) => int(value).unwrap_or(f as i128).to_string(),
            (Some(kind @ ('x' | 'X')), Some(_)) => {
                let n = int(value)?;
                let digits = format!("{}{:x}", if n < 0 { "-" } else { "" }, n.unsigned_abs());
                if kind == 'X' { digits.to_uppercase() } else { digits }
            }
            (Some('f'), Some(f)) => float_text(f, spec.precision.unwrap_or(6))?,
            (Some(kind @ ('d' | 'i' | 'x' | 'X' | 'f')), None) => {
                return Err(value.operand_error(&format!("the format '{kind}' requires a number, found")));
            }
            (Some(kind), _) => return Err(unsupported("format", &kind.to_string(), FORMATS.into_iter())),
        };
        if is_number && spec.plus && !shown.starts_with('-') {
            shown.insert(0, '+');
        }
        let (fill, align) = match spec.align {
            Some('<') => (' ', '<'),
            _ if spec.zeros && is_number => ('0', '='),
            align => (' ', align.unwrap_or(if is_number { '>' } else { '<' })),
        };
        Ok(pad(&shown, spec.width, spec.fill.unwrap_or(fill), align))
    }

    /// Evaluates `text % values`.
    pub fn printf(&mut self, text: &str, given: &Val) -> ValueResult<String> {
        let mut values = match given {
            Val::Seq(seq) if seq.tuple => seq.items.borrow().clone(),
            other => vec![other.clone()],
        }
        .into_iter();
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, mut after)) = rest.split_once('%') {
            out.push_str(before);
            if let Some(tail) = after.strip_prefix('%') {
                out.push('%');
                rest = tail;
                continue;
            }
            let mut named = None;
            if let Some((name, tail)) = after.strip_prefix('(').and_then(|a| a.split_once(')')) {
                let Val::Map(map) = given else { return Err("format requires a mapping".into()) };
                named = Some(map.get(&Val::text(name)).ok_or_else(|| format!("'{name}' is undefined"))?);
                after = tail;
            }
            let (spec, tail) = Spec::parse_printf(after);
            rest = tail;
            if spec.kind.is_none() {
                return Err("a string ends within '%'".into());
            }
            let value = named.or_else(|| values.next()).ok_or("not enough arguments for format string")?;
            let shown = self.formatted(&value, &spec)?;
            self.charge_memory(shown.len())?;
            out.push_str(&shown);
        }
        out.push_str(rest);
        if values.next().is_some() && !matches!(given, Val::Map(_)) {
            return Err("more values than placeholders".into());
        }
        Ok(out)
    }

    /// Evaluates `text.format(…)`: `{}`, `{0}`, `{name}`, and these with a format specification.
    pub fn str_format(&mut self, text: &str, values: &Val, named: &Val) -> ValueResult<String> {
        let mut out = String::new();
        let mut next = 0;
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..at + 1];
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = tail;
                continue;
            }
            let (field, tail) =
                rest.split_once('}').filter(|_| brace == "{").ok_or("'format': unmatched brace")?;
            rest = tail;
            let (name, written) = field.split_once(':').unwrap_or((field, ""));
            if name.contains(['.', '[', '!']) {
                return Err("'format': expected a number or a name between braces".into());
            }
            let place = if name.is_empty() { Some(next) } else { name.parse::<usize>().ok() };
            next += usize::from(name.is_empty());
            let value = match (place, values, named) {
                (Some(place), Val::Seq(values), _) => values.items.borrow().get(place).cloned(),
                (None, _, Val::Map(named)) => named.get(&Val::text(name)),
                _ => None,
            };
            let value = value.ok_or("not enough arguments for 'format'")?;
            let (spec, left) = Spec::parse_format(written);
            if !left.is_empty() {
                return Err(
                    "'format': expected '[[fill]align][+][0][width][.precision][type]' after ':'".into()
                );
            }
            let shown = self.formatted(&value, &spec)?;
            self.charge_memory(shown.len())?;
            out.push_str(&shown);
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Pads a string to a width. `align` is `<`, `^`, `>`, or `=`, which pads after the sign.
pub fn pad(text: &str, width: usize, fill: char, align: char) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let left = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let fill = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    let (sign, rest) = text.split_at(usize::from(align == '=' && text.starts_with(['-', '+'])));
    [sign, &fill(left), rest, &fill(missing - left)].concat()
}

/// Returns a number with this many decimal places.
pub fn float_text(f: f64, digits: usize) -> ValueResult<String> {
    if digits > 1000 { Err("a number with too many digits".into()) } else { Ok(format!("{f:.digits$}")) }
}
