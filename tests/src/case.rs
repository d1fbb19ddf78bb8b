//! What a cloud of `tests/clouds` says about itself: its file `case`, lines of `key: value`. `tests/README.md` lists the keys.

use std::path::Path;

use crate::{Reach, fail, tests_dir};

/// A cloud of `tests/clouds` with a file `case`.
pub struct Case {
    /// The name of its directory.
    pub name: String,
    text: String,
}

impl Case {
    /// Returns the case of this name.
    pub fn read(name: &str) -> Case {
        let path = tests_dir().join("clouds").join(name).join("case");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
        Case { name: name.into(), text }
    }

    /// Returns the case of a directory; without a file `case` it has no keys.
    pub(crate) fn in_directory(directory: &Path) -> Case {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Case { name, text: std::fs::read_to_string(directory.join("case")).unwrap_or_default() }
    }

    /// Returns the cases of a test, by name. `FIRSTLIGHT_CLOUD` selects those with this text in their names.
    pub fn all(test: &str) -> Vec<Case> {
        let selected = std::env::var("FIRSTLIGHT_CLOUD").unwrap_or_default();
        let folders = std::fs::read_dir(tests_dir().join("clouds")).into_iter().flatten().flatten();
        let mut names: Vec<String> = folders
            .filter(|folder| folder.path().join("case").exists())
            .map(|folder| folder.file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains(&selected))
            .collect();
        names.sort();
        let cases: Vec<Case> =
            names.iter().map(|name| Case::read(name)).filter(|case| case.is_in(test)).collect();
        assert!(!cases.is_empty() || !selected.is_empty(), "no cloud of tests/clouds is in the test {test}");
        cases
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.text.lines().filter_map(|line| line.split_once(": "));
        pairs.find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Returns the intended differences from upstream: each first text in our results, and upstream's.
    pub fn differences(&self) -> Vec<(&str, &str)> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("differs: "));
        lines.filter_map(|line| line.split_once(" => ")).collect()
    }

    /// Returns whether the case is one of this test.
    pub fn is_in(&self, test: &str) -> bool {
        self.get("tests").unwrap_or_default().split(' ').any(|word| word == test)
    }

    /// Returns how the machine reaches the service.
    pub fn reach(&self) -> Reach {
        self.parse_reach("reach")
    }

    /// As [`Case::reach`], for a machine that may boot the packaged cloud-init.
    pub fn upstream_reach(&self) -> Reach {
        self.parse_reach(if self.get("upstream-reach").is_some() { "upstream-reach" } else { "reach" })
    }

    fn parse_reach(&self, key: &str) -> Reach {
        let value = self.get(key).unwrap_or_default();
        // Leaked once in a test, because the values of a `Reach` are constants elsewhere.
        let leaked = |text: &str| -> &'static str { text.to_string().leak() };
        match value.split_once(' ').unwrap_or((value, "")) {
            ("dhcp", "") => Reach::Dhcp,
            ("azure-dhcp", "") => Reach::AzureDhcp,
            ("link-local", "") => Reach::LinkLocal,
            ("own", "") => Reach::OWN,
            ("own", address) => Reach::Own(leaked(address)),
            ("socket", path) => Reach::Socket(leaked(path)),
            ("serial", path) => Reach::Serial(leaked(path)),
            ("none", "") => Reach::None,
            _ => fail(&format!("{}: {key}: unknown value '{value}'", self.name)),
        }
    }
}
