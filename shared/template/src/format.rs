//! Python's formatting: `%` of a string.

use crate::args::{int, unsupported};
use crate::eval::Interpreter;
use crate::value::{Val, ValueResult};

/// The supported types of a specification.
const FORMATS: [&str; 6] = ["d", "f", "i", "s", "x", "X"];

/// How a value is formatted: `[-][+][0][width][.precision]kind`.
struct Spec {
    left: bool,
    plus: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
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
    /// Parses what follows `%`. Returns also the rest of the text.
    fn parse(mut rest: &str) -> ValueResult<(Spec, &str)> {
        let (left, plus, zeros) = (take(&mut rest, '-'), take(&mut rest, '+'), take(&mut rest, '0'));
        let width = take_digits(&mut rest).unwrap_or(0);
        let precision = take(&mut rest, '.').then(|| take_digits(&mut rest).unwrap_or(0));
        let mut chars = rest.chars();
        let kind = chars.next().ok_or("a string ends within '%'")?;
        Ok((Spec { left, plus, zeros, width, precision, kind }, chars.as_str()))
    }
}

impl Interpreter<'_> {
    /// Appends a value.
    fn put_formatted(&mut self, value: &Val, spec: &Spec, out: &mut String) -> ValueResult<()> {
        let number = value.number().map(|number| number.float());
        let mut shown = match (spec.kind, number) {
            ('s', _) => {
                let text = self.text_of(value)?;
                self.charge_memory(text.len())?;
                text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect()
            }
            ('d' | 'i', Some(f)) => int(value).unwrap_or(f as i128).to_string(),
            (kind @ ('x' | 'X'), Some(_)) => {
                let n = int(value)?;
                let digits = format!("{}{:x}", if n < 0 { "-" } else { "" }, n.unsigned_abs());
                if kind == 'X' { digits.to_uppercase() } else { digits }
            }
            ('f', Some(f)) => match spec.precision.unwrap_or(6) {
                digits @ ..=1000 => format!("{f:.digits$}"),
                _ => return Err("a number with too many digits".into()),
            },
            (kind @ ('d' | 'i' | 'x' | 'X' | 'f'), None) => {
                return Err(value.operand_error(&format!("the format '{kind}' requires a number, found")));
            }
            (kind, _) => return Err(unsupported("format", &kind.to_string(), FORMATS.into_iter())),
        };
        let is_number = spec.kind != 's';
        if is_number && spec.plus && !shown.starts_with('-') {
            shown.insert(0, '+');
        }
        let missing = spec.width.saturating_sub(shown.chars().count());
        self.charge_memory(shown.len().saturating_add(missing))?;
        let with_zeros = is_number && spec.zeros && !spec.left;
        let sign = usize::from(with_zeros && shown.starts_with(['-', '+']));
        let padding = if with_zeros { "0" } else { " " }.repeat(missing);
        let place = if spec.left { shown.len() } else { sign };
        out.extend([&shown[..place], &padding, &shown[place..]]);
        Ok(())
    }

    /// Evaluates `text % values`.
    pub fn printf(&mut self, text: &str, given: &Val) -> ValueResult<Val> {
        let mut values = match given {
            Val::Seq(seq) if seq.tuple => self.items(given)?,
            other => vec![other.clone()],
        }
        .into_iter();
        self.charge_memory(text.len())?;
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
                let key = Val::text(name);
                self.charge_search(map, &key)?;
                named = Some(map.get(&key).ok_or_else(|| format!("'{name}' is undefined"))?);
                after = tail;
            }
            let (spec, tail) = Spec::parse(after)?;
            rest = tail;
            let value = named.or_else(|| values.next()).ok_or("not enough arguments for format string")?;
            self.put_formatted(&value, &spec, &mut out)?;
        }
        out.push_str(rest);
        if values.next().is_some() && !matches!(given, Val::Map(_)) {
            return Err("more values than placeholders".into());
        }
        Ok(Val::Str(out.into()))
    }
}
