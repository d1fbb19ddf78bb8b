//! Users, groups and passwords, through the programs that own passwd(5) and shadow(5). Pure functions build the command
//! lines; a password, hashed or not, is passed to a program on its standard input only.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use system::{Command, Deadline, Error, Result, System, WriteOptions, debug, info, warning};

use crate::{Distro, Family};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
const SHADOW: &str = "/etc/shadow";
const SKEL: &str = "/etc/skel";
/// The expiry date of an account that is not to be valid for longer than requested, although that date cannot be read.
pub const EXPIRED: &str = "1970-01-02";
/// The limit of its size.
const MAX_SHADOW: u64 = 16 << 20;
// Wait: accounts | another program that changes /etc/shadow, as lckpwdf(3) waits | -
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// A user to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewUser {
    /// The login name.
    pub name: String,
    /// The user ID.
    pub uid: Option<String>,
    /// The comment field of passwd(5).
    pub gecos: Option<String>,
    /// The home directory.
    pub homedir: Option<String>,
    /// The login shell.
    pub shell: Option<String>,
    /// The primary group.
    pub primary_group: Option<String>,
    /// Additional groups.
    pub groups: Vec<String>,
    /// The expiry date of the account, as YYYY-MM-DD, or in another form that useradd reads.
    pub expiredate: Option<String>,
    /// The days between the expiry of the password and of the account.
    pub inactive: Option<String>,
    /// The SELinux user.
    pub selinux_user: Option<String>,
    /// Do not create a group with the user's name.
    pub no_user_group: bool,
    /// Do not initialize lastlog and faillog.
    pub no_log_init: bool,
    /// Create a system account.
    pub system: bool,
    /// Do not create the home directory.
    pub no_create_home: bool,
    /// Create missing groups.
    pub create_groups: bool,
}

/// Appends the options that have a value, which is empty for a flag.
fn push_options(argv: &mut Vec<String>, options: &[(&str, Option<&str>)]) {
    for (option, value) in options {
        let words = value.map(|value| [*option, value]).into_iter().flatten();
        argv.extend(words.filter(|word| !word.is_empty()).map(String::from));
    }
}

fn text(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}

fn flag(on: bool) -> Option<&'static str> {
    on.then_some("")
}

/// Returns the command line of useradd(8). `extrausers` selects Ubuntu Core's writable user database.
pub fn useradd_argv(user: &NewUser, extrausers: bool) -> Vec<String> {
    let groups = user.groups.join(",");
    // In upstream's order.
    let options = [
        ("--extrausers", flag(extrausers)),
        ("--expiredate", text(&user.expiredate)),
        ("--comment", text(&user.gecos)),
        ("--groups", Some(groups.as_str()).filter(|g| !g.is_empty())),
        ("--home", text(&user.homedir)),
        ("--inactive", text(&user.inactive)),
        ("--no-log-init", flag(user.no_log_init)),
        ("--no-user-group", flag(user.no_user_group)),
        ("--gid", text(&user.primary_group)),
        ("--selinux-user", text(&user.selinux_user)),
        ("--shell", text(&user.shell)),
        ("--system", flag(user.system)),
        ("--uid", text(&user.uid)),
    ];
    let mut argv = vec!["useradd".to_string(), user.name.clone()];
    push_options(&mut argv, &options);
    // The account of a service has no home directory unless its package creates one.
    argv.push(if user.no_create_home || user.system { "-M" } else { "-m" }.into());
    argv
}

/// Returns the command line of busybox' adduser, which Alpine has. It does not support SELinux users; expiry and additional groups
/// are set afterwards.
pub fn adduser_argv(user: &NewUser) -> Vec<String> {
    let mut argv = vec!["adduser".to_string(), "-D".into()];
    let options = [
        ("-g", text(&user.gecos)),
        ("-h", text(&user.homedir)),
        ("-G", text(&user.primary_group)),
        ("-s", text(&user.shell)),
        ("-u", text(&user.uid)),
        ("-S", flag(user.system)),
        ("-H", flag(user.no_create_home || user.system)),
    ];
    push_options(&mut argv, &options);
    argv.push(user.name.clone());
    argv
}

/// Returns shadow(5) with the fields of a user changed, which are at least name, password and the day of its last change;
/// `None` if the user is not in it. All other lines are kept as they are.
fn with_changed_fields<'a>(
    shadow: &'a [u8],
    name: &str,
    change: impl Fn(&mut Vec<&'a [u8]>),
) -> Option<Vec<u8>> {
    let mut found = false;
    let lines: Vec<Vec<u8>> = shadow
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let mut fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
            if found || fields.len() < 3 || fields.first() != Some(&name.as_bytes()) {
                return line.to_vec();
            }
            found = true;
            change(&mut fields);
            fields.join(&b':')
        })
        .collect();
    found.then(|| lines.join(&b'\n'))
}

/// Returns shadow(5) with these expiry fields of a user and, as useradd leaves them, without limits on the password's age,
/// which adduser sets; `None` if the user is not in it.
fn with_expiry(shadow: &[u8], name: &str, inactive: &str, expires: &str) -> Option<Vec<u8>> {
    with_changed_fields(shadow, name, |fields| {
        let reserved = fields.get(8).copied().unwrap_or_default();
        let none = &b""[..];
        fields.truncate(3);
        fields.extend([none, none, none, inactive.as_bytes(), expires.as_bytes(), reserved]);
    })
}

/// Returns shadow(5) with a user's password expired: its last change is on day 0; `None` if the user is not in it.
fn with_expired_password(shadow: &[u8], name: &str) -> Option<Vec<u8>> {
    with_changed_fields(shadow, name, |fields| {
        if let Some(changed) = fields.get_mut(2) {
            *changed = b"0";
        }
    })
}

/// Changes shadow(5), whose mode and owner stay, while no other program changes it. Returns `false` if `change` returns `None`
/// or the file does not exist.
///
/// # Errors
/// Fails if another program is changing the accounts, or if the file cannot be read or written.
fn change_shadow(sys: &System, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<bool> {
    let _lock = sys.lock_accounts(Deadline::after(LOCK_TIMEOUT))?;
    // Programs without lckpwdf(3), such as those of musl, have this lock only.
    if sys.exists(format!("{SHADOW}.lock")) {
        return Err(Error::new(format!("{SHADOW} is locked: {SHADOW}.lock exists")));
    }
    let Some((old, meta)) = sys.read_to_change(SHADOW, MAX_SHADOW)? else { return Ok(false) };
    let Some(new) = change(&old) else { return Ok(false) };
    let how = WriteOptions::mode(meta.mode() & 0o7777).owner((Some(meta.uid()), Some(meta.gid())));
    sys.write(SHADOW, new, how.durable())?;
    Ok(true)
}

/// Returns whether text is a password field of shadow(5) that crypt(5) knows: a hash, or a field that no password matches,
/// such as `!`, `*` or `x`. An empty field is one too.
pub fn is_password_field(text: &str) -> bool {
    const METHODS: [&str; 15] =
        ["1", "2a", "2b", "2x", "2y", "3", "5", "6", "7", "gy", "md5", "sha1", "sm3", "sm3y", "y"];
    if text.contains(|c: char| c == ':' || !c.is_ascii_graphic()) {
        return false;
    }
    let text = text.trim_start_matches('!');
    match text.strip_prefix('$') {
        Some(rest) => rest.split_once('$').is_some_and(|(method, rest)| {
            METHODS.contains(&method.split(',').next().unwrap_or_default()) && !rest.is_empty()
        }),
        None if matches!(text, "" | "x") => true,
        // Accounts that other systems have locked: `*LK*`, `*NP*`.
        None if text.starts_with('*') => text.bytes().all(|b| b == b'*' || b.is_ascii_uppercase()),
        // The hashes of DES, and of BSDi with their underscore.
        None => {
            let hash = text.strip_prefix('_').map_or((text, 13), |rest| (rest, 19));
            hash.0.len() == hash.1 && hash.0.bytes().all(|b| b.is_ascii_alphanumeric() || b"./".contains(&b))
        }
    }
}

/// The longest name for utmp(5); recent releases of useradd accept longer ones.
const MAX_NAME: usize = 32;

/// Returns whether every useradd(8) accepts a user name. Those of Debian 12 and Ubuntu 24.04 accept nearly all names.
pub fn is_portable_name(name: &str) -> bool {
    let stem = name.strip_suffix('$').unwrap_or(name);
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    !matches!(stem, "" | "." | "..")
        && !name.starts_with('-')
        && name.len() <= MAX_NAME
        && stem.bytes().all(is_part)
        && !name.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether a shell ends a login.
pub fn ends_login(shell: &str) -> bool {
    matches!(shell.rsplit('/').next(), Some("nologin" | "false"))
}

/// Returns whether useradd(8) creates a group with the user's name, by login.defs(5).
fn has_user_groups(sys: &System) -> bool {
    login_setting(sys, "USERGROUPS_ENAB").is_some_and(|value| value.eq_ignore_ascii_case("yes"))
}

/// Returns a setting of login.defs(5).
fn login_setting(sys: &System, name: &str) -> Option<String> {
    let text = ["/etc/login.defs", "/usr/etc/login.defs"].iter().find_map(|path| sys.read_text(path).ok())?;
    let mut values = text.lines().rev().filter_map(|line| line.trim_start().strip_prefix(name));
    values.find(|value| value.starts_with([' ', '\t'])).map(|value| value.trim().to_string())
}

/// Makes the home directory in a dry run, as useradd(8) does, for the files that follow.
fn simulate_home(sys: &System, user: &system::User) -> Result<()> {
    // useradd changes nothing that is there.
    if !user.home.starts_with('/') || sys.exists(&user.home) {
        return Ok(());
    }
    let octal = |name| u32::from_str_radix(&login_setting(sys, name)?, 8).ok();
    let mode = octal("HOME_MODE").unwrap_or_else(|| 0o777 & !octal("UMASK").unwrap_or(0o022));
    if let Some((parent, _)) =
        user.home.trim_end_matches('/').rsplit_once('/').filter(|(top, _)| !top.is_empty())
    {
        sys.create_dir_all(parent, 0o755)?;
    }
    sys.create_dir_all_owned(&user.home, mode, (Some(user.uid), Some(user.gid)))
}

/// Writes fields that crypt(5) knows to shadow(5), with today as the day of the change, as chpasswd(8) does. Returns whether
/// all were written: not while a program changes the file, or if a user is not in it.
fn write_password_fields(sys: &System, fields: &[(String, String)]) -> bool {
    let today = day_of_change(sys.clock().wall());
    let change = |old: &[u8]| {
        fields.iter().try_fold(old.to_vec(), |text, (name, field)| {
            with_changed_fields(&text, name, |fields| {
                fields.splice(1..3, [field.as_bytes(), today.as_bytes()]);
            })
        })
    };
    fields.iter().all(|(_, field)| is_password_field(field))
        && change_shadow(sys, change).unwrap_or_else(|e| {
            warning!(sys, "{e}");
            false
        })
}

/// Returns the day for the field of the last change, as programs write it: none on the day 0 of a clock that has not been set, as that
/// requests another password at the next login.
fn day_of_change(now: Duration) -> String {
    match now.as_secs() / 86_400 {
        0 => String::new(),
        day => day.to_string(),
    }
}

/// Returns whether passwd(1) is busybox', which cannot expire passwords, and fails for a password that is unlocked already.
fn has_busybox_passwd(sys: &System) -> bool {
    let target = sys.which("passwd").and_then(|path| sys.read_link(path).ok());
    let name = target.as_deref().and_then(|target| target.rsplit('/').next()).unwrap_or_default();
    // Alpine has bbsuid, Yocto busybox.suid.
    name == "bbsuid" || name.starts_with("busybox")
}

const NOT_A_DATE: &str = "expiredate is not a date, so that the account has expired";

/// Returns the day of an expiry date, or of the number of a day, as useradd reads them.
fn expiry_day(date: &str) -> Option<u32> {
    system::calendar::parse_days(date).map_or_else(|| date.parse().ok(), |day| u32::try_from(day).ok())
}

fn is_never(date: &str) -> bool {
    ["", "-1", "never"].contains(&date)
}

/// Sets the expiry of a user that adduser has created.
///
/// # Errors
/// Fails if shadow(5) cannot be read or written, or, with an expiry to set, if the user is not in it.
fn set_expiry(sys: &System, user: &NewUser) -> Result<()> {
    let expires = user.expiredate.as_deref().filter(|date| !is_never(date)).map(|date| {
        expiry_day(date).unwrap_or_else(|| {
            warning!(sys, "user {}: {NOT_A_DATE}", user.name);
            1
        })
    });
    let inactive =
        user.inactive.as_deref().filter(|days| !days.is_empty() && *days != "-1").and_then(|days| {
            let number = days.parse::<u32>().ok();
            if number.is_none() {
                warning!(sys, "user {}: inactive: expected a number of days; ignored", user.name);
            }
            number
        });
    // A dry run has not created the user.
    if sys.is_dry_run() {
        return Ok(());
    }
    let field = |days: Option<u32>| days.map(|days| days.to_string()).unwrap_or_default();
    let change = |old: &[u8]| with_expiry(old, &user.name, &field(inactive), &field(expires));
    if !change_shadow(sys, change)? {
        if expires.is_some() || inactive.is_some() {
            return Err(Error::new(format!("setting the expiry: the user is not in {SHADOW}")));
        }
        debug!(sys, "user {} is not in {SHADOW}", user.name);
    }
    Ok(())
}

/// Returns the password field of a file such as shadow(5); `None` also if the file cannot be read.
fn shadow_password(sys: &System, path: &str, name: &str) -> Option<String> {
    Some(sys.account_line(path, name)?.split(':').nth(1)?.to_string())
}

/// Returns the users whose passwords are locked, by shadow(5).
pub fn locked_users(shadow: &str) -> Vec<&str> {
    shadow
        .lines()
        .filter_map(|line| line.split_once(":!"))
        .map(|(name, _)| name)
        .filter(|n| !n.contains(':'))
        .collect()
}

/// The time limit of programs such as useradd(8), which wait for a log daemon that does not read.
// Wait: users_groups | a program that changes accounts, each | -
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a command that changes accounts. Such a program sends a line to the log daemon before it writes: it runs without a daemon that
/// does not read.
fn account_command(sys: &System, argv: &[&str]) -> Command {
    const WITHOUT_LOG: [&str; 6] =
        ["unshare", "--mount", "sh", "-c", "mount --bind /dev/null /dev/log && exec \"$@\"", "sh"];
    let before: &[&str] = if sys.is_log_stuck() { &WITHOUT_LOG } else { &[] };
    Command::new([before, argv].concat()).timeout(TIMEOUT)
}

fn run(sys: &System, argv: &[&str]) -> Result<()> {
    sys.run(&account_command(sys, argv)).map(drop)
}

fn run_strings(sys: &System, argv: &[String]) -> Result<()> {
    run(sys, &argv.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns whether this is Ubuntu Core, whose /etc/passwd is read-only.
pub fn is_ubuntu_core(sys: &System) -> bool {
    sys.os_release().get("ID") == Some("ubuntu-core") || sys.kernel_command_line().contains("snap_core=")
}

/// The programs that lock the account files.
const LOCKERS: &str = "chage chfn chgpasswd chpasswd chsh gpasswd groupadd groupdel groupmems groupmod grpconv grpunconv \
    newusers passwd pwconv pwunconv useradd userdel usermod vigr vipw";

/// Removes the locks of the account files that a power failure left, with which every program that changes accounts fails, and what is
/// no lock in their place. lckpwdf(3) locks .pwd.lock with fcntl(2): its file stays, and may be a link.
pub fn remove_stale_locks(sys: &System) {
    for name in ["passwd", "group", "shadow", "gshadow", "subuid", "subgid", ".pwd"] {
        let path = format!("/etc/{name}.lock");
        let is_removable = name != ".pwd";
        let removed = match sys.metadata(&path) {
            _ if is_removable && sys.read_link(&path).is_ok() => sys.remove(&path).map(drop),
            Ok(meta) if meta.is_dir() => sys.remove_dir(&path),
            // Programs wait for the other end of a FIFO.
            Ok(meta) if !meta.is_file() || is_removable && is_stale_lock(sys, &path, meta.mtime()) => {
                sys.remove(&path).map(drop)
            }
            _ => continue,
        };
        match removed {
            Ok(()) => warning!(sys, "removed {path}, which an interrupted boot left"),
            Err(e) => warning!(sys, "{e}"),
        }
    }
}

/// Returns whether no program holds a lock: it is empty and none of them runs, or it is of an earlier boot and of a process that does not
/// exist or is another program, which has the number by chance.
fn is_stale_lock(sys: &System, path: &str, changed: i64) -> bool {
    let Ok(text) = sys.read_head(path, 32) else { return false };
    let text = String::from_utf8_lossy(&text);
    let pid = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    let is_locker = |pid: &str| {
        let comm = sys.read_text(format!("/proc/{pid}/comm")).unwrap_or_default();
        LOCKERS.split(' ').any(|program| program == comm.trim_end())
    };
    // Without a battery the clock begins again at each boot: the lock is then of a later time than now.
    let changed = changed as f64;
    let is_old = || changed < boot_time(sys) || changed > sys.clock().wall().as_secs_f64();
    match pid {
        "" => is_old() || sys.list("/proc").is_ok_and(|pids| !pids.iter().any(|pid| is_locker(pid))),
        pid => !is_locker(pid) && is_old(),
    }
}

/// Returns when this boot began, of the container in a container, in seconds since 1970.
fn boot_time(sys: &System) -> f64 {
    /// Ticks in a second in /proc/PID/stat, on all architectures.
    const USER_HZ: f64 = 100.0;
    let stat = sys.read_text("/proc/1/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let started: u32 = fields.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or_default();
    sys.clock().wall().as_secs_f64() - sys.clock().uptime() + f64::from(started) / USER_HZ
}

/// Completes gshadow(5) after an interrupted groupadd or useradd, which change group(5) first.
pub fn complete_groups(sys: &System) {
    if sys.which("grpconv").is_some()
        && let Err(e) = run(sys, &["grpconv"])
    {
        warning!(sys, "{e}");
    }
}

/// Returns the user ID of an existing user if useradd was interrupted while it created it: an entry of one of its files, the
/// membership of a group or the home directory is missing.
pub fn incomplete_user(sys: &System, user: &NewUser) -> Option<String> {
    let found = sys.user(&user.name)?;
    let has_entry = |file: &str| {
        let text = sys.read_text_if_exists(file).ok().flatten();
        text.is_none_or(|text| text.lines().any(|line| line.split(':').next() == Some(&user.name)))
    };
    // A file that cannot be read lacks nothing: the user would be removed.
    let groups = sys.groups();
    let is_member = |group: &String| sys.group(group).is_none_or(|group| group.members.contains(&user.name));
    let is_complete = has_entry(SHADOW)
        && (user.system || (has_entry("/etc/subuid") && has_entry("/etc/subgid")))
        && (groups.is_empty() || groups.iter().any(|group| group.gid == found.gid))
        && user.groups.iter().all(is_member)
        && (user.system || user.no_create_home || sys.is_dir(&found.home));
    (!is_complete).then(|| found.uid.to_string())
}

/// Writes the files of /etc/skel that useradd copied to a new home directory and that a power failure left empty or with
/// NUL bytes.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn complete_home(sys: &System, name: &str) -> Result<()> {
    let Some(user) = sys.user(name) else { return Ok(()) };
    for file in sys.list(SKEL).unwrap_or_default() {
        let (from, to) = (format!("{SKEL}/{file}"), format!("{}/{file}", user.home));
        if !sys.is_file(&from) || !sys.is_file(&to) {
            continue;
        }
        let (content, copy) = (sys.read(&from)?, sys.read(&to)?);
        if copy != content && copy.iter().all(|byte| *byte == 0) {
            info!(sys, "{to} is empty after an interrupted boot; copying it from {SKEL} again");
            let owner = (Some(user.uid), Some(user.gid));
            sys.write(&to, content, WriteOptions::mode(sys.mode(&from).unwrap_or(0o644)).owner(owner))?;
        }
    }
    Ok(())
}

/// Returns the name of an existing group, given its name or its number.
fn group_name(sys: &System, group: &str) -> Option<String> {
    match sys.group(group) {
        Some(group) => Some(group.name),
        None => sys.account_name(GROUP, group.parse().ok()?),
    }
}

/// Removes an option with which the user cannot be created, as far as can be known here: NSS and the kernel know more. Returns
/// what it did.
fn remove_refused(sys: &System, user: &mut NewUser) -> Option<&'static str> {
    let is_number = |days: &mut String| days.parse::<i32>().is_ok_and(|days| days >= -1);
    let count = user.groups.len();
    user.groups.retain(|group| sys.group(group).is_some());
    if user.groups.len() < count {
        Some("groups ignored")
    } else if user.primary_group.take_if(|group| sys.group(group).is_none()).is_some() {
        Some("primary_group ignored")
    } else if user.expiredate.take_if(|date| is_never(date)).is_some() {
        Some("expiredate ignored")
    } else if let Some(date) = user.expiredate.as_mut().filter(|date| expiry_day(date).is_none()) {
        *date = EXPIRED.into();
        Some(NOT_A_DATE)
    } else if user.inactive.take_if(|days| !is_number(days)).is_some() {
        Some("inactive ignored")
    } else if user.selinux_user.take().is_some() {
        Some("selinux_user ignored")
    } else {
        user.uid.take().map(|_| "uid ignored")
    }
}

/// Creates a user with a program. If it fails it runs again without an option that it may have refused: the user is to log in
/// nevertheless.
fn run_without_refused(
    sys: &System,
    user: &mut NewUser,
    argv: impl Fn(&NewUser) -> Vec<String>,
) -> Result<()> {
    while let Err(e) = run_strings(sys, &argv(user)) {
        let Some(removed) = remove_refused(sys, user) else { return Err(e) };
        warning!(sys, "user {}: {removed}: {e}", user.name);
        // The program may have made the account before it failed.
        if sys.user(&user.name).is_some() {
            break;
        }
    }
    Ok(())
}

/// Returns whether a program exists with busybox' options. Debian's adduser and addgroup are a Perl script, which needs useradd itself.
fn has_busybox(sys: &System, program: &str) -> bool {
    let is_perl =
        |path: &String| sys.read_head(path, 32).is_ok_and(|head| head.windows(4).any(|word| word == b"perl"));
    sys.which(program).is_some_and(|path| !is_perl(&path))
}

/// Creates a user with busybox' programs.
fn add_with_adduser(sys: &System, user: &mut NewUser) -> Result<()> {
    let unsupported = [
        ("selinux_user", user.selinux_user.take().is_some()),
        ("no_user_group", user.no_user_group),
        ("no_log_init", user.no_log_init),
    ];
    for (key, _) in unsupported.iter().filter(|(_, is_set)| *is_set) {
        warning!(sys, "user {}: {key} is not supported by adduser; ignored", user.name);
    }
    run_without_refused(sys, user, adduser_argv)?;
    // The user exists, and needs the password and the keys that follow.
    let joined = user.groups.iter().map(|group| run(sys, &["addgroup", &user.name, group]));
    for e in joined.chain([set_expiry(sys, user)]).filter_map(Result::err) {
        warning!(sys, "user {}: {e}", user.name);
    }
    Ok(())
}

impl Distro {
    /// Removes a user, but not its home directory.
    ///
    /// # Errors
    /// Fails if the program fails.
    pub fn remove_user(&self, sys: &System, name: &str) -> Result<()> {
        let program = if sys.which("userdel").is_some() { "userdel" } else { "deluser" };
        run(sys, &[program, name])
    }

    /// Creates a group unless it exists, and adds users to it. Users that do not exist are skipped with a warning.
    ///
    /// # Errors
    /// Fails if a program fails.
    pub fn create_group(&self, sys: &System, name: &str, members: &[String]) -> Result<()> {
        let has_groupadd = sys.which("groupadd").is_some() || !has_busybox(sys, "addgroup");
        let extra: &[&str] = if is_ubuntu_core(sys) { &["--extrausers"] } else { &[] };
        let existing = sys.group(name);
        if existing.is_some() {
            debug!(sys, "group {name} exists already");
        } else if has_groupadd {
            run(sys, &[&["groupadd", name], extra].concat())?;
            info!(sys, "Created new group {name}");
        } else {
            run(sys, &["addgroup", name])?;
        }
        sys.simulate_group(name);
        let present: BTreeSet<String> = sort::collect(existing.into_iter().flat_map(|group| group.members));
        for member in members {
            if sys.user(member).is_none() {
                warning!(sys, "group {name}: user {member} does not exist; not added");
                continue;
            }
            if present.contains(member) {
                debug!(sys, "{member} is already in group {name}");
                continue;
            }
            let argv: &[&str] = if has_groupadd {
                &["usermod", "-a", "-G", name, member]
            } else {
                &["addgroup", member, name]
            };
            run(sys, argv)?;
        }
        Ok(())
    }

    /// Creates a user that does not exist yet.
    ///
    /// # Errors
    /// Fails if a program that creates a group or the user fails.
    pub fn add_user(&self, sys: &System, user: &NewUser, is_ubuntu_core: bool) -> Result<()> {
        let mut user = user.clone();
        let has_useradd = sys.which("useradd").is_some() || !has_busybox(sys, "adduser");
        let owner = user.uid.as_ref().and_then(|uid| sys.account_name(PASSWD, uid.parse().ok()?));
        if let Some(other) = owner.filter(|other| *other != user.name) {
            let uid = user.uid.take().unwrap_or_default();
            warning!(sys, "user {}: uid {uid} is that of {other}; ignored", user.name);
        }
        let name = &user.name;
        let mut usable = |group: String| match group_name(sys, &group) {
            Some(name) => Some(name),
            None if !user.create_groups => Some(group),
            // A group that cannot be created must not keep its user from logging in.
            None => {
                let created = self.create_group(sys, &group, &[]);
                created.inspect_err(|e| warning!(sys, "user {name}: group ignored: {e}")).ok().map(|()| group)
            }
        };
        let groups = std::mem::take(&mut user.groups);
        user.groups = groups.into_iter().filter_map(&mut usable).collect();
        user.primary_group = user.primary_group.take().and_then(&mut usable);
        // The user's own group exists already, for example because an earlier user is in it.
        if user.primary_group.is_none()
            && !user.no_user_group
            && sys.group(&user.name).is_some()
            && (!has_useradd || has_user_groups(sys))
        {
            info!(sys, "user {0}: the existing group {0} is the primary group", user.name);
            user.primary_group = Some(user.name.clone());
        }
        if has_useradd {
            if self.family == Family::Alpine && user.selinux_user.take().is_some() {
                warning!(sys, "user {}: selinux_user is not supported on Alpine; ignored", user.name);
            }
            run_without_refused(sys, &mut user, |user| useradd_argv(user, is_ubuntu_core))?;
        } else {
            add_with_adduser(sys, &mut user)?;
        }
        if self.name == "raspberry-pi-os" && sys.which("/usr/bin/rename-user").is_some() {
            sys.run(&Command::new(["/usr/bin/rename-user", "-f", "-s"]).env("SUDO_USER", &user.name))?;
        }
        let home = user.homedir.clone().unwrap_or_else(|| format!("/home/{}", user.name));
        sys.simulate_user(&user.name, &home, user.shell.as_deref().unwrap_or("/bin/sh"));
        if !user.no_user_group && user.primary_group.is_none() {
            sys.simulate_group(&user.name);
        }
        match sys.user(&user.name).filter(|_| sys.is_dry_run() && !user.no_create_home && !user.system) {
            Some(new) => simulate_home(sys, &new),
            None => Ok(()),
        }
    }

    /// Sets the passwords of users, as plain text or hashes, with chpasswd(8).
    ///
    /// # Errors
    /// Fails if a name or password has a character that chpasswd's input cannot have, or if chpasswd fails. Messages do not
    /// show passwords.
    pub fn set_passwords(&self, sys: &System, passwords: &[(String, String)], hashed: bool) -> Result<()> {
        let mut input = String::new();
        for (user, password) in passwords {
            // A NUL would truncate the password.
            if user.contains([':', '\n', '\0']) || password.contains(['\n', '\0']) {
                return Err(Error::new(format!(
                    "setting the password of {}: user name or password contains a line break, colon or NUL",
                    user.replace(['\n', '\0'], " ")
                )));
            }
            input.push_str(&format!("{user}:{password}\n"));
        }
        let names: Vec<&str> = passwords.iter().map(|(user, _)| &**user).collect();
        let argv: &[&str] = if hashed { &["chpasswd", "-e"] } else { &["chpasswd"] };
        let command = account_command(sys, argv).stdin(input).redacted(format!(
            "{} for {}",
            argv.join(" "),
            names.join(", ")
        ));
        match sys.run(&command) {
            // chpasswd knows fewer kinds of hashes than crypt(5), and useradd has no such limit, but shows its arguments.
            Err(e) if hashed => {
                debug!(sys, "{e}; writing {SHADOW}");
                write_password_fields(sys, passwords).then_some(()).ok_or(e)
            }
            Err(e) => {
                let missing: Vec<&str> = names.into_iter().filter(|name| sys.user(name).is_none()).collect();
                let why = if missing.is_empty() {
                    String::new()
                } else {
                    format!("; no such user: {}", missing.join(", "))
                };
                Err(Error::new(format!("{e}{why}")))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Disables password login until the password is unlocked or set.
    ///
    /// # Errors
    /// Fails if passwd(1) or usermod(8) fails.
    pub fn lock_password(&self, sys: &System, name: &str) -> Result<()> {
        // useradd creates accounts without a password, which is locked already: usually no program needs to run.
        if shadow_password(sys, SHADOW, name).is_some_and(|field| field.starts_with('!')) {
            debug!(sys, "the password of {name} is already locked");
            return Ok(());
        }
        let passwd = sys.which("passwd").is_some();
        let argv: &[&str] = if passwd { &["passwd", "-l", name] } else { &["usermod", "--lock", name] };
        run(sys, argv)
    }

    /// Enables password login again. A user with an empty password can then log in without one, as the configuration
    /// requests.
    ///
    /// # Errors
    /// Fails if passwd(1) or usermod(8) fails.
    pub fn unlock_password(&self, sys: &System, name: &str) -> Result<()> {
        let passwd = sys.which("passwd").is_some();
        let argv: &[&str] = if passwd { &["passwd", "-u", name] } else { &["usermod", "--unlock", name] };
        if passwd && has_busybox_passwd(sys) {
            let output = sys.run(&account_command(sys, argv).accept(&[0, 1]))?;
            let message = String::from_utf8_lossy(&output.stderr);
            return match output.code == 0 || message.contains("already unlocked") {
                true => Ok(()),
                false => Err(Error::new(format!("unlocking the password of {name}: {}", message.trim()))),
            };
        }
        // 3 means that the password would be empty. With that status, or a message about it, the account is still locked.
        let output = sys.run(&account_command(sys, argv).accept(&[0, 3]))?;
        if output.stderr.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let argv: &[&str] =
            if passwd { &["passwd", "-d", name] } else { &["usermod", "--password", "", name] };
        run(sys, argv)
    }

    /// Requires a new password at the next login.
    ///
    /// # Errors
    /// Fails if passwd(1) fails, or, with that of busybox, if shadow(5) cannot be changed or does not have the user.
    pub fn expire_password(&self, sys: &System, name: &str) -> Result<()> {
        if has_busybox_passwd(sys) {
            // A dry run has not created the user.
            if sys.is_dry_run() {
                return Ok(());
            }
            return match change_shadow(sys, |old| with_expired_password(old, name))? {
                true => Ok(()),
                false => Err(Error::new(format!("expiring the password of {name}: not in {SHADOW}"))),
            };
        }
        run(sys, &["passwd", "--expire", name])
    }

    /// Returns whether shadow(5) has this hash for the user, locked or not.
    pub fn has_password_hash(&self, sys: &System, name: &str, hash: &str) -> bool {
        shadow_password(sys, SHADOW, name).is_some_and(|field| field.trim_start_matches('!') == hash)
    }

    /// Returns whether the user has no password in shadow(5): an empty field, locked or not. If that is unknown, the
    /// result is `false`.
    pub fn has_blank_password(&self, sys: &System, name: &str) -> bool {
        ["/var/lib/extrausers/shadow", SHADOW]
            .iter()
            .any(|path| matches!(shadow_password(sys, path, name).as_deref(), Some("" | "!" | "!!")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    /// The fields are those that crypt(5) describes; the names those of useradd in shadow 4.17 and 4.20.
    #[test]
    fn password_fields_and_names_are_those_of_crypt_and_useradd() {
        let valid = "$1$salt$qJH7.N4xYta3aEG/dfqo/0|ab1OpGjFJuTLA|_J9..CCCCXBrJUJV154M|$md5,rounds=5000$saltstri$$abc|\
             $sha1$40000$jtNX3nZ2$hBNaIXkt4wBI2o5rsi8KejSjNqIq|$2b$12$R9h/cIPz0gi|$gy$j9T$abc$def|$7$CU..../....SALT$abc|\
             $sm3$salt$abc|$sm3y$j9T$abc$def|!$6$salt$hash|*|*LK*|!!|!*|x|";
        let invalid = "$6$|$9$a$b|${PASSWORD}|$6$a b|$6$a:b|!secret|*secret|changeme";
        for (fields, is_valid) in [(valid, true), (invalid, false)] {
            for field in fields.split('|') {
                assert_eq!(is_password_field(field), is_valid, "{field}");
            }
        }
        for name in ["a", "x-", "x$", "_x", "A.b", ".x", "1a", "1.2", "123$"] {
            assert!(is_portable_name(name), "{name}");
        }
        assert!(is_portable_name(&"x".repeat(32)) && !is_portable_name(&"x".repeat(33)));
        for name in
            ["", "$", ".", "..", "-x", "123", "a@b", "${USERNAME}", "<name>", "ümlaut", "a b", "a+b", "a\\b"]
        {
            assert!(!is_portable_name(name), "{name}");
        }
    }

    #[test]
    fn locks_of_an_earlier_boot_are_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        sys.write("/proc/77/comm", "useradd\n", WriteOptions::default()).unwrap();
        sys.write("/proc/79/comm", "cron\n", WriteOptions::default()).unwrap();
        let (old, new) = (SystemTime::UNIX_EPOCH + Duration::from_secs(1), SystemTime::now());
        for (name, text, changed, is_kept) in [
            ("passwd", "", old, false),
            ("group", "78\0", old, false),
            ("shadow", "77\0", old, true),
            ("gshadow", "", new, true),
            ("subuid", "78", new, true),
            ("subgid", "79\n", old, false),
        ] {
            let path = format!("/etc/{name}.lock");
            sys.write(&path, text, WriteOptions::default()).unwrap();
            let file = std::fs::File::options().write(true).open(top.join(&path[1..])).unwrap();
            file.set_modified(changed).unwrap();
            remove_stale_locks(&sys);
            assert_eq!(sys.exists(&path), is_kept, "{name}");
        }
        assert_eq!(sys.log().logged_warnings().len(), 3);
    }

    #[test]
    fn locks_of_a_later_time_and_what_is_no_lock_are_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        sys.write("/proc/77/comm", "useradd\n", WriteOptions::default()).unwrap();
        let later = SystemTime::now() + Duration::from_secs(90_000_000);
        for (name, text, is_kept) in
            [("passwd", "", false), ("group", "78\0", false), ("shadow", "77\0", true)]
        {
            let path = format!("/etc/{name}.lock");
            sys.write(&path, text, WriteOptions::default()).unwrap();
            let file = std::fs::File::options().write(true).open(top.join(&path[1..])).unwrap();
            file.set_modified(later).unwrap();
            remove_stale_locks(&sys);
            assert_eq!(sys.exists(&path), is_kept, "{name}");
        }
        // Of this boot, and no program is running.
        sys.remove("/proc/77/comm").unwrap();
        sys.write("/etc/passwd.lock", "", WriteOptions::default()).unwrap();
        std::os::unix::fs::symlink("missing", top.join("etc/group.lock")).unwrap();
        std::fs::create_dir(top.join("etc/gshadow.lock")).unwrap();
        std::fs::create_dir_all(top.join("etc/subuid.lock/full")).unwrap();
        for name in ["shadow", ".pwd"] {
            let fifo = top.join(format!("etc/{name}.lock"));
            let _ = std::fs::remove_file(&fifo);
            assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        }
        remove_stale_locks(&sys);
        assert_eq!(sys.list("/etc").unwrap(), ["subuid.lock"]);
        // Each program that changes accounts leaves it empty.
        sys.write("/etc/.pwd.lock", "", WriteOptions::default()).unwrap();
        remove_stale_locks(&sys);
        assert_eq!(sys.list("/etc").unwrap(), [".pwd.lock", "subuid.lock"]);
    }

    #[test]
    fn files_of_skel_are_completed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let write = |path: &str, text: &str| sys.write(path, text, WriteOptions::default()).unwrap();
        let own = sys.metadata("/").unwrap();
        write("/etc/passwd", &format!("a:x:{}:{}::/home/a:\n", own.uid(), own.gid()));
        for (name, copy, expected) in [
            ("empty", Some(""), Some("whole")),
            ("zeros", Some("\0\0"), Some("whole")),
            ("changed", Some("own"), Some("own")),
            ("removed", None, None),
        ] {
            write(&format!("/etc/skel/{name}"), "whole");
            let path = format!("/home/a/{name}");
            copy.map(|text| write(&path, text));
            complete_home(&sys, "a").unwrap();
            assert_eq!(sys.read_text_if_exists(&path).unwrap().as_deref(), expected, "{name}");
        }
        complete_home(&sys, "nobody").unwrap();
    }

    #[test]
    fn a_dry_run_makes_home_directories_as_useradd_does() {
        for (settings, mode) in [("", 0o755), ("UMASK\t027\n", 0o750), ("UMASK 022\nHOME_MODE 0700\n", 0o700)]
        {
            let (top, overlay) = (scratch::TempDir::new(), scratch::TempDir::new());
            top.put("etc/passwd", "");
            top.put("etc/group", "");
            top.put("etc/login.defs", settings);
            let sys = System::dry_run(&*top, &overlay);
            sys.simulate_user("amy", "/srv/home/amy", "");
            sys.simulate_group("amy");
            simulate_home(&sys, &sys.user("amy").unwrap()).unwrap();
            sys.simulate_user("ben", "/etc", "");
            simulate_home(&sys, &sys.user("ben").unwrap()).unwrap();
            let effects: Vec<_> =
                sys.recorded_effects().into_iter().map(|e| format!("{:?}", e.effect)).collect();
            let made = format!("Directory {{ path: \"/srv/home/amy\", mode: {mode} }}");
            assert!(effects.contains(&made), "{settings}: {effects:?}");
            assert!(effects.iter().any(|e| e.contains("owner of /srv/home/amy: amy:amy")), "{effects:?}");
            assert!(effects.iter().all(|e| !e.contains("/etc")), "{effects:?}");
        }
    }

    #[test]
    fn an_account_lacks_nothing_of_what_useradd_makes() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let complete = [
            ("passwd", "a:x:5:6::/home/a:\n"),
            ("shadow", "a:!:1::::::\n"),
            ("group", "a:x:6:\nadm:x:4:b,a\n"),
            ("subuid", "a:1:2\n"),
            ("subgid", "a:1:2\n"),
        ];
        let user =
            NewUser { name: "a".into(), groups: vec!["adm".into(), "none".into()], ..NewUser::default() };
        let put = |name: &str, text: &str| {
            sys.write(format!("/etc/{name}"), text, WriteOptions::default()).unwrap()
        };
        for (name, text) in complete {
            put(name, text);
        }
        assert_eq!(incomplete_user(&sys, &user).as_deref(), Some("5"), "no home directory");
        sys.create_dir_all("/home/a", 0o755).unwrap();
        assert_eq!(incomplete_user(&sys, &user), None);
        for (name, text) in &complete[1..] {
            put(name, if *name == "group" { "a:x:6:\nadm:x:4:b\n" } else { "b:x\n" });
            assert_eq!(incomplete_user(&sys, &user).as_deref(), Some("5"), "{name}");
            put(name, text);
        }
        for (name, _) in &complete[1..] {
            sys.remove(format!("/etc/{name}")).unwrap();
            assert_eq!(incomplete_user(&sys, &user), None, "{name} cannot be read");
        }
    }

    #[test]
    fn a_clock_that_is_not_set_expires_no_password() {
        for (seconds, day) in
            [(0, ""), (86_399, ""), (86_400, "1"), (1_714_558_830, "19844"), (4_102_444_800, "47482")]
        {
            assert_eq!(day_of_change(Duration::from_secs(seconds)), day, "{seconds}");
        }
    }

    #[test]
    fn useradd_and_adduser_get_every_option() {
        let plain = NewUser { name: "a".into(), ..NewUser::default() };
        assert_eq!(useradd_argv(&plain, false).join(" "), "useradd a -m");
        let full = NewUser {
            name: "b".into(),
            uid: Some("7".into()),
            gecos: Some("B b".into()),
            homedir: Some("/h".into()),
            shell: Some("/bin/sh".into()),
            primary_group: Some("g".into()),
            groups: vec!["x".into(), "y".into()],
            expiredate: Some("2030-01-01".into()),
            inactive: Some("5".into()),
            selinux_user: Some("s".into()),
            no_user_group: true,
            no_log_init: true,
            system: true,
            no_create_home: false,
            create_groups: true,
        };
        assert_eq!(
            useradd_argv(&full, true).join("|"),
            "useradd|b|--extrausers|--expiredate|2030-01-01|--comment|B b|--groups|x,y|--home|/h|--inactive|5|\
             --no-log-init|--no-user-group|--gid|g|--selinux-user|s|--shell|/bin/sh|--system|--uid|7|-M"
        );
        let line = adduser_argv(&full).join(" ");
        assert_eq!(line, "adduser -D -g B b -h /h -G g -s /bin/sh -u 7 -S -H b");
    }

    #[test]
    fn keys_that_adduser_does_not_support_are_named() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let mut user = NewUser {
            name: "al".into(),
            selinux_user: Some("s".into()),
            no_user_group: true,
            no_log_init: true,
            ..NewUser::default()
        };
        // The sandbox has no adduser.
        let _ = add_with_adduser(&sys, &mut user);
        let warnings = sys.log().logged_warnings();
        for (key, (_, warning)) in ["selinux_user", "no_user_group", "no_log_init"].iter().zip(&warnings) {
            assert_eq!(*warning, format!("user al: {key} is not supported by adduser; ignored"));
        }
        assert!(warnings.len() >= 3, "{warnings:?}");
    }

    #[test]
    fn shadow_changes_only_while_no_other_program_changes_it() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        sys.write(SHADOW, "al:x:1::::::\n", WriteOptions::mode(0o640)).unwrap();
        let field = [("al".to_string(), "*".to_string())];
        sys.write("/etc/shadow.lock", "1", WriteOptions::default()).unwrap();
        assert!(!write_password_fields(&sys, &field), "shadow.lock exists");
        sys.remove("/etc/shadow.lock").unwrap();
        let held = sys.lock_accounts(Deadline::after(LOCK_TIMEOUT)).unwrap();
        let other = System::new(&top);
        assert!(other.lock_accounts(Deadline::after(Duration::ZERO)).is_err(), "held");
        drop(held);
        assert!(write_password_fields(&other, &field));
        let text = sys.read_text(SHADOW).unwrap();
        assert!(text.starts_with("al:*:") && text.ends_with("::::::\n"), "{text}");
        assert_eq!((sys.mode(SHADOW), sys.mode("/etc/.pwd.lock")), (Some(0o640), Some(0o600)));
    }

    #[test]
    fn expiry_changes_one_line_of_shadow() {
        let text = b"root:*:1:0:99999:7:::\nal:!:20000:0:99999:7:::x\n\xff\nb:!:2\nal:!:3:0:1:7:::\n";
        let al = with_expiry(text, "al", "5", "22280").unwrap();
        let wanted = b"root:*:1:0:99999:7:::\nal:!:20000::::5:22280:x\n\xff\nb:!:2\nal:!:3:0:1:7:::\n";
        assert_eq!(al, wanted);
        let b = with_expiry(b"b:!:2", "b", "", "").unwrap();
        assert_eq!(b, b"b:!:2::::::");
        assert_eq!((with_expiry(text, "a", "5", "1"), with_expiry(b"", "", "5", "1")), (None, None));
        let al = with_expired_password(text, "al").unwrap();
        let wanted = b"root:*:1:0:99999:7:::\nal:!:0:0:99999:7:::x\n\xff\nb:!:2\nal:!:3:0:1:7:::\n";
        assert_eq!((al, with_expired_password(text, "a")), (wanted.to_vec(), None));
    }

    #[test]
    fn shadow_has_passwords_and_locks() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        let text = "root:*:1:::::\nab:!:2:\na::3:\nlast:$y$x:4\nab:x:5";
        sys.write(SHADOW, text, WriteOptions::default()).unwrap();
        for (name, field) in
            [("root", Some("*")), ("ab", Some("!")), ("a", Some("")), ("last", Some("$y$x")), ("b", None)]
        {
            assert_eq!(shadow_password(&sys, SHADOW, name).as_deref(), field);
        }
        // Of the same size.
        sys.write(SHADOW, text.replace('*', "x"), WriteOptions::default()).unwrap();
        assert_eq!(shadow_password(&sys, SHADOW, "root").as_deref(), Some("x"));
        assert_eq!(locked_users("root:*:1:::::\nab:!:2:\na::!3:\nlast:!$y$x:4"), ["ab", "last"]);
    }
}
