//! Documents of user-data through the whole local stage, which consumes them where the metadata say `dsmode: local`:
//! the merged cloud-config and all scripts are what Python's cloud-init 26.2 made of them
//! (`documents/record.py`), or the difference is listed with its reason. What is broken is said.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use config::Node;

/// Beginnings of names, and why we answer otherwise.
const DIFFERENCES: &[(&str, &str)] = &[
    ("config-good-1-multipart", "upstream fails on 8-bit text in MIME parts"),
    ("config-good-1-packed", "upstream fails on 8-bit text in MIME parts"),
    ("charset-iso-8859-1", "upstream fails on 8-bit text in MIME parts"),
    ("charset-windows-1252", "upstream fails on 8-bit text in MIME parts"),
    ("archive-in-archive", "upstream hands an archive's items out as they are; here they are expanded"),
    ("include-in-archive", "upstream hands an archive's items out as they are; here they are expanded"),
    ("jinja-no-blank", "upstream's guides have this spelling, its detection has not"),
    ("jinja-jsonp", "upstream takes a patch that was a template for a cloud-config"),
    ("jinja-include", "upstream expands includes before templates"),
];

type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug, PartialEq)]
struct Outcome {
    files: Files,
    config: Option<Node>,
    failed: bool,
}

fn files(base: &Path, below: &str, found: &mut Files) {
    let Ok(entries) = std::fs::read_dir(base.join(below)) else { return };
    for entry in entries.map(|e| e.unwrap()) {
        let name = format!("{below}/{}", entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            files(base, &name, found);
        } else {
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
}

/// One boot as far as the local stage, in a directory. The outcome, and what was logged from WARNING on.
fn boot(root: &Path, data: &[u8]) -> (Outcome, Vec<String>) {
    let _ = std::fs::remove_dir_all(root);
    let put = |path: &str, content: &[u8]| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    put(
        "etc/cloud/cloud.cfg",
        b"datasource_list: [NoCloud]\ndisable_network_activation: true\nnetwork: {config: disabled}\n",
    );
    put("proc/cmdline", b"quiet\n");
    let seed = "var/lib/cloud/seed";
    put(&format!("{seed}/included/script"), b"#!/bin/sh\necho included\n");
    put(&format!("{seed}/included/config"), b"#cloud-config\nincluded: 1\n");
    put(&format!("{seed}/included/gzip"), include_bytes!("documents/included.gz"));
    put(&format!("{seed}/nocloud/meta-data"), b"instance-id: i-1\nlocal-hostname: web-1\ndsmode: local\n");
    put(&format!("{seed}/nocloud/user-data"), data);
    let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-local"))
        .args(["--root", root.to_str().unwrap()])
        .env_remove("DEBUG_PROC_CMDLINE")
        .output()
        .unwrap();
    assert!(done.status.code().is_some_and(|c| c < 101), "{done:?}");
    let cloud = root.join("var/lib/cloud");
    let instance = cloud.join("instances/i-1");
    let mut found = Files::new();
    files(&instance, "scripts", &mut found);
    files(&instance, "boothooks", &mut found);
    for kind in ["per-boot", "per-instance", "per-once"] {
        files(&cloud, &format!("scripts/{kind}"), &mut found);
    }
    let config = std::fs::read_to_string(instance.join("cloud-config.txt")).ok();
    let config = config.map(|text| config::yaml::parse("cloud-config.txt", &text).unwrap().root);
    let log = std::fs::read_to_string(root.join("var/log/cloud-init.log")).unwrap();
    assert_eq!(std::fs::read(instance.join("user-data.txt")).unwrap(), data);
    let failed = log.contains("[ERROR]: user-data and vendor-data: ");
    let levels = ["[WARNING]", "[ERROR]"];
    let said =
        log.lines().filter(|line| levels.iter().any(|l| line.contains(l))).map(str::to_string).collect();
    (Outcome { files: found, config, failed }, said)
}

#[test]
fn as_upstream() {
    let root: PathBuf = std::env::temp_dir().join(format!("documents-{}", std::process::id()));
    let cases = config::yaml::parse("documents", include_str!("documents/documents.json")).unwrap().root;
    let cases = cases.as_seq().unwrap();
    assert!(cases.len() >= 200, "documents are missing");
    let mut wrong = Vec::new();
    let mut used = vec![false; DIFFERENCES.len()];
    for case in cases {
        let text = |key: &str| case.get(key).and_then(Node::as_str).unwrap();
        let decode = |text: &str| encoding::base64::decode(text.as_bytes()).unwrap();
        let name = text("name");
        let (ours, said) = boot(&root, &decode(text("data")));
        let upstream = Outcome {
            files: case
                .get("files")
                .and_then(Node::as_map)
                .unwrap()
                .iter()
                .map(|(path, content)| {
                    (path.as_str().unwrap().to_string(), decode(content.as_str().unwrap()))
                })
                .collect(),
            config: case.get("config").cloned().filter(|config| !config.is_null()).or(ours
                .config
                .as_ref()
                .filter(|c| c.is_null())
                .cloned()),
            failed: case.get("failed").and_then(Node::as_bool).unwrap(),
        };
        let differs = DIFFERENCES.iter().position(|(begin, _)| name.starts_with(begin));
        if let Some(at) = differs {
            used[at] |= ours != upstream;
        } else if ours != upstream {
            wrong.push(format!("{name}:\n  ours {ours:?}\n  upstream {upstream:?}\n  {said:?}"));
        }
        if name.contains("-broken-") && said.is_empty() {
            wrong.push(format!("{name}: nothing is said"));
        }
    }
    let _ = std::fs::remove_dir_all(&root);
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(used.iter().all(|used| *used), "a difference is listed that is none: {used:?}");
}
