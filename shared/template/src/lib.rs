//! Templates of /etc/cloud/templates and of users: Jinja after the header line `## template: jinja`, and `$name` without a
//! header or after `## template: basic`. A template cannot access the machine, and rendering is limited in steps, depth and
//! memory.
//!
//! The language is the part of Python's Jinja2 (with `trim_blocks` and the `do` extension) that templates of cloud-init use: the
//! tags `if`, `for`, `set`, `do` and `raw`, the filters of [`filters`], the methods of [`methods`], and the functions of
//! [`functions`]. Macros, blocks, escaping, and loading of other templates are not part of it. An unsupported name is an error
//! with the line and the supported names; there is never partial output.
//!
//! ```
//! let variables = config::Map::new();
//! let rendered = template::render("## template: jinja\nHello {{ 'world'|upper }}\n", &variables).unwrap();
//! assert_eq!(rendered.text, "Hello WORLD\n");
//! ```

#![warn(missing_docs)]

mod args;
mod ast;
mod basic;
mod context;
mod eval;
mod filters;
mod format;
mod functions;
mod lexer;
mod methods;
mod operators;
mod parser;
mod rendered;
mod settings;
mod value;

use config::Map;
use system::{System, warning};

pub use context::{alias, standardized, variables};
pub use eval::MAX_STEPS;
pub use rendered::{Rendered, TemplateError, UndefinedVariable};
pub use settings::render_settings;
pub use value::MISSING_JINJA_PREFIX;

/// The type of a template by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'t> {
    /// `## template: jinja`.
    Jinja,
    /// `## template: basic`.
    Basic,
    /// Any other type.
    Other(&'t str),
}

/// Returns the type that the first line `## template: TYPE` names; `None` without such a header.
pub fn kind(text: &str) -> Option<Kind<'_>> {
    parse_header(text).map(|(kind, _)| kind)
}

/// Renders a template with the values of `variables`.
///
/// # Errors
/// Fails if the header names an unknown type, the template is invalid, an operation is not possible with its values, or a limit
/// is exceeded.
pub fn render(text: &str, variables: &Map) -> Result<Rendered, TemplateError> {
    render_within(text, variables, &mut { MAX_STEPS })
}

/// Renders one of several templates that have a number of steps together, which begins with [`MAX_STEPS`], as [`render`] does.
///
/// # Errors
/// Fails as [`render`] does.
pub fn render_within(text: &str, variables: &Map, steps: &mut u64) -> Result<Rendered, TemplateError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    match parse_header(&text) {
        Some((Kind::Jinja, body)) => render_jinja(body, variables, steps)
            .map(|rendered| rendered.suggest(variables))
            .map_err(|mut bad| {
                if let Some(tag) = redacted_tag(&text, bad.line) {
                    bad.message += &format!(", in {tag}");
                }
                bad
            }),
        Some((Kind::Basic, body)) => basic::render(body, variables, 2),
        Some((Kind::Other(_), _)) => {
            Err(TemplateError { line: 1, message: "unknown template type (expected jinja or basic)".into() })
        }
        None => basic::render(&text, variables, 1),
    }
}

/// Replaces by `…` each word of a tag that is neither a number nor a typical variable name (lower case, digits in short names
/// only: `v1`, `ipv4`), since it may be a secret.
fn mask_unusual_words(tag: &str) -> String {
    let is_ordinary = |word: &str| {
        let has = |test: fn(&u8) -> bool| word.bytes().any(|b| test(&b));
        let has_digit = has(u8::is_ascii_digit);
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        !has(u8::is_ascii_uppercase) && word.is_ascii() && (!has_digit || is_number || word.len() <= 5)
    };
    let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
    let mut out = String::new();
    for piece in tag.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator);
        out.push_str(if is_ordinary(word) { word } else { "…" });
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// Returns the tag on a line for messages, without quoted strings and unusual words, which may be secrets.
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

/// Renders the text of the file `path` for a module, and logs a warning for undefined variables.
///
/// # Errors
/// As for [`render`]; the message names the file.
pub fn render_file(sys: &System, path: &str, text: &str, variables: &Map) -> system::Result<String> {
    let rendered = render(text, variables).map_err(|e| system::Error::new(format!("{path}: {e}")))?;
    if let Some(names) = rendered.undefined_names() {
        warning!(sys, "{path}: undefined variable: {names}");
    }
    Ok(rendered.text)
}

/// Returns the type that the header names, and the text after its line.
fn parse_header(text: &str) -> Option<(Kind<'_>, &str)> {
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let rest = first.strip_prefix("##")?.trim_start();
    let (_, word) =
        rest.split_at_checked("template:".len()).filter(|(w, _)| w.eq_ignore_ascii_case("template:"))?;
    let kind = match word.trim() {
        word if word.eq_ignore_ascii_case("jinja") => Kind::Jinja,
        word if word.eq_ignore_ascii_case("basic") => Kind::Basic,
        word => Kind::Other(word),
    };
    Some((kind, body))
}

fn render_jinja(body: &str, variables: &Map, steps: &mut u64) -> Result<Rendered, TemplateError> {
    // Jinja drops the newline at the very end, upstream puts it back; trimming must not see it.
    let (inner, end) = match body.strip_suffix('\n') {
        Some(inner) => (inner, "\n"),
        None => (body, ""),
    };
    let body = parser::parse(lexer::tokenize(inner, 2)?)?;
    let mut run = eval::Interpreter::new(variables, *steps);
    let done = run.run(&body);
    *steps = run.fuel;
    done?;
    run.rendered.text.push_str(end);
    Ok(run.rendered)
}

#[cfg(test)]
mod tests;
