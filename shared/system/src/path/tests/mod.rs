//! Links of every kind, whose owners and directories differ, and a user who replaces files while root writes. Changing
//! the owner of files requires root.

mod links;
mod races;
mod temporaries;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use scratch::{TempDir, is_root};

use crate::System;

const USER: u32 = 12345;
const OTHER: u32 = 12346;

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
