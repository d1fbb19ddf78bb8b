//! A machine first booted with Python's cloud-init: our next boot handles the same data and changes no file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use system::System;
use userdata::{Data, Dirs, Options, Raw, consume, store};

/// Where upstream's files are wrong and ours replace them or come to them.
const DIFFERENCES: &[(&str, &str, &str)] = &[];

fn files(top: &Path, below: &Path, found: &mut BTreeMap<String, (u32, i64, u64, Vec<u8>)>) {
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

/// A copy with upstream's modes, which a version control system does not keep.
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

#[test]
fn nothing_changes_on_an_upgraded_machine() {
    let recorded = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upgraded"));
    let mut seen = 0;
    for entry in fs::read_dir(recorded).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !entry.path().is_dir() {
            continue;
        }
        seen += 1;
        let top = std::env::temp_dir().join(format!("userdata-upgraded-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        copy(&entry.path(), &top);
        let raw = |file: &str| match fs::read(top.join("instance").join(file)).unwrap() {
            bytes if bytes.is_empty() => Data::Nothing,
            bytes => Data::Bytes(bytes),
        };
        let raw = Raw {
            user: raw("user-data.txt"),
            vendor: raw("vendor-data.txt"),
            vendor2: raw("vendor-data2.txt"),
        };
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        files(&top, &PathBuf::new(), &mut before);

        // The machine's own root, so that boothooks find their interpreter; the files are the copy's.
        let sys = System::new("/");
        let path = |below: &str| format!("{}{below}", top.display());
        let dirs = Dirs { cloud: path(""), instance: path("/instance") };
        let stored = store(&sys, &dirs, &raw);
        let config =
            config::yaml::parse("built in", "vendor_data: {enabled: true}\nvendor_data2: {enabled: true}\n")
                .unwrap()
                .root;
        let options = Options { config: &config, instance_id: "i-1", launch_index: None };
        consume(&sys, &dirs, &stored, &options).unwrap();

        files(&top, &PathBuf::new(), &mut after);
        let paths: Vec<&String> =
            before.keys().chain(after.keys().filter(|k| !before.contains_key(*k))).collect();
        for path in paths {
            let expected = DIFFERENCES.iter().any(|(n, p, _)| *n == name && p == path);
            let shown = |files: &BTreeMap<_, (_, _, _, Vec<u8>)>| {
                files.get(path).map(|f| String::from_utf8_lossy(&f.3).into_owned())
            };
            let (was, is) = (shown(&before), shown(&after));
            assert_eq!(
                before.get(path) != after.get(path),
                expected,
                "{name}: {path}\nwas: {was:?}\nis: {is:?}"
            );
        }
        fs::remove_dir_all(&top).unwrap();
    }
    assert!(seen >= 12, "recorded machines are missing");
}
