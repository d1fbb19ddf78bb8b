//! Findings: invalid, unknown and deprecated parts of a configuration, which are reported without stopping the reader.

use std::fmt;

use crate::Position;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// An invalid value.
    Invalid,
    /// An unknown key.
    Unknown,
    /// A deprecated key or value, which still works.
    Deprecated,
    /// A duplicate key; the last value is used.
    Duplicate,
}

/// A problem at one position of a configuration. The text never contains a value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The position of the value, or of the key.
    pub at: Position,
    /// Dotted path of the key: `users[1].lock_passwd`; empty for a finding about a whole file.
    pub key: String,
    /// The problem and what was expected, without the value.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return write!(f, "{}: {}", self.at, self.message);
        }
        write!(f, "{}: {}: {}", self.at, self.key, self.message)
    }
}

/// Findings in order.
#[derive(Debug, Clone, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding; its message must not contain a value, which may be a secret.
    pub fn add(
        &mut self,
        kind: FindingKind,
        at: &Position,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.0.push(Finding { kind, at: at.clone(), key: key.into(), message: message.into() });
    }

    /// Adds a finding about an invalid value.
    pub fn invalid(&mut self, at: &Position, key: impl Into<String>, message: impl Into<String>) {
        self.add(FindingKind::Invalid, at, key, message);
    }

    /// Adds a finding about a part that is not known.
    pub fn unknown(&mut self, at: &Position, key: impl Into<String>, message: impl Into<String>) {
        self.add(FindingKind::Unknown, at, key, message);
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Returns all findings in order.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends other findings.
    pub fn extend(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    /// Returns whether the value of a key, or one below it, is invalid.
    pub fn has_invalid(&self, key: &str) -> bool {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.of_kind(FindingKind::Invalid).any(|f| f.key.strip_prefix(key).is_some_and(is_below))
    }

    /// Returns the findings of one kind.
    pub fn of_kind(&self, kind: FindingKind) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(move |f| f.kind == kind)
    }
}

/// Returns the known key that is most similar to a misspelled one; at most a third of its characters may differ.
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (wrong.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .filter_map(|k| Some((edit_distance(wrong.as_bytes(), k.as_bytes(), most)?, k)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Returns the end of a message about a misspelled word: the known one that is most similar, or nothing.
pub fn suggestion<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(wrong, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// Longer than any known key.
const MAX_KEY_LENGTH: usize = 64;

/// The edit distance, if it is at most `most`; a swap of two adjacent characters is one edit (optimal string alignment). A
/// document may have thousands of unknown keys, each of which is compared with hundreds of known ones: most pairs end
/// before the table is filled in.
fn edit_distance(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most || b.len() > MAX_KEY_LENGTH {
        return None;
    }
    // A lower bound: each edit accounts for at most one character of `a` that `b` does not contain. Letters in upper and lower case
    // are the same.
    let bit = |c: &u8| 1_u32 << (c % 32);
    let letters = b.iter().fold(0, |all, c| all | bit(c));
    if a.iter().filter(|c| letters & bit(c) == 0).count() > most {
        return None;
    }
    let mut row: [usize; MAX_KEY_LENGTH + 1] = std::array::from_fn(|i| i);
    // The row of the character before.
    let mut last = row;
    let mut least_of_last = 0;
    for (i, x) in a.iter().enumerate() {
        let before = std::mem::replace(&mut last, row);
        row[0] = i + 1;
        let mut least = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = last[j] + usize::from(!x.eq_ignore_ascii_case(y));
            row[j + 1] = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
            least = least.min(row[j + 1]);
        }
        // A swap continues from the row before.
        if least > most && least_of_last > most {
            return None;
        }
        least_of_last = least;
    }
    Some(row[b.len()]).filter(|d| *d <= most)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suggestion_is_a_key_with_few_edits() {
        let known = ["hostname", "runcmd", "bootcmd"];
        assert_eq!(super::did_you_mean("runcmds", known), Some("runcmd"));
        assert_eq!(super::did_you_mean("host_name", known), Some("hostname"));
        assert_eq!(super::did_you_mean("password", known), None);
        assert_eq!(super::did_you_mean("bootcdm", known), Some("bootcmd"));
        // A swap of neighbours is one edit, at the beginning and at the end as well.
        for swapped in ["nmae", "anme", "naem"] {
            assert_eq!(super::did_you_mean(swapped, ["uid", "name", "sudo"]), Some("name"), "{swapped}");
        }
        assert_eq!(super::did_you_mean("eman", ["name"]), None);
        // Edits with characters that the other name does not contain: replaced, added, missing.
        for near in ["hostnayz", "hoxyzstname", "hostnam"] {
            assert_eq!(super::did_you_mean(near, known), Some("hostname"), "{near}");
        }
        assert_eq!(super::did_you_mean("vwxyname", known), None);
        assert_eq!(super::did_you_mean("", known), None);
        assert_eq!(super::did_you_mean(&"x".repeat(500), [&*"x".repeat(500)]), None);
    }
}
