//! Templates as they lie in /etc/cloud/templates and as users write them: Jinja behind a header line
//! `## template: jinja`, and `$name` without one or behind `## template: basic`. Text and variables in, text out;
//! nothing of the machine can be reached from a template, and a run is bounded in steps, depth and memory.
//!
//! The language is Jinja's as Python's Jinja2 renders it with `trim_blocks` and the `do` extension, without what
//! reads other templates. What is not understood is an error with its line, never text that came out half.

mod ast;
mod basic;
mod context;
mod eval;
mod filters;
mod functions;
mod json;
mod lexer;
mod operators;
mod parser;
mod settings;
mod value;
mod wrap;

use config::Map;
use system::{System, warning};

pub use context::{alias, standardized, variables};
pub use settings::render_settings;
pub use value::MISSING_JINJA_PREFIX;

/// A name that has no value, and the line that first shows it. It is quoted in messages, which scripts look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedVariable {
    pub name: String,
    pub line: usize,
}

impl std::fmt::Display for UndefinedVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' (line {})", self.name, self.line)
    }
}

/// What a template was rendered to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    pub text: String,
    /// Names that have no value, each once.
    pub undefined: Vec<UndefinedVariable>,
}

impl Rendered {
    /// The names without a value, in one line for people; `None` if there is none.
    pub fn undefined_names(&self) -> Option<String> {
        let names: Vec<String> = self.undefined.iter().map(UndefinedVariable::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Why it was not rendered. Lines count from the header's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template line {}: {}", self.line, self.message)
    }
}

/// What a template's first line says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'t> {
    Jinja,
    Basic,
    Other(&'t str),
}

/// The tests, for `is test`.
const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// The filters, for `is filter`.
const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// The kind that a first line `## template: KIND` names.
pub fn kind(text: &str) -> Option<Kind<'_>> {
    let word = parse_header(text)?.0;
    Some(match word {
        _ if word.eq_ignore_ascii_case("jinja") => Kind::Jinja,
        _ if word.eq_ignore_ascii_case("basic") => Kind::Basic,
        _ => Kind::Other(word),
    })
}

/// Renders a template with the values of `variables`.
pub fn render(text: &str, variables: &Map) -> Result<Rendered, TemplateError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    match (kind(&text), parse_header(&text)) {
        (Some(Kind::Jinja), Some((_, body))) => render_jinja(body, variables).map_err(|mut bad| {
            if let Some(tag) = redacted_tag(&text, bad.line) {
                bad.message += &format!(", in {tag}");
            }
            bad
        }),
        (Some(Kind::Basic), Some((_, body))) => basic::render(body, variables, 2),
        (Some(_), _) => {
            Err(TemplateError { line: 1, message: "its header names neither jinja nor basic".into() })
        }
        _ => basic::render(&text, variables, 1),
    }
}

/// A tag with `…` for each word that is neither a number nor a name as variables have them: lower case, digits only in short
/// ones (`v1`, `ipv4`).
fn mask_unusual_words(tag: &str) -> String {
    let is_ordinary = |word: &str| {
        let has = |test: fn(&u8) -> bool| word.bytes().any(|b| test(&b));
        let has_digit = has(u8::is_ascii_digit);
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        !has(u8::is_ascii_uppercase) && word.is_ascii() && (!has_digit || is_number || word.len() <= 5)
    };
    let mut out = String::new();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = tag;
    while let Some(first) = rest.chars().next() {
        let end = match is_part(first) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, next) = rest.split_at(end);
        out.push_str(if !is_part(first) || is_ordinary(word) { word } else { "…" });
        rest = next;
    }
    out
}

/// What stands in braces on a line, for messages: without the texts in its quotes and words that are no usual names, which
/// may be secrets.
fn redacted_tag(text: &str, line: usize) -> Option<String> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    let begin = ["{{", "{%", "{#"].iter().filter_map(|mark| line.find(mark)).min()?;
    let end =
        ["}}", "%}", "#}"].iter().filter_map(|mark| line.rfind(mark)).max().map_or(line.len(), |end| end + 2);
    let mut tag = String::new();
    let mut quote = None;
    for c in line.get(begin..end).unwrap_or(&line[begin..]).chars() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => continue,
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                tag.extend([c, '…']);
                continue;
            }
            None => {}
        }
        tag.push(c);
    }
    let tag = mask_unusual_words(&tag);
    let is_long = tag.chars().count() > 80;
    Some(if is_long { tag.chars().take(80).chain(['…']).collect() } else { tag })
}

/// Renders a file's text for a module: names that have no value are logged, and an error names the file.
pub fn render_file(sys: &System, path: &str, text: &str, variables: &Map) -> system::Result<String> {
    let rendered = render(text, variables).map_err(|e| system::Error::new(format!("{path}: {e}")))?;
    if let Some(names) = rendered.undefined_names() {
        warning!(sys, "{path}: nothing is known as {names}");
    }
    Ok(rendered.text)
}

/// The word behind a header's colon, and what follows its line.
fn parse_header(text: &str) -> Option<(&str, &str)> {
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let rest = first.strip_prefix("##")?.trim_start();
    let word = rest.get(.."template:".len()).filter(|w| w.eq_ignore_ascii_case("template:"))?;
    Some((rest[word.len()..].trim(), body))
}

fn render_jinja(body: &str, variables: &Map) -> Result<Rendered, TemplateError> {
    // Jinja drops the newline at the very end, upstream puts it back; trimming must not see it.
    let (inner, end) = match body.strip_suffix('\n') {
        Some(inner) => (inner, "\n"),
        None => (body, ""),
    };
    let (body, blocks) = parser::parse(lexer::tokenize(inner, 2)?)?;
    let mut run = eval::Interpreter::new(variables, blocks);
    run.run(&body)?;
    run.out.push_str(end);
    Ok(Rendered { text: run.out, undefined: run.undefined })
}

#[cfg(test)]
mod tests;
