//! Symbolic links on a running machine: root's links are followed even if they dangle; users' links are followed only
//! to files that the user owns.

use std::path::Path;

use tests::{Boot, Sandbox};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx bob@example";

fn link(sandbox: &Sandbox, path: &str, target: &str) {
    let path = sandbox.path(path);
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::os::unix::fs::symlink(target, &path)).expect("the machine's directory is ours");
}

/// Returns the details for a failure.
fn details(sandbox: &Sandbox, boot: &Boot) -> String {
    format!("{:?}\n{}\n{}\n{}", boot.codes, boot.output, sandbox.warnings().join("\n"), sandbox.status())
}

/// Debian without the package `locales` has a link to a missing file.
#[test]
fn dangling_system_links_are_written_through() {
    for live in [false, true] {
        let sandbox = Sandbox::with_user_data("links-default", "");
        let sandbox = if live { sandbox.live() } else { sandbox };
        link(&sandbox, "/etc/default/locale", "../locale.conf");
        link(&sandbox, "/etc/hostname", "/srv/later/hostname");
        let boot = sandbox.boot();
        assert!(boot.ended_normally() && boot.succeeded(), "{}", details(&sandbox, &boot));
        assert!(sandbox.warnings().is_empty(), "{}", details(&sandbox, &boot));
        let locale = sandbox.file("/etc/locale.conf").unwrap_or_default();
        assert!(locale.contains("LANG="), "live {live}: {locale}");
        assert!(sandbox.file("/srv/later/hostname").is_some(), "live {live}");
        assert!(
            sandbox.path("/etc/default/locale").is_symlink() && sandbox.path("/etc/hostname").is_symlink()
        );
    }
}

#[test]
fn user_links_do_not_reach_root_files() {
    let user_data = format!(
        "#cloud-config\n\
         users:\n- {{name: bob, ssh_authorized_keys: ['{KEY}']}}\n- {{name: nohome, no_create_home: true}}\n\
         write_files:\n\
         - {{path: /etc/resolv.conf, content: 'nameserver 192.0.2.1'}}\n\
         - {{path: /home/bob/conf, content: new, owner: bob, defer: true}}\n\
         - {{path: /home/bob/notes, content: new, owner: bob, append: true, defer: true}}\n\
         - {{path: /home/bob/dir/new/file, content: new, owner: bob, defer: true}}\n\
         - {{path: /home/bob/mine, content: new, owner: bob, defer: true}}\n\
         runcmd:\n- touch /srv/ran\n"
    );
    let before = "touch $root/etc/known; chmod 600 $root/etc/known; mkdir -p $root/home/bob/.ssh; cd $root/home/bob;\
         ln -s /etc/ld.so.preload .ssh/authorized_keys; ln -s /etc/known conf; ln -s ../../etc/known notes;\
         ln -s /etc dir; ln -s own mine; chown -hR 1000:1000 .; cd /; echo bob:x:1000:1000::/home/bob:/bin/sh >>$root/etc/passwd;\
         echo bob:x:1000: >>$root/etc/group; echo 'bob:*:20000::::::' >>$root/etc/shadow";
    for live in [false, true] {
        let sandbox = Sandbox::with_user_data("links-user", &user_data).before("local", before);
        let sandbox = if live { sandbox.live() } else { sandbox };
        link(&sandbox, "/etc/resolv.conf", "../run/resolve/stub.conf");
        let boot = sandbox.boot();
        let shown = details(&sandbox, &boot);
        assert!(boot.ended_normally() && sandbox.path("/srv/ran").exists(), "{shown}");
        let exists = |path: &str| Path::new(&sandbox.path(path)).exists();
        assert_eq!(
            sandbox.file("/run/resolve/stub.conf").as_deref(),
            Some("nameserver 192.0.2.1"),
            "{shown}"
        );
        // The targets are unchanged and owned by root; each is named.
        assert!(!exists("/etc/ld.so.preload") && !exists("/etc/new"), "{shown}");
        assert_eq!(sandbox.file("/etc/known").as_deref(), Some(""), "{shown}");
        for name in [".ssh/authorized_keys", "conf", "notes", "dir"] {
            let refusal = format!("refusing to follow symlink /home/bob/{name} (owner uid 1000)");
            assert!(sandbox.warnings().iter().any(|line| line.contains(&refusal)), "{name}\n{shown}");
        }
        // Users' own files are written, and the users can log in: sshd reads this file too.
        assert_eq!(sandbox.file("/home/bob/own").as_deref(), Some("new"), "{shown}");
        assert_eq!(sandbox.file("/home/bob/.ssh/authorized_keys2"), Some(format!("{KEY}\n")), "{shown}");
        let owner =
            |path: &str| std::os::unix::fs::MetadataExt::uid(&sandbox.path(path).metadata().expect(path));
        assert_eq!(owner("/home/bob/own"), owner("/home/bob/.ssh/authorized_keys2"));
        assert_ne!(owner("/etc/known"), owner("/home/bob/own"));
    }
}
