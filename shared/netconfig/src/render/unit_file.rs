//! The text of one of systemd-networkd's unit files. Sections are in alphabetical order, lines in a section are sorted,
//! and equal lines are written once.

use std::collections::{BTreeMap, BTreeSet};

/// A unit file under construction: sections that occur once, and repeated ones.
#[derive(Default)]
pub struct UnitFile {
    single: BTreeMap<&'static str, BTreeSet<String>>,
    pub addresses: BTreeSet<String>,
    pub routes: Vec<BTreeSet<String>>,
    pub rules: Vec<BTreeSet<String>>,
}

impl UnitFile {
    pub fn add(&mut self, section: &'static str, key: &str, value: impl std::fmt::Display) {
        self.single.entry(section).or_default().insert(format!("{key}={value}"));
    }

    pub fn text(&self) -> String {
        let mut sections: Vec<(&str, Vec<&String>)> =
            self.single.iter().map(|(name, lines)| (*name, lines.iter().collect())).collect();
        sections.extend(self.addresses.iter().map(|line| ("Address", vec![line])));
        sections.extend(self.routes.iter().map(|lines| ("Route", lines.iter().collect())));
        sections.extend(self.rules.iter().map(|lines| ("RoutingPolicyRule", lines.iter().collect())));
        // The sort is stable: sections of the same name keep their order.
        sort::sort_by_key(&mut sections, |(name, _)| *name);
        let mut text = String::new();
        for (name, lines) in sections {
            text.push_str(&format!("[{name}]\n"));
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
            text.push('\n');
        }
        format!("{}\n", text.trim_end_matches('\n'))
    }
}
