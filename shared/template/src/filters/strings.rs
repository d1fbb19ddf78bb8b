//! Filters on text.

use encoding::percent;

use super::{Filter, json, wrap};
use crate::args::Args;
use crate::eval::Interpreter;
use crate::format::pad;
use crate::methods::{capitalized, stripped, titled};
use crate::value::{Val, ValueResult};

pub const FILTERS: &[Filter] = &[
    ("attr", "name", |run, value, [name, ..]| {
        let name = run.text_of(&name.0.ok_or("'attr' without a name")?)?;
        match (run.attribute(&value, &name)?, &value) {
            (method @ Val::Callable(_), _) => Ok(method),
            // A map's keys are not attributes.
            (_, Val::Map(map)) if !map.namespace => Ok(Val::undefined(&name)),
            (found, _) => Ok(found),
        }
    }),
    ("capitalize", "", |run, value, _| run.converted(&value, capitalized)),
    ("center", "width", |run, value, [width, ..]| {
        let (text, width) = (run.text_of(&value)?, width.size(80)?);
        run.charge_memory(width)?;
        run.text(pad(&text, width, " ", 'c'))
    }),
    ("e", "", escape),
    ("escape", "", escape),
    ("forceescape", "", |run, value, args| {
        let plain = Val::Str(run.text_of(&value)?);
        escape(run, plain, args)
    }),
    ("format", "*", |run, value, [values, named, ..]| {
        let text = run.text_of(&value)?;
        let format = if matches!(value, Val::Safe(_)) { value } else { Val::Str(text) };
        match named.or(Val::None) {
            named if named.is_true() => run.operate("%", &format, &named),
            _ => run.operate("%", &format, &values.or(Val::None)),
        }
    }),
    ("indent", "width first blank", |run, value, [width, first, blank, _]| {
        let by = match &width.0 {
            Some(Val::Str(text)) => text.to_string(),
            _ => {
                let width = width.size(4)?;
                run.charge_memory(width)?;
                " ".repeat(width)
            }
        };
        let (first, blank) = (first.is_true(false), blank.is_true(false));
        let text = run.text_of(&value)?;
        run.charge_memory(text.matches('\n').count().saturating_mul(by.len()))?;
        let mut out = String::new();
        for (i, line) in text.split('\n').enumerate() {
            out.push_str(if i > 0 { "\n" } else { "" });
            if if i == 0 { first } else { blank || !line.is_empty() } {
                out.push_str(&by);
            }
            out.push_str(line);
        }
        run.text(out)
    }),
    ("lower", "", |run, value, _| run.converted(&value, str::to_lowercase)),
    ("pprint", "", |run, value, _| {
        run.charge_walk(&value)?;
        run.text(wrap::pformat(&value))
    }),
    ("replace", "old new count", |run, value, [old, new, count, _]| {
        let (old, new) = (run.text_of(&old.or(Val::None))?, run.text_of(&new.or(Val::None))?);
        let text = run.text_of(&value)?;
        run.replaced(&text, &old, &new, &count)
    }),
    ("safe", "", |run, value, _| Ok(Val::Safe(run.text_of(&value)?))),
    ("string", "", |run, value, _| Ok(Val::Str(run.text_of(&value)?))),
    ("striptags", "", |run, value, _| run.converted(&value, without_tags)),
    ("title", "", |run, value, _| {
        run.converted(&value, |text| titled(text, |c| c.is_whitespace() || "-({[<".contains(c)))
    }),
    ("tojson", "indent", |run, value, [indent, ..]| {
        let indent = indent.some().map(|_| indent.size(0)).transpose()?;
        run.charge_memory(indent.unwrap_or(0))?;
        run.charge_walk(&value)?;
        let json = json::to_json(&value, indent)?;
        Ok(run.text(json)?.into_safe())
    }),
    ("trim", "chars", |run, value, [chars, ..]| {
        let text = run.text_of(&value)?;
        run.text(stripped(&text, &chars, true, true)?.into())
    }),
    ("truncate", "length killwords end leeway", |run, value, [length, kill, end, leeway]| {
        let (length, leeway) = (length.size(255)?, leeway.size(5)?);
        let end = run.text_of(&end.or(Val::text("...")))?;
        let text = run.text_of(&value)?;
        if text.chars().count() <= length.saturating_add(leeway) {
            return Ok(Val::Str(text));
        }
        let keep = length
            .checked_sub(end.chars().count())
            .ok_or("'truncate': the length is less than that of its end")?;
        let cut: String = text.chars().take(keep).collect();
        let words = if kill.is_true(false) { None } else { cut.rsplit_once(' ') };
        run.text(format!("{}{end}", words.map_or(&*cut, |(words, _)| words)))
    }),
    ("upper", "", |run, value, _| run.converted(&value, str::to_uppercase)),
    ("urlencode", "", |run, value, _| {
        if !matches!(value, Val::Map(_) | Val::Seq(_)) {
            return run.text(percent_encode(&value, true));
        }
        run.charge_walk(&value)?;
        let pairs = run.pairs(&value)?;
        let pair = |(k, v): &(Val, Val)| format!("{}={}", percent_encode(k, false), percent_encode(v, false));
        run.text(pairs.iter().map(pair).collect::<Vec<_>>().join("&"))
    }),
    ("wordcount", "", |run, value, _| {
        let text = run.text_of(&value)?;
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        Ok(Val::int(words.count()))
    }),
    (
        "wordwrap",
        "width break_long_words wrapstring break_on_hyphens",
        |run, value, [width, long, between, hyphens]| {
            let (width, long, hyphens) = (width.size(79)?, long.is_true(true), hyphens.is_true(true));
            if width == 0 {
                return Err("'wordwrap': the width is zero".into());
            }
            let between = run.text_of(between.some().unwrap_or(&Val::text("\n")))?;
            let text = run.text_of(&value)?;
            let wrapped = text.lines().map(|line| wrap::wrap_line(line, width, long, hyphens).join(&between));
            let lines: Vec<String> = wrapped.collect();
            run.charge_memory(text.len() / width * between.len() + text.len())?;
            run.text(lines.join(&between))
        },
    ),
    ("xmlattr", "autospace", |run, value, [space, ..]| {
        run.charge_walk(&value)?;
        let mut out = String::new();
        for (key, value) in run.pairs(&value)? {
            if !matches!(value, Val::None | Val::Undefined(_)) {
                out.push_str(&format!(" {}=\"{}\"", key.to_text(), run.escape(&value)?));
            }
        }
        let text = run.text(if space.is_true(true) { out } else { out.trim_start().into() })?;
        Ok(if run.autoescape { text.into_safe() } else { text })
    }),
];

impl Interpreter<'_> {
    fn converted(&mut self, value: &Val, convert: fn(&str) -> String) -> ValueResult<Val> {
        let text = self.text_of(value)?;
        self.text(convert(&text))
    }
}

fn escape(run: &mut Interpreter<'_>, value: Val, _: Args) -> ValueResult<Val> {
    Ok(Val::Safe(run.escape(&value)?))
}

/// Removes tags and comments, and resolves the most common entities.
fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        let end = if tag.starts_with("!--") { "-->" } else { ">" };
        rest = tag.split_once(end).map_or(tag, |(_, after)| after);
        if rest.len() == tag.len() {
            out.push('<');
        }
    }
    out.push_str(rest);
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let out = entities.iter().fold(out, |text, (name, is)| text.replace(name, is));
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn percent_encode(value: &Val, slash: bool) -> String {
    const ALL_BUT_SLASH: percent::AsciiSet = percent::RESERVED.remove(b'/');
    match slash {
        true => percent::encode(&value.to_text(), &ALL_BUT_SLASH),
        false => percent::encode(&value.to_text(), &percent::RESERVED).replace("%20", "+"),
    }
}
