//! Links of every kind, whose owners and directories differ, and a user who replaces files while root writes. Changing
//! the owner of files requires root.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Change, System, WriteOptions};
use scratch::TempDir;

const USER: u32 = 12345;
const OTHER: u32 = 12346;

fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        // Not by a macro, because the test harness captures its output.
        let _ = writeln!(std::io::stderr(), "not tried: test {test}: needs root");
    }
    root
}

/// A machine: an image, or the running one with all paths below a directory.
struct Machine {
    sys: System,
    top: TempDir,
    prefix: String,
}

impl Machine {
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    fn host(&self, path: &str) -> std::path::PathBuf {
        self.top.join(path.trim_start_matches('/'))
    }

    fn link(&self, path: &str, owner: u32, target: &str) {
        let target = if target.starts_with('/') { self.at(target) } else { target.into() };
        symlink(target, self.host(path)).unwrap();
        lchown(self.host(path), Some(owner), None).unwrap();
    }

    fn owner(&self, path: &str) -> u32 {
        self.host(path).symlink_metadata().unwrap().uid()
    }
}

/// Runs on an image and on the running machine, each with openat2(2) and without.
fn machines() -> Vec<Machine> {
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    let machine = |(live, walks)| {
        let top = TempDir::new();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        for (dir, mode, owner) in [
            ("etc", 0o755, 0),
            ("home", 0o755, 0),
            ("home/u", 0o755, USER),
            ("home/u/sub", 0o700, USER),
            ("open", 0o777, 0),
            ("group", 0o775, 0),
            ("sticky", 0o1777, 0),
        ] {
            fs::create_dir(top.join(dir)).unwrap();
            fs::set_permissions(top.join(dir), fs::Permissions::from_mode(mode)).unwrap();
            chown(top.join(dir), Some(owner), Some(owner)).unwrap();
        }
        // The user's group may write here.
        chown(top.join("group"), None, Some(USER)).unwrap();
        for (file, owner) in
            [("etc/secret", 0), ("home/u/own", USER), ("home/u/of-root", 0), ("home/u/other", OTHER)]
        {
            top.put(file, "old");
            fs::set_permissions(top.join(file), fs::Permissions::from_mode(0o600)).unwrap();
            chown(top.join(file), Some(owner), Some(owner)).unwrap();
        }
        let sys = if live { System::new("/") } else { System::new(&top) };
        if walks {
            sys.root().cache().no_openat2.set(true);
        }
        let prefix = if live { top.to_string_lossy().into_owned() } else { String::new() };
        Machine { sys, top, prefix }
    };
    kinds.into_iter().map(machine).collect()
}

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

/// Returns everything except links, with owner, mode and content.
fn tree(top: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(top).unwrap().map(|e| e.unwrap().path()) {
        let meta = entry.symlink_metadata().unwrap();
        let text = if meta.is_file() { fs::read_to_string(&entry).unwrap() } else { String::new() };
        all.push(format!("{} {} {:o} {text}", entry.display(), meta.uid(), meta.mode()));
        if meta.is_dir() {
            all.extend(tree(&entry));
        }
    }
    all.sort();
    all
}

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
fn proc_magic_links() {
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
fn hard_links_among_roots_own_files() {
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

/// The owner of a directory swaps its content for links to root's files while root writes there.
#[test]
fn racing_renames_do_not_change_roots_files() {
    const TURNS: u32 = 500;
    if !is_root("a race with a user") {
        return;
    }
    for m in machines() {
        m.link("/group/link", 0, "/home/u/own");
        let (home, group) = (m.host("/home/u"), m.host("/group"));
        let (secret, etc) = (m.host("/etc/secret"), m.host("/etc"));
        let over = AtomicBool::new(false);
        let swap = |path: &Path, target: &Path| {
            let _ = fs::remove_file(path);
            let _ = symlink(target, path);
        };
        let mine = (Some(USER), Some(USER));
        // Before the race begins: a panic in it would leave the other thread running.
        fs::create_dir(home.join("d")).unwrap();
        chown(home.join("d"), mine.0, mine.1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // This thread has the user's file system ID and permissions.
                nix::unistd::setfsgid(nix::unistd::Gid::from_raw(USER));
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(USER));
                assert!(fs::write(&secret, "x").is_err());
                let mut turn = 0;
                while !over.load(Ordering::Relaxed) {
                    turn += 1;
                    for dir in [&home, &home.join("d")] {
                        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                            if entry.file_name().to_string_lossy().starts_with('.') {
                                swap(&entry.path(), &secret);
                            }
                        }
                    }
                    swap(&home.join("secret"), &secret);
                    // Root's link, swapped and restored.
                    let _ = fs::rename(group.join("link"), group.join("away"));
                    swap(&group.join("link"), &secret);
                    let _ = fs::rename(group.join("away"), group.join("link"));
                    // The directory itself, swapped and restored.
                    if turn % 2 == 0 {
                        let _ = fs::rename(home.join("d"), home.join("away"));
                        swap(&home.join("d"), &etc);
                    } else {
                        let _ = fs::remove_file(home.join("d"));
                        let _ = fs::rename(home.join("away"), home.join("d"));
                    }
                    let _ = fs::hard_link(&secret, home.join("secret"));
                    let _ = fs::remove_dir_all(home.join("new"));
                    swap(&home.join("new"), &etc);
                    let _ = fs::remove_file(home.join("new"));
                }
            });
            let how = WriteOptions::mode(0o666).owner(mine);
            let (mut done, mut refused) = (0, 0);
            for turn in 0..TURNS {
                for path in ["/home/u/secret", "/home/u/d/secret", "/group/link"].map(|p| m.at(p)) {
                    let results = [
                        m.sys.write(&path, turn.to_string(), how).map(drop),
                        m.sys.append_as(&path, "x", how),
                        m.sys.set_owner(&path, mine),
                        m.sys.set_mode(&path, 0o666),
                        if path.ends_with("link") { Ok(()) } else { m.sys.remove(&path).map(drop) },
                    ];
                    done += results.iter().filter(|r| r.is_ok()).count();
                    refused += results.iter().filter(|r| r.is_err()).count();
                }
                let _ = m.sys.create_dir_all_owned(m.at("/home/u/new/er"), 0o777, mine);
            }
            over.store(true, Ordering::Relaxed);
            assert!(done > 0 && refused > 0, "no race: {done} done, {refused} refused");
        });
        let meta = fs::metadata(&secret).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777, meta.len()), (0, 0o600, 3));
        let meta = fs::metadata(&etc).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777), (0, 0o755));
        assert_eq!(fs::read_dir(&etc).unwrap().count(), 1);
    }
}

#[test]
fn stale_temporary_files_are_removed() {
    let top = TempDir::new();
    let new = |path: &str| {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let swept = ["d/.a.1.new", "d/.b.c.18446744073709551615.new", "d/x/.a.7.new", "d/x/y/.link.3.new"];
    let kept = [
        "d/.a.new",
        "d/a.1.new",
        "d/.a.1.old",
        "d/..1.new",
        "d/.a.01.new",
        "d/.a.18446744073709551616.new",
        "d/.linked.5.new",
        "d/x/y/z/.deep.1.new",
        "elsewhere/.a.1.new",
    ];
    kept.iter().chain(&swept[..3]).for_each(|path| new(path));
    fs::create_dir_all(top.join("d/x/y")).unwrap();
    symlink("nowhere", top.join(swept[3])).unwrap();
    // A second name, and a directory that is reached through a link only.
    fs::hard_link(top.join("d/.linked.5.new"), top.join("elsewhere/name")).unwrap();
    symlink("../elsewhere", top.join("d/link")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let sys = System::new(&top);
    // File systems have the resolution of the kernel's tick.
    std::thread::sleep(std::time::Duration::from_millis(20));
    new("d/.later.9.new");
    assert_eq!(sys.remove_stale_temporaries("/d", 2).unwrap(), swept.len());
    for path in swept {
        assert!(top.join(path).symlink_metadata().is_err(), "{path}");
    }
    for path in kept.iter().chain(&["d/.later.9.new", "d/link"]) {
        assert!(top.join(path).symlink_metadata().is_ok(), "{path}");
    }
    assert!(sys.remove_stale_temporaries("/nothing", 2).unwrap_err().is_not_found());
}

#[test]
fn temporary_files_of_others_stay() {
    if !is_root("temporary_files_of_others_stay") {
        return;
    }
    let top = TempDir::new();
    for (dir, owner, name_owner) in [("user", USER, 0), ("ours", 0, USER)] {
        fs::create_dir(top.join(dir)).unwrap();
        let name = top.join(dir).join(".a.1.new");
        fs::write(&name, "").unwrap();
        chown(&name, Some(name_owner), None).unwrap();
        chown(top.join(dir), Some(owner), None).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(System::new(&top).remove_stale_temporaries("/", 2).unwrap(), 0);
}
