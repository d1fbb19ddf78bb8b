//! Modules that work in home directories, with users' own links and files in them. Changing owners requires root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use scratch::is_root;
use system::WriteOptions;

use crate::accounts::authorized_keys;
use crate::tests::sandbox::Sandbox;
use crate::{ssh_authkey_fingerprints, write_files};

const BOB: u32 = 12345;
const KEYS: &str = "/home/bob/.ssh/authorized_keys";
const KEY: &str = "ssh-ed25519 AAAAC3Nz me@x";

/// A machine with a user bob, whose home directory has files that bob created.
fn machine(config: &str) -> Sandbox {
    let sandbox = Sandbox::new(config);
    let put = |path: &str, text: &str| sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
    put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nbob:x:12345:12345::/home/bob:/bin/sh\n");
    put("/etc/group", "root:x:0:\nbob:x:12345:\n");
    let own = (Some(BOB), Some(BOB));
    sandbox.sys.create_dir_all("/home", 0o755).unwrap();
    sandbox.sys.create_dir_all_owned("/home/bob/.ssh", 0o700, own).unwrap();
    sandbox.sys.write("/home/bob/own", "", WriteOptions::secret().owner(own)).unwrap();
    sandbox
}

fn link(sandbox: &Sandbox, path: &str, target: &str) {
    let host = sandbox.top.join(path.trim_start_matches('/'));
    symlink(target, &host).unwrap();
    lchown(host, Some(BOB), Some(BOB)).unwrap();
}

fn owner(sandbox: &Sandbox, path: &str) -> u32 {
    sandbox.top.join(path.trim_start_matches('/')).symlink_metadata().unwrap().uid()
}

#[test]
fn authorized_keys_do_not_follow_a_users_link_to_root() {
    if !is_root("links of others") {
        return;
    }
    let install = |sandbox: &Sandbox| authorized_keys::install(&sandbox.sys, "bob", &[KEY.to_string()], "");
    for target in ["/etc/ld.so.preload", "/etc/passwd", "../../../etc/new", "/proc/self/fd/0"] {
        // sshd also reads authorized_keys2; the key is installed there.
        let sandbox = machine("");
        link(&sandbox, KEYS, target);
        install(&sandbox).unwrap();
        let second = format!("{KEYS}2");
        assert_eq!(sandbox.file(&second), (format!("{KEY}\n"), 0o600), "{target}");
        assert_eq!(owner(&sandbox, &second), BOB);
        let logged_warnings = sandbox.logged_warnings().join("\n");
        let wanted = format!(
            "refusing to follow symlink {KEYS} (owner uid 12345): target not owned by uid 12345; using"
        );
        assert!(logged_warnings.contains(&wanted), "{logged_warnings}");
        // No file of root has become bob's.
        assert_eq!(owner(&sandbox, "/etc/passwd"), 0);
        assert!(!sandbox.sys.exists("/etc/ld.so.preload") && !sandbox.sys.exists("/etc/new"));
        // If sshd_config names only authorized_keys, installation fails.
        let sandbox = machine("");
        let setting = "AuthorizedKeysFile .ssh/authorized_keys\n";
        sandbox.sys.write("/etc/ssh/sshd_config", setting, WriteOptions::default()).unwrap();
        link(&sandbox, KEYS, target);
        let error = install(&sandbox).unwrap_err().to_string();
        assert!(
            error.starts_with("authorized keys of bob: ") && error.contains("not owned by uid 12345"),
            "{error}"
        );
        assert!(!sandbox.sys.exists(&second));
    }
    for target in ["../own", "/home/bob/.ssh/new", "/home/bob/made/new"] {
        let sandbox = machine("");
        link(&sandbox, KEYS, target);
        install(&sandbox).unwrap();
        assert!(
            sandbox.sys.is_link(KEYS) && sandbox.logged_warnings().is_empty(),
            "{:?}",
            sandbox.logged_warnings()
        );
        assert_eq!(sandbox.file(KEYS), (format!("{KEY}\n"), 0o600), "{target}");
        assert_eq!(sandbox.sys.metadata(KEYS).unwrap().uid(), BOB, "{target}");
    }
    // A hard link gives root's file a name in bob's directory.
    let sandbox = machine("");
    std::fs::hard_link(sandbox.top.join("etc/passwd"), sandbox.top.join(&KEYS[1..])).unwrap();
    install(&sandbox).unwrap();
    assert_eq!((owner(&sandbox, "/etc/passwd"), owner(&sandbox, &format!("{KEYS}2"))), (0, BOB));
}

/// Returns every path with owner and mode.
fn tree(top: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for path in std::fs::read_dir(top).unwrap().map(|e| e.unwrap().path()) {
        let meta = path.symlink_metadata().unwrap();
        all.push(format!("{} {} {:o}", path.display(), meta.uid(), meta.permissions().mode()));
        if meta.is_dir() {
            all.extend(tree(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn fingerprints_create_no_files() {
    for setting in ["", "AuthorizedKeysFile /etc/keys/%u .ssh/authorized_keys\n"] {
        let sandbox = Sandbox::new("users: [bob, eve, gone]");
        let passwd = "bob:x:12345:12345::/home/bob:/bin/sh\neve:x:7:7::/srv/eve:/bin/sh\n";
        sandbox.sys.write("/etc/passwd", passwd, WriteOptions::default()).unwrap();
        sandbox.sys.write("/etc/ssh/sshd_config", setting, WriteOptions::default()).unwrap();
        sandbox.sys.create_dir_all("/home/bob", 0o755).unwrap();
        let before = tree(&sandbox.top);
        sandbox.run(&ssh_authkey_fingerprints::MODULE).unwrap();
        assert_eq!(tree(&sandbox.top), before);
        assert!(sandbox.logged_warnings().is_empty(), "{:?}", sandbox.logged_warnings());
    }
}

#[test]
fn a_missing_home_is_created_for_keys() {
    let sandbox = Sandbox::new("");
    let me = std::fs::metadata(&sandbox.top).unwrap();
    let passwd = format!("bob:x:{}:{}::/srv/bob:/bin/sh\n", me.uid(), me.gid());
    sandbox.sys.write("/etc/passwd", passwd, WriteOptions::default()).unwrap();
    authorized_keys::install(&sandbox.sys, "bob", &[KEY.to_string()], "").unwrap();
    let mode = |path| sandbox.sys.metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("/srv"), mode("/srv/bob"), mode("/srv/bob/.ssh")), (0o755, 0o755, 0o700));
}

#[test]
fn write_files_does_not_follow_a_users_link_to_root() {
    if !is_root("links of others") {
        return;
    }
    for more in ["", ", append: true", ", owner: 'bob:bob'", ", owner: 'bob:bob', append: true"] {
        let config = |path: &str| format!("write_files: [{{path: {path}, content: new{more}}}]");
        for (target, path) in [
            ("/etc/passwd", "/home/bob/link"),
            ("/etc/new", "/home/bob/link"),
            ("/etc", "/home/bob/link/passwd"),
            ("/etc", "/home/bob/link/made/new"),
        ] {
            let sandbox = machine(&config(path));
            link(&sandbox, "/home/bob/link", target);
            let before = tree(&sandbox.top.join("etc"));
            sandbox.run(&write_files::MODULE).unwrap_err();
            let logged_warnings = sandbox.logged_warnings().join("\n");
            assert!(
                logged_warnings.contains("refusing to follow symlink /home/bob/link (owner uid 12345)"),
                "{logged_warnings}"
            );
            assert_eq!(tree(&sandbox.top.join("etc")), before, "{path} -> {target}{more}");
            assert!(!sandbox.sys.read_text("/etc/passwd").unwrap().contains("new"));
        }
        let sandbox = machine(&config("/home/bob/link"));
        link(&sandbox, "/home/bob/link", "own");
        sandbox.run(&write_files::MODULE).unwrap();
        assert_eq!(sandbox.file("/home/bob/own"), ("new".into(), 0o644), "{more}");
        // A link owned by root is followed, even into a missing directory.
        let sandbox = machine(&config("/etc/name"));
        sandbox.sys.link("../run/later/name", "/etc/name").unwrap();
        sandbox.run(&write_files::MODULE).unwrap();
        assert_eq!(sandbox.file("/run/later/name").0, "new", "{more}");
    }
    let sandbox = machine("write_files: [{path: /home/bob/hard, content: x, append: true, owner: bob}]");
    let hard = sandbox.top.join("home/bob/hard");
    std::fs::hard_link(sandbox.top.join("etc/passwd"), &hard).unwrap();
    sandbox.run(&write_files::MODULE).unwrap_err();
    assert_eq!(owner(&sandbox, "/etc/passwd"), 0);
    // Opening a FIFO without a reader does not block.
    let sandbox = machine("write_files: [{path: /home/bob/fifo, content: x, append: true}]");
    let fifo = sandbox.top.join("home/bob/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    chown(fifo, Some(BOB), Some(BOB)).unwrap();
    sandbox.run(&write_files::MODULE).unwrap_err();
}
