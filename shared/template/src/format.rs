//! Python's formatting: `%` of a string, `str.format`, and numbers as text.

use crate::eval::Interpreter;
use crate::value::{Number, TOO_LARGE, Val, ValueResult};

/// How a value is formatted: `[[fill]align][sign][#][0][width][,][.precision][kind]`.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    /// What precedes a number that is not negative.
    sign: &'static str,
    alternate: bool,
    zeros: bool,
    width: usize,
    grouped: bool,
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
    /// Parses what follows the `%` and a name in parentheses, up to the kind. Returns also the rest of the text.
    fn parse_printf(text: &str) -> ValueResult<(Spec, &str)> {
        let end = text.find(|c: char| !"#0- +".contains(c)).unwrap_or(text.len());
        let (flags, mut rest) = text.split_at(end);
        let mut spec = Spec {
            align: Some(if flags.contains('-') { '<' } else { '>' }),
            sign: ["+", " "].into_iter().find(|sign| flags.contains(sign)).unwrap_or_default(),
            alternate: flags.contains('#'),
            zeros: flags.contains('0') && !flags.contains('-'),
            width: take_digits(&mut rest).unwrap_or(0),
            ..Spec::default()
        };
        if take(&mut rest, '.') {
            spec.precision = Some(take_digits(&mut rest).unwrap_or(0));
        }
        let kind = rest.chars().next().ok_or("a string ends within '%'")?;
        spec.kind = Some(kind);
        Ok((spec, &rest[kind.len_utf8()..]))
    }

    /// Parses what follows the colon of a field. Returns also what is left, which is an error for most types.
    fn parse_format(text: &str) -> (Spec, &str) {
        let mut rest = text;
        let mut spec = Spec::default();
        let is_align = |c: &char| "<>^=".contains(*c);
        let mut chars = text.chars();
        let first = chars.next();
        if let Some(align) = chars.next().filter(is_align) {
            (spec.fill, spec.align, rest) = (first, Some(align), chars.as_str());
        } else if let Some(align) = first.filter(is_align) {
            (spec.align, rest) = (Some(align), &text[1..]);
        }
        spec.sign = if take(&mut rest, '+') { "+" } else { "" };
        take(&mut rest, '-');
        spec.alternate = take(&mut rest, '#');
        spec.zeros = take(&mut rest, '0') && spec.align.is_none();
        spec.width = take_digits(&mut rest).unwrap_or(0);
        spec.grouped = take(&mut rest, ',');
        if take(&mut rest, '.') {
            spec.precision = take_digits(&mut rest);
        }
        spec.kind = rest.chars().next();
        let left = &rest[spec.kind.map_or(0, char::len_utf8)..];
        (spec, left)
    }

    /// Returns a number by its kind, without sign and padding; `None` if the kind is not one of numbers.
    fn number(&self, number: Number, kind: char) -> ValueResult<Option<String>> {
        let precision = self.precision.unwrap_or(6);
        Ok(Some(match (number, kind) {
            (Number::Int(n), 'd' | 'x' | 'X' | 'o' | 'b') => {
                let sign = if n < 0 { "-" } else { "" };
                let prefix = if self.alternate && kind != 'd' { format!("0{kind}") } else { String::new() };
                let n = n.unsigned_abs();
                let digits = match kind {
                    'x' => format!("{n:x}"),
                    'X' => format!("{n:X}"),
                    'o' => format!("{n:o}"),
                    'b' => format!("{n:b}"),
                    _ => n.to_string(),
                };
                format!("{sign}{prefix}{digits}")
            }
            (n, 'f' | 'F' | 'e' | 'E' | 'g' | 'G') => float_text(n.float(), kind, precision)?,
            (n, '%') => float_text(n.float() * 100.0, 'f', precision)? + "%",
            _ => return Ok(None),
        }))
    }

    /// Adds the sign of a number, and pads.
    fn finish(&self, mut shown: String, is_number: bool) -> String {
        if is_number && !shown.starts_with('-') {
            shown.insert_str(0, self.sign);
        }
        if self.zeros && is_number {
            return pad(&shown, self.width, "0", '=');
        }
        let align = self.align.unwrap_or(if is_number { '>' } else { '<' });
        pad(&shown, self.width, &self.fill.unwrap_or(' ').to_string(), align)
    }
}

impl Interpreter<'_> {
    /// Evaluates `text % values`.
    pub fn printf(&mut self, text: &str, given: &Val) -> ValueResult<String> {
        let values = match given {
            Val::Seq(seq) if seq.tuple => seq.items.borrow().clone(),
            other => vec![other.clone()],
        };
        let mut values = values.into_iter();
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, mut after)) = rest.split_once('%') {
            out.push_str(before);
            let mut named = None;
            if let Some((name, tail)) = after.strip_prefix('(').and_then(|a| a.split_once(')')) {
                let Val::Map(map) = given else { return Err("format requires a mapping".into()) };
                named = Some(map.get(&Val::text(name)).ok_or_else(|| format!("'{name}' is undefined"))?);
                after = tail;
            }
            let (spec, tail) = Spec::parse_printf(after)?;
            rest = tail;
            let kind = match spec.kind {
                Some('i' | 'u') | None => 'd',
                Some(kind) => kind,
            };
            if kind == '%' {
                out.push('%');
                continue;
            }
            let value = named.or_else(|| values.next()).ok_or("not enough arguments for format string")?;
            self.charge_memory(spec.width.saturating_add(spec.precision.unwrap_or(0)))?;
            let is_number = !matches!(kind, 's' | 'r' | 'c');
            let shown = match (kind, value.number()) {
                ('c', _) if matches!(value, Val::Int(_)) => {
                    let code = crate::args::int(&value)?;
                    u32::try_from(code).ok().and_then(char::from_u32).map(String::from).ok_or(TOO_LARGE)?
                }
                ('s' | 'r' | 'c', _) => {
                    let text = self.text_of(&value)?;
                    let text = if kind == 'r' { value.repr(false) } else { text.to_string() };
                    match spec.precision {
                        Some(most) if kind != 'c' => text.chars().take(most).collect(),
                        _ => text,
                    }
                }
                ('d', Some(Number::Float(f))) => (f.trunc() as i128).to_string(),
                ('d' | 'x' | 'X' | 'o' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G', number) => {
                    let text = number.map_or(Ok(None), |number| spec.number(number, kind))?;
                    text.ok_or_else(|| format!("'%{kind}' requires a number, not {}", value.type_name()))?
                }
                _ => return Err(format!("unknown format '%{kind}'")),
            };
            out.push_str(&spec.finish(shown, is_number));
        }
        out.push_str(rest);
        if values.next().is_some() && !matches!(given, Val::Map(_)) {
            return Err("more values than placeholders".into());
        }
        Ok(out)
    }

    /// Evaluates `text.format(…)`: `{}`, `{0}`, `{name}`, keys after these, and format specifications.
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
            let (path, spec) = field.split_once(':').unwrap_or((field, ""));
            let (path, as_repr) = match path.strip_suffix("!r") {
                Some(path) => (path, true),
                None => (path.strip_suffix("!s").unwrap_or(path), false),
            };
            let end = path.find(['.', '[']).unwrap_or(path.len());
            let (first, keys) = path.split_at(end);
            let place = if first.is_empty() { Some(next) } else { first.parse::<usize>().ok() };
            next += usize::from(first.is_empty());
            let value = match (place, values, named) {
                (Some(place), Val::Seq(values), _) => values.items.borrow().get(place).cloned(),
                (None, _, Val::Map(named)) => named.get(&Val::text(first)),
                _ => None,
            };
            let mut value = self.field(value.ok_or("not enough arguments for 'format'")?, keys)?;
            if as_repr {
                self.charge_walk(&value)?;
                value = Val::Str(value.repr(false).into());
            }
            let shown = self.apply_format_spec(&value, spec)?;
            self.charge_memory(shown.len())?;
            out.push_str(&shown);
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Evaluates the keys of a field: `.name` and `[key]`.
    fn field(&mut self, mut value: Val, mut keys: &str) -> ValueResult<Val> {
        while !keys.is_empty() {
            if let Some(tail) = keys.strip_prefix('[') {
                let (key, tail) = tail.split_once(']').ok_or("'format': '[' without ']'")?;
                let key = key.parse().map_or_else(|_| Val::text(key), Val::Int);
                value = self.item(&value, &key)?;
                keys = tail;
            } else {
                let tail = keys.strip_prefix('.').ok_or("'format': expected '.' or '[' after ']'")?;
                let end = tail.find(['.', '[']).unwrap_or(tail.len());
                value = self.attribute(&value, &tail[..end].into())?;
                keys = &tail[end..];
            }
        }
        Ok(value)
    }

    fn apply_format_spec(&mut self, value: &Val, text: &str) -> ValueResult<String> {
        let (spec, left) = Spec::parse_format(text);
        self.charge_memory(spec.width)?;
        let number = value.number().filter(|_| spec.kind.is_some() || !matches!(value, Val::Bool(_)));
        let is_number = number.is_some();
        let kind = spec.kind.or(spec.precision.filter(|_| matches!(value, Val::Float(_))).map(|_| 'g'));
        let formatted = match (number, kind) {
            (Some(number), Some(kind)) => spec.number(number, kind)?,
            _ => None,
        };
        let mut shown = match (formatted, spec.kind) {
            (Some(shown), _) => shown,
            (None, None | Some('s')) if left.is_empty() => {
                let text = self.text_of(value)?;
                text.chars().take(spec.precision.filter(|_| !is_number).unwrap_or(usize::MAX)).collect()
            }
            _ => return Err(format!("'format': invalid specification '{text}' for {}", value.type_name())),
        };
        if spec.grouped {
            let end = shown.find('.').unwrap_or(shown.len());
            let begin = usize::from(shown.starts_with('-'));
            for place in (begin + 1..end).rev().filter(|place| (end - place) % 3 == 0) {
                shown.insert(place, ',');
            }
        }
        Ok(spec.finish(shown, is_number))
    }
}

/// Pads a string to a width. `align` is that of `str.format`, where `=` pads after the sign, or `c` for `str.center`.
pub fn pad(text: &str, width: usize, fill: &str, align: char) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let left = match align {
        '<' => 0,
        '^' => missing / 2,
        // If the width is odd, Python puts the odd blank on the left.
        'c' => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let (sign, rest) = text.split_at(usize::from(align == '=' && text.starts_with(['-', '+', ' '])));
    format!("{sign}{}{rest}{}", fill.repeat(left), fill.repeat(missing - left))
}

pub fn float_text(f: f64, kind: char, digits: usize) -> ValueResult<String> {
    if digits > 1000 {
        return Err("a number with too many digits".into());
    }
    let text = match kind {
        'f' | 'F' => format!("{f:.digits$}"),
        'e' | 'E' => exponent(f, digits),
        _ => {
            let digits = digits.max(1);
            let scale = exponent(f, digits - 1);
            let (mantissa, power) = scale.split_once('e').unwrap_or((&scale, "+00"));
            let number: i32 = power.parse().unwrap_or(0);
            let plain = |text: &str| match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
                false => text.to_string(),
            };
            if number < -4 || number >= digits as i32 {
                format!("{}e{power}", plain(mantissa))
            } else {
                plain(&format!("{f:.*}", (digits as i32 - 1 - number).max(0) as usize))
            }
        }
    };
    Ok(if kind.is_uppercase() { text.to_uppercase() } else { text })
}

/// Returns a number with a signed exponent of at least two digits, as in C.
fn exponent(f: f64, digits: usize) -> String {
    let text = format!("{f:.digits$e}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let power: i32 = power.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
        }
        None => text,
    }
}
