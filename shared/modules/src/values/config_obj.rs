//! Files in the format of Python's ConfigObj: `key = value` lines in sections, with quotes where a value needs them.

use std::collections::BTreeMap;

/// Characters that need quotes at either end of a value.
const NEED_QUOTES: &[char] = &[' ', '\r', '\n', '\u{b}', '\t', '\'', '"'];

/// Returns a value as it is written after `key = `.
pub fn quote(value: &str) -> String {
    if value.is_empty() {
        return "\"\"".into();
    }
    if value.contains('\n') || (value.contains('\'') && value.contains('"')) {
        let quotes = if value.contains("'''") { "\"\"\"" } else { "'''" };
        return format!("{quotes}{value}{quotes}");
    }
    if !value.starts_with(NEED_QUOTES) && !value.ends_with(NEED_QUOTES) && !value.contains([',', '#']) {
        return value.into();
    }
    let quotes = if value.contains('"') { '\'' } else { '"' };
    format!("{quotes}{value}{quotes}")
}

/// Returns the line of a key.
pub fn line(key: &str, value: &str) -> String {
    format!("{} = {}", quote(key), quote(value))
}

/// A section, its key and the value.
pub type Setting = (Option<String>, String, String);

/// Sets keys in their sections of a text, or before the first section, and keeps all other lines.
pub fn set(text: &str, settings: &[Setting]) -> String {
    let mut sections = vec![Section::default()];
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            let name = heading(line).map(Into::into);
            named.extend(name.filter(|name| !named.contains_key(name)).map(|name| (name, sections.len())));
            sections.push(Section { heading: Some(line.into()), ..Section::default() });
        } else if let Some(section) = sections.last_mut() {
            section.read(line);
        }
    }
    for (name, key, value) in settings {
        let at = name.as_ref().map_or(0, |name| {
            *named.entry(name.clone()).or_insert_with(|| {
                sections.push(Section { heading: Some(format!("[{}]", quote(name))), ..Section::default() });
                sections.len() - 1
            })
        });
        if let Some(section) = sections.get_mut(at) {
            section.set(key, line(key, value));
        }
    }
    let lines = sections.into_iter().flat_map(|s| s.heading.into_iter().chain(s.lines).chain(s.rest));
    lines.map(|line| line + "\n").collect()
}

#[derive(Default)]
struct Section {
    heading: Option<String>,
    /// The lines until the last key.
    lines: Vec<String>,
    /// Blank lines and comments after the last key, which belong to the next heading.
    rest: Vec<String>,
    /// The index of the first line of each key.
    keys: BTreeMap<String, usize>,
}

impl Section {
    fn read(&mut self, line: &str) {
        let Some(key) = key_of(line) else { return self.rest.push(line.into()) };
        self.lines.append(&mut self.rest);
        self.keys.entry(key.into()).or_insert(self.lines.len());
        self.lines.push(line.into());
    }

    fn set(&mut self, key: &str, line: String) {
        if self.heading.is_none() && self.keys.is_empty() {
            self.lines.append(&mut self.rest);
        }
        match self.keys.get(key).and_then(|at| self.lines.get_mut(*at)) {
            Some(old) => *old = line,
            None => {
                self.keys.insert(key.into(), self.lines.len());
                self.lines.push(line);
            }
        }
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn heading(line: &str) -> Option<&str> {
    Some(unquoted(line.trim().strip_prefix('[')?.split_once(']')?.0))
}

fn key_of(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', '[']) {
        return None;
    }
    Some(unquoted(line.split_once('=')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_like_by_configobj() {
        for (value, written) in [
            ("", r#""""#),
            ("plain text", "plain text"),
            ("it's", "it's"),
            ("a,b", r#""a,b""#),
            (" a", r#"" a""#),
            ("a # b", r#""a # b""#),
            (r#"a "q""#, r#"'a "q"'"#),
            ("a\n    b", "'''a\n    b'''"),
            (r#"it's "x""#, r#"'''it's "x"'''"#),
            ("'''\n", "\"\"\"'''\n\"\"\""),
        ] {
            assert_eq!(quote(value), written);
        }
    }

    #[test]
    fn keys_are_set_where_they_belong() {
        let text = "# top\nlibdir=/usr/lib\n\n# Plugins\nplugin.psk = unset\n\n[sec]\na = 1\n";
        for (section, key, value, written) in [
            (None, "libdir", "/new", text.replace("libdir=/usr/lib", "libdir = /new")),
            (None, "new", "x,y", text.replace("unset\n", "unset\nnew = \"x,y\"\n")),
            (None, "a", "2", text.replace("unset\n", "unset\na = 2\n")),
            (Some("sec"), "a", "2", text.replace("a = 1", "a = 2")),
            (Some("sec"), "b", "", format!("{text}b = \"\"\n")),
            (Some("other"), "b", "3", format!("{text}[other]\nb = 3\n")),
        ] {
            let setting = (section.map(Into::into), key.into(), value.into());
            assert_eq!(set(text, &[setting]), written, "{section:?} {key}");
        }
        let setting =
            |section: Option<&str>, value: &str| (section.map(Into::into), "a".into(), value.into());
        assert_eq!(set("", &[setting(None, "b")]), "a = b\n");
        assert_eq!(set("[s]\n", &[setting(None, "b")]), "a = b\n[s]\n");
        assert_eq!(
            set("[s]\n# c\n", &[setting(Some("s"), "1"), setting(Some("s"), "2")]),
            "[s]\na = 2\n# c\n"
        );
    }
}
