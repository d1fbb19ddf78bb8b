//! Whether sudo accepts the rules of the configured users.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use config::Node;
use system::{Command, System};

use super::page::Page;
use super::scripts::own_files_with;
use super::{disk, login};
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;

/// The rules that cloud-init writes.
const RULES: &str = "/etc/sudoers.d/90-cloud-init-users";
const MAIN: &str = "/etc/sudoers";
// Wait: doctor | visudo, which checks the rules of sudo | -
const TIMEOUT: Duration = Duration::from_secs(5);
/// What sudo says of a user without a rule.
const NO_RULE: &str = "is not allowed to run sudo";
/// The maximum number of users whose rules are listed.
const MAX_USERS: usize = 10;

pub fn section(machine: &Machine, merged: &Node, page: &mut Page) {
    let sys = &machine.sys;
    if !sys.is_live() || !Machine::is_root() || !sys.is_dir("/etc/sudoers.d") {
        return;
    }
    page.findings.layer = Layer::Login;
    // With the files of /etc/sudoers.d, owners and modes: a file that sudo refuses has no effect.
    let check = Command::new(["visudo", "-c"]).timeout(TIMEOUT).accept_all().read_only();
    let Some(program) = sys.which("sudo") else {
        // A note: the image's user has a rule everywhere, and a minimal image no sudo.
        let problem = "users have rules for sudo, which is not installed";
        if sys.exists(RULES) {
            page.findings.add(Severity::Note, RULES, problem, "install it: packages: [sudo]");
        }
        return;
    };
    let is_of_root = |meta: std::fs::Metadata| meta.uid() == 0 && meta.mode() & 0o4000 != 0;
    // A script in its place calls another program.
    let is_binary = sys.read_head(&program, 4).is_ok_and(|start| start == b"\x7fELF");
    if sys.exists(RULES) && is_binary && !sys.metadata(&program).is_ok_and(is_of_root) {
        let remedy = format!("chown root {program}; chmod 4755 {program}");
        let problem = "does not belong to root, or is not set-user-ID: users cannot use it";
        page.findings.error(&program, problem, remedy);
    }
    let file = sys.real_path(&program).unwrap_or(program);
    if let Some(mount) = disk::mount_with(&sys.mounts().unwrap_or_default(), &file, "nosuid")
        && sys.exists(RULES)
    {
        let problem = format!("mounted nosuid, so users cannot use {file}");
        let remedy = "remove nosuid from the options of the mount (/etc/fstab), then reboot";
        page.findings.error(mount, problem, remedy);
    }
    if let Ok(done) = sys.run(&check)
        && done.code != 0
    {
        let text = [done.stderr, done.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        // `FILE:LINE:COLUMN: syntax error`, before sudo 1.9.11 `>>> FILE: syntax error near line LINE <<<`
        let line = text.lines().find(|line| line.contains('/')).unwrap_or_default();
        let line = line.trim_matches(['>', '<', ' ']);
        let place = line.split(':').next().filter(|path| path.starts_with('/')).unwrap_or(RULES);
        let problem = format!("sudo does not accept its rules: {line}");
        let remedy = "correct the key sudo of the user, or the file in write_files; check it with: visudo -c";
        page.findings.error(place, problem, remedy);
    } else {
        users(machine, merged, page);
    }
    for file in merged.get("write_files").and_then(Node::as_seq).unwrap_or_default() {
        let path = file.get("path").and_then(Node::as_str).unwrap_or_default();
        let name = path.strip_prefix("/etc/sudoers.d/").unwrap_or_default();
        let is_rule = || sys.read_text(path).is_ok_and(|text| text.contains("ALL"));
        if (name.contains('.') || name.ends_with('~')) && is_rule() {
            let problem = "sudo ignores it: its name has a '.', or ends with '~'";
            page.findings.error(path, problem, "choose another name in write_files");
        }
    }
}

/// Reports configured users for whom sudo has no rule, or asks for a password that they do not have.
fn users(machine: &Machine, merged: &Node, page: &mut Page) {
    let sys = &machine.sys;
    let shadow = sys.read_text("/etc/shadow").unwrap_or_default();
    // Other modules may know other passwords, or ask for none.
    let is_usual = !sys.read_text("/etc/pam.d/sudo").unwrap_or_default().contains("sufficient");
    for user in login::configured_users(merged).into_iter().filter(|user| user.name != "root").take(MAX_USERS)
    {
        let default = merged.at_path(&["system_info", "default_user", "sudo"]).filter(|_| user.is_default);
        let rule = user.map.and_then(|map| map.get("sudo")).or(default);
        let has_rule = rule.is_some_and(|rule| rule.to_json().to_string().contains("ALL"));
        // Without an account there is another finding.
        let Some(hash) = shadow.lines().find_map(|line| line.strip_prefix(&*user.name)?.strip_prefix(':'))
        else {
            continue;
        };
        let has_password = !is_usual || !hash.starts_with(['!', '*', ':']);
        let command = Command::new(["sudo", "-l", "-U", &user.name]).env("LC_ALL", "C");
        let Ok(done) = sys.run(&command.timeout(TIMEOUT).read_only()) else { continue };
        let group = user.map.and_then(|map| map.get("groups")).filter(|_| !has_rule && rule.is_none());
        if let Some(group) = group.and_then(administrators)
            && done.text().contains(NO_RULE)
        {
            let name = config::shown_name(&user.name);
            let problem = format!("user {name} is in the group {group}, for which sudo has no rule here");
            let remedy = "set sudo: ALL=(ALL) NOPASSWD:ALL for the user, or the group that /etc/sudoers names (Debian: sudo, others: wheel)";
            page.findings.warning(place_at(&user.at, "users"), problem, remedy);
        }
        if let Some((severity, problem, remedy)) = problem_of(&done.text(), has_rule, has_password) {
            let problem = format!("user {}: {problem}", config::shown_name(&user.name));
            let mut details = if has_rule { later_rules(sys, &user.name) } else { Vec::new() };
            // A script that removes or replaces them.
            let others = own_files_with(machine, &["/etc/sudoers"]).into_iter();
            details.extend(others.map(|file| format!("{file} names /etc/sudoers")));
            page.findings.add(severity, place_at(&user.at, "users"), problem, remedy).details = details;
        }
    }
}

/// Returns the group of administrators of some distribution that a value of `groups` names.
fn administrators(groups: &Node) -> Option<&'static str> {
    let text = groups.to_json().to_string();
    let mut words = text.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c));
    words.find_map(|word| ["wheel", "sudo", "admin"].into_iter().find(|group| *group == word))
}

/// Returns the places of rules for a user that come after cloud-init's and ask for a password.
fn later_rules(sys: &System, user: &str) -> Vec<String> {
    let (top, own) = RULES.rsplit_once('/').unwrap_or_default();
    let mut names = sys.list(top).unwrap_or_default();
    names.retain(|name| name.as_str() > own && !name.contains('.') && !name.ends_with('~'));
    sort::sort(&mut names);
    let groups: Vec<_> =
        sys.groups().into_iter().filter(|group| group.members.iter().any(|m| m == user)).collect();
    let is_meant = |word: &str| {
        word == user
            || word == "ALL"
            || word.strip_prefix('%').is_some_and(|word| groups.iter().any(|group| group.name == word))
    };
    let mut found = Vec::new();
    for path in names.iter().map(|name| format!("{top}/{name}")).chain([MAIN.to_string()]) {
        let text = sys.read_text(&path).unwrap_or_default();
        let mut lines = (1..).zip(text.lines());
        if path == MAIN {
            // Before that line are earlier rules.
            lines.find(|(_, line)| line.contains("includedir"));
        }
        let lines = lines.filter(|(_, line)| {
            line.split_whitespace().next().is_some_and(is_meant) && !line.contains("NOPASSWD")
        });
        found.extend(lines.map(|(number, _)| format!("{path}, line {number} asks for a password")));
    }
    found
}

/// Returns what is wrong with the rules of a user, as `sudo -l` lists them.
fn problem_of(
    rules: &str,
    has_rule: bool,
    has_password: bool,
) -> Option<(Severity, &'static str, &'static str)> {
    if has_rule && rules.contains(NO_RULE) {
        let remedy =
            "/etc/sudoers needs the line @includedir /etc/sudoers.d, and a file there the user's rule";
        return Some((
            Severity::Error,
            "sudo has no rule for the user, although the key sudo is set",
            remedy,
        ));
    }
    // The last rule about root counts.
    let is_of_root = |line: &&str| {
        let users = line.strip_prefix("    (").and_then(|line| line.split_once(')')).map(|(users, _)| users);
        users.is_some_and(|users| users.contains("ALL") || users.contains("root")) && line.ends_with(" ALL")
    };
    let last = rules.lines().rfind(is_of_root)?;
    // With these sudo asks for another password, or for none.
    let others = ["!authenticate", "targetpw", "rootpw", "runaspw", "exempt_group"];
    let is_usual = !others.iter().any(|setting| rules.contains(setting));
    (!has_password && !last.contains("NOPASSWD") && is_usual).then_some((
        Severity::Warning,
        "sudo asks for a password, and the account has none",
        "set sudo: ALL=(ALL) NOPASSWD:ALL for the user, or a password; of the rules that sudo -l -U lists the last counts",
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn groups_of_administrators_are_found_in_each_form() {
        for (groups, expected) in [
            ("[adm, wheel]", Some("wheel")),
            ("'users,sudo'", Some("sudo")),
            ("{admin: }", Some("admin")),
            ("[wheels, my-sudo]", None),
        ] {
            let node = config::yaml::parse("t", groups).unwrap().root;
            assert_eq!(super::administrators(&node), expected, "{groups}");
        }
    }

    #[test]
    fn later_files_that_ask_for_a_password_are_named() {
        let root = scratch::TempDir::new();
        root.put("etc/sudoers", "amy ALL=(ALL) ALL\n@includedir /etc/sudoers.d\n%ops ALL=(ALL) ALL\n");
        root.put("etc/group", "ops:x:7:amy\nother:x:8:bob\n");
        for (name, text) in [
            ("90-cloud-init-users", "amy ALL=(ALL) ALL\n"),
            ("10-early", "amy ALL=(ALL) ALL\n"),
            (
                "99-own",
                "# amy\nbob ALL=(ALL) ALL\namy ALL=(ALL) ALL\n%ops ALL=(ALL) ALL\n%other ALL=(ALL) ALL\n",
            ),
            ("99-free", "amy ALL=(ALL) NOPASSWD: ALL\n"),
            ("99-own.bak", "amy ALL=(ALL) ALL\n"),
        ] {
            root.put(&format!("etc/sudoers.d/{name}"), text);
        }
        let found = super::later_rules(&system::System::new(&root), "amy");
        let own = "/etc/sudoers.d/99-own, line";
        let main = "/etc/sudoers, line 3 asks for a password".to_string();
        assert_eq!(
            found,
            [format!("{own} 3 asks for a password"), format!("{own} 4 asks for a password"), main]
        );
    }

    #[test]
    fn rules_that_a_user_cannot_use_are_found() {
        let rules = |rules: &str| {
            format!(
                "Matching Defaults entries for amy on h:\n    env_reset\n\nUser amy may run the following commands on h:\n{rules}"
            )
        };
        let (all, free) = ("    (ALL : ALL) ALL\n", "    (ALL) NOPASSWD: ALL\n");
        for (rules, has_rule, has_password, expected) in [
            ("User amy is not allowed to run sudo on h.\n".to_string(), true, false, "has no rule"),
            ("User amy is not allowed to run sudo on h.\n".to_string(), false, false, ""),
            (rules(all), false, false, "asks for a password"),
            (rules(all), true, true, ""),
            (rules(&format!("{all}{free}")), true, false, ""),
            (rules(&format!("{free}{all}")), true, false, "asks for a password"),
            (rules(all).replace("env_reset", "env_reset, !authenticate"), true, false, ""),
            (rules("    (root) /usr/bin/apt\n"), true, false, ""),
            (rules(&format!("{free}    (postgres) ALL\n")), true, false, ""),
            (rules(all).replace("env_reset", "targetpw"), false, false, ""),
        ] {
            let found =
                super::problem_of(&rules, has_rule, has_password).map_or("", |(_, problem, _)| problem);
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{rules}: {found}");
        }
    }
}
