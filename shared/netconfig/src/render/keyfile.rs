//! A keyfile under construction: sections and keys in the order of their first mention.

#[derive(Default)]
pub struct Keyfile {
    sections: Vec<Section>,
}

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
}

impl Keyfile {
    fn section_mut(&mut self, name: &'static str) -> &mut Section {
        let place = self.sections.iter().position(|s| s.name == name).unwrap_or_else(|| {
            self.sections.push(Section { name, ..Section::default() });
            self.sections.len() - 1
        });
        &mut self.sections[place]
    }

    /// Adds a section, which may remain empty.
    pub fn section(&mut self, name: &'static str) {
        self.section_mut(name);
    }

    pub fn has(&self, section: &str) -> bool {
        self.sections.iter().any(|s| s.name == section)
    }

    pub fn get(&self, section: &str, key: &str) -> Option<&str> {
        let section = self.sections.iter().find(|s| s.name == section)?;
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

    /// Adds a key that occurs only once, such as one with a running number.
    pub fn push(&mut self, section: &'static str, key: String, value: String) {
        self.section_mut(section).lines.push((key, value));
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            text.push_str(&format!("[{}]\n", section.name));
            for (key, value) in &section.lines {
                text.push_str(&format!("{key}={value}\n"));
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sections_and_keys_keep_their_insertion_order() {
        let mut file = super::Keyfile::default();
        file.set("b", "k", "1");
        file.section("empty");
        file.push("b", "route1".into(), "r".into());
        file.set("a", "x", "2");
        file.set("b", "k", "3");
        assert_eq!(file.text(), "[b]\nk=3\nroute1=r\n\n[empty]\n\n[a]\nx=2\n\n");
        assert_eq!((file.get("b", "k"), file.get("b", "route1")), (Some("3"), None));
        assert!(file.has("empty") && !file.has("c"));
    }
}
