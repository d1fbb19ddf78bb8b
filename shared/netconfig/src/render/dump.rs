//! YAML as the netplan file has it: block style, four columns a level, keys in order, lists at their key's column,
//! texts quoted only where they would read back as something else, long ones folded at column 80.

use config::{Map, Node, Value};

const STEP: usize = 4;
/// Where a line is folded at the next blank.
const WIDTH: usize = 80;

/// A value as a YAML document.
pub fn dump(node: &Node) -> String {
    let mut out = Out::default();
    match &node.value {
        Value::Map(map) if !map.is_empty() => out.map(map, 0),
        Value::Seq(items) if !items.is_empty() => out.list(items, 0),
        _ => {
            out.scalar(node, STEP, false);
            out.line();
        }
    }
    out.text
}

#[derive(Default)]
struct Out {
    text: String,
    /// Characters on the line at hand.
    column: usize,
}

impl Out {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    /// To that column: on this line if it isn't there yet.
    fn indent(&mut self, column: usize) {
        for _ in self.column..column {
            self.text.push(' ');
        }
        self.column = self.column.max(column);
    }

    fn map(&mut self, map: &Map, column: usize) {
        let mut entries: Vec<(&Node, &Node)> = map.iter().collect();
        entries.sort_by(|a, b| order(a.0, b.0));
        for (key, value) in entries {
            self.indent(column);
            self.scalar(key, column + STEP, true);
            self.put(":");
            match &value.value {
                Value::Map(inner) if !inner.is_empty() => {
                    self.line();
                    self.map(inner, column + STEP);
                }
                Value::Seq(items) if !items.is_empty() => {
                    self.line();
                    self.list(items, column);
                }
                _ => {
                    self.put(" ");
                    self.scalar(value, column + STEP, false);
                    self.line();
                }
            }
        }
    }

    fn list(&mut self, items: &[Node], column: usize) {
        for item in items {
            self.indent(column);
            self.put("-");
            match &item.value {
                Value::Map(inner) if !inner.is_empty() => self.map(inner, column + STEP),
                Value::Seq(inner) if !inner.is_empty() => self.list(inner, column + STEP),
                _ => {
                    self.put(" ");
                    self.scalar(item, column + STEP, false);
                    self.line();
                }
            }
        }
    }

    fn scalar(&mut self, node: &Node, column: usize, key: bool) {
        match &node.value {
            Value::Null => self.put("null"),
            Value::Bool(b) => self.put(if *b { "true" } else { "false" }),
            Value::Int(n) => self.put(&n.to_string()),
            Value::Float(f) => self.put(&float(*f)),
            Value::Str(text) => self.text_scalar(text, column, key),
            // Nothing in a network configuration is binary; what is all the same stays readable.
            Value::Bytes(bytes) => self.text_scalar(&String::from_utf8_lossy(bytes), column, key),
            Value::Seq(_) => self.put("[]"),
            Value::Map(_) => self.put("{}"),
        }
    }

    fn text_scalar(&mut self, text: &str, column: usize, key: bool) {
        let looks = Looks::of(text);
        if looks.plain && !reads_as_other(text) {
            self.folded(text, column, !key);
        } else if looks.single && !(key && text.contains('\n')) {
            self.put("'");
            self.folded(&text.replace('\'', "''"), column, !key);
            self.put("'");
        } else {
            self.double(text, column, !key);
        }
    }

    /// Words with single blanks between them may be broken beyond the width; a line break in the text is a blank
    /// line.
    fn folded(&mut self, text: &str, column: usize, fold: bool) {
        let chars: Vec<char> = text.chars().collect();
        let mut i = 0;
        while i < chars.len() {
            let run = |c: char| chars[i..].iter().take_while(|x| **x == c).count();
            match chars[i] {
                ' ' => {
                    let blanks = run(' ');
                    let inner = i > 0 && i + blanks < chars.len();
                    if blanks == 1 && fold && inner && self.column > WIDTH {
                        self.line();
                        self.indent(column);
                    } else {
                        self.put(&" ".repeat(blanks));
                    }
                    i += blanks;
                }
                '\n' => {
                    let breaks = run('\n');
                    for _ in 0..=breaks {
                        self.line();
                    }
                    self.indent(column);
                    i += breaks;
                }
                _ => {
                    let word = chars[i..].iter().take_while(|c| **c != ' ' && **c != '\n').count();
                    self.put(&chars[i..i + word].iter().collect::<String>());
                    i += word;
                }
            }
        }
    }

    fn double(&mut self, text: &str, column: usize, fold: bool) {
        let chars: Vec<char> = text.chars().collect();
        self.put("\"");
        // What was not written yet begins here; it is written when an escape, a fold or the end comes.
        let mut start = 0;
        for (i, c) in chars.iter().chain(std::iter::once(&'\0')).enumerate() {
            let end = i == chars.len();
            let plain = matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
            if end || !plain {
                if start < i {
                    self.put(&chars[start..i].iter().collect::<String>());
                    start = i;
                }
                if !end {
                    self.put(&escape(*c));
                    start = i + 1;
                }
            }
            let inner = i > 0 && i + 1 < chars.len();
            if inner && fold && (*c == ' ' || start >= i) && self.column + i.saturating_sub(start) > WIDTH {
                if start < i {
                    self.put(&chars[start..i].iter().collect::<String>());
                    start = i;
                }
                self.put("\\");
                self.line();
                self.indent(column);
                if chars.get(start) == Some(&' ') {
                    self.put("\\");
                }
            }
        }
        self.put("\"");
    }
}

/// By code point; numbers among keys by value.
fn order(a: &Node, b: &Node) -> std::cmp::Ordering {
    match (&a.value, &b.value) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        _ => a.scalar_text().cmp(&b.scalar_text()),
    }
}

fn float(f: f64) -> String {
    if f.is_nan() {
        return ".nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let text = Node::from(f).scalar_text().unwrap_or_default();
    // `1e+16` would read back as text in YAML 1.1.
    if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
}

fn escape(c: char) -> String {
    match c {
        '\0' => "\\0".into(),
        '\x07' => "\\a".into(),
        '\x08' => "\\b".into(),
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\x0b' => "\\v".into(),
        '\x0c' => "\\f".into(),
        '\r' => "\\r".into(),
        '\x1b' => "\\e".into(),
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{85}' => "\\N".into(),
        '\u{a0}' => "\\_".into(),
        '\u{2028}' => "\\L".into(),
        '\u{2029}' => "\\P".into(),
        c if (c as u32) < 0x100 => format!("\\x{:02X}", c as u32),
        c if (c as u32) < 0x10000 => format!("\\u{:04X}", c as u32),
        c => format!("\\U{:08X}", c as u32),
    }
}

/// In which styles a text can be written at all.
struct Looks {
    plain: bool,
    single: bool,
}

impl Looks {
    fn of(text: &str) -> Looks {
        let special = text.chars().any(|c| c != '\n' && !matches!(c, ' '..='~'));
        let blank_break = text.contains(" \n");
        let break_blank = text.contains("\n ");
        let edge = |c: Option<char>| matches!(c, Some(' ' | '\n'));
        let plain = !special
            && !text.contains('\n')
            && !edge(text.chars().next())
            && !edge(text.chars().last())
            && !has_indicator(text);
        Looks {
            plain,
            single: !special && !blank_break && !(break_blank && special) && !text.contains("\n "),
        }
    }
}

/// Whether a plain text would be taken for structure.
fn has_indicator(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut chars = text.chars();
    let blank_or_end = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\n' | '\t' | '\0'));
    if let Some(first) = chars.next() {
        let next = chars.clone().next();
        if "#,[]{}&*!|>'\"%@`".contains(first) || ("?:-".contains(first) && blank_or_end(next)) {
            return true;
        }
    }
    text.contains(" #") || text.contains(": ") || text.ends_with(':')
}

/// Whether a plain text would read back as a boolean, null, a number, a date or a merge key (YAML 1.1).
fn reads_as_other(text: &str) -> bool {
    const WORDS: [&str; 12] = ["", "~", "null", "true", "false", "yes", "no", "on", "off", "=", "<<", ".nan"];
    let lower = text.to_ascii_lowercase();
    let cased = text == lower || text == text.to_ascii_uppercase() || is_capitalised(text);
    if WORDS.contains(&lower.as_str()) && (cased || text == ".NaN") {
        return true;
    }
    is_int(text) || is_float(text) || is_date(text)
}

fn is_capitalised(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase()) && chars.all(|c| !c.is_ascii_uppercase())
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn all_of(text: &str, set: fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(set)
}

fn digit_or_bar(c: char) -> bool {
    c.is_ascii_digit() || c == '_'
}

fn is_int(text: &str) -> bool {
    let body = unsigned(text);
    if let Some(bits) = body.strip_prefix("0b") {
        return all_of(bits, |c| matches!(c, '0' | '1' | '_'));
    }
    if let Some(hex) = body.strip_prefix("0x") {
        return all_of(hex, |c| c.is_ascii_hexdigit() || c == '_');
    }
    if body.starts_with('0') && body.len() > 1 {
        return all_of(&body[1..], |c| matches!(c, '0'..='7' | '_'));
    }
    if !body.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let (head, tail) = body.split_once(':').unwrap_or((body, ""));
    all_of(head, digit_or_bar) && (!body.contains(':') || (!body.starts_with('0') && is_sixty(tail)))
}

/// `30:59:07`: parts of one or two digits, each below 60.
fn is_sixty(tail: &str) -> bool {
    tail.split(':').all(|part| {
        (1..=2).contains(&part.len())
            && part.chars().all(|c| c.is_ascii_digit())
            && part.parse().is_ok_and(|n: u8| n < 60)
    })
}

fn is_float(text: &str) -> bool {
    let body = unsigned(text);
    if matches!(body, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let Some((head, tail)) = body.split_once('.') else { return false };
    let (fraction, exponent) = match tail.split_once(['e', 'E']) {
        Some((fraction, exponent)) => (fraction, Some(exponent)),
        None => (tail, None),
    };
    // An exponent needs its sign.
    let exponent_ok =
        exponent.is_none_or(|e| e.starts_with(['-', '+']) && all_of(&e[1..], |c| c.is_ascii_digit()));
    let bars = fraction.chars().all(digit_or_bar);
    if head.is_empty() {
        return text == body && fraction.starts_with(|c: char| c.is_ascii_digit()) && bars && exponent_ok;
    }
    if !head.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    match head.split_once(':') {
        Some((hours, rest)) => all_of(hours, digit_or_bar) && is_sixty(rest) && bars && exponent.is_none(),
        None => all_of(head, digit_or_bar) && bars && exponent_ok,
    }
}

/// `2001-12-14`, or with a time of day behind it.
fn is_date(text: &str) -> bool {
    let digits =
        |s: &str, most: usize| (1..=most).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
    let (Some((year, rest)), true) = (text.split_once('-'), text.is_ascii()) else { return false };
    let Some((month, rest)) = rest.split_once('-') else { return false };
    if year.len() != 4 || !digits(year, 4) || !digits(month, 2) {
        return false;
    }
    let day_length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, rest) = rest.split_at(day_length);
    if rest.is_empty() {
        return month.len() == 2 && day.len() == 2;
    }
    if !digits(day, 2) {
        return false;
    }
    let time = rest.strip_prefix(['T', 't']).unwrap_or_else(|| rest.trim_start_matches([' ', '\t']));
    if time.len() == rest.len() {
        return false;
    }
    let parts: Vec<&str> = time.splitn(3, ':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let (whole, zone) = second.split_at(second.len().min(2));
    let zone = zone.strip_prefix('.').map_or(zone, |z| z.trim_start_matches(|c: char| c.is_ascii_digit()));
    let zone = zone.trim_start_matches([' ', '\t']);
    let offset = |z: &str| {
        let (hours, minutes) = z.split_once(':').unwrap_or((z, "00"));
        digits(hours, 2) && minutes.len() == 2 && digits(minutes, 2)
    };
    digits(hour, 2)
        && minute.len() == 2
        && digits(minute, 2)
        && whole.len() == 2
        && digits(whole, 2)
        && (zone.is_empty() || zone == "Z" || zone.strip_prefix(['-', '+']).is_some_and(offset))
}
