//! Texts of lines `KEY=value`: os-release(5), and the state files of systemd and NetworkManager.

use crate::System;

/// Returns the value of the first line `KEY=value`, as written.
pub fn assigned<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// The text of os-release(5), which names the distribution.
#[derive(Debug, Clone, Default)]
pub struct OsRelease(String);

impl System {
    /// Reads os-release(5). A file that does not exist or cannot be read has no values.
    pub fn os_release(&self) -> OsRelease {
        let text = self.read_text("/etc/os-release").or_else(|_| self.read_text("/usr/lib/os-release"));
        OsRelease(text.unwrap_or_default())
    }
}

impl OsRelease {
    /// Returns a value without quotes.
    pub fn get(&self, key: &str) -> Option<&str> {
        assigned(&self.0, key).map(|value| value.trim().trim_matches(['"', '\'']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_of_os_release_is_unquoted() {
        let release = OsRelease("NAME=\"A b\"\nID='ab'\nID_LIKE=c\n VERSION=1\nID=later\nEMPTY=\n".into());
        for (key, expected) in [
            ("NAME", Some("A b")),
            ("ID", Some("ab")),
            ("ID_LIKE", Some("c")),
            ("VERSION", None),
            ("EMPTY", Some("")),
            ("I", None),
        ] {
            assert_eq!(release.get(key), expected, "{key}");
        }
    }
}
