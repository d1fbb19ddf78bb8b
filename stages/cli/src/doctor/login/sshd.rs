//! The settings of the SSH server as they are for a user.

use std::time::Duration;

use system::Command;

use crate::machine::Machine;

// Wait: doctor | sshd, which prints its settings | -
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Where a socket starts sshd, it lacks a directory of its unit before the first connection, and prints nothing. It gets one in a /run
/// that no other process sees.
const IN_OWN_RUN: &str =
    r#"mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd && exec sshd -T -C "$1""#;

/// sshd's settings for a user: `KEYWORD VALUE` lines, as `sshd -T` prints them, in lower case or, as newer releases do, as
/// sshd_config(5) spells them.
pub struct Sshd(String);

impl Sshd {
    /// Returns the settings for a user; `None` if the server does not show them.
    pub fn of(machine: &Machine, user: &str) -> Option<Sshd> {
        let connection = format!("user={user},host=localhost,addr=127.0.0.1");
        let ask = |words: &[&str]| {
            let command = Command::new(words.iter().copied()).arg(&connection).timeout(TIMEOUT).read_only();
            machine.sys.run(&command).ok()
        };
        let settings =
            ask(&["sshd", "-T", "-C"]).or_else(|| ask(&["unshare", "--mount", "sh", "-c", IN_OWN_RUN, "sh"]));
        Some(Sshd(settings?.text()))
    }

    pub fn values<'a>(&'a self, keyword: &str) -> impl Iterator<Item = &'a str> {
        // OpenSSH 10.6 prints keywords as in its manual page, earlier releases in lower case.
        let settings = self.0.lines().filter_map(|line| line.split_once(' '));
        let values = settings.filter(move |(word, _)| word.eq_ignore_ascii_case(keyword));
        values.flat_map(|(_, values)| values.split_whitespace())
    }

    pub fn is_yes(&self, keyword: &str) -> bool {
        self.values(keyword).next() == Some("yes")
    }

    /// Returns the setting that refuses the password of a user. Root's is refused by default.
    pub fn password_refusal(&self, user: &str) -> Option<&'static str> {
        if !self.is_yes("passwordauthentication") && !self.is_yes("kbdinteractiveauthentication") {
            return Some("PasswordAuthentication");
        }
        (user == "root" && !self.is_yes("permitrootlogin")).then_some("PermitRootLogin")
    }

    /// Returns whether a setting is not set, or `none`.
    pub fn is_none(&self, keyword: &str) -> bool {
        self.values(keyword).next().is_none_or(|value| value == "none")
    }

    /// Returns whether a key alone is enough for `AuthenticationMethods`, a list of lists, which is `any` by default.
    pub fn accepts_key_alone(&self) -> bool {
        let mut lists = self.values("authenticationmethods").peekable();
        lists.peek().is_none()
            || lists.any(|list| list == "any" || list.starts_with("publickey") && !list.contains(','))
    }

    /// Returns whether keys of a type are accepted; sshd knows RSA keys by their signatures.
    pub fn accepts_key_of(&self, kind: &str) -> bool {
        let names = ["pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes"];
        let mut accepted =
            names.iter().flat_map(|name| self.values(name)).flat_map(|list| list.split(',')).peekable();
        let is_rsa = kind == "ssh-rsa";
        accepted.peek().is_none()
            || accepted.any(|name| name == kind || is_rsa && matches!(name, "rsa-sha2-256" | "rsa-sha2-512"))
    }

    /// Returns the setting that refuses a user in these groups.
    pub fn refusal(&self, user: &str, groups: &[&str]) -> Option<&'static str> {
        let lists = |keyword: &str, names: &[&str]| {
            let user_part = |pattern: &str| pattern.split('@').next().unwrap_or_default().to_string();
            let patterns: Vec<String> = self.values(keyword).map(user_part).collect();
            let is_in =
                names.iter().any(|name| patterns.iter().any(|pattern| matches_pattern(pattern, name)));
            (!patterns.is_empty(), is_in)
        };
        match (
            lists("denyusers", &[user]),
            lists("allowusers", &[user]),
            lists("denygroups", groups),
            lists("allowgroups", groups),
        ) {
            ((_, true), ..) => Some("DenyUsers"),
            (_, (true, false), ..) => Some("AllowUsers"),
            (.., (_, true), _) => Some("DenyGroups"),
            (.., (true, false)) => Some("AllowGroups"),
            _ => None,
        }
    }
}

/// Returns whether a name matches a pattern of ssh_config(5), in which brackets are ordinary characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern == name || !pattern.contains(['[', '\\']) && netconfig::glob_match(pattern, name)
}

/// Returns ` (FILE)` for the file of sshd_config.d, or the main one, that sets a keyword first; empty if none does.
pub fn place_of(machine: &Machine, keyword: &str) -> String {
    let sys = &machine.sys;
    let top = "/etc/ssh/sshd_config.d";
    let mut files: Vec<String> =
        sys.list(top).unwrap_or_default().iter().map(|name| format!("{top}/{name}")).collect();
    sort::sort(&mut files);
    files.push("/etc/ssh/sshd_config".into());
    let sets = |path: &&String| {
        let text = sys.read_text(path.as_str()).unwrap_or_default();
        text.lines().any(|line| {
            line.trim_start()
                .split([' ', '\t', '='])
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case(keyword))
        })
    };
    files.iter().find(sets).map_or(String::new(), |path| format!(" ({path})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_sshd_that_refuse_a_user_are_found() {
        for (settings, expected) in [
            ("port 22\n", None),
            ("allowusers bob\nallowusers al*@10.0.0.0/8\n", None),
            ("allowusers bob\n", Some("AllowUsers")),
            ("AllowUsers bob\n", Some("AllowUsers")),
            ("denyusers al?ce\n", Some("DenyUsers")),
            ("allowgroups wheel\n", Some("AllowGroups")),
            ("allowgroups adm\n", None),
            ("denygroups a*m\n", Some("DenyGroups")),
        ] {
            assert_eq!(Sshd(settings.into()).refusal("alice", &["adm"]), expected, "{settings}");
        }
    }

    #[test]
    fn a_key_alone_is_enough_unless_sshd_demands_more() {
        for (methods, expected) in [
            ("", true),
            ("authenticationmethods any\n", true),
            ("authenticationmethods publickey\n", true),
            ("authenticationmethods publickey,password password\n", false),
            ("authenticationmethods publickey,password publickey\n", true),
        ] {
            assert_eq!(Sshd(methods.into()).accepts_key_alone(), expected, "{methods}");
        }
    }

    #[test]
    fn passwords_that_sshd_refuses_are_found() {
        for (settings, user, expected) in [
            ("passwordauthentication yes\n", "amy", None),
            ("passwordauthentication no\n", "amy", Some("PasswordAuthentication")),
            ("passwordauthentication no\nkbdinteractiveauthentication yes\n", "amy", None),
            (
                "passwordauthentication yes\npermitrootlogin without-password\n",
                "root",
                Some("PermitRootLogin"),
            ),
            ("passwordauthentication yes\npermitrootlogin yes\n", "root", None),
        ] {
            assert_eq!(Sshd(settings.into()).password_refusal(user), expected, "{user}: {settings}");
        }
    }

    #[test]
    fn keys_are_accepted_by_the_names_of_their_signatures() {
        for (settings, kind, expected) in [
            ("", "ssh-dss", true),
            ("pubkeyacceptedalgorithms ssh-ed25519,rsa-sha2-512\n", "ssh-ed25519", true),
            ("pubkeyacceptedalgorithms ssh-ed25519,rsa-sha2-512\n", "ssh-rsa", true),
            ("pubkeyacceptedalgorithms ssh-ed25519,rsa-sha2-512\n", "ssh-dss", false),
            ("pubkeyacceptedkeytypes ecdsa-sha2-nistp256\n", "ssh-ed25519", false),
        ] {
            assert_eq!(Sshd(settings.into()).accepts_key_of(kind), expected, "{settings} {kind}");
        }
    }
}
