//! Forms that text must have where not any text is accepted.

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `2031-12-24`.
    Date,
    /// `512M`, `1.5G`.
    Size,
    /// `5` or `+5`.
    Minutes,
    /// A whole number in quotes: `12`.
    Digits,
    /// `a,b-c`.
    Tags,
    /// `user:password`.
    Pair,
    /// The name of a network interface, of at most 15 characters.
    Interface,
    /// The name of a module. Only the characters are checked here; the schema of modules knows the names.
    Module,
    /// The key type and part of a host key: `rsa_private`.
    HostKey,
    /// Text that is not empty.
    Name,
    /// A URL. Not checked here: fetching an invalid URL reports it.
    Uri,
}

impl Format {
    /// Returns what was expected, for messages: "expected …".
    pub fn description(self) -> &'static str {
        match self {
            Format::Date => "a date such as 2031-12-24",
            Format::Size => "a size such as 512M",
            Format::Minutes => "a number of minutes",
            Format::Digits => "a whole number",
            Format::Tags => "words with commas between them",
            Format::Pair => "a string such as user:password",
            Format::Interface => "an interface's name of at most 15 characters",
            Format::Module => "a module's name",
            Format::HostKey => "a kind of host key such as ed25519_private",
            Format::Name => "a name that is not empty",
            Format::Uri => "a URL",
        }
    }

    /// Returns the form as a regular expression for the JSON schema; empty where that has a format or a list instead.
    pub fn pattern(self) -> &'static str {
        match self {
            Format::Size => r"^([0-9]+)?\.?[0-9]+[BKMGT]$",
            Format::Minutes => r"^\+?[0-9]+$",
            Format::Digits => "^[0-9]+$",
            Format::Tags => "^[-_0-9a-zA-Z]+(,[-_0-9a-zA-Z]+)*$",
            Format::Pair => "^.+:.+$",
            Format::Interface => "^.{1,15}$",
            Format::HostKey => "^(ecdsa|ed25519|rsa)_(certificate|private|public)$",
            Format::Name => "^.+$",
            Format::Date | Format::Uri | Format::Module => "",
        }
    }

    /// Returns whether text has this form.
    pub fn matches(self, text: &str) -> bool {
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        // The dot of a regular expression does not match a line break.
        let is_line = !text.contains('\n');
        match self {
            Format::Date => encoding::calendar::parse_days(text).is_some(),
            Format::Size => {
                let Some(number) = text.strip_suffix(['B', 'K', 'M', 'G', 'T']) else { return false };
                match number.split_once('.') {
                    Some((whole, part)) => (whole.is_empty() || digits(whole)) && digits(part),
                    None => digits(number),
                }
            }
            Format::Minutes => digits(text.strip_prefix('+').unwrap_or(text)),
            Format::Digits => digits(text),
            Format::Tags => text.split(',').all(|word| {
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            }),
            // A colon with a character before and after it.
            Format::Pair => {
                is_line && text.char_indices().skip(1).any(|(at, c)| c == ':' && at + 1 < text.len())
            }
            Format::Interface => is_line && (1..=15).contains(&text.chars().count()),
            Format::Module => {
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            }
            Format::HostKey => text.split_once('_').is_some_and(|(kind, part)| {
                ["ecdsa", "ed25519", "rsa"].contains(&kind)
                    && ["certificate", "private", "public"].contains(&part)
            }),
            Format::Name => is_line && !text.is_empty(),
            Format::Uri => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn formats_accept_and_reject_text() {
        for (format, good, bad) in [
            (Format::Date, &["2024-02-29", "2031-12-24"][..], &["2023-02-29", "24.12.2031", "2031-1-1"][..]),
            (Format::Size, &["1G", "1.5M", ".5T"], &["1", "G", "1g", "1.G", "1.2.3K", "1G\n"]),
            (Format::Minutes, &["5", "+5"], &["", "+", "-5", "now", "5\n"]),
            (Format::Digits, &["12"], &["", "+1", "x", "1\n", "\u{663}"]),
            (Format::Tags, &["a", "a,b-c_1"], &["", "a,", "a b", "a\n"]),
            (Format::Pair, &["u:p", "u:p:q", ":u:p", "é:é"], &["u:", ":p", "::", "u", "u:p\n", "u:p\nx"]),
            (Format::Interface, &["eth0", "fifteen chärs.."], &["", "a-very-long-name", "eth0\n"]),
            (Format::Name, &["a", "a b"], &["", "a\n", "\na"]),
            (Format::HostKey, &["rsa_private", "ed25519_public"], &["dsa_private", "rsa", "rsa_public\n"]),
            (Format::Module, &["ssh", "ssh-import-id", "apt_configure"], &["a b", "", "ssh\n"]),
        ] {
            good.iter().for_each(|text| assert!(format.matches(text), "{format:?}: {text}"));
            bad.iter().for_each(|text| assert!(!format.matches(text), "{format:?}: {text}"));
            for text in good.iter().chain(bad).filter(|_| !format.pattern().is_empty()) {
                assert_eq!(
                    matches_pattern(format.pattern(), text),
                    format.matches(text),
                    "{format:?}: {text}"
                );
            }
        }
    }

    /// Returns whether a regular expression matches the whole text, by Python's engine.
    fn matches_pattern(pattern: &str, text: &str) -> bool {
        let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
        let script = "import re, sys; sys.exit(re.fullmatch(sys.argv[1], sys.argv[2]) is None)";
        let mut python = std::process::Command::new("python3");
        python.args(["-I", "-X", "utf8", "-c", script, pattern, text]).status().unwrap().success()
    }
}
