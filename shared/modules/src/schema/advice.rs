//! Finds values of a valid form that do not work: one module needs what a later one makes, sudo rejects a rule, no user gets the keys.

use config::{Finding, Findings, Map, Node, Position, did_you_mean, suggestion};

use super::tables;
use crate::accounts::authorized_keys;
use crate::accounts::key_data::{is_cut, key_of};
use crate::runner::module_list::parse_entry;

/// Keys with commands that run before files are written. The second part says whether only deferred files are later.
const EARLY_COMMANDS: &[(&[&str], bool)] =
    &[(&["bootcmd"], false), (&["random_seed", "command"], false), (&["snap", "commands"], true)];

/// A file of `write_files`.
struct File<'n> {
    key: String,
    path: &'n str,
    is_deferred: bool,
}

/// Returns warnings about such values. `base` is the machine's other configuration; `boothooks` are names and texts of the boothooks
/// beside the configuration.
pub fn advice(config: &Node, base: &Node, boothooks: &[(String, String)]) -> Vec<Finding> {
    let mut found = Findings::default();
    let items = |key: &str| config.get(key).and_then(Node::as_seq).unwrap_or_default();
    // A list of a name and a frequency; of a name alone the schema checks it.
    for key in ["cloud_init_modules", "cloud_config_modules", "cloud_final_modules"] {
        for (i, item) in items(key).iter().enumerate().filter(|(_, item)| item.as_str().is_none()) {
            let Some(entry) = parse_entry(item) else { continue };
            if !tables::is_module_name(&entry.name) {
                let near = suggestion(&entry.name.replace('-', "_"), tables::module_names());
                found.invalid(&item.at, format!("{key}[{i}]"), format!("expected a module's name{near}"));
            }
            if let Some(problem) = entry.frequency_problem() {
                found.invalid(&item.at, format!("{key}[{i}]"), problem);
            }
        }
    }
    for (i, mount) in items("mounts").iter().enumerate() {
        let field = |at: usize| mount.as_seq().and_then(|fields| fields.get(at));
        let text = |at: usize| field(at).and_then(Node::as_str).unwrap_or_default();
        let is_path = text(1).is_empty() || text(1).starts_with('/') || ["none", "swap"].contains(&text(1));
        if let Some(point) = field(1).filter(|_| !is_path && text(2) != "swap") {
            found.invalid(&point.at, format!("mounts[{i}][1]"), "expected an absolute path, or none");
        }
    }
    let mounted = items("mounts").iter().filter_map(|mount| mount.as_seq()?.first());
    let formatted = items("fs_setup").iter().filter_map(|item| item.get("device"));
    let partitioned = config.get("disk_setup").and_then(Node::as_map).into_iter().flat_map(Map::iter);
    let disks = mounted.map(|disk| ("mounts", disk)).chain(formatted.map(|disk| ("fs_setup", disk)));
    for (key, disk) in disks.chain(partitioned.map(|(disk, _)| ("disk_setup", disk))) {
        if let Some(problem) = disk.as_str().and_then(disk_problem) {
            found.invalid(&disk.at, key, problem);
        }
    }
    for (i, user) in items("users").iter().enumerate() {
        let is_locked = !["lock_passwd", "lock-passwd"].iter().any(|key| user.get(key).is_some());
        for key in ["passwd", "hashed_passwd", "plain_text_passwd"].into_iter().filter(|_| is_locked) {
            if let Some(password) = user.get(key).filter(|password| !password.is_null()) {
                found.invalid(&password.at, format!("users[{i}].{key}"), LOCKED);
            }
        }
        let Some(rules) = user.get("sudo") else { continue };
        for rule in rules.as_seq().unwrap_or(std::slice::from_ref(rules)) {
            let name = user.get("name").and_then(Node::as_str).unwrap_or_default();
            if let Some(problem) = rule.as_str().and_then(|rule| sudo_problem(name, rule)) {
                found.invalid(&rule.at, format!("users[{i}].sudo"), problem);
            }
        }
    }
    let of_users = items("users").iter().filter_map(|user| user.get("ssh_authorized_keys"));
    for keys in config.get("ssh_authorized_keys").into_iter().chain(of_users) {
        for key in keys.as_seq().unwrap_or(std::slice::from_ref(keys)) {
            if key.as_str().is_some_and(|text| text.lines().any(is_damaged)) {
                found.invalid(&key.at, "ssh_authorized_keys", "the key is cut off or changed");
            }
        }
    }
    if let Some(keys) = config.get("ssh_authorized_keys") {
        let keys = keys.as_seq().unwrap_or(std::slice::from_ref(keys));
        let texts: Vec<String> =
            keys.iter().map(|key| key.as_str().unwrap_or_default().to_string()).collect();
        if let Some((at, fault)) = authorized_keys::fault(&texts) {
            found.invalid(&keys[at].at, format!("ssh_authorized_keys[{at}]"), fault);
        }
    }
    for key in ["bootcmd", "runcmd"] {
        for (i, command) in items(key).iter().enumerate() {
            if let Some((word, problem)) = command.as_seq().and_then(problem_of_words) {
                found.invalid(&word.at, format!("{key}[{i}]"), problem);
            }
        }
    }
    for (i, file) in items("write_files").iter().enumerate() {
        if let Some((key, problem)) = problem_of_rules(file) {
            let at = file.get(key).map_or(&file.at, |node| &node.at);
            found.invalid(at, format!("write_files[{i}].{key}"), problem);
        }
    }
    if let Some(keys) = keys_of_nobody(config, base) {
        found.invalid(&keys.at, "ssh_authorized_keys", OF_NOBODY);
    }
    let mut files = Vec::new();
    for (i, item) in items("write_files").iter().enumerate() {
        let is_deferred = item.get("defer").is_some_and(|defer| !defer.is_falsy());
        if let Some(path) = item.get("path").and_then(Node::as_str) {
            files.push(File { key: format!("write_files[{i}]"), path, is_deferred });
        }
    }
    for (path, only_deferred) in EARLY_COMMANDS {
        let Some(commands) = config.at_path(path) else { continue };
        let later = |file: &&File<'_>| file.is_deferred || !only_deferred;
        for (file, at) in
            files.iter().filter(later).filter_map(|file| Some((file, naming(commands, file.path)?)))
        {
            found.invalid(at, path.join("."), written_later(file));
        }
    }
    for (name, text) in boothooks {
        for file in &files {
            if let Some(line) = text.lines().position(|line| names(line, file.path)) {
                let at = Position { source: Some(name.as_str().into()), line: line as u32 + 1, column: 1 };
                found.invalid(&at, "", written_later(file));
            }
        }
    }
    found.iter().cloned().collect()
}

const LOCKED: &str = "the password stays locked, as in cloud-init, without lock_passwd: false";

/// The problem of [`keys_of_nobody`].
pub const OF_NOBODY: &str =
    "no user gets these keys, which are those of the default user: users does not list 'default'";

/// Returns the keys of the default user if the list of users omits it, and root may not log in, which `base`, the configuration of the
/// image, may say.
pub fn keys_of_nobody<'n>(config: &'n Node, base: &Node) -> Option<&'n Node> {
    let users = config.get("users").and_then(Node::as_seq).filter(|users| !users.is_empty())?;
    // A list in the list has names, too; `user` is the default user, listed or not.
    fn is_default(user: &Node) -> bool {
        let name = user.as_str().or_else(|| user.get("name").and_then(Node::as_str)).unwrap_or_default();
        name.split(',').any(|name| name.trim() == "default")
            || user.as_seq().is_some_and(|all| all.iter().any(is_default))
    }
    let of_both = |key| config.get(key).or_else(|| base.get(key));
    if of_both("user").is_some_and(|user| !user.is_falsy()) {
        return None;
    }
    let is_root_open = of_both("disable_root").is_some_and(Node::is_falsy);
    let keys = config.get("ssh_authorized_keys").filter(|keys| !keys.is_falsy())?;
    (!is_root_open && !users.iter().any(is_default)).then_some(keys)
}

/// Returns whether a line has a key that sshd does not take. A short one stands for a key in an example.
fn is_damaged(line: &str) -> bool {
    const SHORTEST: usize = 40;
    let data = key_of(line).map_or("", |(_, data)| data);
    let is_base64 = data.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    data.len() >= SHORTEST && is_base64 && is_cut(line)
}

/// Returns the word of a command in the form of a list that only a shell would take as it is meant.
fn problem_of_words(words: &[Node]) -> Option<(&Node, &'static str)> {
    const OF_SHELLS: [&str; 6] = ["&&", "||", "|", ">", ">>", "2>&1"];
    // These have such words as arguments.
    const OTHERS: [&str; 3] = ["expr", "test", "["];
    let first = words.first()?.as_str()?;
    if words.len() == 1 {
        let is_line = first.contains(' ') && !first.starts_with('/');
        return is_line
            .then_some((&words[0], "a list has the program and each argument as an item of its own"));
    }
    let is_of_shell = |word: &&Node| word.as_str().is_some_and(|text| OF_SHELLS.contains(&text));
    let word = words.iter().find(is_of_shell).filter(|_| !OTHERS.contains(&first))?;
    Some((word, "a list is run without a shell, which would take this word; write the command as a string"))
}

/// Returns the problem of a misspelled name of a cloud's disk. Other names are those of devices in /dev.
fn disk_problem(disk: &str) -> Option<String> {
    const NAME: &str = "ephemeral";
    let (word, rest) = disk.split_at(disk.find(|c: char| c.is_ascii_digit()).unwrap_or(disk.len()));
    let near = did_you_mean(word, [NAME]).filter(|_| word != NAME)?;
    Some(format!("no disk of a cloud has this name; did you mean '{near}{rest}'?"))
}

/// Returns what is wrong with a user's rule of sudo: a file with such a line has no effect as a whole.
fn sudo_problem(user: &str, rule: &str) -> Option<String> {
    // The first ones, of which a ':' may be missing, are no words of other programs.
    const TAGS: &str = "NOPASSWD PASSWD NOEXEC EXEC NOSETENV SETENV FOLLOW NOFOLLOW INTERCEPT NOINTERCEPT LOG_INPUT \
                        NOLOG_INPUT LOG_OUTPUT NOLOG_OUTPUT MAIL NOMAIL";
    let tags = || TAGS.split(' ');
    fn of(command: &str) -> &str {
        command.rsplit(['=', ')']).next().unwrap_or_default().trim_start()
    }
    let lacks_colon = |command: &str| {
        let command = of(command);
        let (word, rest) = command.split_at(command.find([' ', '\t', ':', '\n']).unwrap_or(command.len()));
        tags().take(6).any(|tag| tag == word) && !rest.trim_start().starts_with(':')
    };
    let misspelled = |command: &str| {
        let words = of(command).split(':').map(str::trim_end);
        words.rev().skip(1).find_map(|word| {
            let word = word.trim_start();
            let near = did_you_mean(&word.to_ascii_uppercase(), tags()).filter(|near| *near != word)?;
            Some(format!("unknown tag; did you mean '{near}'?"))
        })
    };
    let has = |c: char| rule.matches(c).count();
    let problem = match rule.contains('=') {
        _ if rule.trim().is_empty() => return None,
        false => "expected a rule such as ALL=(ALL) NOPASSWD:ALL",
        true if rule.split_whitespace().next() == Some(user) => {
            "expected a rule without the user's name, which is added"
        }
        true if has('(') > has(')') => "expected a ')' after the users that the rule allows",
        true if rule.split(',').any(lacks_colon) => "expected a ':' after the tag, as in NOPASSWD:ALL",
        true => return rule.split(',').find_map(misspelled),
    };
    Some(problem.to_string())
}

/// Returns the key and what is wrong of a file of rules for sudo.
fn problem_of_rules(file: &Node) -> Option<(&'static str, String)> {
    const OTHER_LINES: [&str; 3] = ["Defaults", "@include", "#"];
    let text = |key| file.get(key).and_then(Node::as_str);
    let name = text("path")?.strip_prefix("/etc/sudoers.d/")?;
    if name.contains('.') || name.ends_with('~') {
        return Some(("path", "sudo ignores a file whose name has a '.' or ends with '~'".into()));
    }
    if text("permissions")
        .is_some_and(|mode| u32::from_str_radix(mode, 8).is_ok_and(|mode| mode & 0o002 != 0))
    {
        return Some(("permissions", "sudo ignores a file that all users may write; expected '0440'".into()));
    }
    let content = text("content").filter(|_| file.get("encoding").is_none())?;
    // Not what a backslash splits into several lines.
    let goes_on = |line: &str| line.ends_with('\\');
    let lines = (1..).zip(content.lines()).zip(std::iter::once("").chain(content.lines()));
    let whole = lines.filter(|((_, line), before)| !goes_on(line) && !goes_on(before));
    let rules = whole.filter_map(|((number, line), _)| Some((number, line.trim().split_once([' ', '\t'])?)));
    // Comments, quotes, escapes and regular expressions may have any character, and aliases any name.
    let is_plain = |rule: &str| !rule.contains(['#', '"', '\\', '^']) && !content.contains("_Alias");
    let mut rules = rules
        .filter(|(_, (user, rule))| is_plain(rule) && !OTHER_LINES.iter().any(|word| user.contains(word)));
    rules.find_map(|(number, (_, rule))| {
        Some(("content", format!("line {number}: {}", sudo_problem("", rule)?)))
    })
}

fn written_later(file: &File<'_>) -> String {
    format!("the command runs before the file of {} is written", file.key)
}

/// Returns the position of the text in a list of commands that names a file.
fn naming<'n>(node: &'n Node, path: &str) -> Option<&'n Position> {
    if let Some(text) = node.as_str() {
        return names(text, path).then_some(&node.at);
    }
    let items = node.as_seq().into_iter().flatten();
    let values = node.as_map().into_iter().flat_map(|map| map.iter().map(|(_, value)| value));
    items.chain(values).find_map(|node| naming(node, path))
}

/// Returns whether a command names a file other than as the target of a redirection.
fn names(command: &str, path: &str) -> bool {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    path.len() > 1
        && command.match_indices(path).any(|(at, _)| {
            let (before, after) = (&command[..at], &command[at + path.len()..]);
            !after.starts_with(is_of_path)
                && !before.ends_with(is_of_path)
                && !before.trim_end_matches(['"', '\'', ' ']).ends_with('>')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_default_user_that_is_not_listed_are_named() {
        for (text, is_good) in [
            ("ssh_authorized_keys: [k]", true),
            ("users: [default, {name: a}]\nssh_authorized_keys: [k]", true),
            ("users: [{name: a}]\nssh_authorized_keys: [k]\ndisable_root: false", true),
            ("users: [{name: a}]\nuser: boss\nssh_authorized_keys: [k]", true),
            ("users: [{name: default}]\nssh_authorized_keys: [k]", true),
            ("users: [[a, default]]\nssh_authorized_keys: [k]", true),
            ("users: ['a, default']\nssh_authorized_keys: [k]", true),
            ("users: [default2]\nssh_authorized_keys: [k]", false),
            ("users: [{name: a}]\nssh_authorized_keys: [k]", false),
        ] {
            let config = config::yaml::parse("f", text).unwrap().root;
            assert_eq!(keys_of_nobody(&config, &Node::default()).is_none(), is_good, "{text}");
            let base = config::yaml::parse("b", "disable_root: false").unwrap().root;
            assert_eq!(keys_of_nobody(&config, &base), None, "{text}");
        }
    }

    #[test]
    fn mount_points_that_are_no_paths_are_named() {
        let text = "mounts: [[vdb, /data], [vdb], [vdb, null], [vdb, none, swap], [vdb, swap], [vdb, sw, swap], [vdc, data]]";
        let config = config::yaml::parse("f", text).unwrap().root;
        let shown: Vec<String> =
            advice(&config, &Node::default(), &[]).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["f:1:99: mounts[6][1]: expected an absolute path, or none"]);
    }

    #[test]
    fn damaged_keys_are_named() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx";
        let (cut, other) = (&key[..key.len() - 4], key.replace("ssh-ed25519", "ssh-rsa"));
        let text = format!(
            "ssh_authorized_keys: [{key} a@b, ssh-rsa AAAAB3NzaC1, '{cut}']\nusers: [{{name: a, ssh_authorized_keys: ['{other}']}}]"
        );
        let config = config::yaml::parse("f", &text).unwrap().root;
        let shown: Vec<String> =
            advice(&config, &Node::default(), &[]).iter().map(ToString::to_string).collect();
        let problem = "ssh_authorized_keys: the key is cut off or changed";
        let positions = [(1, 26 + key.len() + 24), (2, 41)];
        assert_eq!(shown[..2], positions.map(|(line, column)| format!("f:{line}:{column}: {problem}")));
    }

    #[test]
    fn texts_that_are_no_keys_are_named() {
        for (text, expected) in [
            (
                "[~/.ssh/id_rsa.pub]",
                Some(
                    "none of them is a public key of SSH, TYPE BASE64 [COMMENT]: the path of a file; write the key that the file has",
                ),
            ),
            (
                "[ssh-rsa AAAAB3NzaC1, '-----BEGIN OPENSSH PRIVATE KEY-----']",
                Some("a private key; take the public one (FILE.pub)"),
            ),
            ("[ssh-rsa AAAAB3NzaC1, ~/.ssh/id_rsa.pub]", None),
        ] {
            let config = config::yaml::parse("f", &format!("ssh_authorized_keys: {text}")).unwrap().root;
            let found = advice(&config, &Node::default(), &[]);
            assert_eq!(found.first().map(|finding| finding.message.as_str()), expected, "{text}");
        }
    }

    #[test]
    fn words_for_a_shell_are_named() {
        for (command, is_good) in [
            ("[cd, /tmp, '&&', ls]", false),
            ("[systemctl daemon-reload]", false),
            ("[echo, a, '>>', /b]", false),
            ("[sh, -c, 'a && b']", true),
            ("[find, /a, -exec, rm, '{}', ';']", true),
            ("[expr, 1, '|', 2]", true),
            ("['/opt/my program']", true),
            ("[reboot]", true),
            ("a && b", true),
        ] {
            let config = config::yaml::parse("f", &format!("runcmd: [{command}]")).unwrap().root;
            assert_eq!(advice(&config, &Node::default(), &[]).is_empty(), is_good, "{command}");
        }
    }

    #[test]
    fn misspelled_disks_are_named() {
        let text = "mounts: [[ephemral0, /a], [ephemeral1.2, /b], [sdb], [/dev/ephemeral, /c], [swap, none]]\n\
            disk_setup: {ephemeral0: {}, Ephemeral1: {}}\nfs_setup: [{device: ephemerla0.1}, {device: xvdb}, {label: x}]\n";
        let config = config::yaml::parse("f", text).unwrap().root;
        let shown: Vec<String> =
            advice(&config, &Node::default(), &[]).iter().map(ToString::to_string).collect();
        let expected = [
            ("f:1:11", "mounts", "ephemeral0"),
            ("f:3:21", "fs_setup", "ephemeral0.1"),
            ("f:2:30", "disk_setup", "ephemeral1"),
        ];
        let problem = "no disk of a cloud has this name; did you mean";
        assert_eq!(shown, expected.map(|(place, key, near)| format!("{place}: {key}: {problem} '{near}'?")));
    }

    #[test]
    fn rules_that_sudo_rejects_are_named() {
        for (rule, is_good) in [
            ("ALL=(ALL) NOPASSWD:ALL", true),
            ("ALL=(ALL:ALL) NOPASSWD : /bin/ls, SETENV: /bin/x", true),
            ("  ", true),
            ("ALL=(ALL) NOPASSWD ALL", false),
            ("ALL=(ALL)NOPASSWD ALL", false),
            ("NOPASSWD:ALL", false),
            ("ALL=(ALL) NOPASSWD: /usr/bin/sqlplus EXEC sp, /usr/bin/env NOPASSWD ALL", true),
            ("ALL=NOPASSWD:ALL", true),
            ("ALL=(root) SETENV: NOPASSWD: /bin/a \\(b\\)", true),
            ("ALL=(ALL) NOPASSWD", false),
            ("ALL=(ALL NOPASSWD:ALL", false),
            ("amy ALL=(ALL) NOPASSWD:ALL", false),
            ("ALL=(ALL) NOPASSWRD:ALL", false),
            ("ALL=(ALL) nopasswd:ALL", false),
            ("ALL=(ALL) /bin/ls, NOPASSWD : SETENF: /bin/x", false),
            ("ALL=(ALL) NOPASSWD: NOLOG_OUTPUT: /bin/mail MAILS\\:x", true),
        ] {
            assert_eq!(sudo_problem("amy", rule).is_none(), is_good, "{rule}");
        }
    }

    #[test]
    fn passwords_that_stay_locked_are_named() {
        let text = "users: [default, {name: a, passwd: x}, {name: b, lock_passwd: true, passwd: x},\n\
            {name: c, hashed_passwd: x, lock-passwd: false}, {name: d, hashed_passwd: x}]";
        let config = config::yaml::parse("f", text).unwrap().root;
        let shown: Vec<String> =
            advice(&config, &Node::default(), &[]).iter().map(ToString::to_string).collect();
        let expected = [("f:1:36", "users[1].passwd"), ("f:2:75", "users[4].hashed_passwd")];
        assert_eq!(shown, expected.map(|(place, key)| format!("{place}: {key}: {LOCKED}")));
    }

    #[test]
    fn files_that_sudo_rejects_are_named() {
        for (file, wanted) in [
            (
                "path: /etc/sudoers.d/own, content: \"# x\\nDefaults:amy !requiretty\\nUser_Alias A = amy\\namy ALL=(ALL) \\\\\\n NOPASSWD: ALL\\n\"",
                "",
            ),
            ("path: /srv/own.conf, content: amy ALL", ""),
            (
                "path: /etc/sudoers.d/own, content: \"amy ALL=(ALL) NOPASSWD: ALL # was (root) NOPASSWD ALL\"",
                "",
            ),
            ("path: /etc/sudoers.d/own, content: \"amy ALL=(ALL) NOPASSWD: /bin/apt ^(update|upgrade$\"", ""),
            (
                "path: /etc/sudoers.d/own, content: \"Cmnd_Alias PASSWD = /bin/passwd\\namy ALL=(ALL) PASSWD\"",
                "",
            ),
            ("path: /etc/sudoers.d/own.conf", "f:1:22: write_files[0].path: sudo ignores"),
            (
                "path: /etc/sudoers.d/own, permissions: '0666'",
                "f:1:55: write_files[0].permissions: sudo ignores",
            ),
            (
                "path: /etc/sudoers.d/own, content: \"\\namy ALL=(ALL) NOPASSWD ALL\"",
                "f:1:51: write_files[0].content: line 2: expected a ':'",
            ),
        ] {
            let config = config::yaml::parse("f", &format!("write_files: [{{{file}}}]")).unwrap().root;
            let shown: Vec<String> =
                advice(&config, &Node::default(), &[]).iter().map(ToString::to_string).collect();
            assert!(
                shown.len() == usize::from(!wanted.is_empty()) && shown.iter().all(|f| f.starts_with(wanted)),
                "{file}: {shown:?}"
            );
        }
    }

    #[test]
    fn work_that_comes_too_early_is_named() {
        let text = "users: [default, {name: amy}]\n\
            write_files:\n- {path: /a, owner: amy}\n- {path: /b, owner: 'amy:amy', defer: true}\n- {path: /c, owner: 'root:amy'}\n\
            bootcmd:\n- sh /a\n- [cat, /b]\n- echo 1 > /c\n- echo /c.d /x/c\n\
            runcmd: [cat /a]\nsnap: {commands: {x: cat /a, y: [cat, /b]}}\n";
        let config = config::yaml::parse("f", text).unwrap().root;
        let hook = ("h".to_string(), "#cloud-boothook\n#!/bin/sh\n. /a\n".to_string());
        let shown: Vec<String> =
            advice(&config, &Node::default(), &[hook]).iter().map(ToString::to_string).collect();
        let early = |place: &str, key: &str, file: &str| {
            format!("{place}{key}the command runs before the file of {file} is written")
        };
        assert_eq!(
            shown,
            [
                early("f:7:3: ", "bootcmd: ", "write_files[0]"),
                early("f:8:9: ", "bootcmd: ", "write_files[1]"),
                early("f:12:39: ", "snap.commands: ", "write_files[1]"),
                early("h:3:1: ", "", "write_files[0]"),
            ]
        );
    }
}
