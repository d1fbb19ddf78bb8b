//! Whole modules on a machine in a directory whose account programs are stubs: they record their arguments and standard
//! input, and make the changes that the next step reads. Programs run chrooted, which requires root or a user namespace
//! (`unshare -r cargo test -p modules`).

use std::os::unix::fs::MetadataExt;

use config::settings::{Layer, LayerKind};
use config::{Map, Node};
use system::WriteOptions;

use crate::tests::sandbox::{Sandbox, yaml};
use crate::{set_passwords, ssh, users_groups};

const KEY: &str = "ssh-ed25519 AAAAC3Nz me@x";

/// A machine with the users root and old, and the account programs.
fn machine(config: &str) -> Sandbox {
    let mut sandbox = Sandbox::new(config);
    let me = std::fs::metadata(&sandbox.top).unwrap();
    let ids = format!("{}:{}", me.uid(), me.gid());
    let passwd = format!("root:x:{ids}::/root:/bin/sh\nold:x:{ids}::/home/old:/bin/sh\n");
    let put = |path: &str, text: &str| sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
    put("/etc/passwd", &passwd);
    put("/etc/group", "root:x:0:\n");
    put("/etc/shadow", "root:*:1::::::\nold:!:1::::::\n");
    sandbox.stub("useradd", &format!("echo \"$1:x:{ids}::/home/$1:/bin/sh\" >> /etc/passwd"));
    sandbox.stub("groupadd", "echo \"$1:x:9:\" >> /etc/group");
    for quiet in ["usermod", "passwd", "chpasswd"] {
        sandbox.stub(quiet, "");
    }
    sandbox.system_info =
        yaml("default_user: {name: debian, groups: [adm], sudo: ['ALL=(ALL) NOPASSWD:ALL']}");
    sandbox
}

/// A power failure between two files of useradd, before chpasswd, and while files were written.
#[test]
fn accounts_of_an_interrupted_boot_are_completed() {
    let config = format!(
        "users: [{{name: half, passwd: $6$h, ssh_authorized_keys: ['{KEY}'], sudo: 'ALL=(ALL) ALL'}}]"
    );
    for (shadow, expected) in [
        ("half:!:1::::::\n", "chpasswd -e\n< half:$6$h\n"),
        ("half:$6$h:1::::::\n", ""),
        ("", "userdel half\nuseradd half --uid 7 -m\nchpasswd -e\n< half:$6$h\n"),
    ] {
        let mut sandbox = machine(&config);
        for (path, text) in [
            ("/etc/passwd", "half:x:7:7::/home/half:/bin/sh\n"),
            ("/etc/group", "half:x:7:\n"),
            ("/etc/shadow", shadow),
            ("/home/half/.ssh/authorized_keys", "\0\0"),
            ("/etc/sudoers.d/90-cloud-init-users", ""),
            ("/var/lib/cloud/instance/new-users", "half\n"),
        ] {
            sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        }
        sandbox.stub("userdel", ": >/etc/passwd");
        sandbox.is_repeat = true;
        let before = sandbox.calls();
        let _ = sandbox.run(&users_groups::MODULE);
        let calls = sandbox.calls();
        let calls = calls[before.len()..].replace("grpconv\n", "");
        assert!(
            calls.starts_with(expected) && (calls.len() == expected.len() || calls.contains("passwd -l")),
            "{calls}"
        );
        let (rules, _) = sandbox.file("/etc/sudoers.d/90-cloud-init-users");
        assert!(rules.starts_with("# Created by") && rules.ends_with("half ALL=(ALL) ALL\n"), "{rules}");
    }
}

/// chpasswd knows fewer hashes than crypt(5), which useradd does not check.
#[test]
fn fields_that_chpasswd_refuses_are_written() {
    const OPEN: &str = "passwd -u mia\n";
    for (config, field, calls) in [
        (
            "passwd: $1$salt$qJH7.N4xYta3aEG/dfqo/0, lock_passwd: false",
            "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
            OPEN,
        ),
        ("passwd: ab1OpGjFJuTLA, lock_passwd: false", "ab1OpGjFJuTLA", OPEN),
        ("hashed_passwd: $gy$j9T$abc$def, lock_passwd: false", "$gy$j9T$abc$def", OPEN),
        ("passwd: \"$7$CU..$abc\\n\", lock_passwd: false", "$7$CU..$abc", OPEN),
        ("passwd: '*', lock_passwd: false", "*", OPEN),
        ("passwd: x, lock_passwd: false", "x", OPEN),
        ("passwd: '!!', lock_passwd: false", "!!", ""),
        ("passwd: plain text, lock_passwd: false", "!", ""),
        ("passwd: '${PASSWORD}'", "!", ""),
    ] {
        let sandbox = machine(&format!("users: [{{name: mia, {config}}}]"));
        sandbox.stub("useradd", "echo $1:x:7:7::/home/$1: >>/etc/passwd; echo $1:!:1:::::: >>/etc/shadow");
        sandbox.stub("chpasswd", "echo invalid password hash >&2; exit 1");
        sandbox.run(&users_groups::MODULE).unwrap();
        let (shadow, _) = sandbox.file("/etc/shadow");
        let line = shadow.lines().last().unwrap();
        assert!(line.starts_with(&format!("mia:{field}:")), "{config}: {line}");
        assert!(
            sandbox.calls().ends_with(calls) && sandbox.calls().contains("passwd -u") != calls.is_empty()
        );
        let logged = sandbox.logged_warnings().join("\n");
        let is_refused = logged.contains(": users[0].passwd: expected a password hash");
        assert_eq!((is_refused, logged.contains("plain text")), (field == "!", false), "{config}: {logged}");
    }
}

/// useradd creates the account first, and exits 12 if it cannot create the home directory.
#[test]
fn an_account_without_a_home_gets_its_password_and_rules() {
    let sandbox = machine(
        "users: [{name: mia, passwd: $6$h, lock_passwd: false, sudo: ['ALL=(ALL) ALL'], groups: [adm]}]",
    );
    sandbox.stub("useradd", "echo $1:x:7:7::/home/$1: >>/etc/passwd; echo no home >&2; exit 12");
    let failed = sandbox.run(&users_groups::MODULE).unwrap_err().to_string();
    assert!(failed.contains("no home"), "{failed}");
    assert!(sandbox.calls().contains("chpasswd -e\n< mia:$6$h\n"), "{}", sandbox.calls());
    assert!(sandbox.file("/etc/sudoers.d/90-cloud-init-users").0.contains("mia ALL=(ALL) ALL"));
}

/// A name that useradd refuses must not leave a machine that nobody can log in to.
#[test]
fn the_default_user_replaces_a_refused_name() {
    for (config, place) in [
        ("user: {name: '${USERNAME}', ssh_authorized_keys: [KEY]}", "test.yaml:1:14: "),
        ("user: a@b\nssh_authorized_keys: [KEY]", "test.yaml:1:7: "),
        ("users: [{name: '123', ssh_authorized_keys: [KEY]}]", "test.yaml:1:16: "),
        ("users: [{name: <name>, ssh_authorized_keys: [KEY]}]", "test.yaml:1:16: "),
        ("users: [{name: ' ', ssh_authorized_keys: [KEY]}]", "test.yaml:1:16: "),
        ("users: [{name: pia}, {name: '${U}', ssh_authorized_keys: [KEY]}]", "test.yaml:1:29: "),
    ] {
        let mut sandbox = machine(&config.replace("KEY", KEY));
        let ids = std::fs::metadata(&sandbox.top).map(|me| format!("{}:{}", me.uid(), me.gid())).unwrap();
        sandbox.stub(
            "useradd",
            &format!("case $1 in debian | pia) echo $1:x:{ids}::/home/$1: >>/etc/passwd;; *) exit 19; esac"),
        );
        sandbox.instance.public_keys = vec![KEY.into()];
        sandbox.run(&users_groups::MODULE).unwrap();
        sandbox.run(&ssh::MODULE).unwrap();
        assert!(sandbox.file("/home/debian/.ssh/authorized_keys").0.contains(KEY), "{config}");
        assert!(sandbox.file("/root/.ssh/authorized_keys").0.contains("user \\\"debian\\\""), "{config}");
        let logged = sandbox.logged_warnings();
        assert!(logged[0].starts_with(place), "{config}: {logged:?}");
    }
    // Another user can log in: nobody gets the image's user with its sudo. Of several refused users only the keys are taken.
    for (users, is_created) in [
        ("{name: pia, ssh_authorized_keys: [KEY]}, {name: 'a b', ssh_authorized_keys: [KEY]}", false),
        // A user without a login shell cannot.
        ("{name: bin, ssh_authorized_keys: [KEY]}, {name: 'a b', ssh_authorized_keys: [KEY]}", true),
        (
            "{name: pia, shell: /bin/false, ssh_authorized_keys: [KEY]}, {name: 'a b', ssh_authorized_keys: [KEY]}",
            true,
        ),
        ("{name: pia}, {name: 'a b', ssh_authorized_keys: []}", false),
        ("{name: 'a b', shell: /bin/no}, {name: 'c d', ssh_authorized_keys: [KEY, other]}", true),
    ] {
        let sandbox = machine(&format!("users: [{}]", users.replace("KEY", KEY)));
        let passwd = sandbox.file("/etc/passwd").0 + "bin:x:2:2::/bin:/usr/sbin/nologin\n";
        sandbox.sys.write("/etc/passwd", passwd, WriteOptions::default()).unwrap();
        sandbox.stub("useradd", "echo \"$*\" >>/added; echo $1:x:7:7::/home/$1: >>/etc/passwd");
        let _ = sandbox.run(&users_groups::MODULE);
        let added = sandbox.file("/added").0;
        assert_eq!(
            (added.contains("debian"), added.contains("/bin/no")),
            (is_created, false),
            "{users}: {added}"
        );
    }
    // Neither the image's user nor another one can be created.
    let mut sandbox = machine("users: [default]");
    sandbox.stub("useradd", "exit 1");
    sandbox.instance.public_keys = vec![KEY.into()];
    sandbox.run(&users_groups::MODULE).unwrap_err();
    sandbox.run(&ssh::MODULE).unwrap();
    assert_eq!(sandbox.file("/root/.ssh/authorized_keys").0, format!("{KEY}\n"));
    // Another one has no valid name.
    let mut sandbox = machine("users: [default]");
    sandbox.system_info = config::yaml::parse("image", "default_user: {name: a b}").unwrap().root;
    sandbox.instance.public_keys = vec![KEY.into()];
    sandbox.run(&users_groups::MODULE).unwrap();
    sandbox.run(&ssh::MODULE).unwrap();
    assert_eq!(sandbox.file("/root/.ssh/authorized_keys").0, format!("{KEY}\n"));
}

/// The image's own name is below the one that is refused, in a weaker layer.
#[test]
fn a_refused_name_of_the_default_user_is_replaced_by_that_of_a_weaker_layer() {
    for (name, config, place) in [
        (
            "'${username}'",
            "password: secret\nchpasswd: {expire: false}",
            "user-data:1:22: system_info.default_user.name: ",
        ),
        ("'123'", "users: [default]\npassword: secret\nchpasswd: {expire: false}", "user-data:1:22: "),
        (
            "a b",
            "password: secret\nchpasswd: {expire: false}",
            "user-data:1:22: system_info.default_user.name: ",
        ),
        (
            "'${username}'",
            "user: {name: a@b}\npassword: secret\nchpasswd: {expire: false}",
            "test.yaml:1:14: ",
        ),
    ] {
        let parse = |source: &str, name: &str| {
            config::yaml::parse(source, &format!("default_user: {{name: {name}, gecos: G}}")).unwrap().root
        };
        let layer = |kind, source: &str, name: &str| Layer {
            kind,
            name: source.into(),
            config: Node::from(Map::from_iter([(Node::from("system_info"), parse(source, name))])),
        };
        let mut sandbox = machine(config);
        if !config.contains("user") {
            sandbox.config = yaml(&format!("users: [default]\n{config}"));
        }
        sandbox.system_info = parse("user-data", name);
        sandbox.layers = vec![
            layer(LayerKind::System, "cloud.cfg", "debian"),
            layer(LayerKind::System, "drop-in", "c+d"),
            layer(LayerKind::User, "user-data", name),
        ];
        sandbox
            .stub("useradd", "case $1 in debian) echo $1:x:7:7::/home/$1: >>/etc/passwd;; *) exit 19; esac");
        sandbox.run(&users_groups::MODULE).unwrap();
        sandbox.run(&set_passwords::MODULE).unwrap();
        let calls = sandbox.calls();
        assert!(calls.contains("useradd debian --comment G"), "{name}: {calls}");
        assert!(calls.ends_with("chpasswd\n< debian:secret\n"), "{name}: {calls}");
        let logged = sandbox.logged_warnings();
        assert!(logged[0].starts_with(place), "{name}: {logged:?}");
    }
}

/// What a program that creates accounts refuses must not cost the account.
#[test]
fn a_user_is_created_without_the_options_that_are_refused() {
    const MADE: &str = "echo $1:x:7:7::/home/$1: >>/etc/passwd; echo $1:!:1:::::: >>/etc/shadow";
    for (config, refused, call, warned) in [
        (
            "homedir: relative/home",
            "*--home*",
            "useradd mia -m",
            "users[0].homedir: expected an absolute path",
        ),
        ("homedir: '${home}', shell: bash", "*--home*", "useradd mia -m", "users[0].homedir: expected"),
        ("uid: -5", "*--uid*", "useradd mia -m", "users[0].uid: expected a user ID"),
        ("uid: 1000", "*--uid*", "useradd mia -m", "user mia: uid 1000 is that of old; ignored"),
        ("uid: 1001", "*--uid*", "useradd mia -m", "user mia: uid ignored: "),
        (
            "uid: 7, expiredate: soon",
            "*soon*",
            "useradd mia --expiredate 1970-01-02 --uid 7 -m",
            "user mia: expiredate is not a date, so that the account has expired: ",
        ),
        ("expiredate: [2031-12-24]", "no", "useradd mia --expiredate 1970-01-02 -m", "users[0].expiredate: "),
        ("expiredate: 22280, uid: 7", "*--uid*", "useradd mia --expiredate 22280 -m", "uid ignored: "),
        // Some releases of useradd know other forms.
        ("expiredate: never", "no", "useradd mia --expiredate never -m", ""),
        ("expiredate: never", "*--expiredate*", "useradd mia -m", "user mia: expiredate ignored: "),
        ("inactive: '5 days'", "*--inactive*", "useradd mia -m", "user mia: inactive ignored: "),
        (
            "groups: [sudo, gone], create_groups: false",
            "*gone*",
            "useradd mia --groups sudo -m",
            "user mia: groups ignored: ",
        ),
        (
            "primary_group: gone, create_groups: false",
            "*gone*",
            "useradd mia -m",
            "user mia: primary_group ignored: ",
        ),
        (
            "groups: 'sudo, 27, 28', primary_group: '27'",
            "*28*",
            "useradd mia --groups sudo,sudo --gid sudo -m",
            "group ignored",
        ),
    ] {
        let sandbox = machine(&format!("users: [{{name: mia, {config}, ssh_authorized_keys: [{KEY}]}}]"));
        let put = |path: &str, text: &str| sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/home/old:/bin/sh\n");
        put("/etc/group", "root:x:0:\nsudo:x:27:\n");
        sandbox.stub("groupadd", "exit 3");
        sandbox.stub("useradd", &format!("case \"$*\" in {refused}) exit 3; esac; {MADE}"));
        let _ = sandbox.run(&users_groups::MODULE);
        let calls = sandbox.calls();
        assert!(calls.lines().rfind(|line| line.starts_with("useradd")) == Some(call), "{config}: {calls}");
        let logged = sandbox.logged_warnings().join("\n");
        assert!(logged.contains(warned) && logged.is_empty() == warned.is_empty(), "{config}: {logged}");
    }
    // busybox' programs.
    for (config, refused, call) in [
        ("uid: 1001, gecos: M", "*-u*", "adduser -D -g M mia\naddgroup mia sudo"),
        ("primary_group: gone, create_groups: false", "*gone*", "adduser -D mia\naddgroup mia sudo"),
    ] {
        let sandbox = machine(&format!("users: [{{name: mia, groups: [sudo, adm], {config}}}]"));
        sandbox.sys.remove("/usr/sbin/useradd").unwrap();
        sandbox.sys.remove("/usr/sbin/groupadd").unwrap();
        sandbox.sys.write("/etc/group", "sudo:x:27:\nadm:x:4:\n", WriteOptions::default()).unwrap();
        sandbox.stub("addgroup", "[ $2 != sudo ]");
        sandbox.stub(
            "adduser",
            &format!("case \"$*\" in {refused}) exit 1; esac; echo mia:x:7:7::/home/mia: >>/etc/passwd"),
        );
        sandbox.run(&users_groups::MODULE).unwrap();
        let calls = sandbox.calls();
        assert!(calls.contains(call) && calls.contains("addgroup mia adm"), "{config}: {calls}");
    }
}

/// Debian's adduser takes other options, and runs useradd.
#[test]
fn a_missing_useradd_is_named_where_adduser_is_debians() {
    let sandbox = machine("groups: [staff]\nusers: [{name: mia}]");
    for program in ["useradd", "groupadd"] {
        sandbox.sys.remove(format!("/usr/sbin/{program}")).unwrap();
    }
    for program in ["adduser", "addgroup"] {
        let script = "#! /usr/bin/perl\nexit 1\n";
        sandbox.sys.write(format!("/usr/sbin/{program}"), script, WriteOptions::mode(0o755)).unwrap();
    }
    let error = sandbox.run(&users_groups::MODULE).unwrap_err().to_string();
    let logged = sandbox.logged_warnings().join("\n");
    assert!(logged.contains("user mia: running useradd mia -m: useradd: not found"), "{error} {logged}");
    assert!(logged.contains("running groupadd staff: groupadd: not found"), "{error} {logged}");
}

/// A user that cannot be created at all is like one with a refused name.
#[test]
fn the_default_user_replaces_one_that_cannot_be_created() {
    for keys in
        ["uid: 7", "system: true", "no_create_home: true, shell: /bin/bash", "ssh_redirect_user: true"]
    {
        let mut sandbox = machine(&format!("users: [{{name: mia, {keys}, ssh_authorized_keys: ['{KEY}']}}]"));
        let ids = std::fs::metadata(&sandbox.top).map(|me| format!("{}:{}", me.uid(), me.gid())).unwrap();
        sandbox
            .stub("useradd", &format!("[ $1 = debian ] || exit 1; echo $1:x:{ids}::/home/$1: >>/etc/passwd"));
        sandbox.instance.public_keys = vec![KEY.into()];
        sandbox.run(&users_groups::MODULE).unwrap_err();
        sandbox.run(&ssh::MODULE).unwrap();
        assert!(sandbox.file("/home/debian/.ssh/authorized_keys").0.contains(KEY), "{keys}");
        assert!(sandbox.file("/root/.ssh/authorized_keys").0.contains("user \\\"debian\\\""), "{keys}");
    }
}

#[test]
fn keys_name_no_default_user_that_was_not_created() {
    for (refused, named) in [("debian", None), ("mia", Some("debian")), ("none", Some("debian"))] {
        let mut sandbox =
            machine("users: [{name: amy, ssh_redirect_user: true}, default]\nuser: {shell: /bin/sh}");
        let ids = std::fs::metadata(&sandbox.top).map(|me| format!("{}:{}", me.uid(), me.gid())).unwrap();
        let made = format!("[ $1 != {refused} ] || exit 1; echo $1:x:{ids}::/home/$1: >>/etc/passwd");
        sandbox.stub("useradd", &made);
        sandbox.instance.public_keys = vec![KEY.into()];
        assert_eq!(sandbox.run(&users_groups::MODULE).is_ok(), refused != "debian");
        let options = named.map(|name| format!("user \\\"{name}\\\" rather than the user \\\"amy\\\""));
        let keys = sandbox.sys.read_text("/home/amy/.ssh/authorized_keys").ok();
        assert_eq!(keys.is_some(), options.is_some(), "{refused}: {keys:?}");
        assert!(options.is_none_or(|options| keys.is_some_and(|keys| keys.contains(&options))), "{refused}");
    }
}

#[test]
fn a_rule_of_sudo_may_be_continued() {
    for (rule, written) in [
        (r#""ALL=(ALL) ALL, \\\n  !/bin/su""#, "pia ALL=(ALL) ALL,    !/bin/su\n"),
        (r#""ALL=(ALL) ALL\nroot ALL=(ALL) ALL""#, ""),
    ] {
        let sandbox = machine(&format!("users: [{{name: pia, sudo: {rule}}}]"));
        sandbox.stub("useradd", "exit 0");
        let _ = sandbox.run(&users_groups::MODULE);
        let rules = sandbox.sys.read_text("/etc/sudoers.d/90-cloud-init-users").unwrap_or_default();
        assert!(rules.ends_with(written) && rules.contains("pia") != written.is_empty(), "{rule}: {rules}");
    }
}

/// The passwd of Alpine and Yocto is busybox': it has no --expire, and fails for a password that is unlocked already.
#[test]
fn passwords_are_unlocked_and_expired_with_busybox() {
    for program in ["bbsuid", "busybox.suid", "busybox"] {
        let message = if program == "busybox" { "must be suid" } else { "old is already unlocked" };
        let sandbox = machine(
            "users: [{name: old, lock_passwd: false, plain_text_passwd: hunter2}]\n\
             chpasswd: {users: [{name: old, password: hunter2, type: text}]}",
        );
        // Where it is depends on whether /bin and /usr/bin are one directory.
        sandbox.stub("passwd", &format!("echo '{message}' >&2; exit 1"));
        let passwd = sandbox.top.join("usr/sbin/passwd");
        std::fs::rename(&passwd, passwd.with_file_name(program)).unwrap();
        std::os::unix::fs::symlink(program, &passwd).unwrap();
        assert_eq!(sandbox.run(&users_groups::MODULE).is_ok(), program != "busybox", "{program}");
        sandbox.run(&set_passwords::MODULE).unwrap();
        assert_eq!(
            sandbox.calls(),
            "chpasswd\n< old:hunter2\npasswd -u old\nchpasswd\n< old:hunter2\n",
            "{program}"
        );
        assert_eq!(sandbox.file("/etc/shadow").0, "root:*:1::::::\nold:!:0::::::\n");
    }
}

/// An initrd has no useradd: the image's default user is left out, a user that user-data requests is an error.
#[test]
fn without_useradd_only_requested_users_are_errors() {
    let of_image = machine("users: [default]");
    of_image.sys.remove("/usr/sbin/useradd").unwrap();
    of_image.run(&users_groups::MODULE).unwrap();
    of_image.run(&ssh::MODULE).unwrap();
    assert_eq!(of_image.logged_warnings(), [""; 0]);

    let mut with_key = machine("users: [default]");
    with_key.sys.remove("/usr/sbin/useradd").unwrap();
    with_key.instance.public_keys = vec![KEY.into()];
    with_key.run(&users_groups::MODULE).unwrap();
    with_key.run(&ssh::MODULE).unwrap();
    assert_eq!(
        with_key.logged_warnings(),
        [
            "disable_root: ignored; there is no default user to log in as",
            "login keys: authorized keys of debian: no such user"
        ]
    );

    for users in ["users: [default]", "users: [eve]", "user: {name: me}"] {
        let mut requested = machine("");
        requested.sys.remove("/usr/sbin/useradd").unwrap();
        let source = requested.layout.merged_cloud_config();
        requested.config = config::yaml::parse(&source, users).unwrap().root;
        let error = requested.run(&users_groups::MODULE).unwrap_err().to_string();
        assert!(error.contains("useradd: not found"), "{users}: {error}");
    }
}

#[test]
fn an_unknown_user_does_not_keep_others_from_getting_passwords() {
    let sandbox = machine(
        "chpasswd:\n  users:\n  - {name: a, password: firstpw, type: text}\n  - {name: ghost, password: secondpw, type: text}\n\
         \x20 - {name: r, type: RANDOM}\n  - {name: h, password: $6$s$thirdpw}\n",
    );
    sandbox.sys.write("/dev/console", "", WriteOptions::default()).unwrap();
    // As chpasswd(8): nothing is changed if one line is invalid.
    sandbox.stub("chpasswd", "case $all in *ghost*) exit 1;; esac");
    assert!(sandbox.run(&set_passwords::MODULE).is_err());
    let console = sandbox.sys.read_text("/dev/console").unwrap();
    let random = console.lines().last().and_then(|l| l.strip_prefix("r:")).unwrap().to_string();
    assert_eq!(random.len(), 20);
    assert_eq!(console, format!("Set the following 'random' passwords\n\nr:{random}\n"));
    assert_eq!(
        sandbox.calls().replace(&random, "RANDOM"),
        "chpasswd\n< a:firstpw\n< ghost:secondpw\n< r:RANDOM\n\
         chpasswd\n< a:firstpw\nchpasswd\n< ghost:secondpw\nchpasswd\n< r:RANDOM\n\
         chpasswd -e\n< h:$6$s$thirdpw\n\
         passwd --expire a\npasswd --expire r\npasswd --expire h\n"
    );
    let messages = format!("{:?}{:?}", sandbox.logged_warnings(), sandbox.sys.effects());
    assert!(messages.contains("ghost"));
    for secret in ["firstpw", "secondpw", "thirdpw", &random] {
        assert!(!messages.contains(secret), "{secret} in {messages}");
    }
}

#[test]
fn without_a_console_random_passwords_are_not_printed() {
    let sandbox = machine("chpasswd: {expire: false, users: [{name: old, type: RANDOM}]}");
    sandbox.run(&set_passwords::MODULE).unwrap();
    let calls = sandbox.calls();
    let random = calls.lines().find_map(|line| line.strip_prefix("< old:")).unwrap();
    assert_eq!(sandbox.logged_warnings(), ["no console to print the random passwords to"]);
    assert!(!format!("{:?}", sandbox.sys.effects()).contains(random));
}

#[test]
fn login_keys_are_written_in_their_order() {
    let own = "ssh_authorized_keys: [ssh-rsa AAAB b, ssh-ed25519 AAAA a]";
    let mut sandbox = machine(&format!("{{users: [], disable_root: false, {own}}}"));
    sandbox.instance.public_keys = vec!["ssh-rsa AAAC z".into()];
    sandbox.run(&ssh::MODULE).unwrap();
    let written = sandbox.file("/root/.ssh/authorized_keys").0;
    assert_eq!(written, "ssh-rsa AAAC z\nssh-rsa AAAB b\nssh-ed25519 AAAA a\n");
}

#[test]
fn a_wrong_disable_root_does_not_open_root() {
    let sandbox =
        machine(&format!("{{user: {{name: old}}, disable_root: [no], ssh_authorized_keys: [{KEY}]}}"));
    sandbox.run(&ssh::MODULE).unwrap();
    assert!(sandbox.file("/root/.ssh/authorized_keys").0.contains("Please login as the user"));
}

const HOST_KEY: &str = "/etc/ssh/ssh_host_rsa_key";

const KEYGEN: &str = "for f; do :; done; case $1 in -y*) echo ssh-rsa AAAA;; *) echo new > $f; echo ssh-x NEW c > $f.pub; echo art;; esac";

#[test]
fn a_type_of_host_key_that_failed_is_not_tried_again() {
    let sandbox = machine("users: []\nssh_genkeytypes: [ed25519]");
    sandbox.stub("ssh-keygen", "case $* in *ed25519*) exit 1;; esac");
    sandbox.run(&ssh::MODULE).unwrap();
    let calls = sandbox.calls();
    let counts = ["ed25519", "rsa", "ecdsa"].map(|kind| calls.matches(&format!("-t {kind} ")).count());
    assert_eq!(counts, [1, 1, 1], "{calls}");
}

#[test]
fn login_keys_do_not_wait_for_host_keys() {
    let sandbox = machine(&format!("users: []\nssh_genkeytypes: [rsa]\nssh_authorized_keys: [{KEY}]"));
    sandbox.stub("ssh-keygen", &format!("[ -s /root/.ssh/authorized_keys ] || exit 1; {KEYGEN}"));
    sandbox.run(&ssh::MODULE).unwrap();
    assert_eq!(sandbox.logged_warnings(), [""; 0]);
    assert_eq!(sandbox.file(HOST_KEY).0, "new\n");
}

#[test]
fn a_link_to_a_directory_of_another_user_is_not_followed() {
    let sandbox = machine(&format!("users: [{{name: old, ssh_authorized_keys: [{KEY}]}}]"));
    sandbox.sys.create_dir_all("/root/.ssh", 0o700).unwrap();
    sandbox.sys.create_dir_all("/home/old", 0o755).unwrap();
    sandbox.sys.link("/nowhere", "/home/old/.ssh").unwrap();
    assert!(sandbox.run(&users_groups::MODULE).is_err());
    assert!(
        sandbox.logged_warnings()[0].contains("/home/old/.ssh is not owned by the user"),
        "{:?}",
        sandbox.logged_warnings()
    );
}
