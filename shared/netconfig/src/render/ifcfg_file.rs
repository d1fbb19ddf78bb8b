//! The text of one ifcfg file: keys and quoted values.

use std::collections::BTreeMap;

use system::System;

/// The comment at the head of every file below /etc/sysconfig.
pub const HEADER: &str = "# Created by cloud-init automatically, do not edit.\n#\n";

/// The keys of one ifcfg file: sorted when they are written.
#[derive(Default)]
pub struct Ifcfg(BTreeMap<String, String>);

impl Ifcfg {
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// Appends a word to the value of the key.
    pub fn append(&mut self, key: &str, word: &str) {
        let value = self.0.entry(key.to_string()).or_default();
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(word);
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn text(&self) -> String {
        let mut text = HEADER.to_string();
        for (key, value) in &self.0 {
            text.push_str(&format!("{key}={}\n", shell_quoted(value)));
        }
        text
    }
}

/// Quotes a value so that a shell reads it literally: the network scripts are shell, and NetworkManager and wicked read
/// the same quotes.
pub fn shell_quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,:/=+@%^-".contains(c) || !c.is_ascii();
    if value.chars().all(is_plain) {
        value.to_string()
    } else if value.chars().all(|c| is_plain(c) || c == ' ') {
        format!("\"{value}\"")
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}

/// Returns whether NetworkManager's plugin that reads these files is installed.
pub fn has_ifcfg_plugin(sys: &System) -> bool {
    let has = |dir: &str| {
        let versions = sys.list(dir).unwrap_or_default();
        versions.iter().any(|v| sys.is_file(format!("{dir}/{v}/libnm-settings-plugin-ifcfg-rh.so")))
            || sys.is_file(format!("{dir}/libnm-settings-plugin-ifcfg-rh.so"))
    };
    ["/usr/lib/NetworkManager", "/usr/lib64/NetworkManager"].iter().any(|dir| has(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_the_shell() {
        let mut file = Ifcfg::default();
        file.set("B", "a b");
        file.set("A", "x");
        file.append("C", "1");
        file.append("C", "2");
        file.set("D", "$(x) it's");
        let expected = "A=x\nB=\"a b\"\nC=\"1 2\"\nD='$(x) it'\\''s'\n";
        assert_eq!(file.text(), format!("{HEADER}{expected}"));
    }

    /// Checks that a shell reads back each quoted value.
    #[test]
    fn quoted_values_are_read_back() {
        let words = |text: &str| crate::parse::klibc::shell_words(text);
        for value in scratch::mutations("a b$(x) it's \\\"#\n\t;ü".as_bytes(), 5000) {
            // klibc's reader takes the line ends of DOS for those of Unix.
            let value = String::from_utf8_lossy(&value).replace('\r', "");
            let mut file = Ifcfg::default();
            file.set("A", &value);
            file.set("B", "x");
            let text = file.text();
            assert_eq!(
                words(&text[HEADER.len()..]),
                Some(vec![format!("A={value}"), "B=x".into()]),
                "{text}"
            );
        }
    }
}
