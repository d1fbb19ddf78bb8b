//! Rules of hosts_access(5), which refuse connections where sshd is built with libwrap, as Debian's is. Only what is certain counts.

use system::System;

const DENY: &str = "/etc/hosts.deny";
const ALLOW: &str = "/etc/hosts.allow";
/// The program that accepts connections, and the one that serves them since OpenSSH 9.8.
const SERVERS: [&str; 3] =
    ["/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/libexec/openssh/sshd-session"];

/// Returns the line that refuses every client, if none before it permits one from elsewhere. The first rule that matches decides.
pub fn refusal(sys: &System) -> Option<String> {
    let is_built_with_it = |path: &&&str| {
        sys.read(path).is_ok_and(|program| program.windows(10).any(|bytes| bytes == b"libwrap.so"))
    };
    for file in [ALLOW, DENY] {
        let text = match sys.read_text(file) {
            Err(e) if !e.is_not_found() => return None,
            text => text.unwrap_or_default(),
        };
        for (number, rule) in rules(&text).filter(|(_, rule)| is_of_sshd(rule)) {
            let has =
                |word: &str| rule.split(':').skip(2).any(|option| option.trim().eq_ignore_ascii_case(word));
            let is_command = |option: &str| option.trim().to_ascii_lowercase().starts_with("aclexec");
            if rule.split(':').skip(2).any(is_command) {
                // It decides.
                return None;
            }
            let refuses = has("deny") || file == DENY && !has("allow");
            if refuses && is_of_every_client(&rule) {
                return SERVERS.iter().find(is_built_with_it).map(|_| format!("{file}, line {number}"));
            }
            let is_local = |word: &str| word.starts_with("127.") || word == "localhost";
            if !refuses && !list(&rule, 1).all(is_local) {
                return None;
            }
        }
    }
    None
}

/// Returns the rules with the numbers of their first lines. A backslash at the end of a line continues it.
fn rules(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = (1..).zip(text.lines());
    std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let mut rule = line.to_string();
        while rule.ends_with('\\') {
            rule.pop();
            rule += lines.next().map_or("", |(_, next)| next);
        }
        // Colons separate fields.
        Some((number, rule.replace("[::1]", "localhost")))
    })
    .filter(|(_, rule)| !rule.trim_start().starts_with('#'))
}

/// Returns the words of the list of daemons (0) or of clients (1).
fn list(rule: &str, field: usize) -> impl Iterator<Item = &str> {
    let list = rule.split(':').nth(field).unwrap_or_default();
    list.split([' ', '\t', ',']).filter(|word| !word.is_empty())
}

fn is_of_sshd(rule: &str) -> bool {
    list(rule, 0).any(|word| word.eq_ignore_ascii_case("ALL") || word.split('@').next() == Some("sshd"))
}

/// Returns whether a rule that is about sshd is about every client.
fn is_of_every_client(rule: &str) -> bool {
    let has = |field: usize, name: &str| list(rule, field).any(|word| word.eq_ignore_ascii_case(name));
    has(1, "ALL") && !has(0, "EXCEPT") && !has(1, "EXCEPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_without_an_exception_are_certain() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        root.put("usr/sbin/sshd", "\0libwrap.so.0\0");
        for (deny, allow, place) in [
            ("# sshd: ALL\nALL: ALL\n", "", Some("deny, line 2")),
            ("sshd : all\n", "vsftpd: ALL\nALL: 127.0.0.1 [::1]\n", Some("deny, line 1")),
            ("in.telnetd, \\\n sshd: ALL\n", "", Some("deny, line 1")),
            ("sshd: ALL: spawn /bin/true\n", "", Some("deny, line 1")),
            ("", "sshd: 192.0.2.1: deny\nALL: ALL: DENY\n", Some("allow, line 2")),
            ("ALL: PARANOID\n", "", None),
            ("sshd: ALL EXCEPT LOCAL\n", "", None),
            ("ALL EXCEPT sshd: ALL\n", "", None),
            ("sshd: ALL: ALLOW\n", "", None),
            ("sshd: 192.0.2.1: allow\nALL: ALL\n", "", None),
            ("ALL: ALL\n", "sshd: 192.0.2.0/24\n", None),
        ] {
            root.put("etc/hosts.deny", deny);
            root.put("etc/hosts.allow", allow);
            let wanted = place.map(|place| format!("/etc/hosts.{place}"));
            assert_eq!(refusal(&sys), wanted, "{deny}{allow}");
        }
        root.put("etc/hosts.allow", "");
        root.put("etc/hosts.deny", "ALL: ALL\n");
        root.put("usr/sbin/sshd", "of another build");
        assert_eq!(refusal(&sys), None);
    }
}
