//! Rules of hosts_access(5), which refuse connections where sshd is built with libwrap, as Debian's is. Only what is certain counts.

use system::System;

const DENY: &str = "/etc/hosts.deny";
const ALLOW: &str = "/etc/hosts.allow";
/// The program that accepts connections, and the one that serves them since OpenSSH 9.8.
const SERVERS: [&str; 3] =
    ["/usr/sbin/sshd", "/usr/lib/openssh/sshd-session", "/usr/libexec/openssh/sshd-session"];

/// Returns the line of hosts.deny that refuses everybody, if no rule of hosts.allow is about sshd.
pub fn refusal(sys: &System) -> Option<String> {
    let deny = sys.read_text(DENY).ok()?;
    let (number, _) = rules(&deny).find(|(_, rule)| is_of_sshd(rule) && refuses_everybody(rule))?;
    let is_allowed = match sys.read_text(ALLOW) {
        Ok(allow) => rules(&allow).any(|(_, rule)| is_of_sshd(&rule)),
        Err(e) => !e.is_not_found(),
    };
    let is_built_with_it = || {
        let reads = |path: &&str| {
            sys.read(path).is_ok_and(|program| program.windows(10).any(|bytes| bytes == b"libwrap.so"))
        };
        SERVERS.iter().any(|path| reads(&path))
    };
    (!is_allowed && is_built_with_it()).then(|| format!("{DENY}, line {number}"))
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
        Some((number, rule))
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

/// Returns whether a rule that is about sshd is about every client, and has no options, which may permit.
fn refuses_everybody(rule: &str) -> bool {
    let has = |field: usize, name: &str| list(rule, field).any(|word| word.eq_ignore_ascii_case(name));
    has(1, "ALL") && !has(0, "EXCEPT") && !has(1, "EXCEPT") && rule.split(':').nth(2).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_without_an_exception_are_certain() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        root.put("usr/sbin/sshd", "\0libwrap.so.0\0");
        for (deny, allow, line) in [
            ("# sshd: ALL\nALL: ALL\n", "", Some(2)),
            ("sshd : all\n", "vsftpd: ALL\n", Some(1)),
            ("in.telnetd, \\\n sshd: ALL\n", "", Some(1)),
            ("ALL: PARANOID\n", "", None),
            ("sshd: ALL EXCEPT LOCAL\n", "", None),
            ("ALL EXCEPT sshd: ALL\n", "", None),
            ("sshd: ALL: ALLOW\n", "", None),
            ("ALL: ALL\n", "sshd: 192.0.2.0/24\n", None),
        ] {
            root.put("etc/hosts.deny", deny);
            root.put("etc/hosts.allow", allow);
            let wanted = line.map(|line| format!("{DENY}, line {line}"));
            assert_eq!(refusal(&sys), wanted, "{deny}");
        }
        root.put("etc/hosts.deny", "ALL: ALL\n");
        root.put("usr/sbin/sshd", "of another build");
        assert_eq!(refusal(&sys), None);
    }
}
