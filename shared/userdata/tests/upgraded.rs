//! A machine that was first booted with Python's cloud-init: the next boot with this program handles the same data and
//! changes no file; and a first boot with this program writes the same files with the same content.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use system::System;
use userdata::{Data, Dirs, Options, RawData, consume, store};

/// Files with an equivalent but different content.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("utf8", "instance/user-data.txt.i", "upstream writes U+FFFD for each byte beyond ASCII"),
    (
        "archive",
        "instance/user-data.txt.i",
        "upstream names a charset and an encoding for an archive's items",
    ),
    ("alias", "instance/cloud-config.txt", "upstream writes anchors and aliases where a value stands twice"),
    ("full", "instance/cloud-config.txt", "a date is a string here, so it is quoted"),
];

/// Returns path → mode, time, inode and content.
type Files = BTreeMap<String, (u32, i64, u64, Vec<u8>)>;

fn files(top: &Path, below: &Path, found: &mut Files) {
    for entry in fs::read_dir(top.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        let meta = fs::metadata(top.join(&path)).unwrap();
        if meta.is_dir() {
            files(top, &path, found);
        } else {
            let content = fs::read(top.join(&path)).unwrap();
            let seen = (meta.mode() & 0o7777, meta.mtime_nsec(), meta.ino(), content);
            found.insert(path.display().to_string(), seen);
        }
    }
}

/// Returns a copy with upstream's modes, which a version control system does not store.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        fs::copy(&path, &target).unwrap();
        let text = path.display().to_string();
        let script = text.contains("/scripts/") || text.contains("/boothooks/");
        fs::set_permissions(&target, fs::Permissions::from_mode(if script { 0o700 } else { 0o600 })).unwrap();
    }
}

/// Handles the raw files of a recorded machine below another directory; returns all resulting files.
fn boot(recorded: &Path, top: &Path) -> Files {
    let files_of = |file: &str| fs::read(recorded.join("instance").join(file)).unwrap();
    let kept = ["user-data.txt", "vendor-data.txt", "vendor-data2.txt"].map(files_of);
    let [user, vendor, vendor2] = kept.each_ref().map(|bytes| match &bytes[..] {
        [] => Data::Nothing,
        bytes => Data::Bytes(bytes),
    });
    let raw = RawData { user, vendor, vendor2, ..RawData::default() };
    // The host's root, so that boothooks find their interpreter; the files are below the directory.
    let sys = System::new("/");
    let path = |below: &str| format!("{}{below}", top.display());
    let dirs = Dirs { cloud: path(""), instance: path("/instance"), ..Dirs::default() };
    let stored = store(&sys, &dirs, &raw);
    let built_in = "vendor_data: {enabled: true}\nvendor_data2: {enabled: true}\n";
    let config = config::yaml::parse("built in", built_in).unwrap().root;
    let options = Options {
        config: &config,
        instance_id: "i-1",
        launch_index: None,
        first_boot: true,
        event: "init-network",
        instance_data: "/nonexistent",
    };
    let consumed = consume(&sys, &dirs, &stored, &options);
    assert!(consumed.failed.is_empty(), "{:?}", consumed.failed);
    let mut after = Files::new();
    files(top, &PathBuf::new(), &mut after);
    after
}

fn machines() -> Vec<(String, PathBuf, PathBuf)> {
    let recorded = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upgraded"));
    let mut found = Vec::new();
    for entry in fs::read_dir(recorded).unwrap().map(|e| e.unwrap()).filter(|e| e.path().is_dir()) {
        let name = entry.file_name().into_string().unwrap();
        let thread = format!("{:?}", std::thread::current().id());
        let top = std::env::temp_dir().join(format!("userdata-{}-{thread}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(&top).unwrap();
        found.push((name, entry.path(), top));
    }
    assert!(found.len() >= 12, "recorded machines are missing");
    found
}

#[test]
fn upgraded_machine_is_unchanged() {
    for (name, recorded, top) in machines() {
        copy(&recorded, &top);
        let mut before = Files::new();
        files(&top, &PathBuf::new(), &mut before);
        let after = boot(&recorded, &top);
        for (path, (.., is)) in &after {
            let was = before.get(path).map(|f| String::from_utf8_lossy(&f.3));
            assert_eq!(
                before.get(path),
                after.get(path),
                "{name}: {path}\nwas: {was:?}\nis: {:?}",
                String::from_utf8_lossy(is)
            );
        }
        assert_eq!(before.len(), after.len(), "{name}: files are missing");
        fs::remove_dir_all(&top).unwrap();
    }
}

/// The digits of a boundary are random in upstream's files.
fn without_boundaries(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    let marked = text.split_once("boundary=\"").and_then(|(_, rest)| rest.split_once('"'));
    match marked.map(|(boundary, _)| boundary.to_string()) {
        Some(boundary) if text.starts_with("Content-Type: multipart/mixed") => {
            text.replace(&boundary, "BOUNDARY")
        }
        _ => text,
    }
}

#[test]
fn first_boot_writes_the_same_files() {
    let mut wrong = Vec::new();
    for (name, recorded, top) in machines() {
        copy(&recorded, &top);
        let mut upstream = Files::new();
        files(&top, &PathBuf::new(), &mut upstream);
        fs::remove_dir_all(&top).unwrap();
        fs::create_dir_all(&top).unwrap();
        // The included file does not exist any more, but its cached copy does.
        if recorded.join("instance/data").is_dir() {
            copy(&recorded.join("instance/data"), &top.join("instance/data"));
        }
        let ours = boot(&recorded, &top);
        let paths = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(&upstream), paths(&ours), "{name}");
        for (path, (mode, .., theirs)) in &upstream {
            let (our_mode, .., ours) = &ours[path];
            assert_eq!(our_mode, mode, "{name}: {path}");
            let (theirs, ours) = (without_boundaries(theirs), without_boundaries(ours));
            let expected = DIFFERENCES.iter().any(|(n, p, _)| *n == name && p == path);
            if (theirs == ours) == expected {
                wrong.push(format!("{name}: {path}\nupstream:\n{theirs}\nours:\n{ours}\n"));
            }
        }
        fs::remove_dir_all(&top).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
