//! The next boot of an instance, and the first boot of the next instance, make no unnecessary change.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tests::Sandbox;

const CONFIG: &str = r#"#cloud-config
fqdn: aa.example.org
manage_etc_hosts: localhost
timezone: Europe/Berlin
users: [{name: root, sudo: "ALL=(ALL) ALL", doas: [permit root], ssh_authorized_keys: [ssh-ed25519 AAAA r]}]
ssh_pwauth: false
ssh_deletekeys: false
ssh_genkeytypes: []
disable_root: false
write_files: [{path: /srv/a, content: x, permissions: '0600'}, {path: /srv/late, content: y, defer: true}]
mounts: [[tmpfs, /srv/t, tmpfs]]
updates: {network: {when: [hotplug]}}
"#;

/// Returns the inode and time of change of each file below the directories.
fn files(sandbox: &Sandbox) -> BTreeMap<String, (u64, i64, i64)> {
    fn walk(directory: &Path, found: &mut BTreeMap<String, (u64, i64, i64)>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() {
                walk(&entry.path(), found);
            } else {
                found.insert(
                    entry.path().display().to_string(),
                    (meta.ino(), meta.mtime(), meta.mtime_nsec()),
                );
            }
        }
    }
    let mut found = BTreeMap::new();
    for directory in ["/etc", "/srv", "/root"] {
        walk(&sandbox.path(directory), &mut found);
    }
    assert!(found.len() > 5, "{found:?}");
    found
}

/// Returns the files that differ, one per line.
fn changed_files(
    before: &BTreeMap<String, (u64, i64, i64)>,
    after: &BTreeMap<String, (u64, i64, i64)>,
) -> String {
    let differs = |path: &&String| before.get(*path) != after.get(*path);
    let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    all.filter(differs).map(|path| format!("{path}\n")).collect()
}

#[test]
fn second_boot_writes_nothing() {
    let sandbox = Sandbox::with_user_data("again", CONFIG);
    let zone = sandbox.path("/usr/share/zoneinfo/Europe/Berlin");
    tests::write(&zone, "TZ");
    sandbox.seed("meta-data", "instance-id: i-1\nlocal-hostname: cloud\n");
    assert!(sandbox.boot().ended_normally());
    assert_eq!(sandbox.file("/etc/hostname").as_deref(), Some("aa\n"), "{}", sandbox.log());
    let first = files(&sandbox);
    for id in ["i-1", "i-2"] {
        let _ = std::fs::remove_dir_all(sandbox.path("/run/cloud-init"));
        sandbox.seed("meta-data", format!("instance-id: {id}\nlocal-hostname: cloud\n"));
        let log = sandbox.log().len();
        assert!(sandbox.boot().ended_normally());
        let log = &sandbox.log()[log..];
        if id == "i-1" {
            // The cloud's name is not set, because the configuration has another one.
            assert!(!log.contains("setting the hostname to"), "{log}");
        }
        let mut now = files(&sandbox);
        if id == "i-2" {
            // A new instance has the cloud's name until its user-data is read.
            let name = sandbox.path("/etc/hostname").display().to_string();
            now.extend(first.get_key_value(&name).map(|(name, file)| (name.clone(), *file)));
        }
        assert_eq!(changed_files(&first, &now), "", "{id}: {log}");
    }
}
