//! Values written as YAML in PyYAML's block style, so that files look as upstream's do: four columns a level,
//! lists at their key's column, text quoted only where it would read back as something else, long text folded
//! beyond column 80, keys sorted where they can be compared.

use super::scalar::{Tag, resolve};
use crate::{Map, Node, Value};

const STEP: usize = 4;
/// Where a line is folded at the next blank.
const WIDTH: usize = 80;
/// A longer key is written in the `? key` form.
const LONGEST_SIMPLE_KEY: usize = 127;
/// What ends a line in YAML 1.1.
const BREAKS: [char; 4] = ['\n', '\u{85}', '\u{2028}', '\u{2029}'];

/// A value as YAML, ending with a newline.
pub fn dump(node: &Node) -> String {
    let mut out = Out::default();
    out.root(node);
    out.text
}

/// A value as a whole document, between `---` and `...`.
pub fn document(node: &Node) -> String {
    let mut out = Out::default();
    out.put("---");
    if is_block(node) {
        out.line();
    } else {
        out.put(" ");
    }
    out.root(node);
    out.text + "...\n"
}

/// Whether it takes lines of its own: a map or list that is not empty.
fn is_block(node: &Node) -> bool {
    match &node.value {
        Value::Map(map) => !map.is_empty(),
        Value::Seq(items) => !items.is_empty(),
        _ => false,
    }
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

    /// On to that column.
    fn indent(&mut self, column: usize) {
        while self.column < column {
            self.put(" ");
        }
    }

    fn root(&mut self, node: &Node) {
        match &node.value {
            Value::Map(map) if !map.is_empty() => self.map(map, 0),
            Value::Seq(items) if !items.is_empty() => self.list(items, 0),
            _ => {
                self.scalar(node, STEP, true);
                self.line();
            }
        }
    }

    fn map(&mut self, map: &Map, column: usize) {
        for (key, value) in sorted(map) {
            self.indent(column);
            if is_simple_key(key) {
                self.scalar(key, column + STEP, false);
                self.put(":");
            } else {
                self.put("?");
                self.item(key, column);
                self.indent(column);
                self.put(":");
                self.item(value, column);
                continue;
            }
            match &value.value {
                Value::Map(inner) if !inner.is_empty() => {
                    self.line();
                    self.map(inner, column + STEP);
                }
                Value::Seq(items) if !items.is_empty() => {
                    self.line();
                    self.list(items, column);
                }
                _ => self.item(value, column),
            }
        }
    }

    fn list(&mut self, items: &[Node], column: usize) {
        for item in items {
            self.indent(column);
            self.put("-");
            self.item(item, column);
        }
    }

    /// What follows a `-`, `?` or `:` that stands at `column`, to the line's end.
    fn item(&mut self, node: &Node, column: usize) {
        match &node.value {
            Value::Map(inner) if !inner.is_empty() => self.map(inner, column + STEP),
            Value::Seq(inner) if !inner.is_empty() => self.list(inner, column + STEP),
            _ => {
                self.put(" ");
                self.scalar(node, column + STEP, true);
                self.line();
            }
        }
    }

    fn scalar(&mut self, node: &Node, column: usize, fold: bool) {
        match &node.value {
            Value::Null => self.put("null"),
            Value::Bool(b) => self.put(if *b { "true" } else { "false" }),
            Value::Int(n) => self.put(&n.to_string()),
            Value::Float(f) => self.put(&float(*f)),
            Value::Str(text) => self.string(text, column, fold),
            Value::Bytes(bytes) => {
                self.put("!!binary ");
                self.put(if bytes.is_empty() { "\"\"" } else { "|" });
                self.base64(bytes, column);
            }
            Value::Seq(_) => self.put("[]"),
            Value::Map(_) => self.put("{}"),
        }
    }

    fn base64(&mut self, bytes: &[u8], column: usize) {
        for line in bytes.chunks(57) {
            self.line();
            self.indent(column);
            self.put(&encoding::base64::encode(line));
        }
    }

    fn string(&mut self, text: &str, column: usize, fold: bool) {
        let shape = Shape::of(text);
        if shape.plain && resolve(text) == Tag::Str {
            self.folded(text, column, fold);
        } else if shape.single && (fold || !text.contains('\n')) {
            self.put("'");
            self.folded(&text.replace('\'', "''"), column, fold);
            self.put("'");
        } else {
            self.double(text, column, fold);
        }
    }

    /// A single blank beyond the width may become a line end; a line end of the text is an empty line.
    fn folded(&mut self, text: &str, column: usize, fold: bool) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = match first {
                ' ' | '\n' => rest.find(|c| c != first),
                _ => rest.find([' ', '\n']),
            };
            let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
            let inner = rest.len() < text.len() && !after.is_empty();
            match first {
                ' ' if run.len() == 1 && fold && inner && self.column > WIDTH => {
                    self.line();
                    self.indent(column);
                }
                '\n' => {
                    self.line();
                    run.chars().for_each(|_| self.line());
                    self.indent(column);
                }
                _ => self.put(run),
            }
            rest = after;
        }
    }

    /// With escapes for whatever is not printable ASCII; folded between a `\` and a line end.
    fn double(&mut self, text: &str, column: usize, fold: bool) {
        let chars: Vec<char> = text.chars().collect();
        self.put("\"");
        // Where what is not written yet begins.
        let mut start = 0;
        for i in 0..=chars.len() {
            let escaped = chars.get(i).is_none_or(|c| !matches!(c, ' '..='~') || matches!(c, '"' | '\\'));
            if escaped {
                self.put(&chars[start..i].iter().collect::<String>());
                start = i;
                if let Some(c) = chars.get(i) {
                    self.put(&escape(*c));
                    start = i + 1;
                }
            }
            let inner = i > 0 && i + 1 < chars.len();
            let here = chars.get(i) == Some(&' ') || start >= i;
            if inner && fold && here && self.column + i.saturating_sub(start) > WIDTH {
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

/// By text or by number; a map with keys of several sorts stays as it is, as Python cannot compare them.
fn sorted(map: &Map) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<(&Node, &Node)> = map.iter().collect();
    let number = |key: &Node| match key.value {
        Value::Bool(b) => Some(f64::from(u8::from(b))),
        Value::Int(n) => Some(n as f64),
        Value::Float(f) => Some(f),
        _ => None,
    };
    if entries.iter().all(|(key, _)| key.as_str().is_some()) {
        entries.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
    } else if entries.iter().all(|(key, _)| number(key).is_some()) {
        entries
            .sort_by(|(a, _), (b, _)| number(a).partial_cmp(&number(b)).unwrap_or(std::cmp::Ordering::Equal));
    }
    entries
}

fn is_simple_key(key: &Node) -> bool {
    match &key.value {
        Value::Str(text) => !text.is_empty() && !text.contains(BREAKS) && text.len() <= LONGEST_SIMPLE_KEY,
        Value::Bytes(_) => false,
        _ => !is_block(key),
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
    let letter = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            return match u32::from(c) {
                code @ ..0x100 => format!("\\x{code:02X}"),
                code @ ..0x10000 => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{letter}")
}

/// In which styles a text can be written; double quotes take any.
struct Shape {
    plain: bool,
    single: bool,
}

impl Shape {
    fn of(text: &str) -> Shape {
        let special = text.chars().any(|c| c != '\n' && !matches!(c, ' '..='~'));
        let single = !special && !text.contains(" \n") && !text.contains("\n ");
        let edge = text.starts_with(' ') || text.ends_with(' ');
        Shape {
            plain: single && !edge && !text.is_empty() && !text.contains('\n') && !is_structure(text),
            single,
        }
    }
}

/// Whether it would be taken for structure without quotes.
fn is_structure(text: &str) -> bool {
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    let before_blank = second.is_none_or(|c| c == ' ');
    text.starts_with("---")
        || text.starts_with("...")
        || first.is_some_and(|c| "#,[]{}&*!|>'\"%@`".contains(c) || ("?:-".contains(c) && before_blank))
        || text.contains(" #")
        || text.contains(": ")
        || text.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse;

    /// Written as PyYAML 6.0 does: `yaml.safe_dump(value, indent=4)` of the same value.
    #[test]
    fn as_pyyaml_writes() {
        for (flow, expected) in [
            (
                "{b: {c: [1, 2], d: x}, a: [[1, 2], [3], {e: 1, f: []}]}",
                "a:\n-   - 1\n    - 2\n-   - 3\n-   e: 1\n    f: []\nb:\n    c:\n    - 1\n    - 2\n    d: x\n",
            ),
            ("[]", "[]\n"),
            ("{}", "{}\n"),
            ("null", "null\n"),
            (
                "{a: null, b: true, c: 'yes', d: '1', e: 1.5, f: 1e+20, g: '', h: '0x1f', i: '2001-01-01'}",
                "a: null\nb: true\nc: 'yes'\nd: '1'\ne: 1.5\nf: 1e+20\ng: ''\nh: '0x1f'\ni: '2001-01-01'\n",
            ),
            ("{a: 1.0e+20, b: .inf, c: -.inf, d: .nan}", "a: 1.0e+20\nb: .inf\nc: -.inf\nd: .nan\n"),
            (
                r#"["- a", "-a", "a: b", "a:b", "a #", "a#", "it's", "'", "@x", "a'b: c", "?", "---", "x:"]"#,
                "- '- a'\n- -a\n- 'a: b'\n- a:b\n- 'a #'\n- a#\n- it's\n- ''''\n- '@x'\n- 'a''b: c'\n- '?'\n- '---'\n- 'x:'\n",
            ),
            (
                r#"{m: "a\nb\n", n: "a\n b", o: "\n", p: "a \nb", q: "é", r: "\ta"}"#,
                "m: 'a\n\n    b\n\n    '\nn: \"a\\n b\"\no: '\n\n    '\np: \"a \\nb\"\nq: \"\\xE9\"\nr: \"\\ta\"\n",
            ),
            ("{2: a, true: b, null: c, 'x y': d}", "2: a\ntrue: b\nnull: c\nx y: d\n"),
            (r#"{"": a, "a\nb": [c]}"#, "? ''\n: a\n? 'a\n\n    b'\n:   - c\n"),
            ("{a: !!binary AAECAw==}", "a: !!binary |\n    AAECAw==\n"),
        ] {
            let node = parse("t", flow).unwrap().root;
            assert_eq!(dump(&node), expected, "{flow}");
            assert_eq!(parse("t", &dump(&node)).unwrap().root.to_json(), node.to_json(), "{flow}");
        }
        assert_eq!(document(&parse("t", "a: 1").unwrap().root), "---\na: 1\n...\n");
        assert_eq!(document(&parse("t", "{}").unwrap().root), "--- {}\n...\n");
    }

    #[test]
    fn whatever_is_written_reads_back() {
        // Words made of everything that means something in YAML, from a fixed pseudo-random sequence.
        let pieces = [
            "a",
            "b c",
            " ",
            "\n",
            ":",
            ": ",
            "#",
            " #",
            "-",
            "- ",
            "'",
            "\"",
            "\\",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&",
            "*",
            "!",
            "|",
            ">",
            "%",
            "@",
            "`",
            "~",
            "0",
            "1",
            "0x",
            "e+",
            ".",
            "true",
            "null",
            "é",
            "\u{2028}",
            "\u{feff}",
            "\t",
            "\r",
            "\0",
            "😀",
            "=",
            "<<",
            "?",
            "---",
            "...",
            "word word word word word word word word word word ",
        ];
        let mut state = 42_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..5_000 {
            let mut text = || (0..next(8)).map(|_| pieces[next(pieces.len())]).collect::<String>();
            let inner = Node::from([(Node::from(text()), Node::from(text()))].into_iter().collect::<Map>());
            let node = Node::from(vec![
                Node::from(text()),
                inner.clone(),
                Node::from(vec![inner, Node::from(text())]),
            ]);
            let written = document(&node);
            match parse("t", &written) {
                Ok(read) => assert_eq!(read.root, node, "{written}"),
                Err(e) => panic!("{e}: {written}"),
            }
        }
    }
}
