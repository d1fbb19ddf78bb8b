//! Privileges of users through sudo(8) and doas(1). Pure functions compute the strings; a rule is added only once.

use system::{Result, System, WriteOptions, debug, error};

use crate::{Distro, make_header};

const SUDOERS: &str = "/etc/sudoers";
/// The sudoers file of immutable distributions.
const VENDOR_SUDOERS: &str = "/usr/etc/sudoers";
const SUDOERS_DIR: &str = "/etc/sudoers.d";
/// The file for rules. The name is upstream's, because administrators and tools look for it.
const CLOUD_INIT_SUDOERS: &str = "/etc/sudoers.d/90-cloud-init-users";
const DOAS_CONF: &str = "/etc/doas.conf";

/// Returns whether a sudoers text includes the files of `directory`. `#includedir` is not a comment in this format.
pub fn includes_directory(text: &str, directory: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        let Some(rest) = line.strip_prefix(['#', '@']).and_then(|l| l.strip_prefix("includedir")) else {
            return false;
        };
        rest.starts_with([' ', '\t']) && rest.trim().trim_end_matches('/') == directory
    })
}

/// Returns whether a line of doas.conf(5) names the user: `permit|deny [options] identity [as target] [cmd …]`.
pub fn is_doas_rule_for(rule: &str, user: &str) -> bool {
    let mut words = rule.split_whitespace();
    if !matches!(words.next(), Some("permit" | "deny")) {
        return false;
    }
    let mut inside = false;
    for word in words {
        match word {
            _ if inside => inside = !word.ends_with('}'),
            "nolog" | "nopass" | "persist" | "keepenv" => {}
            "setenv" => inside = true,
            identity => return identity == user,
        }
    }
    false
}

/// The rules of a user.
pub type UserRules = (String, Vec<String>);

impl Distro {
    /// Adds the rules of users to the sudoers file, which sudo reads from its directory.
    ///
    /// # Errors
    /// Fails if a file of sudo cannot be read or written.
    pub fn write_sudo_rules(&self, sys: &System, rules: &[UserRules]) -> Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        self.ensure_sudoers_include(sys)?;
        let line = |user: &str, rule: &str| format!("{user} {rule}\n");
        add_rules(sys, CLOUD_INIT_SUDOERS, "# User rules for", rules, line)
    }

    fn ensure_sudoers_include(&self, sys: &System) -> Result<()> {
        let own = sys.read_text_if_exists(SUDOERS)?;
        let text = match &own {
            Some(text) => text.clone(),
            None => sys.read_text_if_exists(VENDOR_SUDOERS)?.unwrap_or_default(),
        };
        if !includes_directory(&text, SUDOERS_DIR) {
            let note = if own.is_none() {
                "# See sudoers(5) for more information on \"#include\" directives:\n"
            } else {
                ""
            };
            let whole = format!("{text}{note}\n{}\n#includedir {SUDOERS_DIR}\n", make_header(sys, "Added"));
            let mode = own.as_ref().and_then(|_| sys.mode(SUDOERS)).unwrap_or(0o440);
            sys.write(SUDOERS, whole, WriteOptions::mode(mode))?;
            debug!(sys, "added an include of {SUDOERS_DIR} to {SUDOERS}");
        }
        sys.create_dir_all(SUDOERS_DIR, 0o750)?;
        sys.set_mode(SUDOERS_DIR, 0o750)
    }

    /// Adds the rules of users to doas.conf(5). If a user has a rule that does not name this user, none of its rules is
    /// written and an error is logged.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn write_doas_rules(&self, sys: &System, mut rules: Vec<UserRules>) -> Result<()> {
        rules.retain(|(user, rules)| {
            let bad = rules.iter().find(|rule| !is_doas_rule_for(rule, user));
            if let Some(bad) = bad {
                error!(
                    sys,
                    "user {user}: doas rule '{bad}' does not name the user; not writing any doas rules"
                );
            }
            bad.is_none()
        });
        add_rules(sys, DOAS_CONF, "# cloud-init User rules for", &rules, |_, rule| format!("{rule}\n"))
    }
}

/// Adds a block of lines for each user to a file that begins with this program's header, unless the file contains the
/// same block.
fn add_rules(
    sys: &System,
    path: &str,
    title: &str,
    rules: &[UserRules],
    line: impl Fn(&str, &str) -> String,
) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    // A power failure may leave an empty file, or zeros in place of its content.
    let old =
        sys.read_text_if_exists(path)?.map(|text| text.replace('\0', "")).filter(|text| !text.is_empty());
    let is_new = old.is_none();
    let mut text = old.unwrap_or_else(|| format!("{}\n", make_header(sys, "Created")));
    let before = text.len();
    // The start of each block by its user, because there may be thousands of users.
    let mut blocks: sort::Named<Vec<usize>> = sort::Named::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let user = line.strip_prefix(title).and_then(|user| user.strip_prefix(' '));
        if let Some(user) = user {
            blocks.entry(user.trim_end()).push(at);
        }
        at += line.len();
    }
    for (user, rules) in rules {
        let block =
            format!("{title} {user}\n") + &rules.iter().map(|rule| line(user, rule)).collect::<String>();
        let known = blocks.entry(user);
        if !known.iter().any(|at| text.get(*at..).is_some_and(|text| text.starts_with(&block))) {
            known.push(text.len() + 1);
            text = text + "\n" + &block;
        }
    }
    if !is_new && text.len() == before {
        return Ok(());
    }
    let mode = sys.mode(path).unwrap_or(0o440);
    sys.write(path, text, WriteOptions::mode(mode)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudoers_include_lines_are_recognised() {
        for (text, there) in [
            ("#includedir /etc/sudoers.d\n", true),
            ("  @includedir\t/etc/sudoers.d/ ", true),
            ("# includedir /etc/sudoers.d", false),
            ("#includedir /etc/sudoers.d2", false),
            ("", false),
        ] {
            assert_eq!(includes_directory(text, SUDOERS_DIR), there, "{text}");
        }
    }

    #[test]
    fn doas_rules_must_name_the_user() {
        for (rule, ok) in [
            ("permit nopass bob", true),
            ("permit nopass setenv { A B=c } bob as root cmd ls args -l", true),
            ("permit bob", true),
            ("deny bobby", false),
            ("permit nopass :wheel", false),
            ("allow bob", false),
            ("permit", false),
        ] {
            assert_eq!(is_doas_rule_for(rule, "bob"), ok, "{rule}");
        }
    }
}
