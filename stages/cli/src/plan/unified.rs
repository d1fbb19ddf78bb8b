//! A plan as one patch: unified differences of the files that would change, as `patch -p1` and `git apply` read them, then
//! users, groups and programs in lines that both skip.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use system::single_line;

use super::diff::{Line, diff};
use super::show::{PlanView, cause, last_writes, messages};
use crate::json;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

impl PlanView<'_> {
    /// Returns the plan as a patch.
    pub fn unified(&self, reports: &[Value]) -> String {
        let mut text = String::new();
        for path in self.changed_paths(reports) {
            text += &self.file(&path);
        }
        for (kind, file) in [("user", "/etc/passwd"), ("group", "/etc/group")] {
            let accounts = self.planned.read_text(file).unwrap_or_default();
            let names = accounts.lines().filter_map(|line| Some(line.split_once(':')?.0));
            for name in names.filter(|name| self.real.account_line(file, name).is_none()) {
                let _ = writeln!(text, "# {kind} {name}");
            }
        }
        for report in reports {
            let stage = json::text(report, "stage");
            for effect in json::items(report, "effects") {
                if !self.is_state(json::text(effect, "path")) && effect["do"] != "write" {
                    let what = format!("{stage}: {}: {}", cause(effect), self.line(effect));
                    let _ = writeln!(text, "# {}", single_line(&what));
                }
            }
            for (word, message) in messages(report) {
                let _ = writeln!(text, "# {stage}: {word}: {}", single_line(message));
            }
        }
        text
    }

    /// Returns the files that differ, in the order of their paths. Accounts are listed by name instead, as their numbers
    /// are not known.
    fn changed_paths(&self, reports: &[Value]) -> Vec<String> {
        const ACCOUNTS: [&str; 4] = ["/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"];
        let is_shown = |path: &String| !self.is_state(path) && !ACCOUNTS.contains(&path.as_str());
        last_writes(reports).into_keys().filter(is_shown).collect()
    }

    fn file(&self, path: &str) -> String {
        let name = path.trim_start_matches('/');
        let is_new = !self.real.exists(path);
        let Ok(meta) = self.planned.metadata(path) else { return format!("# {path}: removed again\n") };
        let mode = meta.permissions().mode();
        if mode & 0o004 == 0 && !self.sensitive {
            let verb = if is_new { "new" } else { "changed" };
            return format!("# {path}: {verb}, not world-readable\n");
        }
        let Some((old, new)) = self.versions(path) else {
            return format!("# {path}: changed, not text\n");
        };
        if old == new && !is_new {
            return String::new();
        }
        let header = format!("diff --git a/{name} b/{name}\n");
        match is_new {
            true => format!(
                "{header}new file mode 100{:03o}\n{}",
                mode & 0o777,
                patch("/dev/null", name, &old, &new)
            ),
            false => header + &patch(&format!("a/{name}"), name, &old, &new),
        }
    }
}

/// Returns the unified difference of two strings; empty if they are equal.
fn patch(old_name: &str, name: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let lines = diff(&old, &new);
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let changes: Vec<usize> = (0..lines.len()).filter(|i| is_change(&lines[*i])).collect();
    let mut text = String::new();
    let mut rest = &changes[..];
    while let Some(first) = rest.first() {
        // Changes with at most twice the context between them are in one hunk.
        let count = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] <= 2 * CONTEXT + 1).count();
        let last = rest[count - 1];
        rest = &rest[count..];
        let (from, to) = (first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(lines.len()));
        if text.is_empty() {
            text = format!("--- {old_name}\n+++ b/{name}\n");
        }
        text += &hunk(&lines, from, to);
    }
    text
}

fn hunk(lines: &[Line<'_>], from: usize, to: usize) -> String {
    let of_old = |lines: &[Line<'_>]| lines.iter().filter(|line| !matches!(line, Line::New(_))).count();
    let of_new = |lines: &[Line<'_>]| lines.iter().filter(|line| !matches!(line, Line::Old(_))).count();
    // Lines are counted from 1; an empty range names the line before it.
    let range = |begin: usize, count: usize| match count {
        0 => format!("{begin},0"),
        1 => (begin + 1).to_string(),
        _ => format!("{},{count}", begin + 1),
    };
    let shown = &lines[from..to];
    let mut text = format!(
        "@@ -{} +{} @@\n",
        range(of_old(&lines[..from]), of_old(shown)),
        range(of_new(&lines[..from]), of_new(shown))
    );
    for line in shown {
        let (mark, line) = match line {
            Line::Same(line) => (' ', line),
            Line::Old(line) => ('-', line),
            Line::New(line) => ('+', line),
        };
        let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
        let _ = write!(text, "{mark}{line}{end}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::patch;

    #[test]
    fn hunks_have_three_lines_of_context() {
        let numbers: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let old = numbers.join("\n") + "\n";
        let new = old.replace("\n5\n", "\nfive\n").replace("\n18\n", "\n");
        assert_eq!(
            patch("a/f", "f", &old, &new),
            "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n"
        );
        assert_eq!(patch("/dev/null", "f", "", "a\n"), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(
            patch("a/f", "f", "a\nb", "a\nb\n"),
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
        );
        assert_eq!(
            patch("a/f", "f", "a\nb", "c\nb"),
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n"
        );
        assert_eq!(
            patch("a/f", "f", "a", "a\nb\n"),
            "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"
        );
        assert_eq!(patch("a/f", "f", "a\n", "a\n"), "");
    }
}
