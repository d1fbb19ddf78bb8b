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

/// Returns the lines for one user after an empty line.
fn rules_block(title: &str, lines: impl Iterator<Item = String>) -> String {
    let mut text = format!("\n{title}\n");
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
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

impl Distro {
    /// Adds a user's rules to the sudoers file, which sudo reads from its directory.
    ///
    /// # Errors
    /// Fails if a file of sudo cannot be read or written.
    pub fn write_sudo_rules(&self, sys: &System, user: &str, rules: &[String]) -> Result<()> {
        self.ensure_sudoers_include(sys)?;
        let title = format!("# User rules for {user}");
        append_block(
            sys,
            CLOUD_INIT_SUDOERS,
            &rules_block(&title, rules.iter().map(|rule| format!("{user} {rule}"))),
        )
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

    /// Adds a user's rules to doas.conf(5). If one of them does not name this user, none is written and an error is logged.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn write_doas_rules(&self, sys: &System, user: &str, rules: &[String]) -> Result<()> {
        if let Some(bad) = rules.iter().find(|rule| !is_doas_rule_for(rule, user)) {
            error!(sys, "user {user}: doas rule '{bad}' does not name the user; not writing any doas rules");
            return Ok(());
        }
        append_block(
            sys,
            DOAS_CONF,
            &rules_block(&format!("# cloud-init User rules for {user}"), rules.iter().cloned()),
        )
    }
}

/// Adds a block of lines to a file that begins with this program's header, unless the file contains the same block.
fn append_block(sys: &System, path: &str, block: &str) -> Result<()> {
    // A power failure may leave an empty file, or zeros in place of its content.
    let old =
        sys.read_text_if_exists(path)?.map(|text| text.replace('\0', "")).filter(|text| !text.is_empty());
    let text = match old {
        None => format!("{}\n{block}", make_header(sys, "Created")),
        Some(text) if text.contains(block) => return Ok(()),
        Some(text) => text + block,
    };
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
