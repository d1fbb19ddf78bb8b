//! Filters on text.

use encoding::percent;

use super::{bool_arg, printf_values, size_arg};
use crate::eval::{CallArgs, Interpreter};
use crate::methods::{capitalized, padded, stripped};
use crate::value::{Val, ValueResult, number};
use crate::wrap;

impl Interpreter<'_> {
    /// Applies a filter on text.
    pub(super) fn text_filter(&mut self, name: &str, value: Val, args: CallArgs) -> ValueResult<Val> {
        let shown = |run: &mut Self| run.text_of(&value);
        match name {
            "upper" | "lower" | "capitalize" => {
                let text = shown(self)?;
                self.text(match name {
                    "upper" => text.to_uppercase(),
                    "lower" => text.to_lowercase(),
                    _ => capitalized(&text),
                })
            }
            "title" => {
                let mut out = String::new();
                let mut begins = true;
                for c in shown(self)?.chars() {
                    if begins {
                        out.extend(c.to_uppercase())
                    } else {
                        out.extend(c.to_lowercase())
                    }
                    begins = c.is_whitespace() || "-({[<".contains(c);
                }
                self.text(out)
            }
            "trim" => {
                let [chars] = args.bind(["chars"])?;
                let text = shown(self)?;
                self.text(stripped(&text, chars.as_ref(), true, true)?.to_string())
            }
            "string" => Ok(Val::Str(shown(self)?)),
            "replace" => {
                let [old, new, count] = args.bind(["old", "new", "count"])?;
                let text = shown(self)?;
                let old = self.text_of(&old.unwrap_or(Val::None))?;
                let new = self.text_of(&new.unwrap_or(Val::None))?;
                self.replaced(&text, &old, &new, count.as_ref())
            }
            "format" => {
                let text = shown(self)?;
                let text = self.printf(&text, &printf_values(args)?)?;
                self.text(text)
            }
            "center" => {
                let [width] = args.bind(["width"])?;
                let width = size_arg(width.as_ref(), 80)?;
                let text = shown(self)?;
                self.charge_memory(width)?;
                self.text(padded(&text, width, " ", "center"))
            }
            "indent" => {
                let [width, first, blank] = args.bind(["width", "first", "blank"])?;
                let by = match &width {
                    Some(Val::Str(text)) => text.to_string(),
                    other => {
                        let width = size_arg(other.as_ref(), 4)?;
                        self.charge_memory(width)?;
                        " ".repeat(width)
                    }
                };
                let (first, blank) = (bool_arg(first, false), bool_arg(blank, false));
                let text = shown(self)?;
                self.charge_memory(text.matches('\n').count().saturating_mul(by.len()))?;
                let mut out = String::new();
                for (i, line) in text.split('\n').enumerate() {
                    if i > 0 {
                        out.push('\n');
                    }
                    if if i == 0 { first } else { blank || !line.is_empty() } {
                        out.push_str(&by);
                    }
                    out.push_str(line);
                }
                self.text(out)
            }
            "truncate" => {
                let [length, kill, end, leeway] = args.bind(["length", "killwords", "end", "leeway"])?;
                let (length, leeway) = (size_arg(length.as_ref(), 255)?, size_arg(leeway.as_ref(), 5)?);
                let end = self.text_of(&end.unwrap_or_else(|| Val::text("...")))?;
                let text = shown(self)?;
                if text.chars().count() <= length.saturating_add(leeway) {
                    return Ok(Val::Str(text));
                }
                let keep =
                    length.checked_sub(end.chars().count()).ok_or("'truncate' to less than its end")?;
                let cut: String = text.chars().take(keep).collect();
                let cut =
                    if bool_arg(kill, false) { &cut } else { cut.rsplit_once(' ').map_or(&*cut, |(a, _)| a) };
                self.text(format!("{cut}{end}"))
            }
            "wordwrap" => {
                let [width, long, between, hyphens] =
                    args.bind(["width", "break_long_words", "wrapstring", "break_on_hyphens"])?;
                let (width, long) = (size_arg(width.as_ref(), 79)?, bool_arg(long, true));
                if width == 0 {
                    return Err("'wordwrap' to no width".into());
                }
                let hyphens = bool_arg(hyphens, true);
                let between = match between.filter(|between| !matches!(between, Val::None)) {
                    Some(between) => self.text_of(&between)?,
                    None => "\n".into(),
                };
                let text = shown(self)?;
                let lines: Vec<String> = text
                    .lines()
                    .map(|line| wrap::wrap_line(line, width, long, hyphens).join(&between))
                    .collect();
                self.charge_memory(text.len() / width * between.len() + text.len())?;
                self.text(lines.join(&between))
            }
            "wordcount" => {
                let text = shown(self)?;
                let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
                Ok(Val::Int(words.count() as i128))
            }
            "filesizeformat" => {
                let [binary] = args.bind(["binary"])?;
                let binary = bool_arg(binary, false);
                let bytes = match &value {
                    Val::Str(text) => text.trim().parse::<f64>().ok(),
                    other => number(other).map(|n| n.float()),
                };
                let bytes = bytes.ok_or("'filesizeformat' of a value that is not a number")?;
                let base: f64 = if binary { 1024.0 } else { 1000.0 };
                if bytes == 1.0 {
                    return Ok(Val::text("1 Byte"));
                }
                if bytes < base {
                    return self.text(format!("{} Bytes", bytes as i128));
                }
                let units = if binary {
                    ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
                } else {
                    ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
                };
                let power = (1..8).find(|p| bytes < base.powi(p + 1)).unwrap_or(8);
                self.text(format!("{:.1} {}", bytes / base.powi(power), units[power as usize - 1]))
            }
            "tojson" => {
                let [indent] = args.bind(["indent"])?;
                let indent = indent.filter(|i| !matches!(i, Val::None));
                let indent = indent.as_ref().map(|i| size_arg(Some(i), 0)).transpose()?;
                self.charge_memory(indent.unwrap_or(0))?;
                self.charge_walk(&value)?;
                let mut out = String::new();
                crate::json::write(&value, indent, 0, &mut out)?;
                self.text(out)
            }
            "urlencode" => match &value {
                Val::Map(_) | Val::Seq(_) => {
                    self.charge_walk(&value)?;
                    let pairs = self.pairs(&value)?;
                    let pair = |(k, v): &(Val, Val)| {
                        format!(
                            "{}={}",
                            percent_encode(&k.to_text(), false),
                            percent_encode(&v.to_text(), false)
                        )
                    };
                    self.text(pairs.iter().map(pair).collect::<Vec<_>>().join("&"))
                }
                other => {
                    let text = percent_encode(&other.to_text(), true);
                    self.text(text)
                }
            },
            "striptags" => {
                let text = shown(self)?;
                let mut out = String::new();
                let mut rest = &*text;
                while let Some((before, tag)) = rest.split_once('<') {
                    out.push_str(before);
                    let end = if tag.starts_with("!--") { "-->" } else { ">" };
                    match tag.split_once(end) {
                        Some((_, after)) => rest = after,
                        None => {
                            out.push('<');
                            rest = tag;
                        }
                    }
                }
                out.push_str(rest);
                let plain = [
                    ("&lt;", "<"),
                    ("&gt;", ">"),
                    ("&#34;", "\""),
                    ("&quot;", "\""),
                    ("&#39;", "'"),
                    ("&amp;", "&"),
                ];
                let out = plain.iter().fold(out, |text, (name, is)| text.replace(name, is));
                self.text(out.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            "attr" => {
                let [name] = args.bind(["name"])?;
                let name = self.text_of(&name.ok_or("'attr' without a name")?)?;
                match &value {
                    // A map's keys are not attributes.
                    Val::Map(map) if !map.namespace => match self.attribute(&value, &name)? {
                        found @ Val::Callable(_) => Ok(found),
                        _ => Ok(Val::Undefined(Some(name))),
                    },
                    other => self.attribute(other, &name),
                }
            }
            "pprint" => {
                self.charge_walk(&value)?;
                let text = wrap::pformat(&value);
                self.text(text)
            }
            "xmlattr" => {
                let [space] = args.bind(["autospace"])?;
                self.charge_walk(&value)?;
                let mut out = String::new();
                for (key, value) in self.pairs(&value)? {
                    if !matches!(value, Val::None | Val::Undefined(_)) {
                        let value = self.filter("e", value, CallArgs::default())?;
                        out.push_str(&format!(" {}=\"{}\"", key.to_text(), value.to_text()));
                    }
                }
                let text = if bool_arg(space, true) { out } else { out.trim_start().to_string() };
                self.text(text)
            }
            _ => Err(format!("unknown filter '{name}'")),
        }
    }
}

fn percent_encode(text: &str, slash: bool) -> String {
    const ALL_BUT_SLASH: percent::AsciiSet = percent::RESERVED.remove(b'/');
    match slash {
        true => percent::encode(text, &ALL_BUT_SLASH),
        false => percent::encode(text, &percent::RESERVED).replace("%20", "+"),
    }
}
