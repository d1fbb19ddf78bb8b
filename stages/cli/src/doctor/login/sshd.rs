//! The settings of the SSH server as they are for a user.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use sort::Named;
use system::{Command, System};

use crate::machine::Machine;

// Wait: doctor | sshd, which prints its settings | -
pub const TIMEOUT: Duration = Duration::from_secs(5);

const MAIN: &str = "/etc/ssh/sshd_config";
const DIRECTORY: &str = "sshd_config.d";
const INCLUDED: &str = "sshd_config.d/*.conf";
/// Files with options of the server, from which its unit starts it.
const STARTERS: [&str; 3] =
    ["/etc/default/ssh", "/etc/sysconfig/sshd", "/etc/systemd/system/ssh.service.d/override.conf"];
/// The address of an ordinary client, of no network that a configuration names (RFC 5737).
const ELSEWHERE: &str = "203.0.113.200";
/// The maximum number of patterns of a `Match` of which clients are examined, and of clients.
const MAX_PATTERNS: usize = 4;
const MAX_CLIENTS: usize = 8;
/// The maximum number of users about whom the server is asked, if their settings may differ.
pub const MAX_USERS: usize = 64;

/// Where a socket starts sshd, it lacks a directory of its unit before the first connection, and prints nothing. It gets one in a /run
/// that no other process sees.
const IN_OWN_RUN: &str = r#"mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd && exec sshd -T "$@""#;

/// sshd's settings for a user: `KEYWORD VALUE` lines, as `sshd -T` prints them, in lower case or, as newer releases do, as
/// sshd_config(5) spells them.
#[derive(Default)]
pub struct Sshd {
    settings: String,
    /// The options with which the server was started.
    options: Vec<String>,
}

/// The server, which prints its settings.
#[derive(Default)]
pub struct Server {
    /// The options with which it was started.
    options: Vec<String>,
    clients: Vec<String>,
    /// Whether the settings of two users may differ.
    is_per_user: bool,
    /// The settings by user, or of all users by an empty name.
    answers: Named<Vec<Sshd>>,
    /// Whether it was not asked about a user.
    pub is_cut: bool,
}

impl Server {
    pub fn new(machine: &Machine) -> Server {
        let (mut ports, mut matches) = (Vec::new(), vec![String::new()]);
        let pid = machine.sys.read_text("/run/sshd.pid").unwrap_or_default();
        // The number may be that of another process since, which a user has started with a file of his own as its option.
        let process = pid.trim().parse::<u32>().map(|pid| format!("/proc/{pid}")).ok();
        let process = process.filter(|path| machine.sys.metadata(path).is_ok_and(|of| of.uid() == 0));
        let started =
            process.and_then(|path| machine.sys.read_text(path + "/cmdline").ok()).unwrap_or_default();
        let options = options(&started);
        let main = main_file(&options);
        // A distribution's own main file, and what is included otherwise, are not read here.
        let mut is_per_user = !machine.sys.exists(main);
        read(&machine.sys, main, false, &mut |file, _, line, _| {
            ports.extend(value_of(line, "port").map(str::to_string));
            matches.extend(value_of(line, "match").map(str::to_string));
            is_per_user |= value_of(line, "include").is_some_and(|value| {
                file.contains(DIRECTORY) || value.contains([' ', '\t']) || !value.ends_with(INCLUDED)
            });
        });
        is_per_user |= matches.iter().any(|criteria| {
            let criteria = criteria.to_ascii_lowercase();
            criteria.contains("user") || criteria.contains("group")
        });
        // A Match may refuse what comes by one port.
        matches.extend(ports.iter().map(|port| format!("LocalPort {port}")));
        Server { clients: clients(&matches, &ports), options, is_per_user, ..Server::default() }
    }

    /// Returns the settings for a user, for an ordinary client and for one of each kind that a `Match` tells from it, other than this
    /// machine. Empty if the server does not show them.
    pub fn settings(&mut self, machine: &Machine, user: &str) -> &[Sshd] {
        self.settings_by(user, &|words| {
            machine
                .sys
                .run(&Command::new(words).timeout(TIMEOUT).read_only())
                .ok()
                .map(|output| output.text())
        })
    }

    /// As [`Server::settings`], with a function that runs a command.
    fn settings_by(&mut self, user: &str, run: &dyn Fn(&[&str]) -> Option<String>) -> &[Sshd] {
        let key = if self.is_per_user { user } else { "" };
        if self.answers.get(key).is_none() {
            if self.answers.entries.len() == MAX_USERS {
                self.is_cut = true;
                return &[];
            }
            let ask = |client: &String| {
                let connection = format!("user={user},{client}");
                let run = |words: &[&str]| {
                    let options = self.options.iter().map(String::as_str);
                    run(&words.iter().copied().chain(["-C", &connection]).chain(options).collect::<Vec<_>>())
                };
                let in_own_run = || run(&["unshare", "--mount", "sh", "-c", IN_OWN_RUN, "sh"]);
                let settings = run(&["sshd", "-T"]).or_else(in_own_run)?;
                Some(Sshd { settings, options: self.options.clone() })
            };
            let settings = self.clients.iter().map_while(ask).collect();
            *self.answers.entry(key) = settings;
        }
        self.answers.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Sshd {
    /// Returns ` (FILE, line LINE)` for the line that sets a keyword as it is for the user; empty if none does.
    pub fn place_of(&self, machine: &Machine, keyword: &str) -> String {
        let is_own = |option: &&String| value_of(option, keyword).is_some();
        if let Some(option) = self.options.iter().find(is_own) {
            let has =
                |file: &&&str| machine.sys.read_text(file).is_ok_and(|text| text.contains(option.as_str()));
            let file = STARTERS.iter().find(has).unwrap_or(&"the unit's command line");
            return format!(" ({file}: -o {option})");
        }
        let value = self.values(keyword).next();
        // Outside of `Match` only the first line counts.
        let (mut best, mut place, mut has_main) = (4, String::new(), false);
        read(&machine.sys, main_file(&self.options), false, &mut |file, number, line, is_matched| {
            let Some(own) = value_of(line, keyword).filter(|_| is_matched || !has_main) else { return };
            has_main |= !is_matched;
            let rank = u8::from(is_matched) + if own.split_whitespace().next() == value { 0 } else { 2 };
            if rank < best {
                (best, place) = (rank, format!(" ({file}, line {number})"));
            }
        });
        place
    }

    pub fn values<'a>(&'a self, keyword: &str) -> impl Iterator<Item = &'a str> {
        // OpenSSH 10.6 prints keywords as in its manual page, earlier releases in lower case.
        let settings = self.settings.lines().filter_map(|line| line.split_once(' '));
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

    /// Returns whether keys of a type are accepted.
    pub fn accepts_key_of(&self, kind: &str) -> bool {
        ["pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes"]
            .iter()
            .all(|keyword| self.accepts(keyword, kind))
    }

    /// Returns whether a list of algorithms, if it is set, has one for keys of a type; sshd knows RSA keys by their signatures.
    pub fn accepts(&self, keyword: &str, kind: &str) -> bool {
        let mut accepted = self.values(keyword).flat_map(|list| list.split(',')).peekable();
        let is_rsa = kind == "ssh-rsa";
        accepted.peek().is_none()
            || accepted.any(|name| name == kind || is_rsa && matches!(name, "rsa-sha2-256" | "rsa-sha2-512"))
    }

    /// Returns whether a list of algorithms has none but those with these ends.
    pub fn has_only(&self, keyword: &str, ends: &[&str]) -> bool {
        let mut all = self.values(keyword).flat_map(|list| list.split(',')).peekable();
        all.peek().is_some() && all.all(|name| ends.iter().any(|end| name.ends_with(end)))
    }

    /// Returns the setting that refuses a user in these groups: of patterns `USER@HOST` those that refuse other machines than this one.
    pub fn refusal(&self, user: &str, groups: &[&str]) -> Option<&'static str> {
        let lists = |keyword: &str, names: &[&str]| {
            let mut all = self
                .values(keyword)
                .map(|pattern| pattern.split_once('@').unwrap_or((pattern, "*")))
                .peekable();
            let is_set = all.peek().is_some();
            let counts = |host: &str| match keyword.starts_with("deny") {
                true => host == "*",
                false => !is_own_address(host),
            };
            let is_in =
                all.any(|(user, host)| counts(host) && names.iter().any(|name| matches_pattern(user, name)));
            (is_set, is_in)
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

/// Returns a client of each kind that the criteria of `Match` lines tell from others, as `sshd -C` takes it.
fn clients(matches: &[String], ports: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let kinds = matches.iter().flat_map(|criteria| (0..MAX_PATTERNS).map(move |at| (criteria, at)));
    for client in kinds.filter_map(|(criteria, at)| client(criteria, at, ports)) {
        if !found.contains(&client) && found.len() < MAX_CLIENTS {
            found.push(client);
        }
    }
    found
}

/// Returns a client that fulfils the pattern at this position of each criterion, also of those that are excepted; `None` if it is this
/// machine, or uses a port on which sshd does not listen.
fn client(criteria: &str, at: usize, ports: &[String]) -> Option<String> {
    let port = ports.first().map_or("22", String::as_str);
    let mut all =
        [("host", ELSEWHERE), ("address", ELSEWHERE), ("localaddress", ELSEWHERE), ("localport", port)]
            .map(|(key, value)| (key, value.to_string()));
    let mut words = criteria.split([' ', '\t', '=', '"']).filter(|word| !word.is_empty());
    while let (Some(key), Some(patterns)) = (words.next(), words.next()) {
        let Some((key, value)) = all.iter_mut().find(|(name, _)| key.eq_ignore_ascii_case(name)) else {
            continue;
        };
        let pattern = patterns.split(',').take(at + 1).last()?.trim_start_matches('!');
        let has_port = || pattern == "22" && ports.is_empty() || ports.iter().any(|port| port == pattern);
        if is_own_address(pattern) || *key == "localport" && !has_port() {
            return None;
        }
        // `10.*` is completed to an address; a name takes any number of dots.
        let rest = if pattern.contains(':') {
            ":1"
        } else {
            &"1.1.1.1"[..7 - 2 * pattern.matches('.').count().min(3)]
        };
        *value = pattern.split('/').next()?.replace('*', rest).replace('?', "1");
    }
    let [host, address, own, port] = all.map(|(_, value)| value);
    Some(format!("host={host},addr={address},laddr={own},lport={port}"))
}

/// Returns the options of a running server that change its settings, each with its value. It shows them with words of its own, and without
/// quotes.
fn options(command_line: &str) -> Vec<String> {
    let mut words = command_line.split(['\0', ' ']).filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let Some((option, rest)) =
            word.split_at_checked(2).filter(|(option, _)| ["-f", "-o", "-p"].contains(option))
        else {
            continue;
        };
        let Some(value) = Some(rest).filter(|rest| !rest.is_empty()).or_else(|| words.next()) else { break };
        let mut value = value.to_string();
        if option == "-o" && !value.contains('=') {
            value = format!("{value}={}", words.next().unwrap_or_default());
        }
        found.extend([option.to_string(), value]);
    }
    found
}

/// Returns the main file of the configuration of a server with these options.
fn main_file(options: &[String]) -> &str {
    options.iter().skip_while(|option| *option != "-f").nth(1).map_or(MAIN, String::as_str)
}

/// Returns whether a pattern of addresses is of this machine only.
pub fn is_own_address(pattern: &str) -> bool {
    ["127.", "::1", "localhost"].iter().any(|own| pattern.starts_with(own))
}

/// Returns whether a name matches a pattern of ssh_config(5), in which brackets are ordinary characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern == name || !pattern.contains(['[', '\\']) && netconfig::glob_match(pattern, name)
}

/// What is done with a line of sshd's configuration: its file and number, the line, and whether it counts only for some connections.
type See<'a> = dyn FnMut(&str, usize, &str, bool) + 'a;

/// Reads the lines of sshd's configuration in sshd's order. Of two that set a keyword the first counts, but one below a `Match` that
/// applies overrides those outside.
fn read(sys: &System, file: &str, mut is_matched: bool, see: &mut See<'_>) {
    let is_main = !file.contains(DIRECTORY);
    let text = sys.read_text(file).unwrap_or_default();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(value) = value_of(line, "match") {
            is_matched = value != "all";
        }
        if value_of(line, "include").is_some_and(|value| value.contains(DIRECTORY)) && is_main {
            let mut names = sys.list(format!("/etc/ssh/{DIRECTORY}")).unwrap_or_default();
            sort::sort(&mut names);
            for name in names.iter().filter(|name| name.ends_with(".conf")) {
                read(sys, &format!("/etc/ssh/{DIRECTORY}/{name}"), is_matched, see);
            }
        }
        see(file, number, line, is_matched);
    }
}

/// Returns the value of a line that sets a keyword.
fn value_of<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let (word, value) = line.trim().split_once([' ', '\t', '='])?;
    word.eq_ignore_ascii_case(keyword).then(|| value.trim_matches([' ', '\t', '=', '"']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &str) -> Sshd {
        Sshd { settings: settings.into(), ..Sshd::default() }
    }

    #[test]
    fn options_of_the_running_server_are_read() {
        for (line, expected) in [
            ("/usr/sbin/sshd\0-D\0", &[][..]),
            (
                "sshd: /usr/sbin/sshd -D -o PubkeyAuthentication=no [listener] 0 of 10-100 startups",
                &["-o", "PubkeyAuthentication=no"],
            ),
            (
                "sshd: /usr/sbin/sshd -oPort 2222 -f /etc/ssh/own -D",
                &["-o", "Port=2222", "-f", "/etc/ssh/own"],
            ),
            ("sshd -p", &[]),
        ] {
            assert_eq!(options(line), expected, "{line}");
        }
        assert_eq!(main_file(&options("sshd -D -f /x")), "/x");
        assert_eq!(main_file(&[]), MAIN);
    }

    #[test]
    fn the_server_is_asked_per_user_only_if_their_settings_may_differ() {
        let root = scratch::TempDir::new();
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        let machine = Machine::open(&global);
        let asked = |users: usize| {
            let (mut server, count) = (Server::new(&machine), std::cell::Cell::new(0));
            let clients = server.clients.len();
            let run = |_: &[&str]| {
                count.set(count.get() + 1);
                Some("port 22".to_string())
            };
            for user in (0..users).chain(0..users) {
                let found = server.settings_by(&format!("u{user}"), &run).len();
                assert_eq!(found, if user < MAX_USERS { clients } else { 0 }, "{user}");
            }
            (clients, count.get(), server.is_cut)
        };
        // Without its file the server has settings that are not known.
        assert_eq!(asked(3), (1, 3, false));
        root.put("etc/ssh/sshd_config.d/10-a.conf", "Match Address 10.0.0.1\nAllowUsers amy\n");
        for (config, per_user) in [
            ("Port 22", false),
            ("Include /etc/ssh/sshd_config.d/*.conf", false),
            ("Include /etc/ssh/other.conf", true),
            ("Include /etc/ssh/sshd_config.d/*.conf /etc/ssh/other.conf", true),
            ("Match User amy", true),
            ("match=\"address 10.* group x\"", true),
            ("Match invalid-user", true),
        ] {
            root.put("etc/ssh/sshd_config", config);
            let (clients, count, is_cut) = asked(3);
            assert_eq!(count, if per_user { 3 * clients } else { clients }, "{config}");
            assert!(
                !is_cut && clients == 1 + usize::from(config.contains("d/*") || config.contains("10.*")),
                "{config}"
            );
        }
        assert_eq!(asked(MAX_USERS + 2), (1, MAX_USERS, true));
    }

    #[test]
    fn settings_of_sshd_that_refuse_a_user_are_found() {
        for (settings, expected) in [
            ("port 22\n", None),
            ("allowusers bob\nallowusers al*@10.0.0.0/8\n", None),
            ("allowusers bob\n", Some("AllowUsers")),
            ("allowusers alice@127.0.0.1 alice@::1\n", Some("AllowUsers")),
            ("allowusers alice@127.0.0.1 alice@10.*\n", None),
            ("denyusers alice@10.0.0.7\n", None),
            ("AllowUsers bob\n", Some("AllowUsers")),
            ("denyusers al?ce\n", Some("DenyUsers")),
            ("allowgroups wheel\n", Some("AllowGroups")),
            ("allowgroups adm\n", None),
            ("denygroups a*m\n", Some("DenyGroups")),
        ] {
            assert_eq!(of(settings).refusal("alice", &["adm"]), expected, "{settings}");
        }
    }

    #[test]
    fn clients_of_each_kind_are_examined() {
        for (criteria, expected) in [
            ("User amy", &[][..]),
            ("all", &[]),
            ("Address *,!10.0.0.0/8", &["host=203.0.113.200,addr=1.1.1.1,", "addr=10.0.0.0,"]),
            ("Address *,!127.0.0.1", &["addr=1.1.1.1,"]),
            ("address=10.* user *,!amy", &["addr=10.1.1.1,"]),
            ("Address 192.168.?.*,2001:db8:*", &["addr=192.168.1.1,", "addr=2001:db8::1,"]),
            ("Host \"!*.example.org\"", &["host=1.1.example.org,addr=203.0.113.200,"]),
            ("LocalPort 22,2222,443", &["lport=2222"]),
            ("LocalPort !2222 LocalAddress 10.1.2.3", &["laddr=10.1.2.3,lport=2222"]),
        ] {
            let found = clients(&[String::new(), criteria.into()], &["22".into(), "2222".into()]);
            let ordinary = "host=203.0.113.200,addr=203.0.113.200,laddr=203.0.113.200,lport=22";
            assert_eq!(found[0], ordinary, "{criteria}");
            for (client, part) in found[1..].iter().zip(expected) {
                assert!(client.contains(part), "{criteria}: {client}");
            }
            assert_eq!(found.len(), 1 + expected.len(), "{criteria}: {found:?}");
        }
    }

    #[test]
    fn the_line_that_counts_is_named() {
        let root = scratch::TempDir::new();
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        let machine = Machine::open(&global);
        root.put("etc/ssh/sshd_config", "# Port 1\nPort 22\nInclude sshd_config.d/*.conf\nPasswordAuthentication=no\nMatch User amy\n  AllowUsers amy\n");
        root.put(
            "etc/ssh/sshd_config.d/50-b.conf",
            "Match User bob\npasswordauthentication no\nMatch all\nPermitRootLogin no\n",
        );
        root.put("etc/ssh/sshd_config.d/10-a.conf", "PasswordAuthentication yes\n");
        for (settings, keyword, expected) in [
            ("passwordauthentication yes\n", "PasswordAuthentication", "10-a.conf, line 1"),
            ("passwordauthentication no\n", "PasswordAuthentication", "50-b.conf, line 2"),
            ("permitrootlogin no\n", "permitrootlogin", "50-b.conf, line 4"),
            ("port 22\n", "Port", "sshd_config, line 2"),
            ("", "AllowUsers", "sshd_config, line 6"),
            ("", "DenyUsers", ""),
        ] {
            let place = of(settings).place_of(&machine, keyword);
            assert!(
                place.contains(expected) && place.is_empty() == expected.is_empty(),
                "{keyword}: {place}"
            );
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
            assert_eq!(of(methods).accepts_key_alone(), expected, "{methods}");
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
            assert_eq!(of(settings).password_refusal(user), expected, "{user}: {settings}");
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
            assert_eq!(of(settings).accepts_key_of(kind), expected, "{settings} {kind}");
        }
    }

    #[test]
    fn lists_of_obsolete_algorithms_are_found() {
        for (list, expected) in [
            ("aes128-cbc,3des-cbc", true),
            ("aes128-cbc,aes128-ctr", false),
            ("chacha20-poly1305@openssh.com", false),
        ] {
            assert_eq!(of(&format!("ciphers {list}\n")).has_only("Ciphers", &["-cbc"]), expected, "{list}");
        }
        assert!(!Sshd::default().has_only("Ciphers", &["-cbc"]));
    }
}
