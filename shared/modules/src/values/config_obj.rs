//! Files in the format of Python's ConfigObj: `key = value` lines in sections, with quotes where a value needs them.

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

/// Sets a key in a section of a string, or before the first section, and keeps all other lines.
pub fn set(text: &str, section: Option<&str>, key: &str, value: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(Into::into).collect();
    let is_heading = |line: &String| line.trim_start().starts_with('[');
    let start = match section {
        None => 0,
        Some(name) => {
            let found = lines.iter().position(|l| heading(l) == Some(name));
            found.unwrap_or_else(|| {
                lines.push(format!("[{}]", quote(name)));
                lines.len() - 1
            }) + 1
        }
    };
    let end = lines[start..].iter().position(is_heading).map_or(lines.len(), |count| start + count);
    match lines[start..end].iter().position(|l| key_of(l) == Some(key)) {
        Some(at) => lines[start + at] = line(key, value),
        None => {
            // After the last key of the section: blank lines and comments below it belong to the next heading.
            let last = lines[start..end].iter().rposition(|l| key_of(l).is_some());
            lines.insert(
                last.map_or(if section.is_some() { start } else { end }, |at| start + at + 1),
                line(key, value),
            );
        }
    }
    lines.join("\n") + "\n"
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
            assert_eq!(set(text, section, key, value), written, "{section:?} {key}");
        }
        assert_eq!(set("", None, "a", "b"), "a = b\n");
        assert_eq!(set("[s]\n", None, "a", "b"), "a = b\n[s]\n");
    }
}
