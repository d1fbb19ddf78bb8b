//! Whether the configured users can log in: accounts, shells, passwords, keys with their permissions, sshd and its settings.

mod access;
mod profile;
mod reach;
mod server;
mod sshd;
mod users;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use config::{Node, Position};
use serde_json::json;
use state::layout::RAW_DATA;
use system::{Group, User as Account};

use super::boot_log::BootLog;
use super::page::Page;
use super::scripts::account_changes;
use super::{firewall, history, results, tcp_wrappers};
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;
use crate::units;
use access::{Access, KEY_SOURCES, Known};
use server::{NO_HOST_KEYS, SERVERS, addresses, algorithms, passwords, server};
use sshd::{MAX_USERS, Server, Sshd};
use users::User;

pub use users::configured_users;

/// The remedy for what the administrator's units and scripts do to an account.
const CHANGES_REMEDY: &str = "remove the command there, or the user from it, then: cloud-init clean --reboot";
/// The unit at whose start logins are allowed.
const SESSIONS: &str = "systemd-user-sessions.service";

/// The users whose ways were examined.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    can_login: bool,
    can_use_ssh: bool,
    /// Place and name of those with a password that a setting of sshd refuses.
    refused: Vec<(String, String, &'static str)>,
}

impl Seen {
    /// Adds a configured user, and reports what is wrong with the ways to log in.
    fn add(
        &mut self,
        machine: &Machine,
        user: &User<'_>,
        account: &Account,
        groups: &[&Group],
        access: Access,
        page: &mut Page,
    ) {
        let (place, name) = (place_at(&user.at, "users"), config::shown_name(&user.name));
        self.can_login |= access.has_way();
        self.can_use_ssh |= access.can_use_ssh();
        self.lines.push(format!("{name}: {}", access.describe(&account.shell)));
        self.refused
            .extend(access.refused_password().map(|keyword| (place.clone(), name.to_string(), keyword)));
        if user.at.source.as_deref().is_some_and(|source| source.starts_with("user-data"))
            && let Some(group) = user.missing_group(groups)
        {
            let problem =
                format!("user {name} is not in the configured group {}", config::shown_name(&group));
            let details = account_changes(machine, &user.name);
            // The user may have existed already.
            let severity = if details.is_empty() { Severity::Note } else { Severity::Warning };
            page.findings.add(severity, &place, problem, CHANGES_REMEDY).details = details;
        }
        let home = account.home.as_str();
        let belongs_to_root = machine.sys.metadata(home).is_ok_and(|meta| meta.uid() == 0);
        if home.starts_with("/home/") && belongs_to_root && account.uid != 0 {
            let problem = format!("belongs to root, not to user {name}: it was made before the user");
            let remedy = "chown it; files of a user in write_files need owner and defer: true";
            page.findings.warning(home, problem, remedy);
        }
        if let Some(file) = access.cut_file {
            let problem = format!("user {name} cannot log in: the key in {file} is cut off or changed");
            let remedy = "a key is one line: compare it with the public key of the client";
            page.findings.warning(&place, problem, remedy);
        }
        if let Some((place, problem)) = access.refused_by_line {
            let remedy = match problem.contains("pam_faillock.so") {
                true => format!("faillock --user {name} --reset; journalctl -t sshd shows who tried"),
                false => "correct or remove the line".into(),
            };
            page.findings.error(place, problem, remedy);
        }
        let changes = match access.problems[..] {
            [] => Vec::new(),
            _ => account_changes(machine, &user.name),
        };
        for (problem, remedy) in access.problems {
            let remedy = if changes.is_empty() { remedy } else { CHANGES_REMEDY.into() };
            let problem = format!("user {name} cannot log in: {problem}");
            page.findings.error(&place, problem, remedy).details.extend(changes.clone());
        }
    }
}

pub fn section(machine: &Machine, merged: &Node, log: &BootLog, page: &mut Page) {
    page.findings.layer = Layer::Login;
    let sys = &machine.sys;
    if !sys.exists(machine.layout.instance("")) {
        return;
    }
    let Some(passwd) = page.findings.read(sys.read_text("/etc/passwd")) else { return };
    let accounts = system::parse_passwd(&passwd);
    let users = configured_users(merged);
    let gets_keys = users.iter().any(|user| user.gets(&KEY_SOURCES, merged, "ssh_authorized_keys"));
    let runs_sshd = sys.is_live() && server(machine, gets_keys, page);
    // Then none are generated.
    let given = merged.get("ssh_keys").map(|keys| (keys, "ssh_keys is set", "; these are no private keys"));
    let types = merged.get("ssh_genkeytypes").filter(|types| types.is_falsy());
    if let Some((node, what, end)) = given.or(types.map(|types| (types, "ssh_genkeytypes is empty", "")))
        && let Some(finding) =
            page.findings.all.iter_mut().find(|finding| finding.problem.starts_with(NO_HOST_KEYS))
    {
        finding.details.insert(0, format!("{what} ({}), so cloud-init generated none{end}", node.at));
        finding.remedy =
            format!("correct or remove that key, for a new instance; on this machine: {}", finding.remedy);
    }
    let has_errors = page.findings.all.iter().any(|finding| {
        finding.place.contains(": ssh")
            || finding.place.contains("users_groups")
            || finding.shows("users_groups")
    });
    let shadow = sys.read_text("/etc/shadow");
    let known = Known::new(machine, has_errors, shadow.is_ok());
    for (at, key) in hashes_as_text(merged) {
        let problem = format!(
            "{key}: a hash, which becomes the password itself: no password that fits the hash is right"
        );
        page.findings.warning(
            place_at(&at, "users"),
            problem,
            "set hashed_passwd, in chpasswd type: hash, for a new instance",
        );
    }
    let mut sshd = if runs_sshd { Server::new(machine) } else { Server::default() };
    // Asked first, because the number of users about whom it is asked is limited.
    sshd.settings(machine, "root");
    let (mut seen, mut configured) = (Seen::default(), BTreeMap::<String, usize>::new());
    let earlier = page.findings.all.len();
    for user in &users {
        configured.insert(user.name.clone(), 0);
        let Some(account) = sys.user(&user.name) else {
            without_account(machine, user, log, has_errors, earlier, page);
            continue;
        };
        let access = Access::of(&known, sshd.settings(machine, &user.name), user, &account, merged);
        seen.add(machine, user, &account, &known.groups(&account), access, page);
    }
    if let Err(e) = shadow
        && Machine::is_root()
        && !seen.lines.is_empty()
    {
        page.findings.unread.push(e.to_string());
    }
    let is_other = |account: &&Account| !configured.contains_key(&account.name);
    for account in accounts.iter().filter(is_other).filter(|account| is_human(account)) {
        // What follows asks only whether there is such a user.
        if seen.can_use_ssh {
            break;
        }
        let user = User { name: account.name.clone(), at: Position::default(), map: None, is_default: false };
        let settings = sshd.settings(machine, &account.name);
        let access = Access::of(&known, settings, &user, account, &Node::default());
        seen.can_login |= access.has_way();
        seen.can_use_ssh |= access.can_use_ssh();
        // Unless passwords of SSH are wanted, root's is for the console.
        let wanted = merged.get("ssh_pwauth").filter(|node| node.as_bool() == Some(true));
        let keyword = access.refused_password().filter(|keyword| *keyword == "PermitRootLogin");
        if let (Some(node), Some(keyword)) = (wanted, keyword) {
            seen.refused.push((place_at(&node.at, "ssh_pwauth"), account.name.clone(), keyword));
        }
    }
    if sys.is_live()
        && !sys.exists("/etc/shadow")
        && passwd.lines().any(|line| line.split(':').nth(1) == Some("x"))
    {
        let problem = "it does not exist, so accounts are refused";
        page.findings.error("/etc/shadow", problem, "restore it from /etc/shadow-, or make it: pwconv");
    }
    if sshd.is_cut {
        page.findings.unread.push(format!("sshd's settings for more than {MAX_USERS} users"));
    }
    if runs_sshd {
        connections(machine, merged, sshd.settings(machine, "root"), page);
    }
    // Beside a user who can use SSH, a password may be for the console only.
    for (place, name, keyword) in seen.refused.drain(..).filter(|_| !seen.can_use_ssh) {
        let (what, remedy) = match keyword {
            "PermitRootLogin" => {
                ("root's password", "set PermitRootLogin yes, or ssh_authorized_keys of a user")
            }
            _ => ("passwords", "set ssh_pwauth: true, or ssh_authorized_keys"),
        };
        let file = match merged.get("ssh_pwauth").filter(|node| node.as_bool() == Some(false)) {
            Some(node) if keyword != "PermitRootLogin" => format!(" (ssh_pwauth is false, {})", node.at),
            _ => {
                let settings = sshd.settings(machine, &name).first();
                settings.map_or(String::new(), |sshd| sshd.place_of(machine, keyword))
            }
        };
        let problem = format!("user {name} has a password and no SSH key, and sshd refuses {what}{file}");
        page.findings.warning(place, problem, remedy);
    }
    let no_login = match sys.exists("/etc/nologin") {
        true => Some("/etc/nologin"),
        false => {
            Some("/run/nologin").filter(|path| sys.exists(path) && sys.is_live() && !is_starting(machine))
        }
    };
    if let Some(path) = no_login {
        let (mut problem, mut remedy) = (
            "it exists: only root may log in".to_string(),
            "remove it, or find out what made it".to_string(),
        );
        let unit = units::show(machine, &[SESSIONS]).unwrap_or_default();
        if path == "/run/nologin" && unit.iter().any(|unit| unit.get("LoadState") == "masked") {
            problem += &format!("; {SESSIONS}, which removes it, is masked");
            remedy = format!("systemctl unmask {SESSIONS}; then reboot");
        }
        page.findings.error(path, problem, remedy);
    }
    // A disk whose SSH server starts at the next boot, or the root of a chroot.
    let is_still = !sys.is_live() || !sys.is_dir("/run/systemd/system");
    if (runs_sshd || is_still && SERVERS.iter().any(|path| sys.exists(path)))
        && !seen.can_login
        && page.findings.all.iter().all(|finding| finding.layer != Layer::Login)
        && Machine::is_root()
    {
        let is_empty = sys.metadata(machine.layout.instance(RAW_DATA[0])).is_ok_and(|meta| meta.len() == 0);
        nobody(merged, &users, is_empty, page);
    }
    page.section("login", "Users", seen.lines.clone(), json!(seen.lines));
}

/// Returns the positions and keys of passwords that are to be plain text, and are hashes of crypt(5).
fn hashes_as_text(merged: &Node) -> Vec<(Position, &'static str)> {
    let of = |path: &[&str], key: &'static str, is_text: fn(&Node) -> bool| {
        let rows = merged.at_path(path).and_then(Node::as_seq).unwrap_or_default().iter();
        let values = rows.filter(move |row| is_text(row)).filter_map(move |row| row.get(key));
        values
            .filter(|value| value.as_str().is_some_and(is_hash))
            .map(move |value| (value.at.clone(), key))
            .collect::<Vec<_>>()
    };
    let is_text = |row: &Node| row.get("type").and_then(Node::as_str) == Some("text");
    [of(&["users"], "plain_text_passwd", |_| true), of(&["chpasswd", "users"], "password", is_text)].concat()
}

/// Returns whether a string has the form of a hash of crypt(5).
fn is_hash(text: &str) -> bool {
    let kind = text.strip_prefix('$').and_then(|rest| rest.split_once('$'));
    kind.is_some_and(|(kind, rest)| {
        ["1", "2a", "2b", "2y", "5", "6", "y", "gy", "7"].contains(&kind) && rest.len() > 20
    })
}

/// Reports a configured user without an account. `earlier` is the number of findings before those about users.
fn without_account(
    machine: &Machine,
    user: &User<'_>,
    log: &BootLog,
    has_errors: bool,
    earlier: usize,
    page: &mut Page,
) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (place, name) = (place_at(&user.at, "users"), config::shown_name(&user.name));
    // Users of libnss-extrausers and snap are not looked for.
    let is_elsewhere = user.map.is_some_and(|map| map.get("snapuser").is_some());
    // What useradd said, and a name that no account can have, are reported already.
    let command = format!("useradd {} ", encoding::shell::quote(&user.name));
    let mut others = page.findings.all.iter().take(earlier);
    let is_reported = others.any(|f| f.shows(&command) || name != user.name && f.place == place);
    if is_reported || is_elsewhere {
        return;
    }
    let made = sys.read_text(layout.new_users()).unwrap_or_default();
    if made.lines().any(|made| made == user.name) && !has_errors {
        let problem = format!("user {name}, whom this instance's first boot created, is not in /etc/passwd");
        let remedy = "if the account was not removed on purpose: restore /etc/passwd, or boot a new instance";
        let details = account_changes(machine, &user.name);
        let remedy = if details.is_empty() { remedy } else { CHANGES_REMEDY };
        page.findings.warning(place, problem, remedy).details = details;
        return;
    }
    if user.is_default {
        return;
    }
    let mut problem = format!("user {name} is configured and not in /etc/passwd");
    let mut remedy = format!("see the errors of users_groups; {}", results::repeat("users_groups"));
    if history::ran_earlier(log, "users_groups") {
        let id = sys.read_text(layout.instance_id()).unwrap_or_default();
        let id = config::shown_name(id.trim());
        problem +=
            &format!(": users are created at the first boot of an instance, and this is still instance {id}");
        remedy = "change instance-id in meta-data and reboot; on this instance: \
                  cloud-init single --name users_groups --frequency always"
            .into();
    }
    page.findings.error(place, problem, remedy);
}

/// Reports what keeps every connection from the SSH server, and passwords that it does not treat as configured.
fn connections(machine: &Machine, merged: &Node, all: &[Sshd], page: &mut Page) {
    if let Some(place) = tcp_wrappers::refusal(&machine.sys) {
        let remedy = "remove the rule, or permit addresses: sshd: ADDRESS in /etc/hosts.allow";
        page.findings.error(place, "refuses every connection to sshd", remedy);
    }
    if let Some(sshd) = all.first() {
        let ports: Vec<u16> = sshd.values("port").filter_map(|port| port.parse().ok()).collect();
        firewall::connections(machine, &ports, page);
        addresses(machine, sshd, page);
        algorithms(machine, sshd, page);
        passwords(machine, merged, all, page);
    }
}

/// Reports that no user can log in.
fn nobody(merged: &Node, users: &[User<'_>], is_empty: bool, page: &mut Page) {
    let keys = modules::schema::keys_of_nobody(merged, merged);
    if let Some(keys) = keys {
        let remedy = "add default to users, or the keys to a user (ssh_authorized_keys), for a new instance";
        let place = place_at(&keys.at, "ssh_authorized_keys");
        page.findings.error(place, modules::schema::OF_NOBODY, remedy);
    }
    let problem = "no user can log in: none has an authorized SSH key or a password";
    // The default user gets the cloud's keys.
    let remedy = match keys.is_none() && users.iter().any(|user| user.is_default) {
        true => {
            "add ssh_authorized_keys to the user-data, or a key to the instance at the cloud, for a new instance"
        }
        false => "add ssh_authorized_keys to a user, or default to users, for a new instance",
    };
    let place = if is_empty { "user-data" } else { "users" };
    let empty = if is_empty { "the user-data is empty, and " } else { "" };
    page.findings.warning(place, format!("{empty}{problem}"), remedy);
}

/// Returns whether an account is root's or a person's, with a shell.
fn is_human(account: &Account) -> bool {
    (account.uid == 0 || (1000..60000).contains(&account.uid)) && !distro::ends_login(&account.shell)
}

/// Returns whether the boot has not reached the point where logins are allowed.
fn is_starting(machine: &Machine) -> bool {
    let unit = units::show(machine, &[SESSIONS]).unwrap_or_default();
    unit.first().is_none_or(|unit| unit.is_pending())
}

#[cfg(test)]
mod tests {
    #[test]
    fn hashes_in_place_of_passwords_are_found() {
        let hash = "$6$salt$0123456789012345678901234567890123456789";
        for (text, expected) in [
            (format!("users: [{{plain_text_passwd: '{hash}'}}]"), Some("plain_text_passwd")),
            (format!("users: [{{hashed_passwd: '{hash}'}}, a]"), None),
            (format!("chpasswd: {{users: [{{password: '{hash}', type: text}}]}}"), Some("password")),
            (format!("chpasswd: {{users: [{{password: '{hash}'}}]}}"), None),
            ("users: [{plain_text_passwd: '$6$x'}]".into(), None),
        ] {
            let root = config::yaml::parse("t", &text).unwrap().root;
            let found = super::hashes_as_text(&root).first().map(|(_, key)| *key);
            assert_eq!(found, expected, "{text}");
        }
    }
}
