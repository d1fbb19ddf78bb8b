//! Which links are followed, by their owner and directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use scratch::TempDir;

use super::{OTHER, USER, is_root, machines, tree};
use crate::{Change, System, WriteOptions};

/// The path of a link, its owner and target; the written path; the resulting location, or a part of the error.
type Case<'a> = (&'a str, u32, &'a str, &'a str, Result<&'a str, &'a str>);

const CASES: &[Case<'static>] = &[
    ("/etc/absolute", 0, "/etc/secret", "/etc/absolute", Ok("/etc/secret")),
    ("/etc/relative", 0, "../etc/./secret", "/etc/relative", Ok("/etc/secret")),
    ("/etc/dangling", 0, "/etc/new", "/etc/dangling", Ok("/etc/new")),
    ("/etc/dangling", 0, "../run/new/dir/file", "/etc/dangling", Ok("/run/new/dir/file")),
    ("/etc/chain", 0, "chain2", "/etc/chain", Ok("/etc/chain2")),
    ("/lib", 0, "usr/lib", "/lib/deep/file", Ok("/usr/lib/deep/file")),
    ("/etc/dir", 0, "/home/u/sub", "/etc/dir/file", Ok("/home/u/sub/file")),
    ("/etc/loop", 0, "loop", "/etc/loop", Err("loop")),
    ("/etc/loop", 0, "../etc/loop", "/etc/loop/x/y", Err("loop")),
    ("/etc/up", 0, "..", "/etc/up", Err("is a directory")),
    ("/etc/file", 0, "secret", "/etc/file/x", Err("Not a directory")),
    // A user's own links.
    ("/home/u/link", USER, "own", "/home/u/link", Ok("/home/u/own")),
    ("/home/u/link", USER, "sub/new", "/home/u/link", Ok("/home/u/sub/new")),
    ("/home/u/link", USER, "/home/u/made/for/them", "/home/u/link", Ok("/home/u/made/for/them")),
    ("/home/u/link", USER, "/home/u/sub", "/home/u/link/a/b", Ok("/home/u/sub/a/b")),
    ("/home/u/link", USER, "../../etc/../home/u/sub/x", "/home/u/link", Ok("/home/u/sub/x")),
    ("/home/u/link", USER, "/etc/secret", "/home/u/link", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "/etc/new", "/home/u/link", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "/run/new/dir/file", "/home/u/link", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "../../etc/new", "/home/u/link", Err("home/u/link (owner uid 12345)")),
    ("/home/u/link", USER, "/etc", "/home/u/link/new", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "/etc", "/home/u/link/a/b/new", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "/", "/home/u/link", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", USER, "/proc/self/fd/0", "/home/u/link", Err("")),
    // Root's link in a directory of the user, and another user's link.
    ("/home/u/link", 0, "/etc/secret", "/home/u/link", Err("(owner uid 12345): target not owned")),
    ("/home/u/link", 0, "own", "/home/u/link", Ok("/home/u/own")),
    ("/home/u/link", OTHER, "own", "/home/u/link", Err("(owner uid 12346): target not owned")),
    // Directories for everyone.
    ("/open/link", 0, "/etc/secret", "/open/link", Err("its directory is world-writable")),
    ("/open/link", USER, "/home/u/own", "/open/link", Ok("/home/u/own")),
    ("/sticky/link", 0, "/etc/secret", "/sticky/link", Ok("/etc/secret")),
    ("/sticky/link", USER, "/etc/secret", "/sticky/link", Err("(owner uid 12345): target not owned")),
    ("/sticky/link", USER, "/home/u/own", "/sticky/link", Ok("/home/u/own")),
];

#[test]
fn links_are_followed_to_files_of_their_owner() {
    if !is_root("links of others") {
        return;
    }
    for (link, owner, target, path, wanted) in CASES {
        for m in machines() {
            m.link(link, *owner, target);
            let case = format!("{link} of {owner} -> {target}, {path}, prefix {:?}", m.prefix);
            let before = tree(&m.top);
            let written = m.sys.write(m.at(path), "new", WriteOptions::mode(0o640));
            match wanted {
                Ok(real) => {
                    assert!(written.is_ok(), "{case}: {written:?}");
                    assert_eq!(fs::read_to_string(m.host(real)).unwrap(), "new", "{case}");
                    assert_eq!(
                        m.sys.write(m.at(path), "new", WriteOptions::mode(0o640)).unwrap(),
                        Change::Unchanged,
                        "{case}"
                    );
                    m.sys.append(m.at(path), "er", WriteOptions::default()).unwrap();
                    m.sys.set_mode(m.at(path), 0o600).unwrap();
                    m.sys.set_owner(m.at(path), (Some(OTHER), None)).unwrap();
                    let meta = fs::symlink_metadata(m.host(real)).unwrap();
                    assert_eq!((meta.len(), meta.mode() & 0o7777, meta.uid()), (5, 0o600, OTHER), "{case}");
                }
                Err(part) => {
                    let error = written.unwrap_err().to_string();
                    assert!(error.contains(part), "{case}: {error}");
                    assert!(m.sys.append(m.at(path), "x", WriteOptions::default()).is_err(), "{case}");
                    assert!(m.sys.append_as(m.at(path), "x", WriteOptions::default()).is_err(), "{case}");
                    if !matches!(*target, ".." | "/etc/new" | "/run/new/dir/file" | "../../etc/new") {
                        // The last ones would fail even without the rule.
                        assert!(*target == "/" || m.sys.set_mode(m.at(path), 0o777).is_err(), "{case}");
                        assert!(
                            *target == "/" || m.sys.set_owner(m.at(path), (Some(USER), None)).is_err(),
                            "{case}"
                        );
                    }
                    if *part != "is a directory" {
                        assert_eq!(tree(&m.top), before, "{case}");
                    }
                }
            }
            assert!(m.host(link).is_symlink(), "{case}");
        }
    }
}

#[test]
fn a_users_link_in_a_parent_is_refused() {
    if !is_root("links of others") {
        return;
    }
    for m in machines() {
        m.link("/home/u/link", USER, "/etc");
        let before = tree(&m.top);
        let (inside, own) = (m.at("/home/u/link/secret"), m.at("/home/u/own"));
        assert!(m.sys.create_dir_all_owned(m.at("/home/u/link/d"), 0o755, (Some(USER), None)).is_err());
        assert!(m.sys.link("x", m.at("/home/u/link/l")).is_err());
        assert!(m.sys.remove(&inside).is_err() && m.sys.remove_dir_all(&inside).is_err());
        assert!(m.sys.rename(&inside, &own).is_err() && m.sys.rename(&own, &inside).is_err());
        assert!(m.sys.remove_dir(&inside).unwrap_err().to_string().contains("(owner uid 12345)"));
        assert!(m.sys.read_to_change(&inside, 9).is_err());
        assert_eq!(tree(&m.top), before);
        // These calls concern the link itself.
        m.sys.link("elsewhere", m.at("/home/u/link")).unwrap();
        assert_eq!(m.sys.read_link(m.at("/home/u/link")).unwrap(), "elsewhere");
        assert!(m.sys.remove(m.at("/home/u/link")).unwrap() && !m.sys.remove(m.at("/home/u/link")).unwrap());
        assert_eq!(m.sys.read_to_change(m.at("/home/u/link"), 9).unwrap().map(|read| read.0), None);
        assert_eq!(m.sys.read_to_change(&own, 9).unwrap().map(|read| read.0), Some(b"old".to_vec()));
        assert!(m.sys.read_to_change(&own, 2).is_err());
    }
}

#[test]
fn directories_behind_a_users_link_belong_to_the_user() {
    if !is_root("links of others") {
        return;
    }
    for m in machines() {
        m.link("/home/u/link", USER, "made/for");
        m.sys.write(m.at("/home/u/link/them/file"), "", WriteOptions::default()).unwrap();
        let owners = ["made", "made/for", "made/for/them"].map(|d| m.owner(&format!("/home/u/{d}")));
        assert_eq!(owners, [USER; 3]);
        m.sys.create_dir_all_owned(m.at("/home/u/a/b"), 0o2750, (Some(USER), Some(OTHER))).unwrap();
        let meta = fs::metadata(m.host("/home/u/a/b")).unwrap();
        assert_eq!((m.owner("/home/u/a"), meta.gid(), meta.mode() & 0o7777), (USER, OTHER, 0o2750));
    }
}

/// A hard link gives another file a name in a user's directory.
#[test]
fn hard_links_to_other_users_files_are_refused() {
    if !is_root("files of others") {
        return;
    }
    for m in machines() {
        let all = Some(USER);
        for (name, is_fine) in [("hard", false), ("other", false), ("of-root", true), ("own", true)] {
            if name == "hard" {
                fs::hard_link(m.host("/etc/secret"), m.host("/home/u/hard")).unwrap();
            }
            let path = m.at(&format!("/home/u/{name}"));
            let done = [
                m.sys.append(&path, "x", WriteOptions::default()).is_ok(),
                m.sys.read_to_change(&path, 99).is_ok(),
                m.sys.set_mode(&path, 0o640).is_ok(),
                m.sys.append_as(&path, "x", WriteOptions::default()).is_ok(),
                m.sys.set_owner(&path, (all, None)).is_ok(),
            ];
            assert_eq!(done, [is_fine; 5], "{name}");
        }
        let secret = fs::metadata(m.host("/etc/secret")).unwrap();
        assert_eq!((secret.uid(), secret.mode() & 0o7777, secret.len()), (0, 0o600, 3));
        // An atomic write gives the name a file of its own.
        m.sys.write(m.at("/home/u/hard"), "new", WriteOptions::default().owner((all, all))).unwrap();
        assert_eq!((m.owner("/home/u/hard"), m.owner("/etc/secret")), (USER, 0));
    }
}

#[test]
fn magic_links_of_proc_are_followed() {
    let top = TempDir::new();
    top.put("file", "old");
    use std::os::fd::AsRawFd;
    let file = fs::File::options().write(true).open(top.join("file")).unwrap();
    let sys = System::new("/");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    sys.append(&path, "er", WriteOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(top.join("file")).unwrap(), "older");
    let by_link = top.join("link");
    symlink(&path, &by_link).unwrap();
    sys.append(&by_link, "!", WriteOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(top.join("file")).unwrap(), "older!");
}

/// The link to the instance is cached after its first use, and followed to its current target.
#[test]
fn a_followed_link_is_cached() {
    let top = TempDir::new();
    let sys = System::new(&top);
    sys.link("/var/instances/a", "/var/instance").unwrap();
    sys.write("/var/instance/x", "1", WriteOptions::default()).unwrap();
    let known = sys.root().cache().link.borrow().clone();
    let (link, target) = known.unwrap();
    assert_eq!((link.to_str(), target.to_str()), (Some("/var/instance"), Some("/var/instances/a")));
    sys.write("/var/instance/x", "2", WriteOptions::default()).unwrap();
    sys.link("/var/instances/b", "/var/instance").unwrap();
    sys.write("/var/instance/x", "3", WriteOptions::default()).unwrap();
    assert!(sys.remove("/var/instance").unwrap());
    sys.write("/var/instance/x", "4", WriteOptions::default()).unwrap();
    let read = |path: &str| fs::read_to_string(top.join("var").join(path)).unwrap();
    assert_eq!(["instances/a/x", "instances/b/x", "instance/x"].map(read), ["2", "3", "4"]);
}

/// Root's own files may have several names, and root may change what only root can change.
#[test]
fn hard_links_among_roots_own_files_are_changed() {
    if !is_root("files of others") {
        return;
    }
    for m in machines() {
        // Made with a umask of 002.
        fs::set_permissions(m.host("/etc"), fs::Permissions::from_mode(0o775)).unwrap();
        fs::hard_link(m.host("/etc/secret"), m.host("/etc/name")).unwrap();
        m.sys.append(m.at("/etc/name"), "x", WriteOptions::default()).unwrap();
        m.sys.set_mode(m.at("/etc/name"), 0o640).unwrap();
        m.sys.create_dir_all(m.at("/etc/tree/a/b"), 0o755).unwrap();
        m.sys.link("/home/u", m.at("/etc/tree/a/link")).unwrap();
        assert!(m.sys.remove_dir_all(m.at("/etc/tree")).unwrap() && m.host("/home/u/own").exists());
        assert!(!m.host("/etc/tree").exists());
    }
}

#[test]
fn logs_do_not_follow_a_users_link() {
    if !is_root("links of others") {
        return;
    }
    for m in machines() {
        // A log directory that a service's group may write to.
        fs::create_dir(m.host("/logs")).unwrap();
        fs::set_permissions(m.host("/logs"), fs::Permissions::from_mode(0o775)).unwrap();
        chown(m.host("/logs"), None, Some(OTHER)).unwrap();
        m.link("/logs/log", USER, "/etc/secret");
        fs::hard_link(m.host("/etc/secret"), m.host("/logs/hard")).unwrap();
        let before = tree(&m.top);
        for path in ["/logs/log", "/logs/hard"].map(|path| m.at(path)) {
            assert!(m.sys.log_to_file(crate::Level::Debug, &path, 0o640, &[USER.to_string()]).is_err());
            assert!(m.sys.tee_output(&path).is_err());
            assert!(m.sys.redirect_to_file(crate::Streams::Both, &path, false).is_err());
        }
        assert_eq!(tree(&m.top), before);
    }
}

#[test]
fn a_dry_run_reports_refusals() {
    if !is_root("links of others") {
        return;
    }
    let machine = machines().remove(0);
    machine.link("/home/u/link", USER, "/etc/secret");
    machine.link("/etc/dangling", 0, "../run/new/file");
    let overlay = TempDir::new();
    let plan = System::dry_run(&machine.top as &Path, &overlay);
    assert!(
        plan.write("/home/u/link", "x", WriteOptions::default())
            .unwrap_err()
            .to_string()
            .contains("(owner uid 12345)")
    );
    assert!(plan.append("/home/u/link", "x", WriteOptions::default()).is_err());
    assert!(plan.read_to_change("/home/u/link", 9).is_err() && plan.set_mode("/home/u/link", 0o777).is_err());
    assert_eq!(plan.write("/etc/dangling", "x", WriteOptions::default()).unwrap(), Change::Created);
    assert_eq!(plan.read_text("/run/new/file").unwrap(), "x");
    assert!(!machine.host("/run").exists());
    // Each new directory is recorded, as on the machine itself.
    for sys in [plan, machine.sys] {
        sys.link("x", "/etc/deep/er/link").unwrap();
        sys.append("/etc/deep/file", "x", WriteOptions::default()).unwrap();
        sys.create_dir_all_owned("/etc/a/b", 0o700, (Some(USER), None)).unwrap();
        let made = sys.effects().into_iter().filter_map(|effect| match effect {
            crate::Effect::Directory { path, .. } if path.starts_with("/etc/") => Some(path),
            _ => None,
        });
        assert_eq!(made.collect::<Vec<_>>(), ["/etc/deep", "/etc/deep/er", "/etc/a", "/etc/a/b"]);
    }
}
