//! The policy: what is done with what was found. A comma separated list of a mode and of `key=value`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Look, and let the result decide.
    Search,
    /// Look, write what would have been decided, decide nothing.
    Report,
    Enabled,
    Disabled,
}

/// What is done with several that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFound {
    All,
    First,
}

/// What is done with those that may be there, when none is found for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMaybe {
    None,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnNotFound {
    Disabled,
    Enabled,
}

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

/// Reads a policy; what it does not say is the default's. The last item of a kind wins.
pub fn parse(text: &str) -> (Policy, Vec<String>) {
    let mut policy = DEFAULT;
    let mut warnings = Vec::new();
    // Blanks around an item are forgiven; upstream ignores such an item without a word.
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let mut unknown = || warnings.push(format!("policy: unknown item '{item}', the default is used"));
        match item {
            "search" => policy.mode = Mode::Search,
            "report" => policy.mode = Mode::Report,
            "enabled" => policy.mode = Mode::Enabled,
            "disabled" => policy.mode = Mode::Disabled,
            "found=all" => policy.found = OnFound::All,
            "found=first" => policy.found = OnFound::First,
            "maybe=none" => policy.maybe = OnMaybe::None,
            "maybe=all" => policy.maybe = OnMaybe::All,
            "notfound=disabled" => policy.not_found = OnNotFound::Disabled,
            "notfound=enabled" => policy.not_found = OnNotFound::Enabled,
            _ => {
                unknown();
                // A wrong value takes back an earlier right one, as it does upstream.
                match item.split_once('=').map(|(key, _)| key) {
                    Some("found") => policy.found = DEFAULT.found,
                    Some("maybe") => policy.maybe = DEFAULT.maybe,
                    Some("notfound") => policy.not_found = DEFAULT.not_found,
                    _ => {}
                }
            }
        }
    }
    (policy, warnings)
}

macro_rules! display {
    ($kind:ident: $($variant:ident => $word:literal),*) => {
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($kind::$variant => $word),* })
            }
        }
    };
}
display!(Mode: Search => "search", Report => "report", Enabled => "enabled", Disabled => "disabled");
display!(OnFound: All => "all", First => "first");
display!(OnMaybe: None => "none", All => "all");
display!(OnNotFound: Disabled => "disabled", Enabled => "enabled");

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},found={},maybe={},notfound={}", self.mode, self.found, self.maybe, self.not_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
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
            // What is shown can be read back.
            assert_eq!(parse(&policy.to_string()), (policy, vec![]));
        }
    }

    /// Properties of every list of up to four items: order within a kind decides, kinds do not touch one
    /// another, blanks and empty items mean nothing, and unknown items are remarked upon one by one.
    #[test]
    fn properties() {
        #[rustfmt::skip]
        const ITEMS: [&str; 15] = [
            "search", "report", "enabled", "disabled", "found=all", "found=first", "maybe=none", "maybe=all",
            "notfound=disabled", "notfound=enabled", "found=x", "maybe=", "notfound", "mode=search", "Search",
        ];
        let kind = |item: &str| match item {
            "search" | "report" | "enabled" | "disabled" => Some(0),
            // A key without a value is no item of its kind.
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
