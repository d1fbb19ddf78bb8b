//! The ways in which a user can log in: keys with their permissions and options, a password, a shell; and what refuses them.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use config::Node;
use modules::{is_cut, key_of, key_paths};
use sort::Named;
use system::{Group, User as Account};

use super::super::scripts::own_files_with;
use super::super::{pam, results};
use super::profile;
use super::reach::{closed_directory, mounted_above, unsafe_path};
use super::sshd::{Sshd, is_own_address};
use super::users::User;
use crate::machine::Machine;

/// Keys whose value gives a user SSH keys.
pub const KEY_SOURCES: [&str; 3] = ["ssh_authorized_keys", "ssh-authorized-keys", "ssh_import_id"];
/// Keys whose value gives a user a password.
const PASSWORD_SOURCES: [&str; 3] = ["passwd", "hashed_passwd", "plain_text_passwd"];
/// The remedy for keys that were not written.
const KEY_ERRORS: &str = "see the errors of users_groups and ssh; AuthorizedKeysFile in sshd_config(5)";

/// What sshd does instead of a login with a key, by its setting, and the remedy.
const REFUSALS: &str = "\
PubkeyAuthentication|does not accept keys|set PubkeyAuthentication yes
AuthorizedKeysFile|reads no file of keys|set AuthorizedKeysFile .ssh/authorized_keys
AuthorizedKeysCommand|asks a program for keys that does not exist, and reads no file of them|install it, or set AuthorizedKeysFile .ssh/authorized_keys
PubkeyAcceptedAlgorithms|does not accept keys of this type|use a key of another type (ssh-keygen -t ed25519), or add this one
RequiredRSASize|does not accept RSA keys of this size|use a key of another type (ssh-keygen -t ed25519), or lower RequiredRSASize
RevokedKeys|cannot read its list of revoked keys and so refuses every key|create the file, or remove RevokedKeys
PermitRootLogin|refuses root|set PermitRootLogin prohibit-password
AuthenticationMethods|demands more than a key|change AuthenticationMethods
MaxAuthTries|allows no attempt to log in|set MaxAuthTries 6
PerSourceMaxStartups|accepts no connection|set PerSourceMaxStartups none
LoginGraceTime|ends each connection before a login is complete|set LoginGraceTime 120
MaxSessions|allows no session|set MaxSessions 10
PermitTTY|gives the user no terminal|set PermitTTY yes
ForceCommand|runs a command that ends each login|remove ForceCommand
ChrootDirectory|cannot use its ChrootDirectory|create the directory; it and those above must be root's, and writable by root only";

/// The keys in the files that sshd reads.
#[derive(Default)]
struct Keys {
    files: Vec<String>,
    /// The line of sshd's configuration that sets them, in parentheses.
    place: String,
    /// Whether one has keys for a login as this user.
    has_file: bool,
    /// Whether one has keys that only name another user.
    is_redirected: bool,
    /// The type of each key, and the length of its base64 data.
    kinds: Vec<(String, usize)>,
}

/// What is read once for all users: there may be thousands.
pub struct Known<'a> {
    machine: &'a Machine,
    /// Whether there are errors of the modules that write keys.
    has_errors: bool,
    has_shadow: bool,
    groups: Vec<Group>,
    /// The places of the groups of each member, and of each number, by `:NUMBER`.
    places: Named<Vec<usize>>,
}

impl Known<'_> {
    pub fn new(machine: &Machine, has_errors: bool, has_shadow: bool) -> Known<'_> {
        let (groups, mut places) = (machine.sys.groups(), Named::<Vec<usize>>::default());
        for (at, group) in groups.iter().enumerate() {
            places.entry(&format!(":{}", group.gid)).push(at);
            for member in &group.members {
                places.entry(member).push(at);
            }
        }
        Known { machine, has_errors, has_shadow, groups, places }
    }

    /// Returns the groups of a user, in the order of the file.
    pub fn groups(&self, account: &Account) -> Vec<&Group> {
        let of = |name: &str| self.places.get(name).into_iter().flatten().copied();
        let mut own: Vec<usize> = of(&account.name).chain(of(&format!(":{}", account.gid))).collect();
        sort::sort(&mut own);
        own.dedup();
        own.into_iter().map(|at| &self.groups[at]).collect()
    }
}

/// The ways in which a user can log in, and what is wrong with them.
#[derive(Default)]
pub struct Access {
    has_key: bool,
    has_password: bool,
    /// On a disk: sshd was not asked for its settings.
    is_of_disk: bool,
    /// The file whose keys are cut off.
    pub cut_file: Option<String>,
    /// The setting by which sshd refuses the user's password.
    password_refused_by: Option<&'static str>,
    /// The line of PAM's rules, or of the shell's start files, that refuses the user, and why.
    pub refused_by_line: Option<(String, String)>,
    pub problems: Vec<(String, String)>,
}

impl Access {
    fn problem(&mut self, problem: String, remedy: &str) {
        self.problems.push((problem, remedy.to_string()));
    }

    /// Returns the ways from an ordinary client or, if sshd refuses those, from one that it does not refuse: by its settings for each.
    pub fn of(
        known: &Known<'_>,
        settings: &[Sshd],
        user: &User<'_>,
        account: &Account,
        merged: &Node,
    ) -> Access {
        let of = |sshd| Access::by(known, user, account, merged, sshd);
        let access = of(settings.first());
        let is_refused = |access: &Access| !access.problems.is_empty() || access.refused_password().is_some();
        match is_refused(&access) {
            true => {
                let mut others = settings.iter().skip(1).map(|sshd| of(Some(sshd)));
                others.find(|other| !is_refused(other)).unwrap_or(access)
            }
            false => access,
        }
    }

    fn by(
        known: &Known<'_>,
        user: &User<'_>,
        account: &Account,
        merged: &Node,
        sshd: Option<&Sshd>,
    ) -> Access {
        let (machine, has_errors) = (known.machine, known.has_errors);
        let sys = &machine.sys;
        let mut access = Access { is_of_disk: !sys.is_live(), ..Access::default() };
        let gets_keys = user.gets(&KEY_SOURCES, merged, "ssh_authorized_keys");
        let shell = account.shell.as_str();
        if distro::ends_login(shell) {
            // A command that sshd forces, such as that of SFTP, needs no shell.
            let is_forced = sshd.is_some_and(|sshd| !sshd.is_none("forcecommand"));
            if gets_keys && !is_forced {
                let wanted = user.map.and_then(|map| map.get("shell")?.as_str()).filter(|own| *own != shell);
                let made = sys.read_text(machine.layout.new_users()).unwrap_or_default();
                let is_new = made.lines().any(|made| made == user.name);
                let (why, remedy) = match wanted {
                    Some(_) if is_new => (": something changed it", "chsh -s SHELL USER"),
                    Some(_) => (": the user already existed, so shell has no effect", "chsh -s SHELL USER"),
                    None => ("", "choose another one (shell:)"),
                };
                access.problem(format!("the shell {shell} ends each login{why}"), remedy);
            }
            return access;
        }
        let own = known.groups(account).into_iter();
        let (gids, groups): (Vec<u32>, Vec<&str>) = own.map(|group| (group.gid, group.name.as_str())).unzip();
        // A link, such as /bin, may lead to another directory.
        let program = sys.real_path(shell).filter(|_| sys.is_live());
        let closed_shell = program.and_then(|program| closed_directory(machine, &program, account, &gids));
        let mut has_shell = access.shell(machine, shell, closed_shell.as_deref());
        let keys = access.keys(machine, account, &gids, sshd, closed_shell.is_some());
        let refusal = sshd.and_then(|sshd| sshd.refusal(&user.name, &groups));
        access.password_refused_by = sshd.and_then(|sshd| sshd.password_refusal(&user.name));
        // A password of a user whom sshd does not let in anyway is for the console.
        if let Some(keyword) =
            refusal.filter(|_| gets_keys || keys.has_file || access.password_refused_by.is_none())
        {
            let place = sshd.map_or(String::new(), |sshd| sshd.place_of(machine, keyword));
            let problem = format!("sshd refuses the user by its setting {keyword}{place}");
            access.problem(problem, "change the setting, then: systemctl reload ssh");
        }
        if let Some(sshd) = sshd {
            let keyword =
                access.refusing_setting(machine, account, sshd, &keys, gets_keys).unwrap_or_default();
            let mut rows = REFUSALS.lines().map(|row| row.splitn(3, '|').collect::<Vec<_>>());
            if let Some([_, what, remedy]) = rows.find(|row| row[0] == keyword).as_deref() {
                let problem = format!("sshd {what}{}", sshd.place_of(machine, keyword));
                access.problem(problem, &format!("{remedy}, then: systemctl reload ssh"));
                access.has_key = false;
            }
            if sshd.is_yes("usepam") {
                let service = sshd.values("pamservicename").next().unwrap_or("sshd");
                access.refused_by_line = pam::refusal(sys, service, &pam::LOGIN, account, &groups);
                access.has_key &= access.refused_by_line.is_none();
            }
        }
        if sshd.is_none_or(|sshd| sshd.is_none("forcecommand"))
            && let Some(refusal) = profile::refusal(sys, account)
        {
            access.refused_by_line.get_or_insert(refusal);
            has_shell = false;
        }
        let home = account.home.as_str();
        // Without its settings, on a machine that runs, it is not known which files sshd reads.
        if gets_keys && !keys.has_file && (sshd.is_some() || !sys.is_live() || !sys.exists(home)) {
            let (problem, remedy) = match sys.exists(home) {
                true => without_keys(machine, user, account, merged, &keys, has_errors),
                false => (
                    format!("the home directory {home} does not exist{}", mounted_above(machine, home)),
                    KEY_ERRORS.to_string(),
                ),
            };
            access.problem(problem, &remedy);
        }
        if gets_keys
            && keys.has_file
            && access.has_key
            && let Some(other) = replaced_keys(machine, user, &keys)
        {
            let problem = format!(
                "none of the configured SSH keys is in {}: {other} names authorized_keys",
                keys.files.join(", ")
            );
            access.problem(problem, "remove the command there, or add the keys to it");
        }
        if known.has_shadow {
            let shadow = sys.account_line("/etc/shadow", &user.name);
            let is_shadowed = |line: String| line.split(':').nth(1) == Some("x");
            if sshd.is_some_and(|sshd| sshd.is_yes("usepam"))
                && shadow.is_none()
                && sys.account_line("/etc/passwd", &user.name).is_some_and(is_shadowed)
            {
                let problem = "/etc/shadow has no line for the user, so PAM refuses the account";
                access.problem(problem.into(), "pwconv adds the line");
                access.has_key = false;
            }
            let needs_unlocked = sshd.is_some_and(|sshd| sshd.values("usepam").next() == Some("no"));
            let is_only_way = user.gets(&PASSWORD_SOURCES, merged, "password") && !gets_keys;
            let shadow = shadow.unwrap_or_default();
            access.password(&shadow, user, is_only_way, needs_unlocked, sys.clock().wall());
        }
        if access.has_password
            && !access.has_key
            && access.password_refused_by.is_none()
            && let Some(sshd) = sshd.filter(|sshd| sshd.is_yes("usepam"))
            && let service = sshd.values("pamservicename").next().unwrap_or("sshd")
            && let Some(refusal) = pam::refusal(sys, service, &pam::PASSWORD, account, &groups)
        {
            access.refused_by_line.get_or_insert(refusal);
            access.has_password = false;
        }
        access.has_key &= has_shell && refusal.is_none();
        access.has_password &= has_shell;
        access
    }

    /// Checks the shell, to which a directory may be `closed`. Returns whether it can be run.
    fn shell(&mut self, machine: &Machine, shell: &str, closed: Option<&str>) -> bool {
        let sys = &machine.sys;
        let is_program = |path: &str| {
            sys.metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        // The programs of a disk may be on another file system.
        let has_shell = shell.is_empty() || is_program(shell) || !sys.exists("/bin/sh");
        if !has_shell {
            let problem = format!("the shell {shell} does not exist, or is not a program");
            self.problem(problem, "install it (packages:), or choose another one (shell:)");
        }
        if let Some(closed) = closed {
            let problem = format!("the user may not enter {closed}, and so not run the shell {shell}");
            self.problem(problem, &format!("chmod a+rx {closed}"));
        }
        has_shell && closed.is_none()
    }

    /// Checks the keys in the files that sshd reads. A closed directory is not reported if that of the shell is.
    fn keys(
        &mut self,
        machine: &Machine,
        account: &Account,
        gids: &[u32],
        sshd: Option<&Sshd>,
        is_reported: bool,
    ) -> Keys {
        let files = match sshd {
            Some(sshd) => sshd.values("authorizedkeysfile").collect::<Vec<_>>().join(" "),
            None => ".ssh/authorized_keys".into(),
        };
        let files = key_paths(&files, account).into_iter().map(|(path, _)| path).collect();
        let place = sshd.map_or(String::new(), |sshd| sshd.place_of(machine, "AuthorizedKeysFile"));
        let mut found = Keys { files, place, ..Keys::default() };
        let is_strict = sshd.is_none_or(|sshd| sshd.is_yes("strictmodes"));
        for file in &found.files {
            let Ok(text) = machine.sys.read_text(file) else { continue };
            let keys = || text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
            // cloud-init's own, for users who shall log in as another one.
            if keys().all(|line| line.contains("Please login as the user")) {
                found.is_redirected |= keys().next().is_some();
                continue;
            }
            found.has_file = true;
            let valid = || keys().filter_map(|line| Some((line, key_of(line)?)));
            if valid().next().is_none() {
                let remedy = format!("compare it with the public key of the client: ssh-keygen -l -f {file}");
                self.problem(format!("no line of {file} is a valid SSH key"), &remedy);
                continue;
            }
            found.kinds.extend(valid().map(|(_, (kind, data))| (kind.to_string(), data.len())));
            if valid().all(|(line, _)| is_cut(line)) {
                self.cut_file = Some(file.clone());
            }
            let today = system::log_time(machine.sys.clock().wall());
            let mut refusals = valid().map(|(line, _)| refusing_option(line, &today));
            if let Some(Some(why)) = refusals.next()
                && refusals.all(|refusal| refusal.is_some())
            {
                self.problem(format!("the keys in {file} {why}"), "remove or correct the option of the key");
                continue;
            }
            // A directory of another user is closed as well: it is not to be opened, but to be given to the user.
            if let Some((path, why)) = unsafe_path(machine, file, account).filter(|_| is_strict) {
                let problem = format!("sshd ignores the keys in {file}, because {path} {why}");
                let owner = if path.starts_with(&*account.home) { &account.name } else { "root" };
                self.problem(problem, &format!("chown {owner}: {path}; chmod go-w {path}"));
            } else if let Some(closed) = closed_directory(machine, file, account, gids) {
                let problem = format!("sshd cannot read {file}, because the user may not enter {closed}");
                if !is_reported {
                    self.problem(problem, &format!("chmod a+x {closed}"));
                }
            } else {
                self.has_key |= self.cut_file.is_none();
            }
        }
        found
    }

    /// Returns the setting of sshd that refuses the user's keys, which has a row in [`REFUSALS`].
    fn refusing_setting(
        &self,
        machine: &Machine,
        account: &Account,
        sshd: &Sshd,
        keys: &Keys,
        gets_keys: bool,
    ) -> Option<&'static str> {
        let sys = &machine.sys;
        let first = |keyword: &str| sshd.values(keyword).next().unwrap_or_default();
        if (gets_keys || keys.has_file) && !sshd.is_yes("pubkeyauthentication") {
            return Some("PubkeyAuthentication");
        }
        if gets_keys && first("authorizedkeysfile") == "none" {
            match first("authorizedkeyscommand") {
                "" | "none" => return Some("AuthorizedKeysFile"),
                program if !sys.exists(program) => return Some("AuthorizedKeysCommand"),
                _ => {}
            }
        }
        if !self.has_key {
            return None;
        }
        // Below another root, and in what a shell reads, a program may be another one.
        let is_plain = |program: &str| {
            sshd.is_none("chrootdirectory")
                && program.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        };
        let command = first("forcecommand");
        let ends = sshd.values("forcecommand").all(is_plain)
            && (distro::ends_login(command) || command.starts_with('/') && !sys.exists(command));
        let is_root = |meta: std::fs::Metadata| meta.uid() == 0 && meta.permissions().mode() & 0o022 == 0;
        let root = first("chrootdirectory").replace("%h", &account.home).replace("%u", &account.name);
        let root = root.replace("%U", &account.uid.to_string());
        let is_no_root =
            !sshd.is_none("chrootdirectory") && !root.contains('%') && !sys.metadata(root).is_ok_and(is_root);
        let size = first("requiredrsasize").parse().unwrap_or_default();
        let is_large = |(kind, length): &(String, usize)| kind != "ssh-rsa" || rsa_size(*length) >= size;
        let accepted = || keys.kinds.iter().filter(|(kind, _)| sshd.accepts_key_of(kind));
        // The first one counts.
        let settings = [
            (accepted().next().is_none(), "PubkeyAcceptedAlgorithms"),
            (!accepted().any(is_large), "RequiredRSASize"),
            (!sshd.is_none("revokedkeys") && !sys.exists(first("revokedkeys")), "RevokedKeys"),
            (account.name == "root" && first("permitrootlogin") == "no", "PermitRootLogin"),
            (!sshd.accepts_key_alone(), "AuthenticationMethods"),
            (first("maxauthtries") == "0", "MaxAuthTries"),
            (first("persourcemaxstartups") == "0", "PerSourceMaxStartups"),
            (matches!(first("logingracetime"), "1" | "2"), "LoginGraceTime"),
            (first("maxsessions") == "0", "MaxSessions"),
            (first("permittty") == "no" && sshd.is_none("forcecommand"), "PermitTTY"),
            (ends, "ForceCommand"),
            (is_no_root, "ChrootDirectory"),
        ];
        settings.into_iter().find_map(|(refuses, setting)| refuses.then_some(setting))
    }

    /// Checks the user's line of shadow(5), empty if there is none. Without PAM sshd refuses a locked account.
    fn password(
        &mut self,
        line: &str,
        user: &User<'_>,
        is_only_way: bool,
        needs_unlocked: bool,
        now: Duration,
    ) {
        let fields: Vec<&str> = line.split(':').collect();
        let hash = fields.get(1).copied().unwrap_or_default();
        let is_locked = hash.starts_with(['!', '*']) || hash == "x";
        self.has_password = !is_locked && !hash.is_empty();
        if self.has_password && is_cut_hash(hash) {
            let problem = "the password hash in /etc/shadow is cut off, so no password is right";
            self.problem(problem.into(), "a shell replaces $NAME in double quotes: quote the hash with ' where it is made; passwd sets another");
            self.has_password = false;
        }
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
        let is_over = day(2).zip(day(4)).zip(day(6)).is_some_and(|((changed, days), inactive)| {
            changed != 0 && changed.saturating_add(days).saturating_add(inactive) < today
        });
        if is_over {
            let problem =
                "the password expired, and the days in which it could still be changed are over (chage -l)";
            self.problem(problem.into(), &format!("chage -I -1 -M -1 {}", user.name));
            (self.has_key, self.has_password) = (false, false);
        }
        let is_due = day(2).is_some_and(|changed| {
            changed == 0 || day(4).is_some_and(|days| changed.saturating_add(days) < today)
        });
        if is_due && is_locked && self.has_key {
            let problem = "the password is locked and has expired, so it can be neither used nor changed";
            self.problem(problem.into(), &format!("chage -M -1 -d $(date +%F) {}", user.name));
            self.has_key = false;
        }
        if day(7).is_some_and(|day| day <= today) {
            let remedy =
                format!("chage -E -1 {}; expiredate: in users, EXPIRE= in /etc/default/useradd", user.name);
            self.problem("the account has expired".into(), &remedy);
            (self.has_key, self.has_password) = (false, false);
        }
    }

    /// Returns the setting that refuses the only way of the user.
    pub fn refused_password(&self) -> Option<&'static str> {
        self.password_refused_by.filter(|_| self.has_password && !self.has_key)
    }

    pub fn can_use_ssh(&self) -> bool {
        self.has_key || self.has_password && self.password_refused_by.is_none()
    }

    pub fn has_way(&self) -> bool {
        self.has_key || self.has_password
    }

    pub fn describe(&self, shell: &str) -> String {
        let by_key = if self.is_of_disk { "SSH key, if sshd's settings allow it" } else { "SSH key" };
        let is_refused = self.password_refused_by.is_some();
        let by_password = if is_refused { "password (at the console only)" } else { "password" };
        let ways = [(self.has_password, by_password), (self.has_key, by_key)];
        let ways: Vec<&str> = ways.into_iter().filter(|(has, _)| *has).map(|(_, way)| way).collect();
        let why = match (self.problems.first(), &self.refused_by_line, &self.cut_file) {
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

/// Returns a file of the administrator that names the file of keys, if none of the configured ones is in it.
fn replaced_keys(machine: &Machine, user: &User<'_>, keys: &Keys) -> Option<String> {
    let wanted = user.map?.get("ssh_authorized_keys")?.as_seq()?;
    let text: String = keys.files.iter().filter_map(|file| machine.sys.read_text(file).ok()).collect();
    let has = |key: &Node| key.as_str().and_then(key_of).is_none_or(|(_, data)| text.contains(data));
    let is_lacking = !wanted.is_empty() && !wanted.iter().any(has);
    is_lacking.then(|| own_files_with(machine, &["authorized_keys"]).into_iter().next())?
}

/// Returns why the file of a user's configured keys has none, and the remedy.
fn without_keys(
    machine: &Machine,
    user: &User<'_>,
    account: &Account,
    merged: &Node,
    keys: &Keys,
    has_errors: bool,
) -> (String, String) {
    let file = keys.files.first().map_or("", String::as_str);
    if keys.is_redirected {
        let (key, setting) = match user.name == "root" {
            true => ("disable_root", merged.get("disable_root")),
            false => ("ssh_redirect_user", user.map.and_then(|map| map.get("ssh_redirect_user"))),
        };
        let place = setting.map_or(String::new(), |node| format!(" ({})", node.at));
        let problem = format!("a login with its keys only names another user, because of {key}{place}");
        return (problem, format!("set {key}: false for a new instance, or log in as that user"));
    }
    let link = machine.sys.read_link(file).map_or(String::new(), |target| format!(", a link to {target},"));
    let problem = format!("SSH keys are configured, but {file}{link} has none{}", keys.place);
    let files = merged.get("write_files").and_then(Node::as_seq).unwrap_or_default();
    let is_same = |entry: &&Node| {
        entry.get("path").and_then(Node::as_str) == Some(file)
            && entry.get("append").is_none_or(Node::is_falsy)
    };
    if let Some(entry) = files.iter().find(is_same) {
        let remedy = "remove the file from write_files, or set append: true and defer: true there";
        return (format!("{problem}: write_files replaces it ({})", entry.at), remedy.into());
    }
    // cloud-init then writes the usual file, which sshd does not read.
    if let Some((path, why)) = unsafe_path(machine, file, account) {
        let problem = format!("{problem}: {path} {why}, so cloud-init and sshd do not use it");
        return (problem, format!("chown root: {path}; chmod go-w {path}; {}", results::repeat("ssh")));
    }
    let repeat = results::repeat("users_groups");
    let without_errors = format!(
        "users_groups had no error: a script or service changed the file since, or the keys were configured later; {repeat}"
    );
    (problem, if has_errors { KEY_ERRORS.into() } else { without_errors })
}

/// Returns whether a hash of crypt(5) is shorter than those of its kind, or of no kind and no hash of DES.
fn is_cut_hash(hash: &str) -> bool {
    let least = match hash.get(..3) {
        Some("$6$") => 86,
        Some("$5$" | "$y$") => 43,
        Some("$1$") => 22,
        _ => return !hash.starts_with(['$', '_']) && hash.len() < 13,
    };
    hash.rsplit('$').next().is_none_or(|end| end.len() < least)
}

/// Returns why no user can log in with a key at this time, `YYYY-MM-DD …`, because of its options.
fn refusing_option(key: &str, now: &str) -> Option<&'static str> {
    let value = |name: &str| key.split_once(name)?.1.split('"').next();
    let today: String = now.chars().filter(char::is_ascii_digit).take(8).collect();
    if value("expiry-time=\"").and_then(|time| time.get(..8)).is_some_and(|day| day < today.as_str()) {
        return Some("have expired (expiry-time=)");
    }
    let is_own = value("from=\"").is_some_and(|list| list.split(',').all(is_own_address));
    is_own.then_some("are accepted from this machine only (from=)")
}

/// Returns the bits of an RSA key of so many base64 digits: without its type and exponent, and rounded.
fn rsa_size(digits: usize) -> usize {
    (digits * 6).saturating_sub(184) / 64 * 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Position;

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
            assert_eq!(key_of(&line).is_some(), expected, "{line}");
        }
    }

    #[test]
    fn hashes_that_are_cut_off_are_known() {
        let long = |start: &str, length: usize| start.to_string() + &"x".repeat(length);
        for (hash, expected) in [
            (long("$6$salt$", 86), false),
            (long("$6$rounds=9$salt$", 86), false),
            (long("$6$salt$", 85), true),
            (long("$y$j9T$salt$", 43), false),
            ("$2b$12$".to_string() + &"x".repeat(53), false),
            ("$6$salt".into(), true),
            // Of a kind that is not known, and DES.
            ("$sm3$salt$x".into(), false),
            ("abcdefghijklm".into(), false),
            ("/x.Y".into(), true),
        ] {
            assert_eq!(is_cut_hash(&hash), expected, "{hash}");
        }
    }

    #[test]
    fn options_that_refuse_every_login_are_found() {
        for (options, expected) in [
            ("no-pty", ""),
            ("expiry-time=\"20200101\"", "expiry-time"),
            ("expiry-time=\"20400101\"", ""),
            ("no-pty,from=\"127.0.0.1,::1\"", "from"),
            ("from=\"127.0.0.1,10.*\"", ""),
        ] {
            let found = refusing_option(&format!("{options} ssh-ed25519 AAAA"), "2030-01-02 03:04:05");
            let found = found.unwrap_or_default();
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{options}: {found}"
            );
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
            let keys = Keys { files: vec![file.into()], is_redirected, ..Keys::default() };
            let account = &system::parse_passwd("amy:x:1000:1000::/home/amy:/bin/sh\n")[0];
            let (problem, remedy) = without_keys(&machine, &user, account, &merged, &keys, has_errors);
            assert!(format!("{problem}\n{remedy}").contains(expected), "{text}: {problem}: {remedy}");
        }
    }

    #[test]
    fn the_groups_of_a_user_are_those_of_its_number_and_of_its_memberships() {
        let root = scratch::TempDir::new();
        let global =
            crate::arguments::GlobalOptions { root: root.display().to_string(), ..Default::default() };
        root.put("etc/group", "b:x:7:amy,amy\nx:x:8:bob\na:x:1000:\nc:x:1000:amy\n1000:x:9:1000\n");
        let machine = Machine::open(&global);
        let known = Known::new(&machine, false, false);
        for (account, expected) in [
            ("amy:x:1000:1000::/home/amy:/bin/sh", &["b", "a", "c"][..]),
            ("bob:x:1001:7::/home/bob:/bin/sh", &["b", "x"]),
            ("1000:x:1002:1002::/home/c:/bin/sh", &["1000"]),
            ("eve:x:1003:1003::/home/eve:/bin/sh", &[]),
        ] {
            let groups = known.groups(&system::parse_passwd(account)[0]);
            let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            assert_eq!(names, expected, "{account}");
        }
    }

    #[test]
    fn locked_and_expired_accounts_are_reported() {
        let user = User { name: "al".into(), at: Position::default(), map: None, is_default: false };
        for (line, problem, has_password) in [
            ("al:$z$x:1::::::", "", true),
            ("al:!$z$x:1::::::", "locked", false),
            ("al:!:1::::::", "locked", false),
            ("al:$z$x:1:::::20:", "expired", false),
            ("al:$z$x:1:0:30:7:5::", "days in which it could still be changed are over", false),
            ("al:$z$x:90:0:30:7:5::", "", true),
            ("al:$z$x:1:0:30:7:::", "", true),
            ("al:$z$x:1:::::2000:", "", true),
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
            ("al:$z$x:0::::::", false, ""),
        ] {
            let mut access = Access { has_key: true, ..Access::default() };
            access.password(line, &user, false, needs_unlocked, Duration::from_secs(86_400 * 100));
            let text = access.problems.first().map_or("", |(problem, _)| problem.as_str());
            assert!(text.contains(problem) && text.is_empty() == problem.is_empty(), "{line}: {text}");
            assert_eq!(access.has_key, problem.is_empty(), "{line}");
        }
    }
}
