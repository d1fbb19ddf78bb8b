//! What no value of a network configuration may hold, for all renderers at once: a character that ends a line, starts
//! an escape, or would be read by a shell, makes a command or a section of what was meant as an address. Such a value is
//! left out before anything is made of the configuration, and reported with its place, never with itself.

use std::borrow::Cow;

use config::{Findings, Kind, Map, Node, Value};

use super::builder::join;

/// A configuration without the values that cannot be used.
pub struct Cleaned<'a> {
    pub config: Cow<'a, Node>,
    pub findings: Findings,
    /// How many pieces were left out.
    pub lost: usize,
}

/// Who reads the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The renderers here, whose files have no quotes.
    Renderers,
    /// netplan, whose file has: before 1.0.1 it wrote what it read into files of networkd and NetworkManager as it was.
    Netplan,
}

impl Reader {
    fn is_unfit(self, text: &str) -> bool {
        match self {
            Reader::Renderers => text.contains(for_files),
            Reader::Netplan => text.contains(|c: char| (c.is_control() && c != '\t') || is_line_end(c)),
        }
    }
}

/// A character that ends a line, or a backslash, which joins a line with the next one or begins an escape in every one of
/// the files' languages.
pub fn for_files(c: char) -> bool {
    c.is_control() || c == '\\' || is_line_end(c)
}

/// Line ends of Unicode beside those among the control characters.
fn is_line_end(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Characters that mean something to a shell, or end a quoted value of udev's.
pub fn is_shells(c: char) -> bool {
    "$`\"'\\;&|<>()".contains(c)
}

/// Keys whose value is a list of words: written as one text it is split at white space, line ends included.
const WORDS: [&str; 5] =
    ["dns_nameservers", "dns_search", "bond_interfaces", "bridge_interfaces", "interfaces"];

/// Takes out what has a character that is not for this reader: a key with its value, or an item of a list.
pub fn clean(config: &Node, reader: Reader) -> Cleaned<'_> {
    let mut cleaner = Cleaner { reader, findings: Findings::default(), lost: 0 };
    let config = match cleaner.has_unfit(config) {
        true => Cow::Owned(cleaner.node(config, "network", "")),
        false => Cow::Borrowed(config),
    };
    Cleaned { config, findings: cleaner.findings, lost: cleaner.lost }
}

struct Cleaner {
    reader: Reader,
    findings: Findings,
    lost: usize,
}

impl Cleaner {
    fn is_unfit(&self, node: &Node) -> bool {
        node.as_str().is_some_and(|text| self.reader.is_unfit(text))
    }

    fn has_unfit(&self, node: &Node) -> bool {
        match &node.value {
            Value::Seq(items) => items.iter().any(|item| self.has_unfit(item)),
            Value::Map(map) => map.iter().any(|(key, value)| self.is_unfit(key) || self.has_unfit(value)),
            _ => self.is_unfit(node),
        }
    }

    fn lose(&mut self, node: &Node, path: &str) {
        self.lost += 1;
        let message = "a character that no value of a network configuration may hold (a control character or a \
                       backslash): left out";
        self.findings.add(Kind::Wrong, &node.at, path, message);
    }

    fn node(&mut self, node: &Node, path: &str, parent: &str) -> Node {
        let value = match &node.value {
            Value::Seq(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    if self.is_unfit(item) {
                        self.lose(item, &path);
                    } else {
                        kept.push(self.node(item, &path, parent));
                    }
                }
                Value::Seq(kept)
            }
            Value::Map(map) => {
                let mut kept = Map::new();
                for (key, value) in map.iter() {
                    if self.is_unfit(key) {
                        self.lose(key, path);
                        continue;
                    }
                    let name = key.scalar_text().unwrap_or_default();
                    let path = join(path, &name);
                    if self.is_unfit(value) && !self.is_list_of_words(value, &name, parent) {
                        self.lose(value, &path);
                    } else {
                        kept.insert(key.clone(), self.node(value, &path, &name));
                    }
                }
                Value::Map(kept)
            }
            other => other.clone(),
        };
        Node { value, at: node.at.clone() }
    }

    fn is_list_of_words(&self, value: &Node, name: &str, parent: &str) -> bool {
        let is_name =
            WORDS.contains(&name) || (parent == "nameservers" && ["addresses", "search"].contains(&name));
        let words = || value.as_str().unwrap_or_default().split_ascii_whitespace();
        self.reader == Reader::Renderers && is_name && !words().any(|word| self.reader.is_unfit(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_goes() {
        let text = "{version: 2, ethernets: {eth0: {gateway4: \"1.1.1.1\\nup x\", addresses: [a, \"b\\0\", c],\n\
                    nameservers: {addresses: \"1.1.1.1\\n2.2.2.2\", search: [\"a\\u2028b\"]}}, \"e\\rx\": {dhcp4: true}}}";
        let root = config::yaml::parse("t", text).unwrap().root;
        let cleaned = clean(&root, Reader::Renderers);
        let said: Vec<String> = cleaned.findings.iter().map(|f| format!("{}: {}", f.at, f.key)).collect();
        assert_eq!(
            said,
            [
                "t:1:43: network.ethernets.eth0.gateway4",
                "t:1:75: network.ethernets.eth0.addresses[1]",
                "t:2:55: network.ethernets.eth0.nameservers.search[0]",
                "t:2:70: network.ethernets",
            ]
        );
        assert_eq!(cleaned.lost, 4);
        let left = cleaned.config.to_json().to_string();
        let expected = r#"{"ethernets":{"eth0":{"addresses":["a","c"],"nameservers":{"addresses":"1.1.1.1\n2.2.2.2","search":[]}}},"version":2}"#;
        assert_eq!(left, expected);
        let fine = config::yaml::parse("t", "{version: 1, config: [{name: 'a b'}]}").unwrap().root;
        assert!(matches!(clean(&fine, Reader::Renderers).config, Cow::Borrowed(_)));
    }
}
