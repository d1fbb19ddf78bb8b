//! Files of `[section]`s with lines `KEY=VALUE`: NetworkManager's keyfiles and systemd's units.

/// A file under construction: sections and keys in the order in which they are added.
#[derive(Default)]
pub struct Sections(Vec<Section>);

#[derive(Default)]
struct Section {
    name: &'static str,
    lines: Vec<(String, String)>,
    /// The positions of keys that may be set again: few, among perhaps thousands of routes.
    settable: Vec<usize>,
}

impl Section {
    fn index_of(&self, key: &str) -> Option<usize> {
        self.settable.iter().copied().find(|i| self.lines[*i].0 == key)
    }

    fn lines(&self) -> Vec<String> {
        self.lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }
}

impl Sections {
    /// Returns the first section of this name; adds it if there is none.
    fn section_mut(&mut self, name: &'static str) -> &mut Section {
        let place = self.0.iter().position(|s| s.name == name).unwrap_or_else(|| {
            self.add_section(name, Vec::new());
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// Adds a section, also if there is one of this name.
    pub fn add_section(&mut self, name: &'static str, lines: Vec<(String, String)>) {
        self.0.push(Section { name, lines, ..Section::default() });
    }

    /// Adds a section, which may remain empty, unless there is one of this name.
    pub fn section(&mut self, name: &'static str) {
        self.section_mut(name);
    }

    pub fn has(&self, section: &str) -> bool {
        self.0.iter().any(|s| s.name == section)
    }

    pub fn get(&self, section: &str, key: &str) -> Option<&str> {
        let section = self.0.iter().find(|s| s.name == section)?;
        section.index_of(key).map(|i| section.lines[i].1.as_str())
    }

    /// Sets a key; an existing key keeps its place.
    pub fn set(&mut self, section: &'static str, key: &str, value: impl Into<String>) {
        let section = self.section_mut(section);
        match section.index_of(key) {
            Some(i) => section.lines[i].1 = value.into(),
            None => {
                section.settable.push(section.lines.len());
                section.lines.push((key.to_string(), value.into()));
            }
        }
    }

    pub fn set_optional(&mut self, section: &'static str, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.set(section, key, value);
        }
    }

    /// Adds a line, also if there is one of this key.
    pub fn add(&mut self, section: &'static str, key: impl Into<String>, value: impl Into<String>) {
        self.section_mut(section).lines.push((key.into(), value.into()));
    }

    /// Returns the file, with an empty line after each section.
    pub fn text(&self) -> String {
        text(self.0.iter().map(|section| (section.name, section.lines())))
    }

    /// Returns the file with the sections in alphabetical order, those of the same name in the order of their addition, and
    /// the lines of each sorted and without duplicates.
    pub fn sorted_text(&self) -> String {
        let sorted = |section: &Section| {
            let mut lines = section.lines();
            sort::sort(&mut lines);
            lines.dedup();
            (section.name, lines)
        };
        let mut sections: Vec<(&str, Vec<String>)> = self.0.iter().map(sorted).collect();
        sort::sort_by_key(&mut sections, |(name, _)| *name);
        format!("{}\n", text(sections.into_iter()).trim_end_matches('\n'))
    }
}

fn text<'a>(sections: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    sections.map(|(name, lines)| format!("[{name}]\n{}\n", lines.concat())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_keys_keep_their_insertion_order() {
        let mut file = Sections::default();
        file.set("b", "k", "1");
        file.section("empty");
        file.add("b", "route1", "r");
        file.set("a", "x", "2");
        file.set("b", "k", "3");
        assert_eq!(file.text(), "[b]\nk=3\nroute1=r\n\n[empty]\n\n[a]\nx=2\n\n");
        assert_eq!((file.get("b", "k"), file.get("b", "route1")), (Some("3"), None));
        assert!(file.has("empty") && !file.has("c"));
    }
}
