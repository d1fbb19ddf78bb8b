//! The forms of users and groups, and their meanings.

use config::{FindingKind, Reader};

use crate::accounts::users::{Accounts, Machine, normalize};
use crate::tests::sandbox::{Sandbox, yaml};

const DEFAULT: &str =
    "{name: debian, gecos: Debian, groups: [adm, sudo], shell: /bin/bash, lock_passwd: true}";

/// A machine without users.
const MACHINE: Machine<'_> =
    Machine { is_refused: &|_| false, has_failed: &|_| false, shell: &|_| None, default_names: Vec::new() };

/// Returns the normal form, and the numbers of invalid and deprecated parts.
fn read(config: &str) -> (Accounts, usize, usize) {
    let mut reader = Reader::new();
    let accounts = normalize(&yaml(config), Some(&yaml(DEFAULT)), &MACHINE, &mut reader);
    let findings = reader.into_findings();
    let count = |kind| findings.of_kind(kind).count();
    (accounts, count(FindingKind::Invalid), count(FindingKind::Deprecated))
}

/// Returns `name(group,group)` of each user, with `*` before the default one.
fn shown(accounts: &Accounts) -> String {
    let one = |user: &crate::accounts::users::User| {
        let star = if user.is_default { "*" } else { "" };
        format!("{star}{}({})", user.name, user.keys.groups.0.join(","))
    };
    accounts.users.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn users_are_read_in_every_notation() {
    for (config, users, wrong, old) in [
        ("users: [default]", "*debian(adm,sudo)", 0, 0),
        ("users: []", "", 0, 0),
        ("{}", "", 0, 0),
        ("users: [a, default, b]", "a() b() *debian(adm,sudo)", 0, 0),
        ("users: ['a,b', [c, d], {name: e}]", "a() b() c() d() e()", 0, 0),
        // Without a name it is the default user.
        ("users: [{groups: [x]}]", "*debian(adm,sudo)", 0, 0),
        ("users: [default, {name: debian, groups: 'lp, adm'}]", "*debian(adm,lp,sudo)", 0, 0),
        // Without `default` in the list, it is an ordinary user.
        ("users: [{name: debian, groups: lp}]", "debian(lp)", 0, 0),
        ("users: [{name: a, groups: [x]}, {name: a, groups: [y]}]", "a(x)", 0, 0),
        ("user: {name: me}\nusers: []", "*me(adm,sudo)", 0, 0),
        ("user: {name: me, groups: [lp]}", "*me(lp)", 0, 0),
        ("user: me", "*me(adm,sudo)", 0, 1),
        ("users: 'b, a, b'", "a() b()", 0, 1),
        ("users: {a: true, b: false, c: {groups: x}}", "a() c(x)", 0, 1),
        ("users: [{name: a, primary-group: g, no-create-home: true}]", "a()", 0, 2),
        ("users: [{name: a, groups: {x: null}}]", "a(x)", 0, 1),
        // An invalid part affects only itself.
        ("users: [5, null, true, {name: a}]", "5() a()", 2, 0),
        ("users: [{name: [x]}, {name: a}]", "a()", 1, 0),
        ("users: [{name: a, groups: 5, uid: x}]", "a(5)", 1, 1),
        ("users: ['a b', '', '../x', b]", "b()", 3, 0),
        ("users: {a: [x], b: true}", "b()", 1, 1),
        ("users: {a: maybe, b: true, c: 7, d: 'off'}", "b()", 2, 1),
        ("users: 5", "", 1, 0),
        ("users: null", "", 1, 0),
        ("user: [x]\nusers: [a]", "a()", 1, 0),
        // An invalid name of the default user does not lock the owner out: the image's is used.
        ("user: {name: 'a:b', groups: [lp]}", "*debian(lp)", 1, 0),
        ("user: {name: \"x\\ny\"}", "*debian(adm,sudo)", 1, 0),
        ("user: {name: [a]}", "*debian(adm,sudo)", 1, 0),
        ("user: {name: ''}", "*debian(adm,sudo)", 1, 0),
        ("user: {name: }", "*debian(adm,sudo)", 0, 0),
        ("user: {groups: [[x]]}", "*debian()", 1, 0),
        ("user: -x", "*debian(adm,sudo)", 1, 1),
        ("user: Jane Doe\nusers: [a]", "a() *debian(adm,sudo)", 1, 1),
        ("users: [{name: }, {name: a}]", "a()", 1, 0),
        ("users: [{name: 'a b'}, '', b]", "b()", 2, 0),
        ("users: [{name: a, gecos: 'x:y', homedir: '/a:b', shell: '/bin/sh:x'}]", "a()", 3, 0),
        ("users: [{name: a, ssh_import_id: [gh:a, -x, 'gh:a b']}]", "a()", 2, 0),
    ] {
        let (accounts, got_wrong, got_old) = read(config);
        assert_eq!((shown(&accounts).as_str(), got_wrong, got_old), (users, wrong, old), "{config}");
    }
}

/// A value of a wrong type does not affect other keys: the image's value is used, so that the owner keeps sudo.
#[test]
fn invalid_key_of_the_default_user_keeps_the_images_value() {
    const IMAGE: &str =
        "{name: debian, sudo: ['ALL=(ALL) NOPASSWD:ALL'], lock_passwd: true, shell: /bin/bash}";
    for config in
        ["user: {sudo: 5}", "user: {sudo: {a: b}, shell: [x]}", "user: {lock-passwd: [maybe], sudo: 5}"]
    {
        let accounts = normalize(&yaml(config), Some(&yaml(IMAGE)), &MACHINE, &mut Reader::new());
        let keys = &accounts.default_user().unwrap().keys;
        assert_eq!(keys.sudo.0, ["ALL=(ALL) NOPASSWD:ALL"], "{config}");
        assert_eq!(keys.shell.as_ref().map(|s| s.0.as_str()), Some("/bin/bash"), "{config}");
        assert!(keys.lock_passwd, "{config}");
    }
}

/// Each finding has the file, line, column and key, and what was expected.
#[test]
fn invalid_names_have_a_place() {
    for (config, place) in [
        ("user: {name: Jane Doe}", "test.yaml:1:14: user.name: expected a user name "),
        ("user: jane:doe", "test.yaml:1:7: user: expected a user name "),
        ("users: [{name: a b}]", "test.yaml:1:16: users[0].name: expected a user name "),
        ("groups: 'a b,c'", "test.yaml:1:9: groups: expected a group name "),
        ("groups: [a b]", "test.yaml:1:10: groups[0]: expected a group name "),
    ] {
        let mut reader = Reader::new();
        normalize(&yaml(config), Some(&yaml(DEFAULT)), &MACHINE, &mut reader);
        let texts: Vec<_> =
            reader.into_findings().of_kind(FindingKind::Invalid).map(ToString::to_string).collect();
        assert!(texts.len() == 1 && texts[0].starts_with(place), "{config}: {texts:?}");
    }
}

/// An image whose own default user is invalid.
#[test]
fn invalid_default_user_of_the_image_is_reported() {
    for (default, config, users, wrong) in [
        ("{name: a b, groups: [adm]}", "users: [default, x]", "x()", 1),
        ("{name: a b, groups: [adm]}", "user: {name: me}", "*me(adm)", 1),
        ("{name: me, lock-passwd: true, vendor: x}", "users: [default]", "*me()", 0),
        ("{name: }", "users: [default]", "", 0),
    ] {
        let mut sandbox = Sandbox::new(config);
        sandbox.system_info = yaml(&format!("default_user: {default}"));
        let accounts = sandbox.with_context(|context| Accounts::read_with_report(context, true));
        assert_eq!(shown(&accounts), users, "{default} {config}");
        let logged = sandbox.logged_warnings();
        let place = "test.yaml:1:22: system_info.default_user.name: expected a user name ";
        assert!(logged.len() == wrong && logged.iter().all(|l| l.starts_with(place)), "{logged:?}");
    }
}

#[test]
fn groups_are_read_in_every_notation() {
    for (config, groups, wrong) in [
        ("groups: a", "a:", 0),
        ("groups: 'a, b'", "a: b:", 0),
        ("groups: [a, {b: [x, y]}, {b: z}]", "a: b:x,y,z", 0),
        ("groups: {a: x, b: [y, x], c: null}", "a:x b:x,y c:", 0),
        ("groups: {a: 'y,x'}", "a:x,y", 0),
        ("groups: null", "", 0),
        ("groups: 5", "", 1),
        ("groups: [a, [b], null, 'c:d', {e: [[f]]}]", "a: e:", 4),
    ] {
        let (accounts, got, _) = read(config);
        let shown: Vec<String> =
            accounts.groups.iter().map(|g| format!("{}:{}", g.name, g.members.join(","))).collect();
        assert_eq!((shown.join(" ").as_str(), got), (groups, wrong), "{config}");
    }
}

#[test]
fn configuration_overrides_the_distributions_default_user() {
    let (accounts, _, _) = read("user: {shell: /bin/sh}\nusers: [default, {name: debian, gecos: Me}]");
    let keys = &accounts.default_user().unwrap().keys;
    assert_eq!(keys.gecos.as_ref().map(|field| field.0.as_str()), Some("Me"));
    assert_eq!(keys.shell.as_ref().map(|path| path.0.as_str()), Some("/bin/sh"));
    assert!(keys.lock_passwd);
}

/// `useradd --inactive True` fails, and the user would not exist. An account that was to expire must not be valid for ever.
#[test]
fn booleans_are_not_options_of_useradd() {
    for option in ["gecos", "homedir", "shell", "expiredate", "inactive", "selinux_user"] {
        let (accounts, wrong, _) = read(&format!("users: [{{name: a, {option}: true}}]"));
        let keys = &accounts.users[0].keys;
        let paths = [&keys.homedir, &keys.shell];
        let options = [&keys.inactive, &keys.selinux_user];
        let is_empty =
            keys.gecos.is_none() && paths.iter().all(|p| p.is_none()) && options.iter().all(|o| o.is_none());
        let expires = keys.expiredate.as_ref().map(|date| date.0.as_str());
        let expected = (option == "expiredate").then_some("1970-01-02");
        assert!(wrong == 1 && is_empty && expires == expected, "{option}");
    }
    let (accounts, wrong, _) = read("users: [{name: a, inactive: 5, expiredate: 2031-01-01}]");
    let keys = &accounts.users[0].keys;
    let options =
        [keys.inactive.as_ref().map(|days| &*days.0), keys.expiredate.as_ref().map(|date| &*date.0)];
    assert_eq!((options, wrong), ([Some("5"), Some("2031-01-01")], 0));
    for none in ["''", "null", "false"] {
        let (accounts, _, _) = read(&format!("users: [{{name: a, expiredate: {none}}}]"));
        let date = accounts.users[0].keys.expiredate.as_ref();
        assert!(date.is_none_or(|date| date.0.is_empty()), "{none}");
    }
    let (accounts, _, _) = read("users: [default]\nuser: {expiredate: [2031-01-01]}");
    let date = &accounts.default_user().unwrap().keys.expiredate;
    assert_eq!(date.as_ref().map(|date| &*date.0), Some("1970-01-02"));
    for (text, is_locked) in [("'false'", false), ("\"true\"", true), ("'no'", false)] {
        let (accounts, wrong, _) = read(&format!("users: [{{name: a, lock_passwd: {text}}}]"));
        assert_eq!((accounts.users[0].keys.lock_passwd, wrong), (is_locked, 0), "{text}");
    }
}

#[test]
fn passwords_are_not_shown() {
    let (accounts, _, _) =
        read("users: [{name: a, passwd: hunter2, plain_text_passwd: hunter2, hashed-passwd: hunter2}]");
    assert!(!format!("{accounts:?}").contains("hunter2"));
}
