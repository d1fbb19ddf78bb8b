//! users_groups: creates groups, then users, with their passwords, rules and keys.

use std::collections::{BTreeMap, BTreeSet};

use config::{Findings, FromNode, Node, Reader, Value};
use distro::{NewUser, UserRules};
use system::{Command, Error, Level, Result, System, WriteOptions, info, warning};

use crate::accounts::authorized_keys::{self, DISABLE_USER_OPTS};
use crate::accounts::user_keys::{OptionalSecret, PORTABLE_NAME, UserKeys, is_valid_name};
use crate::accounts::users::{Accounts, DefaultUserOverrides, GroupList, User, UserList};
use crate::schema::{NOWHERE, Target};
use crate::{Context, Frequency, Module, ModuleFlag, last_failure};

pub const MODULE: Module = Module::of::<Keys>("users_groups", Frequency::Instance, run)
    .flags(&[ModuleFlag::Repeatable, ModuleFlag::GrantsLogin])
    .checked_by(check);

config::keys! {
    pub struct Keys {
        /// Groups to create: names, or names with members.
        groups: Option<GroupList>;
        /// Users to create; `default` is the distribution's default user.
        users: Option<UserList>;
        /// Overrides for the default user.
        user: Option<DefaultUserOverrides>;
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let accounts = Accounts::read_with_report(context, true);
    let mut failed = Vec::new();
    distro::remove_stale_locks(context.sys);
    if context.is_repeat {
        distro::complete_groups(context.sys);
    }
    let mut creator = UserCreator {
        context,
        existing: sort::collect(context.sys.users().into_iter().map(|u| u.name)),
        interrupted: BTreeSet::new(),
        is_ubuntu_core: distro::is_ubuntu_core(context.sys),
        to_lock: Vec::new(),
        redirected: Vec::new(),
        doas: Vec::new(),
        sudo: Vec::new(),
        config_keys: context.sys.is_dry_run().then(|| ConfigKeys::of(context.config)),
    };
    context.sys.log_error(Level::Warning, creator.record_new(&accounts.users));
    context.sys.set_cause_key("groups");
    let create_group = |name: &str, members: &[String], failed: &mut Vec<system::Error>| {
        let Err(e) = context.distro.create_group(context.sys, name, members) else { return };
        warning!(context.sys, "group {name}: {e}");
        // A name that groupadd refuses is not a failure of the boot.
        failed.extend(distro::is_portable_name(name).then_some(e));
    };
    let names: BTreeSet<&str> = sort::collect(accounts.users.iter().map(|user| user.name.as_str()));
    let mut joining = Vec::new();
    for group in &accounts.groups {
        let is_new = |name: &String| names.contains(name.as_str()) && !creator.existing.contains(name);
        let (new, members): (Vec<String>, Vec<String>) = group.members.iter().cloned().partition(is_new);
        create_group(&group.name, &members, &mut failed);
        joining.push((&group.name, new));
    }
    let keys = std::cell::LazyCell::new(|| ConfigKeys::of(context.config));
    let of_image = context.system_info.at_path(&["default_user", "name"]);
    let key_of = |user: &User| match of_image.filter(|name| name.at == user.at) {
        Some(_) => "system_info.default_user.name".into(),
        None => keys.key_of(&user.name, user.is_default),
    };
    let mut has_missing = false;
    for user in &accounts.users {
        // A failure of one must not keep the others from logging in.
        let Err(e) = creator.create_unless_dispensable(user) else { continue };
        let is_missing = context.sys.user(&user.name).is_none();
        has_missing |= is_missing;
        match is_missing && !distro::is_portable_name(&user.name) {
            // The others are not worse for it, and the default user takes its place.
            true => warning!(context.sys, "{}: {e}", context.place(&user.at, &key_of(user))),
            false => {
                warning!(context.sys, "user {}: {e}", user.name);
                failed.push(e);
            }
        }
    }
    let replaced = if has_missing { Accounts::read(context).users } else { Vec::new() };
    for user in replaced.iter().filter(|user| accounts.users.iter().all(|other| other.name != user.name)) {
        warning!(context.sys, "creating the default user {} instead", user.name);
        let result = creator.create_unless_dispensable(user);
        failed.extend(result.err().inspect(|e| warning!(context.sys, "user {}: {e}", user.name)));
    }
    // One that exists now: keys must not name another one.
    let mut default = accounts.users.iter().chain(&replaced).filter(|user| user.is_default);
    let default = default.find(|user| context.sys.user(&user.name).is_some()).map(|user| &*user.name);
    for name in &creator.redirected {
        let result = redirect_to_default_user(context, name, default);
        failed.extend(result.err().inspect(|e| warning!(context.sys, "user {name}: {e}")));
    }
    for (group, members) in joining.iter().filter(|(_, members)| !members.is_empty()) {
        create_group(group, members, &mut failed);
    }
    if accounts.users.len() > 1 {
        context.sys.set_cause_key("users");
    }
    let doas = context.distro.write_doas_rules(context.sys, std::mem::take(&mut creator.doas));
    let sudo = context.distro.write_sudo_rules(context.sys, &creator.sudo);
    failed.extend([doas, sudo].into_iter().filter_map(Result::err).inspect(|e| warning!(context.sys, "{e}")));
    failed.extend(creator.lock_new_users());
    last_failure(failed)
}

/// The keys of a configuration that request users.
struct ConfigKeys<'a> {
    config: &'a Node,
    /// The first item of the list `users` that names each user.
    items: BTreeMap<String, usize>,
}

impl<'a> ConfigKeys<'a> {
    fn of(config: &'a Node) -> Self {
        let mut items = BTreeMap::new();
        let list = config.get("users").and_then(Node::as_seq).unwrap_or_default();
        for (i, item) in list.iter().enumerate() {
            let names: Vec<String> = match &item.value {
                // A map without a name is about the default user.
                Value::Map(map) => {
                    let name = map.get("name").map_or("default", |n| n.as_str().unwrap_or_default());
                    vec![name.to_string()]
                }
                Value::Seq(names) => names.iter().filter_map(Node::as_str).map(String::from).collect(),
                _ => {
                    let text = item.scalar_text().unwrap_or_default();
                    text.split(',').map(|name| name.trim().to_string()).collect()
                }
            };
            names.into_iter().for_each(|name| _ = items.entry(name).or_insert(i));
        }
        ConfigKeys { config, items }
    }

    /// Returns the key that requests a user: the first item that names it, or the list itself if no item does.
    fn key_of(&self, name: &str, is_default: bool) -> String {
        let index = |name: &str| self.items.get(name).copied();
        match self.config.get("users").map(|users| &users.value) {
            Some(Value::Seq(_)) => {
                match index(name).into_iter().chain(is_default.then(|| index("default")).flatten()).min() {
                    Some(i) => format!("users[{i}]"),
                    None if is_default && self.config.get("user").is_some() => "user".into(),
                    None => "users".into(),
                }
            }
            Some(Value::Map(map)) if map.get(name).is_some() => format!("users.{name}"),
            Some(_) => "users".into(),
            None if self.config.get("user").is_some() => "user".into(),
            None => String::new(),
        }
    }
}

/// Returns keys that conflict: one requires a home directory and another one prevents it, or they exclude each other.
fn conflicting_keys(keys: &UserKeys) -> Option<String> {
    let without = [("no_create_home", keys.no_create_home), ("system", keys.system)];
    let needing = [
        ("ssh_authorized_keys", keys.ssh_authorized_keys.as_ref().is_some_and(|keys| !keys.0.is_empty())),
        ("ssh_import_id", !keys.ssh_import_id.is_empty()),
        ("ssh_redirect_user", keys.ssh_redirect_user.0),
    ];
    let (no_home, _) = without.iter().find(|(_, on)| *on)?;
    let (need, _) = needing.iter().find(|(_, on)| *on)?;
    Some(format!("{need} needs a home directory, but {no_home} is set"))
}

/// Reports users whose names useradd refuses, whose keys conflict or who have no valid SSH key, and members of groups that exist nowhere.
fn check<'n>(target: Target<'n>, config: &'n Node, found: &mut Findings) {
    let lacks_user = target.lacks_user(config);
    let user = config.get("user").map(|user| ("user", user));
    let image =
        config.at_path(&["system_info", "default_user"]).map(|user| ("system_info.default_user", user));
    let listed = config.get("users").and_then(Node::as_seq).unwrap_or_default();
    let listed = listed.iter().enumerate().map(|(i, user)| (format!("users[{i}]"), user));
    for (key, user) in user.into_iter().chain(image).map(|(key, user)| (key.into(), user)).chain(listed) {
        let (key, node) = user.get("name").map_or((key.clone(), user), |name| (format!("{key}.name"), name));
        let is_refused = |name: &&str| {
            is_valid_name(name) && !distro::is_portable_name(name) && target.sys.user(name).is_none()
        };
        if node.as_str().filter(is_refused).is_some() {
            found.invalid(&node.at, key, format!("expected {PORTABLE_NAME}"));
        }
    }
    for (i, user) in config.get("users").and_then(Node::as_seq).into_iter().flatten().enumerate() {
        let keys = user.as_map().and_then(|_| UserKeys::read(user, &mut Reader::new()));
        if let Some(why) = keys.as_ref().and_then(conflicting_keys) {
            found.invalid(&user.at, format!("users[{i}]"), why);
        }
        let list = keys.as_ref().and_then(|keys| keys.ssh_authorized_keys.as_ref());
        let node = user.get("ssh_authorized_keys").or_else(|| user.get("ssh-authorized-keys"));
        if let (Some((at, why)), Some(node)) = (list.and_then(|list| authorized_keys::fault(&list.0)), node) {
            let item = node.as_seq().and_then(|keys| keys.get(at)).unwrap_or(node);
            found.invalid(&item.at, format!("users[{i}].ssh_authorized_keys[{at}]"), why);
        }
    }
    let items = |node| Node::as_seq(node).unwrap_or(std::slice::from_ref(node));
    let groups = config.get("groups").into_iter().flat_map(items).filter_map(Node::as_map);
    let members = groups.flat_map(|map| map.iter().flat_map(|(_, members)| items(members)));
    for member in members {
        if member.as_str().is_some_and(|names| names.split(',').any(|name| lacks_user(name.trim()))) {
            found.invalid(&member.at, "groups", format!("no user {NOWHERE}"));
        }
    }
}

/// Creates all users. Facts that they share are looked up once, because there may be hundreds of users.
struct UserCreator<'a> {
    context: &'a Context<'a>,
    /// Names of existing users.
    existing: BTreeSet<String>,
    /// Names of users that an interrupted boot has created, perhaps incompletely.
    interrupted: BTreeSet<String>,
    /// Whether this is Ubuntu Core.
    is_ubuntu_core: bool,
    /// New users whose password is to be locked as useradd has left it.
    to_lock: Vec<&'a User>,
    /// Users whose keys are to name the default user, which is created last.
    redirected: Vec<&'a str>,
    /// The rules of the created users. Their files are written once.
    doas: Vec<UserRules>,
    sudo: Vec<UserRules>,
    /// Only a dry run shows the cause of its effects.
    config_keys: Option<ConfigKeys<'a>>,
}

impl<'a> UserCreator<'a> {
    fn set_cause(&self, user: &User) {
        if let Some(keys) = &self.config_keys {
            self.context.sys.set_cause_key(keys.key_of(&user.name, user.is_default));
        }
    }

    /// Returns whether a user cannot be created and user-data does not request it: the image's default user in a root
    /// without useradd, such as an initrd.
    fn is_dispensable(&self, user: &User) -> bool {
        let Context { sys, config, layout, .. } = self.context;
        let instance = layout.instance("");
        let is_requested = ["users", "user"].iter().any(|key| {
            let source = config.get(key).and_then(|node| node.at.source.as_deref());
            source.is_some_and(|source| source.starts_with(&instance))
        });
        user.is_default
            && !is_requested
            && !self.existing.contains(&user.name)
            && ["useradd", "adduser"].iter().all(|program| sys.which(program).is_none())
    }

    fn create_unless_dispensable(&mut self, user: &'a User) -> Result<()> {
        self.set_cause(user);
        if !self.is_dispensable(user) {
            return self.create(user);
        }
        info!(
            self.context.sys,
            "neither useradd nor adduser is installed; the default user {} is not created", user.name
        );
        Ok(())
    }

    /// Records the users that are to be created, so that the next boot can complete them if this one is interrupted.
    fn record_new(&mut self, users: &[User]) -> Result<()> {
        let Context { sys, layout, is_repeat, .. } = self.context;
        let path = layout.new_users();
        let mut names: BTreeSet<String> = sort::collect(users.iter().map(|user| user.name.clone()));
        names.retain(|name| !self.existing.contains(name));
        if *is_repeat {
            let earlier = sys.read_text_if_exists(&path)?.unwrap_or_default();
            self.interrupted = sort::collect(earlier.lines().map(Into::into));
            names.extend(self.interrupted.iter().cloned());
        }
        if names.is_empty() || layout.is_cleaned(sys) {
            return Ok(());
        }
        let text = names.into_iter().fold(String::new(), |text, name| text + &name + "\n");
        sys.write(path, text, WriteOptions::secret().durable())?;
        // Before the account files, which useradd flushes.
        sys.flush_directory(&layout.instance(""))?;
        sys.flush_directory(&layout.instance_semaphores())
    }

    fn create(&mut self, user: &'a User) -> Result<()> {
        let (context, sys, keys, name) = (self.context, self.context.sys, &user.keys, &*user.name);
        if let Some(why) = conflicting_keys(keys) {
            return Err(Error::new(format!("not created: {why}")));
        }
        if keys.ssh_redirect_user.0 && (keys.ssh_authorized_keys.is_some() || !keys.ssh_import_id.is_empty())
        {
            return Err(Error::new(
                "not created: ssh_redirect_user conflicts with ssh_authorized_keys and ssh_import_id",
            ));
        }
        if let Some(mail) = &keys.snapuser {
            return create_snap_user(sys, &mail.0, keys.known);
        }
        let mut add = new_user(user);
        if self.existing.contains(name)
            && self.interrupted.contains(name)
            && let Some(uid) = distro::incomplete_user(sys, &add)
        {
            info!(sys, "user {name} is incomplete after an interrupted boot; creating it again");
            context.distro.remove_user(sys, name)?;
            // The owner of the files that exist.
            add.uid.get_or_insert(uid);
            self.existing.remove(name);
        }
        let mut new = !self.existing.contains(name);
        let mut failed = Vec::new();
        if new {
            match context.distro.add_user(sys, &add, self.is_ubuntu_core) {
                // useradd creates the account before the home directory, which may be on a disk that is full or not writable.
                Err(e) if sys.user(name).is_some() => failed.push(e),
                added => added?,
            }
            self.existing.insert(name.to_string());
        } else {
            info!(sys, "user {name} already exists; not created");
            new = self.interrupted.contains(name) && context.distro.has_blank_password(sys, name);
        }
        if self.interrupted.contains(name)
            && let Err(e) = distro::complete_home(sys, name)
        {
            warning!(sys, "user {name}: {e}");
        }
        // The keys are installed even if password or rules fail: the owner needs them to log in and repair these.
        failed.extend(self.set_password(user, new).err());
        for (rules, file) in [
            (keys.doas.iter().map(|line| line.0.clone()).collect(), &mut self.doas),
            (keys.sudo.0.clone(), &mut self.sudo),
        ] {
            file.extend(Some((name.to_string(), rules)).filter(|(_, rules)| !rules.is_empty()));
        }
        if let Some(list) = &keys.ssh_authorized_keys {
            // An empty list must not create the home directory of an account without one.
            if !list.0.is_empty() || !(keys.system || keys.no_create_home) {
                failed.extend(authorized_keys::install(sys, name, &list.0, "").err());
            }
        }
        self.redirected.extend(keys.ssh_redirect_user.0.then_some(name));
        if failed.len() < 2 {
            return failed.pop().map_or(Ok(()), Err);
        }
        let texts: Vec<String> = failed.iter().map(Error::to_string).collect();
        Err(Error::new(texts.join("; ")).with_causes(&failed))
    }

    fn set_password(&mut self, user: &'a User, new: bool) -> Result<()> {
        let (sys, distro, keys, name) = (self.context.sys, self.context.distro, &user.keys, &*user.name);
        let set = |password: &OptionalSecret, hashed: bool| match &password.0 {
            // Setting it again would unlock the account until it is locked again.
            Some(secret)
                if hashed && !new && keys.lock_passwd && distro.has_password_hash(sys, name, &secret.0) =>
            {
                Ok(())
            }
            Some(secret) if !secret.0.is_empty() => {
                distro.set_passwords(sys, &[(name.to_string(), secret.0.clone())], hashed)
            }
            _ => Ok(()),
        };
        let (passwd, hashed) = (&keys.passwd.0, &keys.hashed_passwd.0);
        let text = |password: &'a OptionalSecret| password.0.as_ref().map(|s| s.0.as_str());
        // The last one that is not empty is what the account gets. `!` is a lock without a password: removing it would open
        // the account.
        let values = [text(hashed), text(&keys.plain_text_passwd), text(passwd).filter(|_| new)];
        let given = match values.iter().position(|value| value.is_some_and(|text| !text.is_empty())) {
            Some(at) => at == 1 || values[at].is_some_and(|text| text.contains(|c| c != '!')),
            None => values.iter().any(Option::is_some),
        };
        if new {
            // The hash is not an argument of useradd, because every process could read it.
            set(passwd, true)?;
        } else if passwd.0.is_some() && !given {
            warning!(sys, "user {name} already exists; ignoring 'passwd'");
        }
        set(&keys.plain_text_passwd, false)?;
        set(hashed, true)?;
        // An account without a password would be open.
        let has_password = given || (!new && !distro.has_blank_password(sys, name));
        match keys.lock_passwd {
            // useradd locks it, which is verified once for all users.
            true if new && !given => {
                self.to_lock.push(user);
                Ok(())
            }
            true => distro.lock_password(sys, name),
            false if has_password => distro.unlock_password(sys, name),
            false => {
                let kind = if new { "user" } else { "existing user" };
                warning!(
                    sys,
                    "Not unlocking the password of {kind} {name}: 'lock_passwd: false' is set, but the user has no \
                     password, and none of 'passwd', 'plain_text_passwd' and 'hashed_passwd' has one"
                );
                Ok(())
            }
        }
    }

    /// Locks the passwords that useradd left unlocked; returns the failures.
    fn lock_new_users(&self) -> Vec<Error> {
        let Context { sys, distro, .. } = self.context;
        if self.to_lock.is_empty() {
            return Vec::new();
        }
        let shadow = sys.read_text("/etc/shadow").unwrap_or_default();
        let locked: BTreeSet<&str> = sort::collect(distro::locked_users(&shadow));
        let open = self.to_lock.iter().filter(|user| !locked.contains(&*user.name));
        open.filter_map(|user| {
            self.set_cause(user);
            distro.lock_password(sys, &user.name).err()
        })
        .inspect(|e| warning!(sys, "{e}"))
        .collect()
    }
}

/// Converts the configuration of a user into the arguments of useradd.
fn new_user(user: &User) -> NewUser {
    let keys = &user.keys;
    let line = |l: &Option<crate::accounts::user_keys::UserOption>| l.as_ref().map(|l| l.0.clone());
    let path = |f: &Option<crate::accounts::user_keys::PasswdPath>| f.as_ref().map(|f| f.0.clone());
    NewUser {
        name: user.name.clone(),
        uid: keys.uid.as_ref().map(|u| u.0.clone()),
        gecos: keys.gecos.as_ref().map(|field| field.0.clone()),
        homedir: path(&keys.homedir),
        shell: path(&keys.shell),
        primary_group: keys.primary_group.as_ref().map(|g| g.0.clone()),
        groups: keys.groups.0.clone(),
        expiredate: keys.expiredate.as_ref().map(|date| date.0.clone()),
        inactive: line(&keys.inactive),
        selinux_user: line(&keys.selinux_user),
        no_user_group: keys.no_user_group,
        no_log_init: keys.no_log_init,
        system: keys.system,
        no_create_home: keys.no_create_home,
        create_groups: keys.create_groups,
    }
}

fn create_snap_user(sys: &System, mail: &str, known: bool) -> Result<()> {
    let mut argv = vec!["snap", "create-user", "--sudoer", "--json"];
    argv.extend(known.then_some("--known"));
    argv.push(mail);
    sys.run(&Command::new(argv)).map(drop)
}

/// Restricts the cloud's keys: they open no session as this user, but name the user to log in as.
fn redirect_to_default_user(context: &Context<'_>, name: &str, default: Option<&str>) -> Result<()> {
    let sys = context.sys;
    let Some(default) = default else {
        warning!(sys, "user {name}: ignoring ssh_redirect_user: there is no default user");
        return Ok(());
    };
    let cloud = &context.instance.public_keys;
    if cloud.is_empty() {
        warning!(
            sys,
            "user {name}: ignoring ssh_redirect_user: metadata has no public keys to redirect to {default}"
        );
        return Ok(());
    }
    let options = authorized_keys::disable_options(DISABLE_USER_OPTS, default, name);
    authorized_keys::install(sys, name, cloud, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_its_configuration_key() {
        for (text, name, is_default, key) in [
            ("users: [default, bob, {name: eve}, [x, y], 'v, w']", "eve", false, "users[2]"),
            ("users: [default, bob]", "debian", true, "users[0]"),
            ("users: [[x, y]]", "y", false, "users[0]"),
            ("users: [v, 'x, y']", "y", false, "users[1]"),
            ("users: [{lock_passwd: true}]", "debian", true, "users[0]"),
            ("users: [bob]\nuser: {name: me}", "me", true, "user"),
            ("users: [bob]", "other", false, "users"),
            ("users: {bob: {uid: 5}}", "bob", false, "users.bob"),
            ("users: bob,eve", "eve", false, "users"),
            ("user: me", "me", true, "user"),
            ("{}", "debian", true, ""),
        ] {
            let config = config::yaml::parse("t", text).unwrap().root;
            assert_eq!(ConfigKeys::of(&config).key_of(name, is_default), key, "{text}");
        }
    }
}
