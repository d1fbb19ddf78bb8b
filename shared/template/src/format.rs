//! Python's formatting: `%` of a text, `str.format`, and numbers as text.

use crate::eval::{CallArgs, Interpreter};
use crate::operators::TOO_LARGE;
use crate::value::{Number, Val, ValueResult, number};

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
        let few = || "not enough arguments for format string".to_string();
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(before);
            let mut at = after;
            let mut named = None;
            if let Some((name, tail)) = at.strip_prefix('(').and_then(|a| a.split_once(')')) {
                let key = Val::text(name);
                named = match given {
                    Val::Map(map) => Some(map.get(&key).ok_or_else(|| format!("'{name}' is undefined"))?),
                    _ => return Err("format requires a mapping".into()),
                };
                at = tail;
            }
            let end = at.find(|c: char| !"#0- +".contains(c)).unwrap_or(at.len());
            let (flags, tail) = at.split_at(end);
            let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
            let (width, mut tail) = tail.split_at(end);
            let mut digits = None;
            if let Some(more) = tail.strip_prefix('.') {
                let end = more.find(|c: char| !c.is_ascii_digit()).unwrap_or(more.len());
                digits = Some(more[..end].parse::<usize>().unwrap_or(0));
                tail = &more[end..];
            }
            let kind = tail.chars().next().ok_or("a string ends within '%'")?;
            rest = &tail[kind.len_utf8()..];
            if kind == '%' {
                out.push('%');
                continue;
            }
            let value = named.or_else(|| values.next()).ok_or_else(few)?;
            let width: usize = width.parse().unwrap_or(0);
            self.charge_memory(width.saturating_add(digits.unwrap_or(0)))?;
            let shown = match kind {
                's' | 'r' => {
                    let mut text = self.text_of(&value)?.to_string();
                    if kind == 'r' {
                        text.clear();
                        value.write_repr(&mut text);
                    }
                    digits.map_or(text.clone(), |most| text.chars().take(most).collect())
                }
                'c' => match value {
                    Val::Int(n) => {
                        u32::try_from(n).ok().and_then(char::from_u32).map(String::from).ok_or(TOO_LARGE)?
                    }
                    other => self.text_of(&other)?.to_string(),
                },
                'd' | 'i' | 'u' | 'x' | 'X' | 'o' => match (number(&value), kind) {
                    (Some(Number::Int(n)), _) => integer_text(n, kind, flags.contains('#')),
                    (Some(Number::Float(f)), 'd' | 'i' | 'u') => integer_text(f.trunc() as i128, 'd', false),
                    _ => return Err(format!("'%{kind}' requires a number, not {}", value.type_name())),
                },
                'f' | 'F' | 'e' | 'E' | 'g' | 'G' => match number(&value) {
                    Some(n) => float_text(n.float(), kind, digits.unwrap_or(6))?,
                    None => return Err(format!("'%{kind}' requires a number, not {}", value.type_name())),
                },
                other => return Err(format!("unknown format '%{other}'")),
            };
            let numeric = !matches!(kind, 's' | 'r' | 'c');
            let plus = if numeric && !shown.starts_with('-') {
                if flags.contains('+') {
                    "+"
                } else if flags.contains(' ') {
                    " "
                } else {
                    ""
                }
            } else {
                ""
            };
            let shown = format!("{plus}{shown}");
            let fill = width.saturating_sub(shown.chars().count());
            if flags.contains('-') {
                out.push_str(&shown);
                out.push_str(&" ".repeat(fill));
            } else if flags.contains('0') && numeric {
                let signs = usize::from(shown.starts_with(['-', '+', ' ']));
                out.push_str(&shown[..signs]);
                out.push_str(&"0".repeat(fill));
                out.push_str(&shown[signs..]);
            } else {
                out.push_str(&" ".repeat(fill));
                out.push_str(&shown);
            }
        }
        out.push_str(rest);
        if values.next().is_some() && !matches!(given, Val::Map(_)) {
            return Err("a string is given more values than it asks for".into());
        }
        Ok(out)
    }

    /// Evaluates `text.format(…)`: `{}`, `{0}`, `{name}`, keys after these, and format specifications.
    pub fn str_format(&mut self, text: &str, args: &CallArgs) -> ValueResult<String> {
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
            let (field, tail) = rest
                .split_once('}')
                .filter(|_| brace == "{")
                .ok_or("a brace without its other one in 'format'")?;
            rest = tail;
            let (path, spec) = field.split_once(':').unwrap_or((field, ""));
            let (path, as_repr) = match path.strip_suffix("!r") {
                Some(path) => (path, true),
                None => (path.strip_suffix("!s").unwrap_or(path), false),
            };
            let end = path.find(['.', '[']).unwrap_or(path.len());
            let (first, mut keys) = path.split_at(end);
            let mut value = match first.parse::<usize>() {
                Ok(place) => args.values.get(place).cloned(),
                Err(_) if first.is_empty() => {
                    next += 1;
                    args.values.get(next - 1).cloned()
                }
                Err(_) => args.named.iter().find(|(n, _)| **n == *first).map(|(_, v)| v.clone()),
            }
            .ok_or("not enough arguments for 'format'")?;
            while !keys.is_empty() {
                if let Some(tail) = keys.strip_prefix('[') {
                    let (key, tail) = tail.split_once(']').ok_or("'[' without ']' in 'format'")?;
                    let key = key.parse().map_or_else(|_| Val::text(key), Val::Int);
                    value = self.item(&value, &key)?;
                    keys = tail;
                } else {
                    let tail =
                        keys.strip_prefix('.').ok_or("'.' or '[' are all that may follow ']' in 'format'")?;
                    let end = tail.find(['.', '[']).unwrap_or(tail.len());
                    value = self.attribute(&value, &tail[..end].into())?;
                    keys = &tail[end..];
                }
            }
            if as_repr {
                self.charge_walk(&value)?;
                let mut text = String::new();
                value.write_repr(&mut text);
                value = Val::Str(text.into());
            }
            let shown = self.apply_format_spec(&value, spec)?;
            self.charge_memory(shown.len())?;
            out.push_str(&shown);
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Formats a value by `[[fill]align][sign][#][0][width][,][.digits][kind]`.
    fn apply_format_spec(&mut self, value: &Val, spec: &str) -> ValueResult<String> {
        let chars: Vec<char> = spec.chars().take(64).collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^=".contains(*c));
        let (fill, align, mut at) = match (is_align(chars.get(1)), is_align(chars.first())) {
            (true, _) => (chars[0], Some(chars[1]), 2),
            (_, true) => (' ', Some(chars[0]), 1),
            _ => (' ', None, 0),
        };
        let flag = |wanted: char, at: &mut usize| {
            let there = chars.get(*at) == Some(&wanted);
            *at += usize::from(there);
            there
        };
        let plus = flag('+', &mut at);
        let _ = flag('-', &mut at);
        let prefix = flag('#', &mut at);
        let zero = flag('0', &mut at);
        let digits = |at: &mut usize| {
            let from = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            chars[from..*at].iter().collect::<String>().parse::<usize>().ok()
        };
        let width = digits(&mut at).unwrap_or(0);
        let grouped = chars.get(at) == Some(&',');
        at += usize::from(grouped);
        let precision = if chars.get(at) == Some(&'.') {
            at += 1;
            digits(&mut at)
        } else {
            None
        };
        let kind = chars.get(at).copied();
        self.charge_memory(width)?;
        let is_number = number(value).is_some() && !(matches!(value, Val::Bool(_)) && kind.is_none());
        let mut shown = match (number(value), kind) {
            (Some(Number::Int(n)), Some('d' | 'x' | 'X' | 'o' | 'b')) => {
                integer_text(n, kind.unwrap_or('d'), prefix)
            }
            (Some(n), Some(kind @ ('f' | 'F' | 'e' | 'E' | 'g' | 'G'))) => {
                float_text(n.float(), kind, precision.unwrap_or(6))?
            }
            (Some(n), Some('%')) => float_text(n.float() * 100.0, 'f', precision.unwrap_or(6))? + "%",
            (Some(Number::Float(f)), None) if precision.is_some() => {
                float_text(f, 'g', precision.unwrap_or(6))?
            }
            (_, None | Some('s')) if chars.len() <= at + 1 => match precision {
                Some(most) if !is_number => self.text_of(value)?.chars().take(most).collect(),
                _ => self.text_of(value)?.to_string(),
            },
            _ => return Err(format!("'format': invalid specification '{spec}' for {}", value.type_name())),
        };
        if grouped {
            let end = shown.find('.').unwrap_or(shown.len());
            let begin = usize::from(shown.starts_with('-'));
            for place in (begin + 1..end).rev().filter(|place| (end - place) % 3 == 0) {
                shown.insert(place, ',');
            }
        }
        if plus && is_number && !shown.starts_with('-') {
            shown.insert(0, '+');
        }
        let missing = width.saturating_sub(shown.chars().count());
        let pad = |count: usize, fill: char| fill.to_string().repeat(count);
        let zero = zero && is_number && align.is_none();
        Ok(match align.unwrap_or(if is_number { '>' } else { '<' }) {
            _ if zero => {
                let sign = usize::from(shown.starts_with(['-', '+']));
                format!("{}{}{}", &shown[..sign], pad(missing, '0'), &shown[sign..])
            }
            '>' | '=' => pad(missing, fill) + &shown,
            '^' => pad(missing / 2, fill) + &shown + &pad(missing - missing / 2, fill),
            _ => shown + &pad(missing, fill),
        })
    }
}

pub fn integer_text(n: i128, kind: char, prefix: bool) -> String {
    let sign = if n < 0 { "-" } else { "" };
    let n = n.unsigned_abs();
    match (kind, prefix) {
        ('x', false) => format!("{sign}{n:x}"),
        ('x', true) => format!("{sign}0x{n:x}"),
        ('X', false) => format!("{sign}{n:X}"),
        ('X', true) => format!("{sign}0X{n:X}"),
        ('o', false) => format!("{sign}{n:o}"),
        ('o', true) => format!("{sign}0o{n:o}"),
        ('b', false) => format!("{sign}{n:b}"),
        ('b', true) => format!("{sign}0b{n:b}"),
        _ => format!("{sign}{n}"),
    }
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
            let power: i32 = scale.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
            let plain = |text: String| match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
                false => text,
            };
            if power < -4 || power >= digits as i32 {
                let (digits, power) = scale.split_once('e').unwrap_or((&scale, "+00"));
                format!("{}e{power}", plain(digits.to_string()))
            } else {
                plain(format!("{f:.*}", (digits as i32 - 1 - power).max(0) as usize))
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
