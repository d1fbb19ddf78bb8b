//! Implicit types of YAML 1.1 as PyYAML's safe loader resolves them: the type of a plain scalar (`resolve`) and the value
//! of a scalar of a given type. Pure functions on text, without regular expressions.

use crate::Value;

/// The types of YAML 1.1, without the prefix `tag:yaml.org,2002:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Binary,
    Timestamp,
    Omap,
    Pairs,
    Set,
    Str,
    Seq,
    Map,
    /// A plain `<<`.
    Merge,
    /// A plain `=`.
    Value,
    /// An unsupported tag.
    Other,
}

impl Tag {
    pub fn from_name(name: &str) -> Tag {
        match name.strip_prefix("tag:yaml.org,2002:") {
            Some("null") => Tag::Null,
            Some("bool") => Tag::Bool,
            Some("int") => Tag::Int,
            Some("float") => Tag::Float,
            Some("binary") => Tag::Binary,
            Some("timestamp") => Tag::Timestamp,
            Some("omap") => Tag::Omap,
            Some("pairs") => Tag::Pairs,
            Some("set") => Tag::Set,
            Some("str") => Tag::Str,
            Some("seq") => Tag::Seq,
            Some("map") => Tag::Map,
            Some("merge") => Tag::Merge,
            Some("value") => Tag::Value,
            _ => Tag::Other,
        }
    }

    /// Returns the name of the type for messages.
    pub fn short_name(&self) -> &'static str {
        match self {
            Tag::Null => "!!null",
            Tag::Bool => "!!bool",
            Tag::Int => "!!int",
            Tag::Float => "!!float",
            Tag::Binary => "!!binary",
            Tag::Timestamp => "!!timestamp",
            Tag::Omap => "!!omap",
            Tag::Pairs => "!!pairs",
            Tag::Set => "!!set",
            Tag::Str => "!!str",
            Tag::Seq => "!!seq",
            Tag::Map => "!!map",
            Tag::Merge => "<<",
            Tag::Value => "=",
            Tag::Other => "unsupported tag",
        }
    }
}

/// Returns the type of a plain scalar. The first character selects the candidates.
pub(super) fn resolve(text: &str) -> Tag {
    let Some(first) = text.bytes().next() else { return Tag::Null };
    match first {
        b'~' if text == "~" => Tag::Null,
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => Tag::Null,
        b'=' if text == "=" => Tag::Value,
        b'<' if text == "<<" => Tag::Merge,
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' if is_bool(text) => Tag::Bool,
        b'-' | b'+' | b'.' | b'0'..=b'9' => resolve_number(text),
        _ => Tag::Str,
    }
}

/// Returns whether text is a boolean in lower case, in upper case or capitalized; mixed case does not match.
fn is_bool(text: &str) -> bool {
    let known = ["yes", "no", "true", "false", "on", "off"].iter().any(|w| text.eq_ignore_ascii_case(w));
    let rest = &text.as_bytes()[1..];
    let first_is_lower = text.as_bytes()[0].is_ascii_lowercase();
    known
        && (rest.iter().all(u8::is_ascii_lowercase)
            || (!first_is_lower && rest.iter().all(u8::is_ascii_uppercase)))
}

fn resolve_number(text: &str) -> Tag {
    let bytes = text.as_bytes();
    if is_float(bytes) {
        Tag::Float
    } else if is_int(bytes) {
        Tag::Int
    } else if timestamp(text, false).is_some() {
        Tag::Timestamp
    } else {
        Tag::Str
    }
}

fn strip_sign(bytes: &[u8]) -> &[u8] {
    match bytes.first() {
        Some(b'-' | b'+') => &bytes[1..],
        _ => bytes,
    }
}

/// Returns the number of bytes at the beginning that satisfy `predicate`.
fn prefix_length(bytes: &[u8], predicate: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !predicate(*b)).unwrap_or(bytes.len())
}

fn is_digit_or_underscore(b: u8) -> bool {
    b.is_ascii_digit() || b == b'_'
}

/// Returns the length of a number in decimal digits and underscores, which begins with a digit.
fn digits(bytes: &[u8]) -> usize {
    if bytes.first().is_some_and(u8::is_ascii_digit) {
        prefix_length(bytes, is_digit_or_underscore)
    } else {
        0
    }
}

/// Returns the length of one or more `:n` or `:nn` below 60.
fn sexagesimal_length(bytes: &[u8]) -> usize {
    let mut end = 0;
    while bytes.get(end) == Some(&b':') {
        match (bytes.get(end + 1), bytes.get(end + 2)) {
            (Some(b'0'..=b'5'), Some(b'0'..=b'9')) => end += 3,
            (Some(b'0'..=b'9'), _) => end += 2,
            _ => break,
        }
    }
    end
}

/// Returns whether text is empty or an exponent with a sign.
fn exponent_or_end(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b'e' | b'E', b'-' | b'+', rest @ ..] => !rest.is_empty() && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_float(bytes: &[u8]) -> bool {
    let rest = strip_sign(bytes);
    let signed = rest.len() != bytes.len();
    match rest {
        b".inf" | b".Inf" | b".INF" => return true,
        b".nan" | b".NaN" | b".NAN" => return !signed,
        [b'.', fraction @ ..] => {
            // PyYAML accepts no sign here: `-.5` is text.
            let length = digits(fraction);
            return !signed && length > 0 && exponent_or_end(&fraction[length..]);
        }
        _ => {}
    }
    let whole = digits(rest);
    if whole == 0 {
        return false;
    }
    let sexagesimal = sexagesimal_length(&rest[whole..]);
    let Some((b'.', fraction)) = rest[whole + sexagesimal..].split_first() else { return false };
    let after = &fraction[prefix_length(fraction, is_digit_or_underscore)..];
    if sexagesimal > 0 { after.is_empty() } else { exponent_or_end(after) }
}

fn is_int(bytes: &[u8]) -> bool {
    match strip_sign(bytes) {
        b"0" => true,
        [b'0', b'b', rest @ ..] => !rest.is_empty() && rest.iter().all(|b| matches!(b, b'0' | b'1' | b'_')),
        [b'0', b'x', rest @ ..] => {
            !rest.is_empty() && rest.iter().all(|b| b.is_ascii_hexdigit() || *b == b'_')
        }
        [b'0', rest @ ..] => rest.iter().all(|b| matches!(b, b'0'..=b'7' | b'_')),
        rest @ [b'1'..=b'9', ..] => {
            let whole = digits(rest);
            whole + sexagesimal_length(&rest[whole..]) == rest.len()
        }
        _ => false,
    }
}

/// Parses a date, or a date and time. Returns `None` for another form, else whether that day and time exist.
/// `alone`: a tag names the type, which allows a month and day of one digit without a time.
fn timestamp(text: &str, alone: bool) -> Option<bool> {
    let mut rest = Cursor(text.as_bytes());
    let year = rest.number(4, 4)?;
    rest.byte(b'-')?;
    let from = rest.0.len();
    let month = rest.number(1, 2)?;
    rest.byte(b'-')?;
    let day = rest.number(1, 2)?;
    let short = from - rest.0.len() < 5;
    let month_days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let date_exists = year > 0 && (1..=12).contains(&month) && (1..=month_days).contains(&day);
    if rest.0.is_empty() {
        return (alone || !short).then_some(date_exists);
    }
    if rest.byte(b'T').or_else(|| rest.byte(b't')).is_none() && rest.blanks() == 0 {
        return None;
    }
    let hour = rest.number(1, 2)?;
    rest.byte(b':')?;
    let minute = rest.number(2, 2)?;
    rest.byte(b':')?;
    let second = rest.number(2, 2)?;
    if rest.byte(b'.').is_some() {
        rest.0 = &rest.0[prefix_length(rest.0, |b| b.is_ascii_digit())..];
    }
    let mut zone_exists = true;
    if !rest.0.is_empty() {
        rest.blanks();
        if rest.byte(b'Z').is_none() {
            rest.byte(b'-').or_else(|| rest.byte(b'+'))?;
            let hours = rest.number(1, 2)?;
            let minutes = if rest.byte(b':').is_some() { rest.number(2, 2)? } else { 0 };
            zone_exists = hours * 60 + minutes < 24 * 60;
        }
    }
    rest.0.is_empty().then_some(date_exists && zone_exists && hour < 24 && minute < 60 && second < 60)
}

/// Consumes a string from its start.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn byte(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == wanted).then(|| self.0 = rest)
    }

    fn blanks(&mut self) -> usize {
        let length = prefix_length(self.0, |b| b == b' ' || b == b'\t');
        self.0 = &self.0[length..];
        length
    }

    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let length = prefix_length(self.0, |b| b.is_ascii_digit()).min(most);
        if length < least {
            return None;
        }
        let (number, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(number.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')))
    }
}

/// Returns the value of a scalar with this tag.
///
/// # Errors
/// Fails if the text is not valid for the tag; the message states what was expected.
pub(super) fn construct(tag: &Tag, text: String) -> Result<Value, String> {
    let type_error = |what: &str| Err(format!("{} expects {what}", tag.short_name()));
    Ok(match tag {
        Tag::Null => Value::Null,
        Tag::Str => Value::Str(text),
        Tag::Bool => match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" => Value::Bool(true),
            "no" | "false" | "off" => Value::Bool(false),
            _ => return type_error("yes, no, true, false, on or off"),
        },
        Tag::Int => match parse_int(&text) {
            Some(Some(n)) => Value::Int(n),
            Some(None) => Value::Str(text),
            None => return type_error("an integer"),
        },
        Tag::Float => match parse_float(&text) {
            Some(f) => Value::Float(f),
            None => return type_error("a number"),
        },
        Tag::Binary => Value::Bytes(decode_binary(&text)?),
        Tag::Timestamp => match timestamp(&text, true) {
            Some(true) => Value::Str(text),
            Some(false) => return Err("invalid date or time; quote it if it is a string".into()),
            None => return type_error("a date such as 2024-12-31, or one with a time"),
        },
        Tag::Seq | Tag::Omap | Tag::Pairs => return type_error("a list, found a scalar"),
        Tag::Map | Tag::Set => return type_error("a map, found a scalar"),
        Tag::Merge => return Err("'<<' is not a value; quote it if it is a string".into()),
        Tag::Value => return Err("'=' is not a value; quote it if it is a string".into()),
        Tag::Other => return Err(UNKNOWN_TAG.into()),
    })
}

/// Without the tag, which is a part of a value if the quotes of a string are missing.
pub(super) const UNKNOWN_TAG: &str = "unsupported tag; quote a string that starts with '!'";

/// Parses an integer; `Some(None)`: it does not fit in an `i128`.
fn parse_int(text: &str) -> Option<Option<i128>> {
    if text.starts_with(|first: char| ('1'..='9').contains(&first))
        && let Ok(number) = text.parse::<u64>()
    {
        return Some(Some(number.into()));
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain.as_str()),
    };
    let magnitude = if let Some(bits) = digits.strip_prefix("0b") {
        parse_radix(bits, 2)?
    } else if let Some(hex) = digits.strip_prefix("0x") {
        parse_radix(hex, 16)?
    } else if digits.starts_with('0') {
        // Octal in YAML 1.1: `012` is 10.
        parse_radix(digits, 8)?
    } else if digits.contains(':') {
        let mut sum = Some(0i128);
        for part in digits.split(':') {
            let part = parse_radix(part, 10)?;
            sum = sum.and_then(|s| s.checked_mul(60)?.checked_add(part?));
        }
        sum
    } else {
        parse_radix(digits, 10)?
    };
    Some(magnitude.map(|n| if negative { -n } else { n }))
}

/// Parses like Python's `int(text, base)`, which accepts surrounding whitespace, a sign, and the prefix of the base.
/// `None`: not a number in that base; `Some(None)`: it does not fit in an `i128`.
fn parse_radix(text: &str, base: u32) -> Option<Option<i128>> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let letter = match base {
        2 => 'b',
        8 => 'o',
        16 => 'x',
        _ => '0',
    };
    let prefixed =
        digits.strip_prefix('0').and_then(|rest| rest.strip_prefix([letter, letter.to_ascii_uppercase()]));
    let digits = prefixed.filter(|_| base != 10).unwrap_or(digits);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    Some(i128::from_str_radix(digits, base).ok().map(|n| if negative { -n } else { n }))
}

fn parse_float(text: &str) -> Option<f64> {
    let plain: String = text.trim().chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    let (sign, magnitude) = match plain.as_bytes().first()? {
        b'-' => (-1.0, &plain[1..]),
        b'+' => (1.0, &plain[1..]),
        _ => (1.0, plain.as_str()),
    };
    let magnitude = match magnitude {
        ".inf" => f64::INFINITY,
        ".nan" => return Some(f64::NAN),
        _ if magnitude.contains(':') => {
            // Summed from the least significant part with growing weights, to round as Python's sum does.
            let mut weight = 1.0;
            let mut sum = 0.0;
            for part in magnitude.rsplit(':') {
                sum += encoding::float::parse(part)? * weight;
                weight *= 60.0;
            }
            sum
        }
        _ => encoding::float::parse(magnitude.trim())?,
    };
    Some(sign * magnitude)
}

/// Decodes base64 like Python's `decodebytes`: other characters are skipped, and data ends at the padding.
fn decode_binary(text: &str) -> Result<Vec<u8>, String> {
    if !text.is_ascii() {
        return Err("!!binary expects base64, found non-ASCII characters".into());
    }
    let decoded = encoding::base64::decode_like_python(text.as_bytes());
    decoded.ok_or_else(|| "!!binary expects base64, found truncated data".into())
}
