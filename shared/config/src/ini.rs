//! INI files: sections of `KEY = VALUE`, as in VMware's customization files and Python's logging configurations.

use std::collections::HashMap;

/// A parsed INI file: values by section and key, both case-sensitive.
#[derive(Debug, Default)]
pub struct Ini<'a> {
    values: HashMap<(&'a str, &'a str), (&'a str, u32)>,
    /// Lines that are neither sections, settings nor comments.
    pub invalid_lines: Vec<u32>,
}

impl<'a> Ini<'a> {
    /// Parses a string. Invalid lines are skipped and recorded.
    pub fn parse(text: &'a str) -> Ini<'a> {
        let mut ini = Ini::default();
        let mut section = None;
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.split_once(']')) {
                section = Some(name.0);
                continue;
            }
            match (section, line.split_once(['=', ':'])) {
                (Some(section), Some((key, value))) => {
                    ini.values.insert((section, key.trim_end()), (value.trim_start(), number));
                }
                _ => ini.invalid_lines.push(number),
            }
        }
        ini
    }

    /// Returns the value of a key.
    pub fn get(&self, section: &str, key: &str) -> Option<&'a str> {
        self.values.get(&(section, key)).map(|(value, _)| *value)
    }

    /// Returns the values of a key in the sections whose names begin with `prefix`, in no particular order.
    pub fn in_sections(&self, prefix: &str, key: &str) -> impl Iterator<Item = &'a str> {
        let of_key = move |((section, name), (value, _)): (&(&str, &str), &(&'a str, u32))| {
            (section.starts_with(prefix) && *name == key).then_some(*value)
        };
        self.values.iter().filter_map(of_key)
    }

    /// Returns the line of a key; 0 if it is not set.
    pub fn line(&self, section: &str, key: &str) -> u32 {
        self.values.get(&(section, key)).map_or(0, |(_, line)| *line)
    }

    /// Returns the values of `KEY|1`, `KEY|2` … up to the first missing one.
    pub fn numbered(&self, section: &str, key: &str) -> Vec<&'a str> {
        (1..).map_while(|n| self.get(section, &format!("{key}|{n}"))).collect()
    }

    /// Returns whether the value of a key is `yes` or `true`, in any case.
    pub fn is_yes(&self, section: &str, key: &str) -> bool {
        let value = self.get(section, key).unwrap_or_default();
        value.eq_ignore_ascii_case("yes") || value.eq_ignore_ascii_case("true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_of_a_key_counts() {
        let ini = Ini::parse(
            "lost = 1\r\n[A]\n# no\nk = v = w\nK: yes\n; no\nn|1=a\nn|2=b\nn|4=d\nodd\n[B] x\nk=\n[A]\nk=2\n",
        );
        assert_eq!((ini.get("A", "k"), ini.line("A", "k")), (Some("2"), 14));
        assert_eq!((ini.get("B", "k"), ini.get("B", "K"), ini.line("B", "K")), (Some(""), None, 0));
        assert_eq!((ini.numbered("A", "n"), ini.is_yes("A", "K")), (vec!["a", "b"], true));
        assert_eq!(ini.invalid_lines, [1, 10]);
    }
}
