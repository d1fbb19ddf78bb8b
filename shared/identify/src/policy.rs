//! The policy: how the verdicts decide. It is a comma-separated list of a mode and of `key=value` items.

use std::fmt;

encoding::words! {
    /// Whether the datasources are checked.
    pub enum Mode {
        /// Check them; the result decides.
        Search = "search",
        /// Check them and write the result as a report; cloud-init is enabled.
        Report = "report",
        /// Check nothing; cloud-init is enabled.
        Enabled = "enabled",
        /// Check nothing; cloud-init is disabled.
        Disabled = "disabled",
    }

    /// The number of found datasources that are selected.
    pub enum OnFound { All = "all", First = "first", }

    /// Whether a "maybe" is selected if no datasource is found.
    pub enum OnMaybe { None = "none", All = "all", }

    /// Whether cloud-init is enabled if no datasource is selected.
    pub enum OnNotFound { Disabled = "disabled", Enabled = "enabled", }
}

/// The whole policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    pub found: OnFound,
    pub maybe: OnMaybe,
    pub not_found: OnNotFound,
}

/// Upstream's default on every architecture, with and without DMI. Packagers may patch it here.
pub const DEFAULT: Policy =
    Policy { mode: Mode::Search, found: OnFound::All, maybe: OnMaybe::None, not_found: OnNotFound::Disabled };

/// Parses a policy, and returns a warning for each unknown item. Missing items have their default; the last item of a kind
/// counts.
pub fn parse(text: &str) -> (Policy, Vec<String>) {
    let mut policy = DEFAULT;
    let mut warnings = Vec::new();
    // Blanks around an item are accepted; upstream silently ignores such an item.
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let is_known = match item.split_once('=') {
            None => Mode::from_word(item).map(|mode| policy.mode = mode).is_some(),
            // An invalid value resets an earlier valid one, as upstream does.
            Some(("found", word)) => set(&mut policy.found, DEFAULT.found, OnFound::from_word(word)),
            Some(("maybe", word)) => set(&mut policy.maybe, DEFAULT.maybe, OnMaybe::from_word(word)),
            Some(("notfound", word)) => {
                set(&mut policy.not_found, DEFAULT.not_found, OnNotFound::from_word(word))
            }
            Some(_) => false,
        };
        if !is_known {
            warnings.push(format!("policy: unknown item '{item}'; using the default"));
        }
    }
    (policy, warnings)
}

/// Sets a part of the policy to a value or, without one, to its default. Returns whether there is a value.
fn set<T>(part: &mut T, default: T, value: Option<T>) -> bool {
    let is_known = value.is_some();
    *part = value.unwrap_or(default);
    is_known
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},found={},maybe={},notfound={}", self.mode, self.found, self.maybe, self.not_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_policy_items_are_ignored_with_a_warning() {
        let default = "search,found=all,maybe=none,notfound=disabled";
        for (text, expected, warnings) in [
            ("", default, 0),
            ("report", "report,found=all,maybe=none,notfound=disabled", 0),
            ("enabled,found=first", "enabled,found=first,maybe=none,notfound=disabled", 0),
            ("search , maybe=all ,notfound=enabled", "search,found=all,maybe=all,notfound=enabled", 0),
            ("disabled,search,found=first,found=all", default, 0),
            ("maybe=all,maybe=some", default, 1),
            ("found=first,found", "search,found=first,maybe=none,notfound=disabled", 1),
            ("sometimes,,=,notfound=", default, 3),
        ] {
            let (policy, got) = parse(text);
            assert_eq!((policy.to_string().as_str(), got.len()), (expected, warnings), "{text:?}");
            // The printed form parses to the same policy.
            assert_eq!(parse(&policy.to_string()), (policy, vec![]));
        }
    }

    /// Properties of every list of up to four items: the last item of a kind counts, kinds are independent, spaces and
    /// empty items are ignored, and each unknown item has a warning.
    #[test]
    fn last_item_of_each_kind_counts() {
        #[rustfmt::skip]
        const ITEMS: [&str; 15] = [
            "search", "report", "enabled", "disabled", "found=all", "found=first", "maybe=none", "maybe=all",
            "notfound=disabled", "notfound=enabled", "found=x", "maybe=", "notfound", "mode=search", "Search",
        ];
        let kind = |item: &str| match item {
            "search" | "report" | "enabled" | "disabled" => Some(0),
            // A key without a value is not an item of its kind.
            _ => {
                let key = item.split_once('=').map(|(key, _)| key);
                ["found", "maybe", "notfound"].iter().position(|k| key == Some(k)).map(|k| k + 1)
            }
        };
        let items_of = |policy: &Policy| policy.to_string().split(',').map(String::from).collect::<Vec<_>>();
        let count = ITEMS.len();
        for number in 0..count.pow(4) {
            let mut items: Vec<&str> = (0..4).map(|at| ITEMS[number / count.pow(at) % count]).collect();
            items.truncate(number % 5);
            let (policy, warnings) = parse(&items.join(","));
            let is_unknown = |item: &&&str| parse(item).1.len() == 1;
            assert_eq!(warnings.len(), items.iter().filter(is_unknown).count(), "{items:?}");
            for (at, value) in items_of(&policy).iter().enumerate() {
                // The last item of that kind alone gives the same.
                let last = items.iter().rev().find(|item| kind(item) == Some(at)).copied().unwrap_or("");
                assert_eq!(*value, items_of(&parse(last).0)[at], "{items:?}");
            }
            assert_eq!(parse(&format!(" ,{} ,", items.join(" ,\t"))).0, policy, "{items:?}");
            assert_eq!(parse(&policy.to_string()), (policy, Vec::new()), "{items:?}");
        }
    }
}
