//! Temporary files that an interrupted write has left.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use scratch::TempDir;

use super::{USER, is_root};
use crate::System;

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
