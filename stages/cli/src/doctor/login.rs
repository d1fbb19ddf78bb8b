//! Whether the configured users can log in: accounts, shells, passwords, keys with their permissions, sshd and its settings.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use config::{FromNode as _, Node, Position, Reader, Value};
use modules::{is_cut, key_of, key_paths};
use serde_json::json;
use system::{Command, User as Account};

use super::boot;
use super::boot_log::BootLog;
use super::page::Page;
use super::{firewall, history, pam, results, tcp_wrappers};
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;
use crate::units;

// Wait: doctor | sshd, which prints its settings | -
const TIMEOUT: Duration = Duration::from_secs(5);
/// Where the SSH server may be.
const SERVERS: [&str; 2] = ["/usr/sbin/sshd", "/usr/bin/sshd"];
/// Keys whose value gives a user SSH keys.
const KEY_SOURCES: [&str; 3] = ["ssh_authorized_keys", "ssh-authorized-keys", "ssh_import_id"];
/// Keys whose value gives a user a password.
const PASSWORD_SOURCES: [&str; 3] = ["passwd", "hashed_passwd", "plain_text_passwd"];
/// The remedy for keys that were not written.
const KEY_ERRORS: &str = "see the errors of users_groups and ssh; AuthorizedKeysFile in sshd_config(5)";

/// A configured user.
pub struct User<'a> {
    pub name: String,
    pub at: Position,
    /// Its map, if it has one.
    pub map: Option<&'a Node>,
    pub is_default: bool,
}

impl User<'_> {
    /// Returns whether one of these keys is set, or of the default user this one of the whole configuration.
    fn gets(&self, keys: &[&str], merged: &Node, of_default: &str) -> bool {
        self.map.is_some_and(|map| keys.iter().any(|key| map.get(key).is_some()))
            || self.is_default && merged.get(of_default).is_some()
    }
}

/// sshd's settings for a user: `KEYWORD VALUE` lines, as `sshd -T` prints them, in lower case or, as newer releases do, as
/// sshd_config(5) spells them.
struct Sshd(String);

impl Sshd {
    fn values<'a>(&'a self, keyword: &str) -> impl Iterator<Item = &'a str> {
        // OpenSSH 10.6 prints keywords as in its manual page, earlier releases in lower case.
        let settings = self.0.lines().filter_map(|line| line.split_once(' '));
        let values = settings.filter(move |(word, _)| word.eq_ignore_ascii_case(keyword));
        values.flat_map(|(_, values)| values.split_whitespace())
    }

    fn is_yes(&self, keyword: &str) -> bool {
        self.values(keyword).next() == Some("yes")
    }

    /// Returns the setting that refuses the password of a user. Root's is refused by default.
    fn password_refusal(&self, user: &str) -> Option<&'static str> {
        if !self.is_yes("passwordauthentication") && !self.is_yes("kbdinteractiveauthentication") {
            return Some("PasswordAuthentication");
        }
        (user == "root" && !self.is_yes("permitrootlogin")).then_some("PermitRootLogin")
    }

    /// Returns whether a setting is not set, or `none`.
    fn is_none(&self, keyword: &str) -> bool {
        self.values(keyword).next().is_none_or(|value| value == "none")
    }

    /// Returns whether a key alone is enough for `AuthenticationMethods`, a list of lists, which is `any` by default.
    fn accepts_key_alone(&self) -> bool {
        let mut lists = self.values("authenticationmethods").peekable();
        lists.peek().is_none()
            || lists.any(|list| list == "any" || list.starts_with("publickey") && !list.contains(','))
    }

    /// Returns whether keys of a type are accepted; sshd knows RSA keys by their signatures.
    fn accepts_key_of(&self, kind: &str) -> bool {
        let names = ["pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes"];
        let mut accepted =
            names.iter().flat_map(|name| self.values(name)).flat_map(|list| list.split(',')).peekable();
        let is_rsa = kind == "ssh-rsa";
        accepted.peek().is_none()
            || accepted.any(|name| name == kind || is_rsa && matches!(name, "rsa-sha2-256" | "rsa-sha2-512"))
    }

    /// Returns the setting that refuses a user in these groups.
    fn refusal(&self, user: &str, groups: &[&str]) -> Option<&'static str> {
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
    let has_errors = page.findings.all.iter().any(|finding| {
        finding.place.contains(": ssh")
            || finding.place.contains("users_groups")
            || finding.shows("users_groups")
    });
    let made = sys.read_text(machine.layout.instance("new-users")).unwrap_or_default();
    let (mut lines, mut can_login, mut can_use_ssh, mut refused) = (Vec::new(), false, false, Vec::new());
    for user in &users {
        let place = place_at(&user.at, "users");
        let name = config::shown_name(&user.name);
        let Some(account) = accounts.iter().find(|account| account.name == user.name) else {
            // Users of libnss-extrausers and snap are not looked for.
            let is_elsewhere = user.map.is_some_and(|map| map.get("snapuser").is_some());
            // What useradd said, and a name that no account can have, are reported already.
            let command = format!("useradd {} ", encoding::shell::quote(&user.name));
            let mut others = page.findings.all.iter();
            let is_reported = others.any(|f| f.shows(&command) || name != user.name && f.place == place);
            let was_made = made.lines().any(|made| made == user.name) && !has_errors;
            if is_reported || is_elsewhere {
                continue;
            }
            if was_made {
                let problem =
                    format!("user {name}, whom this instance's first boot created, is not in /etc/passwd");
                page.findings.warning(
                    place,
                    problem,
                    "if the account was not removed on purpose: restore /etc/passwd, or boot a new instance",
                );
            } else if !user.is_default {
                let mut problem = format!("user {name} is configured and not in /etc/passwd");
                let mut remedy =
                    format!("see the errors of users_groups; {}", results::repeat("users_groups"));
                if history::ran_earlier(log, "users_groups") {
                    let id = sys.read_text(machine.layout.instance_id()).unwrap_or_default();
                    let id = config::shown_name(id.trim()).into_owned();
                    problem += &format!(
                        ": users are created at the first boot of an instance, and this is still instance {id}"
                    );
                    remedy = "change instance-id in meta-data and reboot; on this instance: \
                              cloud-init single --name users_groups --frequency always"
                        .into();
                }
                page.findings.error(place, problem, remedy);
            }
            continue;
        };
        let access = Access::of(machine, user, account, merged, runs_sshd, has_errors);
        lines.push(format!("{name}: {}", access.describe(&account.shell)));
        can_login |= access.has_way();
        refused.extend(access.refused_password().map(|keyword| (place.clone(), name.to_string(), keyword)));
        can_use_ssh |= access.can_use_ssh();
        let home = account.home.as_str();
        let belongs_to_root = sys.metadata(home).is_ok_and(|meta| meta.uid() == 0);
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
        if let Some((place, problem)) = access.refused_by_pam {
            page.findings.error(place, problem, "correct the line; man pam.d describes it");
        }
        for (problem, remedy) in access.problems {
            page.findings.error(&place, format!("user {name} cannot log in: {problem}"), remedy);
        }
        page.findings.unread.extend(access.unread);
    }
    let is_other = |account: &&Account| users.iter().all(|user| user.name != account.name);
    for account in accounts.iter().filter(is_other).filter(|account| is_human(account)) {
        let user = User { name: account.name.clone(), at: Position::default(), map: None, is_default: false };
        let access = Access::of(machine, &user, account, &Node::default(), runs_sshd, has_errors);
        can_login |= access.has_way();
        can_use_ssh |= access.can_use_ssh();
        // Unless passwords of SSH are wanted, root's is for the console.
        let wanted = merged.get("ssh_pwauth").filter(|node| node.as_bool() == Some(true));
        let keyword = access.refused_password().filter(|keyword| *keyword == "PermitRootLogin");
        refused.extend(
            wanted
                .zip(keyword)
                .map(|(node, keyword)| (place_at(&node.at, "ssh_pwauth"), account.name.clone(), keyword)),
        );
    }
    if sys.is_live()
        && !sys.exists("/etc/shadow")
        && passwd.lines().any(|line| line.split(':').nth(1) == Some("x"))
    {
        let problem = "it does not exist, so accounts are refused";
        page.findings.error("/etc/shadow", problem, "restore it from /etc/shadow-, or make it: pwconv");
    }
    if runs_sshd {
        if let Some(place) = tcp_wrappers::refusal(sys) {
            let remedy = "remove the rule, or permit addresses: sshd: ADDRESS in /etc/hosts.allow";
            page.findings.error(place, "refuses every connection to sshd", remedy);
        }
        if let Some(sshd) = effective_settings(machine, "root") {
            let ports: Vec<u16> = sshd.values("port").filter_map(|port| port.parse().ok()).collect();
            firewall::connections(machine, &ports, page);
            addresses(machine, &sshd, page);
            passwords(machine, merged, &sshd, page);
        }
    }
    // Beside a user who can use SSH, a password may be for the console only.
    for (place, name, keyword) in refused.into_iter().filter(|_| !can_use_ssh) {
        let (what, remedy) = match keyword {
            "PermitRootLogin" => {
                ("root's password", "set PermitRootLogin yes, or ssh_authorized_keys of a user")
            }
            _ => ("passwords", "set ssh_pwauth: true, or ssh_authorized_keys"),
        };
        let file = place_of(machine, keyword);
        let problem = format!("user {name} has a password and no SSH key, and sshd refuses {what}{file}");
        page.findings.warning(place, problem, remedy);
    }
    let of_boot = "/run/nologin";
    let no_login = match sys.exists("/etc/nologin") {
        true => Some("/etc/nologin"),
        false => Some(of_boot).filter(|path| sys.exists(path) && sys.is_live() && !is_starting(machine)),
    };
    if let Some(path) = no_login {
        page.findings.error(path, "it exists: only root may log in", "remove it, or find out what made it");
    }
    // A disk whose SSH server starts at the next boot, or the root of a chroot.
    let is_still = !sys.is_live() || !sys.is_dir("/run/systemd/system");
    if (runs_sshd || is_still && SERVERS.iter().any(|path| sys.exists(path)))
        && !can_login
        && page.findings.all.iter().all(|finding| finding.layer != Layer::Login)
        && Machine::is_root()
    {
        let keys = modules::schema::keys_of_nobody(merged, merged);
        if let Some(keys) = keys {
            let remedy =
                "add default to users, or the keys to a user (ssh_authorized_keys), for a new instance";
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
        page.findings.warning("users", problem, remedy);
    }
    page.section("login", "Users", lines.clone(), json!(lines));
}

/// Returns whether an account is root's or a person's, with a shell.
fn is_human(account: &Account) -> bool {
    (account.uid == 0 || (1000..60000).contains(&account.uid)) && !distro::ends_login(&account.shell)
}

/// Returns whether the boot has not reached the point where logins are allowed.
fn is_starting(machine: &Machine) -> bool {
    let unit = units::show(machine, &["systemd-user-sessions.service"]).unwrap_or_default();
    unit.first().is_none_or(|unit| unit.get("ActiveState") != "active")
}

/// Reports problems of the SSH server. Returns whether it runs, or is started for a connection.
fn server(machine: &Machine, is_needed: bool, page: &mut Page) -> bool {
    if !SERVERS.iter().any(|path| machine.sys.exists(path)) {
        if is_needed && !machine.sys.exists("/usr/sbin/dropbear") {
            let problem = "SSH keys are configured, but there is no SSH server";
            // A note: containers are entered without one.
            page.findings.add(Severity::Note, "sshd", problem, "install it: packages: [openssh-server]");
        }
        return false;
    }
    let names = ["ssh.service", "sshd.service", "ssh.socket", "sshd.socket"];
    let units = units::show(machine, &names).unwrap_or_default();
    let loaded: Vec<_> = units.iter().filter(|unit| unit.get("LoadState") == "loaded").collect();
    let is_wanted =
        loaded.iter().any(|unit| matches!(unit.get("UnitFileState"), "enabled" | "enabled-runtime"));
    let runs = loaded.iter().any(|unit| unit.get("ActiveState") == "active");
    let masked = units.iter().any(|unit| unit.get("LoadState") == "masked");
    let test = machine.sys.run(&Command::new(["sshd", "-t"]).timeout(TIMEOUT).accept_all().read_only());
    let errors = test
        .map(|done| (done.code == 0, String::from_utf8_lossy(&done.stderr).into_owned()))
        // The unit makes that directory when it starts.
        .map(|(is_valid, text)| (is_valid || text.contains("privilege separation directory: /run/"), text))
        // Only root may read the host keys.
        .map(|(is_valid, text)| (is_valid || !Machine::is_root(), text))
        .unwrap_or((true, String::new()));
    let keys = machine.sys.list("/etc/ssh").unwrap_or_default();
    let has_keys = keys.iter().any(|name| name.starts_with("ssh_host_") && name.ends_with("_key"))
        // They are empty.
        && !errors.1.starts_with("sshd: no hostkeys available");
    let is_pending = loaded.iter().any(|unit| unit.is_pending());
    let (problem, remedy) = match (has_keys, errors.0) {
        (false, _) if is_wanted || runs => (
            "there are no host keys, so the SSH server cannot start or accept connections".to_string(),
            "make them: rm -f /etc/ssh/ssh_host_*; ssh-keygen -A; then: systemctl restart ssh (sshd on other distributions than Debian's)",
        ),
        (true, false) if is_wanted || runs => (
            format!(
                "the SSH server refuses its configuration: {}",
                errors.1.lines().find(|line| !line.starts_with('@')).unwrap_or_default().trim()
            ),
            "correct the file that the message names; check it with: sshd -t",
        ),
        _ if masked && !runs => {
            ("the SSH server's unit is masked".to_string(), "systemctl unmask ssh; systemctl start ssh")
        }
        _ if is_wanted && !runs && !is_pending => {
            ("the SSH server is enabled and does not run".to_string(), "systemctl status ssh sshd")
        }
        _ if is_needed && !is_wanted && !runs && !is_pending => (
            "SSH keys are configured, but the SSH server is not enabled and does not run".to_string(),
            "systemctl enable --now ssh (sshd on other distributions than Debian's)",
        ),
        _ => return runs || is_pending,
    };
    // What follows from it, such as a script that restarts the server, comes after it.
    page.findings.layer = if has_keys { Layer::Configuration } else { Layer::Login };
    let never_tried = loaded.iter().all(|unit| !unit.was_checked());
    // Without it a password is enough for the console.
    let is_intended = !(is_wanted || runs || is_needed && no_password(machine));
    let severity = if is_intended { Severity::Note } else { Severity::Error };
    let finding = page.findings.add(severity, "sshd", problem, remedy);
    if is_wanted && !runs {
        finding.details = match never_tried {
            true => boot::own_orders(machine),
            false => boot::ask_journal(machine, &["-u", "ssh", "-u", "sshd"]),
        };
        finding.problem += &loaded.iter().map(|unit| boot::changed_by(unit)).collect::<String>();
    }
    page.findings.layer = Layer::Login;
    runs
}

/// Returns whether no account has a usable password.
fn no_password(machine: &Machine) -> bool {
    let shadow = machine.sys.read_text("/etc/shadow").unwrap_or_default();
    shadow.lines().all(|line| {
        line.split(':').nth(1).is_none_or(|hash| hash.is_empty() || hash.starts_with(['!', '*', 'x']))
    })
}

/// Reports that sshd listens only on addresses to which other machines cannot connect.
fn addresses(machine: &Machine, sshd: &Sshd, page: &mut Page) {
    let own = machine.sys.link_addresses().unwrap_or_default();
    let sockets = units::show(machine, &["ssh.socket", "sshd.socket"]).unwrap_or_default();
    // A socket of systemd for all IPv6 addresses accepts IPv4, too.
    let of_socket =
        sockets.iter().filter(|unit| unit.get("ActiveState") == "active").flat_map(|unit| unit.all("Listen"));
    let of_socket: Vec<&str> = of_socket.filter_map(|at| at.split(' ').next()).collect();
    let all = if of_socket.is_empty() { sshd.values("listenaddress").collect() } else { of_socket.clone() };
    let is_open = |at: &&str| match at.parse::<SocketAddr>() {
        Ok(at) if at.ip().is_unspecified() && of_socket.is_empty() => {
            own.iter().any(|a| a.global && a.ipv6 == at.is_ipv6())
        }
        Ok(at) => !at.ip().is_loopback(),
        Err(_) => true,
    };
    if own.iter().any(|address| address.global) && !all.is_empty() && !all.iter().any(is_open) {
        let file = ["ListenAddress", "AddressFamily"]
            .map(|keyword| place_of(machine, keyword))
            .into_iter()
            .find(|file| !file.is_empty());
        let problem = format!(
            "listens only on {}, to which other machines cannot connect{}",
            all.join(", "),
            file.unwrap_or_default()
        );
        // A note: a tunnel may lead to it.
        page.findings.add(Severity::Note, "sshd", problem, "change ListenAddress and AddressFamily (or ListenStream of ssh.socket), then: systemctl restart ssh");
    }
}

/// Compares `ssh_pwauth` with what sshd does.
fn passwords(machine: &Machine, merged: &Node, sshd: &Sshd, page: &mut Page) {
    let Some((node, wanted)) = merged.get("ssh_pwauth").and_then(|node| Some((node, node.as_bool()?))) else {
        return;
    };
    if sshd.is_yes("passwordauthentication") != wanted {
        let place = place_at(&node.at, "ssh_pwauth");
        let does = if wanted { "does not accept" } else { "accepts" };
        let own = place_of(machine, "PasswordAuthentication");
        let problem = format!("ssh_pwauth is {wanted}, but sshd {does} passwords{own}");
        page.findings.error(
            place,
            problem,
            "remove the setting from that file, then: systemctl reload ssh (or sshd)",
        );
    }
}

/// The ways in which a user can log in, and what is wrong with them.
#[derive(Default)]
struct Access {
    has_key: bool,
    has_password: bool,
    /// On a disk: sshd was not asked for its settings.
    is_of_disk: bool,
    /// The file whose keys are cut off.
    cut_file: Option<String>,
    /// The setting by which sshd refuses the user's password.
    password_refused_by: Option<&'static str>,
    /// The line of PAM's rules that refuses the user, and why.
    refused_by_pam: Option<(String, String)>,
    problems: Vec<(String, String)>,
    unread: Vec<String>,
}

impl Access {
    fn problem(&mut self, problem: String, remedy: &str) {
        self.problems.push((problem, remedy.to_string()));
    }

    /// `has_errors`: of the modules that write keys.
    fn of(
        machine: &Machine,
        user: &User<'_>,
        account: &Account,
        merged: &Node,
        runs_sshd: bool,
        has_errors: bool,
    ) -> Access {
        let sys = &machine.sys;
        let mut access = Access { is_of_disk: !sys.is_live(), ..Access::default() };
        let (home, shell) = (account.home.as_str(), account.shell.as_str());
        let gets_keys = user.gets(&KEY_SOURCES, merged, "ssh_authorized_keys");
        let gets_password = user.gets(&PASSWORD_SOURCES, merged, "password");
        let sshd = if runs_sshd { effective_settings(machine, &user.name) } else { None };
        if distro::ends_login(shell) {
            // A command that sshd forces, such as that of SFTP, needs no shell.
            let is_forced = sshd.as_ref().is_some_and(|sshd| !sshd.is_none("forcecommand"));
            if gets_keys && !is_forced {
                access.problem(format!("the shell {shell} ends each login"), "choose another one (shell:)");
            }
            return access;
        }
        let is_program = |path: &str| {
            sys.metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        // The programs of a disk may be on another file system.
        let mut has_shell = shell.is_empty() || is_program(shell) || !sys.exists("/bin/sh");
        if !has_shell {
            let problem = format!("the shell {shell} does not exist, or is not a program");
            access.problem(problem, "install it (packages:), or choose another one (shell:)");
        }
        let groups = sys.groups();
        let own = groups.iter().filter(|g| g.gid == account.gid || g.members.contains(&user.name));
        let own: Vec<_> = own.collect();
        let gids: Vec<u32> = own.iter().map(|group| group.gid).collect();
        // A link, such as /bin, may lead to another directory.
        let program = sys.real_path(shell).filter(|_| sys.is_live());
        let closed_shell = program.and_then(|program| closed_directory(machine, &program, account, &gids));
        if let Some(closed) = &closed_shell {
            let problem = format!("the user may not enter {closed}, and so not run the shell {shell}");
            access.problem(problem, &format!("chmod a+rx {closed}"));
            has_shell = false;
        }
        let groups: Vec<&str> = own.iter().map(|group| group.name.as_str()).collect();
        let refusal = sshd.as_ref().and_then(|sshd| sshd.refusal(&user.name, &groups));
        let files: Vec<&str> = match &sshd {
            Some(sshd) => sshd.values("authorizedkeysfile").collect(),
            None => vec![".ssh/authorized_keys"],
        };
        let files: Vec<String> =
            key_paths(&files.join(" "), account).into_iter().map(|(path, _)| path).collect();
        let (mut has_file, mut is_redirected, mut kinds) = (false, false, Vec::new());
        for file in &files {
            let Ok(text) = sys.read_text(file) else { continue };
            let keys = || text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
            // cloud-init's own, for users who shall log in as another one.
            if keys().all(|line| line.contains("Please login as the user")) {
                is_redirected |= keys().next().is_some();
                continue;
            }
            has_file = true;
            if !keys().any(is_key) {
                let remedy = format!("compare it with the public key of the client: ssh-keygen -l -f {file}");
                access.problem(format!("no line of {file} is a valid SSH key"), &remedy);
                continue;
            }
            kinds.extend(keys().filter_map(key_of).map(|(kind, _)| kind.to_string()));
            if keys().filter(|line| is_key(line)).all(is_cut) {
                access.cut_file = Some(file.clone());
            }
            if let Some(closed) = closed_directory(machine, file, account, &gids) {
                let problem = format!("sshd cannot read {file}, because the user may not enter {closed}");
                if closed_shell.is_none() {
                    access.problem(problem, &format!("chmod a+x {closed}"));
                }
                continue;
            }
            let is_strict = sshd.as_ref().is_none_or(|sshd| sshd.is_yes("strictmodes"));
            match unsafe_path(machine, file, account).filter(|_| is_strict) {
                Some((path, why)) => {
                    let problem = format!("sshd ignores the keys in {file}, because {path} {why}");
                    let remedy = format!("chown {}: {path}; chmod go-w {path}", user.name);
                    access.problem(problem, &remedy);
                }
                None => access.has_key |= access.cut_file.is_none(),
            }
        }
        access.password_refused_by = sshd.as_ref().and_then(|sshd| sshd.password_refusal(&user.name));
        // A password of a user whom sshd does not let in anyway is for the console.
        if let Some(keyword) =
            refusal.filter(|_| gets_keys || has_file || access.password_refused_by.is_none())
        {
            let problem =
                format!("sshd refuses the user by its setting {keyword}{}", place_of(machine, keyword));
            access.problem(problem, "change the setting, then: systemctl reload ssh");
        }
        if let Some(sshd) = &sshd {
            // Below another root, and in what a shell reads, a program may be another one.
            let is_plain = |program: &str| {
                sshd.is_none("chrootdirectory")
                    && program.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
            };
            let ends = |program: &str| {
                sshd.values("forcecommand").all(is_plain)
                    && (distro::ends_login(program) || program.starts_with('/') && !sys.exists(program))
            };
            let is_no_root = |path: &str| {
                let uid = account.uid.to_string();
                let path = path.replace("%h", home).replace("%u", &user.name).replace("%U", &uid);
                let is_root =
                    |meta: std::fs::Metadata| meta.uid() == 0 && meta.permissions().mode() & 0o022 == 0;
                path != "none" && !path.contains('%') && !sys.metadata(path).is_ok_and(is_root)
            };
            let root = sshd.values("permitrootlogin").next().unwrap_or_default();
            let refusal = if (gets_keys || has_file) && !sshd.is_yes("pubkeyauthentication") {
                Some(("does not accept keys", "PubkeyAuthentication", "set PubkeyAuthentication yes"))
            } else if gets_keys
                && sshd.values("authorizedkeysfile").next() == Some("none")
                && sshd.is_none("authorizedkeyscommand")
            {
                Some((
                    "reads no file of keys",
                    "AuthorizedKeysFile",
                    "set AuthorizedKeysFile .ssh/authorized_keys",
                ))
            } else if access.has_key && !kinds.iter().any(|kind| sshd.accepts_key_of(kind)) {
                Some((
                    "does not accept keys of this type",
                    "PubkeyAcceptedAlgorithms",
                    "use a key of another type (ssh-keygen -t ed25519), or add this one",
                ))
            } else if access.has_key && user.name == "root" && root == "no" {
                Some(("refuses root", "PermitRootLogin", "set PermitRootLogin prohibit-password"))
            } else if access.has_key && !sshd.accepts_key_alone() {
                Some(("demands more than a key", "AuthenticationMethods", "change AuthenticationMethods"))
            } else if access.has_key && sshd.values("maxsessions").next() == Some("0") {
                Some(("allows no session", "MaxSessions", "set MaxSessions 10"))
            } else if access.has_key && sshd.values("forcecommand").next().is_some_and(ends) {
                Some(("runs a command that ends each login", "ForceCommand", "remove ForceCommand"))
            } else if access.has_key && sshd.values("chrootdirectory").next().is_some_and(is_no_root) {
                let remedy =
                    "create the directory; it and those above must be root's, and writable by root only";
                Some(("cannot use its ChrootDirectory", "ChrootDirectory", remedy))
            } else {
                None
            };
            if let Some((what, keyword, remedy)) = refusal {
                let problem = format!("sshd {what}{}", place_of(machine, keyword));
                access.problem(problem, &format!("{remedy}, then: systemctl reload ssh"));
                access.has_key = false;
            }
            if sshd.is_yes("usepam") {
                let service = sshd.values("pamservicename").next().unwrap_or("sshd");
                access.refused_by_pam = pam::refusal(sys, service, account, &groups);
                access.has_key &= access.refused_by_pam.is_none();
            }
        }
        // Without its settings, on a machine that runs, it is not known which files sshd reads.
        if gets_keys && !has_file && (sshd.is_some() || !sys.is_live() || !sys.exists(home)) {
            let file = files.first().map_or("", String::as_str);
            let (problem, remedy) = match sys.exists(home) {
                true => without_keys(machine, user, merged, file, is_redirected, has_errors),
                false => (
                    format!("the home directory {home} does not exist{}", mounted_above(machine, home)),
                    KEY_ERRORS.to_string(),
                ),
            };
            access.problem(problem, &remedy);
        }
        match sys.read_text("/etc/shadow") {
            Ok(shadow) => {
                let needs_unlocked =
                    sshd.as_ref().is_some_and(|sshd| sshd.values("usepam").next() == Some("no"));
                let is_only_way = gets_password && !gets_keys;
                access.password(&shadow, user, is_only_way, needs_unlocked, sys.clock().wall());
            }
            Err(e) if Machine::is_root() => access.unread.push(e.to_string()),
            Err(_) => {}
        }
        let is_usable = has_shell && refusal.is_none();
        access.has_key &= is_usable;
        access.has_password &= has_shell;
        access
    }

    /// Checks the user's line of shadow(5).
    /// Without PAM sshd refuses a locked account.
    fn password(
        &mut self,
        shadow: &str,
        user: &User<'_>,
        is_only_way: bool,
        needs_unlocked: bool,
        now: Duration,
    ) {
        let Some(line) = shadow.lines().find(|line| line.split(':').next() == Some(&user.name)) else {
            return;
        };
        let fields: Vec<&str> = line.split(':').collect();
        let hash = fields.get(1).copied().unwrap_or_default();
        let is_locked = hash.starts_with(['!', '*']) || hash == "x";
        self.has_password = !is_locked && !hash.is_empty();
        if needs_unlocked && hash.starts_with('!') && self.has_key {
            let problem = "the account is locked, and sshd does not use PAM, so it refuses the key";
            self.problem(problem.into(), &format!("usermod -p '*' {}, or set UsePAM yes", user.name));
            self.has_key = false;
        }
        if is_only_way && is_locked && !self.has_key {
            let problem = "a password is configured, but it is locked, and there is no SSH key";
            let remedy = match hash.len() > 1 {
                true => {
                    format!("set lock_passwd: false for a new instance; on this one: passwd -u {}", user.name)
                }
                false => "set lock_passwd: false, and hashed_passwd to a hash, for a new instance".into(),
            };
            self.problem(problem.into(), &remedy);
        }
        let today = (now.as_secs() / 86_400) as i64;
        let day = |at: usize| fields.get(at).and_then(|day| day.parse::<i64>().ok()).filter(|day| *day >= 0);
        let is_due = day(2).is_some_and(|changed| {
            changed == 0 || day(4).is_some_and(|days| changed.saturating_add(days) < today)
        });
        if is_due && is_locked && self.has_key {
            let problem = "the password is locked and has expired, so it can be neither used nor changed";
            self.problem(problem.into(), &format!("chage -M -1 -d $(date +%F) {}", user.name));
            self.has_key = false;
        }
        if day(7).is_some_and(|day| day <= today) {
            let remedy = format!("chage -E -1 {}; expiredate: in users", user.name);
            self.problem("the account has expired".into(), &remedy);
            (self.has_key, self.has_password) = (false, false);
        }
    }

    /// Returns the setting that refuses the only way of the user.
    fn refused_password(&self) -> Option<&'static str> {
        self.password_refused_by.filter(|_| self.has_password && !self.has_key)
    }

    fn can_use_ssh(&self) -> bool {
        self.has_key || self.has_password && self.password_refused_by.is_none()
    }

    fn has_way(&self) -> bool {
        self.has_key || self.has_password
    }

    fn describe(&self, shell: &str) -> String {
        let by_key = if self.is_of_disk { "SSH key, if sshd's settings allow it" } else { "SSH key" };
        let is_refused = self.password_refused_by.is_some();
        let by_password = if is_refused { "password (at the console only)" } else { "password" };
        let ways = [(self.has_password, by_password), (self.has_key, by_key)];
        let ways: Vec<&str> = ways.into_iter().filter(|(has, _)| *has).map(|(_, way)| way).collect();
        let why = match (self.problems.first(), &self.refused_by_pam, &self.cut_file) {
            _ if !ways.is_empty() => return format!("can log in by {}", ways.join(", ")),
            (Some((problem, _)), ..) | (None, Some((_, problem)), _) => problem,
            (.., Some(_)) => "its key is cut off or changed",
            _ if distro::ends_login(shell) => "its shell ends each login",
            _ if !Machine::is_root() => "only root can read its keys and password",
            _ => "it has neither an SSH key nor a usable password",
        };
        format!("cannot log in: {why}")
    }
}

/// Returns why the file of a user's configured keys has none, and the remedy.
fn without_keys(
    machine: &Machine,
    user: &User<'_>,
    merged: &Node,
    file: &str,
    is_redirected: bool,
    has_errors: bool,
) -> (String, String) {
    if is_redirected {
        let (key, setting) = match user.name == "root" {
            true => ("disable_root", merged.get("disable_root")),
            false => ("ssh_redirect_user", user.map.and_then(|map| map.get("ssh_redirect_user"))),
        };
        let place = setting.map_or(String::new(), |node| format!(" ({})", node.at));
        let problem = format!("a login with its keys only names another user, because of {key}{place}");
        return (problem, format!("set {key}: false for a new instance, or log in as that user"));
    }
    let problem =
        format!("SSH keys are configured, but {file} has none{}", place_of(machine, "AuthorizedKeysFile"));
    let files = merged.get("write_files").and_then(Node::as_seq).unwrap_or_default();
    let is_same = |entry: &&Node| {
        entry.get("path").and_then(Node::as_str) == Some(file)
            && entry.get("append").is_none_or(Node::is_falsy)
    };
    if let Some(entry) = files.iter().find(is_same) {
        let remedy = "remove the file from write_files, or set append: true and defer: true there";
        return (format!("{problem}: write_files replaces it ({})", entry.at), remedy.into());
    }
    let repeat = results::repeat("users_groups");
    let without_errors = format!(
        "users_groups had no error: a script or service changed the file since, or the keys were configured later; {repeat}"
    );
    (problem, if has_errors { KEY_ERRORS.into() } else { without_errors })
}

/// Returns whether a name matches a pattern of ssh_config(5), in which brackets are ordinary characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern == name || !pattern.contains(['[', '\\']) && netconfig::glob_match(pattern, name)
}

/// Returns sshd's settings for a user.
fn effective_settings(machine: &Machine, user: &str) -> Option<Sshd> {
    let connection = format!("user={user},host=localhost,addr=127.0.0.1");
    let command = Command::new(["sshd", "-T", "-C"]).arg(connection).timeout(TIMEOUT).read_only();
    Some(Sshd(machine.sys.run(&command).ok()?.text()))
}

/// Returns ` (FILE)` for the file of sshd_config.d, or the main one, that sets a keyword first; empty if none does.
fn place_of(machine: &Machine, keyword: &str) -> String {
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

/// Returns whether a line of authorized_keys has a key: a type, and base64 data, which begins with the length of the type's name.
fn is_key(line: &str) -> bool {
    key_of(line).is_some()
}

/// Returns the first of a key file, its directory and the home directory that others may write, and why sshd minds it.
fn unsafe_path(machine: &Machine, file: &str, account: &Account) -> Option<(String, String)> {
    let home = account.home.trim_end_matches('/');
    let directory = file.rsplit_once('/').map_or("/", |(directory, _)| directory);
    let paths = [home, directory, file].map(|path| path.trim_end_matches('/'));
    paths.iter().filter(|path| path.starts_with(home)).find_map(|path| {
        let meta = machine.sys.metadata(path).ok()?;
        let mode = meta.permissions().mode();
        // sshd reads the file as the user.
        let access = if meta.is_dir() { 0o001 } else { 0o004 };
        let why = if meta.uid() != 0 && meta.uid() != account.uid {
            format!("belongs to user {}", meta.uid())
        } else if mode & 0o022 != 0 {
            format!("may be written by others (mode {:04o})", mode & 0o7777)
        } else if meta.uid() == 0 && account.uid != 0 && mode & access == 0 {
            "belongs to root and cannot be read by the user".to_string()
        } else {
            return None;
        };
        Some(((*path).to_string(), why))
    })
}

/// Returns the first directory above a file that the user may not enter. sshd reads files of keys as the user.
fn closed_directory(machine: &Machine, file: &str, account: &Account, gids: &[u32]) -> Option<String> {
    let mut above = file.match_indices('/').map(|(end, _)| if end == 0 { "/" } else { &file[..end] });
    let is_closed = |directory: &&str| {
        machine.sys.metadata(directory).is_ok_and(|meta| {
            let bit = match () {
                () if meta.uid() == account.uid => 0o100,
                () if gids.contains(&meta.gid()) => 0o010,
                () => 0o001,
            };
            meta.permissions().mode() & bit == 0
        })
    };
    // An access control list may let the user in.
    let is_refused = |directory: &&str| {
        let ids = [format!("--reuid={}", account.uid), format!("--regid={}", account.gid)];
        let command = Command::new(["setpriv", &ids[0], &ids[1], "--init-groups", "test", "-x", directory]);
        !machine
            .sys
            .run(&command.timeout(TIMEOUT).read_only().accept_all())
            .is_ok_and(|output| output.code == 0)
    };
    above
        .find(|directory| account.uid != 0 && is_closed(directory) && is_refused(directory))
        .map(str::to_string)
}

/// Returns ` (PATH is mounted …)` if a file system above a home directory may hide it.
fn mounted_above(machine: &Machine, home: &str) -> String {
    let mounts = machine.sys.mounts().unwrap_or_default();
    let above =
        mounts.iter().rev().find(|mount| mount.mount_point != "/" && home.starts_with(&mount.mount_point));
    above.map_or(String::new(), |mount| format!(" ({}, which is mounted there, may hide it)", mount.source))
}

/// Returns the configured users, and where they are set. `users` is a list of names, of lists of names and of maps; a
/// string; or a map by name.
pub fn configured_users(merged: &Node) -> Vec<User<'_>> {
    fn named<'a>(node: &Node, map: Option<&'a Node>) -> Vec<User<'a>> {
        let text = node.scalar_text().filter(|_| !node.is_null()).unwrap_or_default();
        let user =
            |name: &str| User { name: name.trim().into(), at: node.at.clone(), map, is_default: false };
        text.split(',').map(user).collect()
    }
    let mut found = Vec::new();
    match merged.get("users").map(|users| &users.value) {
        Some(Value::Seq(items)) => {
            for item in items {
                match &item.value {
                    Value::Map(map) => {
                        found.extend(map.get("name").into_iter().flat_map(|name| named(name, Some(item))))
                    }
                    Value::Seq(inner) => found.extend(inner.iter().flat_map(|name| named(name, None))),
                    _ => found.extend(named(item, None)),
                }
            }
        }
        Some(Value::Map(map)) => {
            let is_true = |value: &Node| bool::read(value, &mut Reader::new()).unwrap_or_default();
            let wanted =
                map.iter().filter(|(_, value)| matches!(value.value, Value::Map(_)) || is_true(value));
            found.extend(wanted.flat_map(|(key, value)| named(key, Some(value))));
        }
        Some(Value::Str(_)) => {
            found.extend(merged.get("users").into_iter().flat_map(|node| named(node, None)))
        }
        _ => {}
    }
    let default = merged.at_path(&["system_info", "default_user", "name"]).and_then(Node::as_str);
    for user in &mut found {
        if user.name == "default" {
            user.is_default = true;
            user.name = default.unwrap_or_default().to_string();
        }
    }
    found.retain(|user| !user.name.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_in_each_form() {
        for (users, wanted) in [
            (
                "[default, a, 'b, c', [d, default], {name: e}, {shell: /bin/sh}]",
                &["deb", "a", "b", "c", "d", "deb", "e"][..],
            ),
            ("{default: true, a: {shell: /bin/sh}, b: 'yes', c: false, d: null}", &["deb", "a", "b"]),
            ("a,default,b", &["a", "deb", "b"]),
            ("[]", &[]),
        ] {
            let text = format!("system_info: {{default_user: {{name: deb}}}}\nusers: {users}");
            let root = config::yaml::parse("t", &text).unwrap().root;
            let found: Vec<String> = configured_users(&root).into_iter().map(|user| user.name).collect();
            assert_eq!(found, wanted, "{users}");
        }
    }

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
    fn damaged_keys_are_not_keys() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx";
        for (line, expected) in [
            (key.to_string(), true),
            (format!("no-pty,command=\"a b\" {key} al@host"), true),
            (key.replace("ssh-ed25519 ", ""), false),
            ("ssh-rsa".into(), false),
            ("<your key here>".into(), false),
        ] {
            assert_eq!(is_key(&line), expected, "{line}");
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
    fn the_reason_for_missing_keys_is_named() {
        let root = scratch::TempDir::new();
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        let machine = Machine::open(&global);
        let file = "/home/amy/.ssh/authorized_keys";
        for (name, text, is_redirected, has_errors, expected) in [
            ("root", "disable_root: true", true, false, "because of disable_root (t:1:15)"),
            ("root", "x: y", true, false, "because of disable_root"),
            ("amy", "x: y", true, false, "because of ssh_redirect_user"),
            (
                "amy",
                "write_files: [{path: /x}, {path: /home/amy/.ssh/authorized_keys}]",
                false,
                false,
                "write_files replaces it (t:1:",
            ),
            (
                "amy",
                "write_files: [{path: /home/amy/.ssh/authorized_keys, append: true}]",
                false,
                false,
                "users_groups had no error",
            ),
            ("amy", "x: y", false, true, "see the errors of users_groups"),
        ] {
            let merged = config::yaml::parse("t", text).unwrap().root;
            let user = User { name: name.into(), at: Position::default(), map: None, is_default: false };
            let (problem, remedy) = without_keys(&machine, &user, &merged, file, is_redirected, has_errors);
            assert!(format!("{problem}\n{remedy}").contains(expected), "{text}: {problem}: {remedy}");
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

    #[test]
    fn locked_and_expired_accounts_are_reported() {
        let user = User { name: "al".into(), at: Position::default(), map: None, is_default: false };
        for (line, problem, has_password) in [
            ("al:$6$x:1::::::", "", true),
            ("al:!$6$x:1::::::", "locked", false),
            ("al:!:1::::::", "locked", false),
            ("al:$6$x:1:::::20:", "expired", false),
            ("al:$6$x:1:::::2000:", "", true),
        ] {
            let mut access = Access::default();
            access.password(line, &user, true, false, Duration::from_secs(86_400 * 100));
            let text = access.problems.first().map_or("", |(problem, _)| problem.as_str());
            assert!(text.contains(problem) && text.is_empty() == problem.is_empty(), "{line}: {text}");
            assert_eq!(access.has_password, has_password, "{line}");
            // The advice asks for a hash only if there is none.
            let remedy = access.problems.first().map_or("", |(_, remedy)| remedy);
            assert_eq!(remedy.contains("hashed_passwd"), line.starts_with("al:!:"), "{line}: {remedy}");
        }
        // With a key.
        for (line, needs_unlocked, problem) in [
            ("al:!:1::::::", false, ""),
            ("al:!:1::::::", true, "does not use PAM"),
            ("al:*:1::::::", true, ""),
            ("al:!:0::::::", false, "neither used nor changed"),
            ("al:!:1:0:7::::", false, "neither used nor changed"),
            ("al:!:1:0:99999::::", false, ""),
            ("al:$6$x:0::::::", false, ""),
        ] {
            let mut access = Access { has_key: true, ..Access::default() };
            access.password(line, &user, false, needs_unlocked, Duration::from_secs(86_400 * 100));
            let text = access.problems.first().map_or("", |(problem, _)| problem.as_str());
            assert!(text.contains(problem) && text.is_empty() == problem.is_empty(), "{line}: {text}");
            assert_eq!(access.has_key, problem.is_empty(), "{line}");
        }
    }
}
