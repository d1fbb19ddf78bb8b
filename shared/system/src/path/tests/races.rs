//! A user who replaces files while root writes.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{USER, is_root, machines};
use crate::WriteOptions;

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
