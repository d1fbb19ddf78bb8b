//! What is wrong, unknown or old in a configuration: found, reported, and survived.

use std::fmt;

use crate::Mark;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that cannot be used.
    Wrong,
    /// A key that nothing reads.
    Unknown,
    /// Still works, spelled in an old way.
    Deprecated,
    /// A key that the same map has twice; the last one counts.
    Duplicate,
}

/// One remark on one place of a configuration. Its text never holds a value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    pub at: Mark,
    /// Dotted path of the key: `users[1].lock_passwd`; empty for a remark on a whole file.
    pub key: String,
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

/// Findings in the order of reading.
#[derive(Debug, Clone, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn add(&mut self, kind: Kind, at: &Mark, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Finding { kind, at: at.clone(), key: key.into(), message: message.into() });
    }

    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn extend(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(move |f| f.kind == kind)
    }
}

/// The known key that a misspelled one most likely means: at most a third of its letters differ.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (wrong.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|k| (distance(wrong, k), k))
        .filter(|(d, _)| *d <= most)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Levenshtein's edit distance; inputs beyond 64 characters are never near.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    #[test]
    fn did_you_mean() {
        let known = ["hostname", "runcmd", "bootcmd"];
        assert_eq!(super::nearest("runcmds", known), Some("runcmd"));
        assert_eq!(super::nearest("host_name", known), Some("hostname"));
        assert_eq!(super::nearest("password", known), None);
    }
}
