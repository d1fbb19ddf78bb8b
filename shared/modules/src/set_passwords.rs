//! set_passwords: sets users' passwords, their expiry, and whether the SSH server accepts passwords.

use std::collections::BTreeSet;

use config::schema::{BOOL, Deprecation, Format, STR, Type, list};
use config::{Findings, FromNode, Node, Reader, Value};
use distro::{InitSystem, ServiceAction};
use system::{Error, Result, System, debug, warning};

use crate::accounts::sshd_config;
use crate::accounts::user_keys::{PASSWORD_HASH, Secret, UserName, is_valid_name};
use crate::accounts::users::Accounts;
use crate::schema::{NOWHERE, Target};
use crate::values::text_values::Hidden;
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module =
    Module::of::<Keys>("set_passwords", Frequency::Instance, run).repeatable().checked_by(check);

config::string_enum! {
    pub enum Random { Random = "RANDOM" or "R" }
    pub enum Kind { Hash = "hash", Text = "text" }
}

config::keys! {
    pub struct RandomPassword as "random_password" {
        /// The user name.
        name: UserName;
        /// Generate a password and print it to the console.
        type_ as "type": Random;
    }
    pub struct SetPassword as "set_password" {
        /// The user name.
        name: UserName;
        /// The form of `password`.
        type_ as "type": Kind = "hash";
        /// The password, or its hash.
        password: Secret;
    }
    pub struct Chpasswd {
        /// Require a new password at the first login.
        expire: bool = true;
        /// Users and their passwords.
        users: Vec<Entry>;
        /// Lines of `USER:PASSWORD`.
        list: Option<UserPasswordLines>, until "22.2" use "users";
    }
    pub struct Keys {
        /// Allow password authentication over SSH.
        ssh_pwauth: Option<PasswordLogin>;
        /// Passwords of users.
        chpasswd: Option<Chpasswd>;
        /// The default user's password, or its hash.
        password: Option<Secret>;
    }
}

/// An entry of `chpasswd.users`.
#[derive(Debug, Clone)]
enum Entry {
    Random(RandomPassword),
    Set(SetPassword),
}

impl FromNode for Entry {
    const SCHEMA: &'static [Type] = &[RandomPassword::SCHEMA[0], SetPassword::SCHEMA[0]];
    fn read(node: &Node, reader: &mut Reader) -> Option<Entry> {
        match node.get("type").and_then(Node::as_str) {
            Some("RANDOM" | "R") => RandomPassword::read(node, reader).map(Entry::Random),
            // Plain text stored as a hash would be a password that never matches.
            Some(word) if !matches!(word, "hash" | "text") => SetPassword::read(node, reader).and(None),
            None if node.get("type").is_some_and(|n| !n.is_null()) => {
                SetPassword::read(node, reader).and(None)
            }
            _ => {
                let mut set = SetPassword::read(node, reader)?;
                if matches!(set.type_, Kind::Hash) {
                    set.password.0 = set.password.0.trim().into();
                    if !distro::is_password_field(&set.password.0) {
                        let at = node.get("password").unwrap_or(node);
                        return reader.nested("password", |r| r.type_error(at, PASSWORD_HASH));
                    }
                }
                Some(Entry::Set(set))
            }
        }
    }
}

/// Parses `user:password` lines of the deprecated form.
type UserPasswordLines = Hidden<Vec<(String, String)>>;

impl FromNode for UserPasswordLines {
    const SCHEMA: &'static [Type] = &[STR, list(&[STR.format(Format::Pair)]).min(1)];
    fn read(node: &Node, reader: &mut Reader) -> Option<UserPasswordLines> {
        if node.is_falsy() {
            return Some(UserPasswordLines::default());
        }
        let mut lines = Vec::new();
        for text in Vec::<String>::read(node, reader)? {
            // A password may end with blanks.
            for line in text.lines().map(str::trim_start).filter(|l| !l.is_empty()) {
                match line.split_once(':') {
                    Some((user, password)) if is_valid_name(user) => {
                        lines.push((user.into(), password.into()))
                    }
                    _ => reader.add_finding(
                        config::FindingKind::Invalid,
                        node,
                        "expected lines of user:password",
                    ),
                }
            }
        }
        Some(Hidden(lines))
    }
}

/// `ssh_pwauth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PasswordLogin {
    Yes,
    No,
    Unchanged,
}

const TEXT_FLAG: Deprecation = Deprecation::new("22.3", "a boolean")
    .message("Changed in version 22.3. Use of non-boolean values for this field is deprecated.");

impl FromNode for PasswordLogin {
    const SCHEMA: &'static [Type] = &[BOOL, STR.deprecated(&TEXT_FLAG)];
    fn read(node: &Node, reader: &mut Reader) -> Option<PasswordLogin> {
        match &node.value {
            Value::Str(word) => {
                reader.report_deprecated_form(node, &TEXT_FLAG);
                if word.eq_ignore_ascii_case("unchanged") {
                    return Some(PasswordLogin::Unchanged);
                }
            }
            Value::Seq(_) | Value::Map(_) => return reader.type_error(node, "true or false"),
            _ => {}
        }
        bool::read(node, reader).map(|on| if on { PasswordLogin::Yes } else { PasswordLogin::No })
    }
}

/// Returns whether a password of the deprecated form is a hash: `$1$…$…`, `$2a$`, `$2y$`, `$5$`, `$6$`, as documented, or one of
/// another kind that is too long for a password of the same form.
fn is_crypt_hash(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('$') else { return false };
    let Some((kind, rest)) = rest.split_once('$') else { return false };
    match kind {
        "1" | "2a" | "2y" | "5" | "6" => {
            !text.contains(':') && rest.char_indices().any(|(i, c)| c == '$' && i > 0 && i + 1 < rest.len())
        }
        _ => text.len() > 30 && distro::is_password_field(text),
    }
}

/// The passwords to set: plain strings, hashes, and users with a random one.
#[derive(Clone, Default, PartialEq, Eq)]
struct PasswordPlan {
    plain: Vec<(String, String)>,
    hashed: Vec<(String, String)>,
    random: Vec<String>,
}

fn plan(users: &[Entry], lines: &[(String, String)]) -> PasswordPlan {
    let mut plan = PasswordPlan::default();
    for entry in users {
        match entry {
            Entry::Random(RandomPassword { name, .. }) => plan.random.push(name.0.clone()),
            Entry::Set(SetPassword { name, type_, password }) => match type_ {
                Kind::Text => plan.plain.push((name.0.clone(), password.0.clone())),
                Kind::Hash => plan.hashed.push((name.0.clone(), password.0.clone())),
            },
        }
    }
    for (user, password) in lines {
        match password.as_str() {
            "R" | "RANDOM" => plan.random.push(user.clone()),
            text if is_crypt_hash(text) => plan.hashed.push((user.clone(), password.clone())),
            _ => plan.plain.push((user.clone(), password.clone())),
        }
    }
    plan
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (Some(keys), invalid) = context.read_keys_and_findings::<Keys>() else { return Ok(()) };
    distro::remove_stale_locks(sys);
    let argument = context.first_arg();
    let password = argument.clone().or_else(|| keys.password.map(|s| s.0)).filter(|p| !p.is_empty());
    let chpasswd = keys.chpasswd;
    let users = chpasswd.as_ref().map(|c| &c.users[..]).unwrap_or_default();
    let list = chpasswd.as_ref().and_then(|c| c.list.clone()).filter(|_| argument.is_none());
    let mut lines = list.unwrap_or_default().0;
    if let (true, Some(password)) = (users.is_empty() && lines.is_empty(), password) {
        match Accounts::read(context).default_user() {
            Some(user) => lines.push((user.name.clone(), password)),
            None => warning!(sys, "password: ignored; there is no default user and no user in 'users'"),
        }
    }
    let expire = chpasswd.as_ref().is_none_or(|c| c.expire) && !invalid.has_invalid("chpasswd.expire");
    let passwords = set_planned_passwords(context, plan(users, &lines), expire);
    // Password authentication is configured even if a password could not be set.
    let login = keys.ssh_pwauth.map_or(Ok(()), |login| apply_ssh_pwauth(context, login));
    passwords.and(login)
}

fn set_planned_passwords(context: &Context<'_>, mut plan: PasswordPlan, expire: bool) -> Result<()> {
    let (sys, distro) = (context.sys, context.distro);
    let mut errors = Vec::new();
    let random = std::mem::take(&mut plan.random);
    for user in &random {
        plan.plain.push((user.clone(), random_password(sys)?));
    }
    let random: BTreeSet<String> = sort::collect(random);
    for (passwords, hashed) in [(&mut plan.plain, false), (&mut plan.hashed, true)] {
        errors.extend(set_in_bulk(context, passwords, hashed));
    }
    let shown: String = plan
        .plain
        .iter()
        .filter(|(user, _)| random.contains(user))
        .map(|(user, password)| format!("{user}:{password}\n"))
        .collect();
    if !shown.is_empty() {
        // On the console only: other users may read the log and the stage's output.
        if !sys.print_console(&format!("Set the following 'random' passwords\n\n{shown}")) {
            warning!(sys, "no console to print the random passwords to");
        }
    }
    if expire {
        for (user, _) in plan.plain.iter().chain(&plan.hashed) {
            let expired = distro.expire_password(sys, user).inspect_err(|e| warning!(sys, "{e}"));
            errors.extend(expired.err());
        }
    }
    errors.pop().map_or(Ok(()), Err)
}

/// Sets passwords; those that could not be set are removed. chpasswd(8) changes nothing if one of its lines is invalid:
/// then each user is tried alone.
fn set_in_bulk(context: &Context<'_>, passwords: &mut Vec<(String, String)>, hashed: bool) -> Vec<Error> {
    let (sys, distro) = (context.sys, context.distro);
    if passwords.is_empty() {
        return Vec::new();
    }
    let Err(whole) = distro.set_passwords(sys, passwords, hashed) else { return Vec::new() };
    if passwords.len() == 1 {
        warning!(sys, "{whole}");
        passwords.clear();
        return vec![whole];
    }
    debug!(sys, "{whole}; setting each password separately");
    let mut errors = Vec::new();
    passwords.retain(|one| match distro.set_passwords(sys, std::slice::from_ref(one), hashed) {
        Ok(()) => true,
        Err(e) => {
            warning!(sys, "{e}");
            errors.push(e);
            false
        }
    });
    errors
}

fn apply_ssh_pwauth(context: &Context<'_>, login: PasswordLogin) -> Result<()> {
    let (sys, distro) = (context.sys, context.distro);
    let word = match login {
        PasswordLogin::Yes => "yes",
        PasswordLogin::No => "no",
        PasswordLogin::Unchanged => return Ok(()),
    };
    if !sshd_config::set(sys, "PasswordAuthentication", word)? {
        debug!(sys, "sshd's PasswordAuthentication is already {word}");
        return Ok(());
    }
    let configured = context.system_info.get("ssh_svcname").and_then(Node::as_str);
    let service = configured.unwrap_or(distro.ssh_service);
    let restarted = match distro.init_system(sys) {
        // The stage runs before the server. Only a manually started server can run by now, and waiting for the order of
        // units would be a deadlock.
        InitSystem::Systemd if distro.is_service_active(sys, service) => distro.manage_service_with(
            sys,
            ServiceAction::Restart,
            service,
            &["--job-mode=ignore-dependencies"],
        ),
        InitSystem::Systemd => Ok(()),
        // OpenRC would wait 60 s for this stage, which is ordered before the server.
        _ if !sys.is_live() || sys.exists("/run/openrc/starting/cloud-init") => Ok(()),
        _ => distro.manage_service(sys, ServiceAction::Restart, service),
    };
    or_warn!(sys, restarted, "ssh_pwauth takes effect when sshd is next restarted");
    Ok(())
}

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Returns twenty characters, at least one of each kind, as some policies require.
fn random_password(sys: &System) -> Result<String> {
    let digits: Vec<char> = ('0'..='9').collect();
    let lower: Vec<char> = ('a'..='z').collect();
    let upper: Vec<char> = ('A'..='Z').collect();
    let marks: Vec<char> = PUNCTUATION.chars().collect();
    let all = [&digits[..], &lower, &upper, &marks].concat();
    // Repeating until every kind is present keeps all such passwords equally likely; at most one in three attempts is
    // discarded.
    for _ in 0..100 {
        let bytes = sys.random_bytes(80)?;
        let limit = 256 / all.len() * all.len();
        let fair = bytes.iter().map(|b| usize::from(*b)).filter(|b| *b < limit);
        let text: String = fair.take(20).map(|b| all[b % all.len()]).collect();
        let has = |kind: &[char]| text.contains(kind);
        if text.len() == 20 && has(&digits) && has(&lower) && has(&upper) && has(&marks) {
            return Ok(text);
        }
    }
    Err(Error::new("generating a random password: random source returned identical bytes"))
}

/// Reports passwords of users that exist nowhere.
fn check<'n>(target: Target<'n>, config: &'n Node, found: &mut Findings) {
    let lacks_user = target.lacks_user(config);
    let users = config.at_path(&["chpasswd", "users"]).and_then(Node::as_seq).unwrap_or_default();
    for (i, user) in users.iter().enumerate() {
        if let Some(name) = user.get("name").filter(|node| node.as_str().is_some_and(&lacks_user)) {
            found.invalid(&name.at, format!("chpasswd.users[{i}].name"), format!("no user {NOWHERE}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn hashes_of_the_old_form_are_recognised() {
        for (text, hash) in [
            ("$6$salt$abc", true),
            ("$5$salt$abc", true),
            ("$7$CU..../....2Q9obwLhin8qvQl6sisAO/$E1HizYWxBmnIH4sdPkd1UOML9t62Gf.wvNTnt5XFzs8", true),
            ("$gy$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7", true),
            ("$1$a$b", true),
            ("$2y$10$x", true),
            ("$y$j9T$a$b", false),
            ("$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7", true),
            ("$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", true),
            ("$9$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", false),
            ("$6$only", false),
            ("$6$a$b:c", false),
            ("plain", false),
            ("", false),
        ] {
            assert_eq!(is_crypt_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn random_passwords_differ_and_have_every_kind() {
        let sandbox = Sandbox::new("{}");
        let (a, b) = (random_password(&sandbox.sys).unwrap(), random_password(&sandbox.sys).unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 20);
        for kind in ["0123456789", PUNCTUATION] {
            assert!(a.contains(|c| kind.contains(c)));
        }
    }

    #[test]
    fn deprecated_and_invalid_forms_are_reported_without_secrets() {
        let sandbox = Sandbox::new(
            "chpasswd:\n  list: |\n    hunter2\n  users:\n  - {name: x, password: [hunter2]}\nssh_pwauth: 'maybe'\n",
        );
        let _ = sandbox.run(&MODULE);
        let logged_warnings = sandbox.logged_warnings().join("\n");
        assert!(!logged_warnings.contains("hunter2"), "{logged_warnings}");
        for part in [
            "test.yaml:2:9: chpasswd.list: Deprecated in version 22.2",
            "test.yaml:2:9: chpasswd.list: expected lines of user:password",
            "test.yaml:5:25: chpasswd.users[0].password: expected a string, found a list",
            "test.yaml:6:13: ssh_pwauth: expected true or false, found a string",
        ] {
            assert!(logged_warnings.contains(part), "{part} not in {logged_warnings}");
        }
        assert!(sandbox.commands().is_empty());
    }
}
