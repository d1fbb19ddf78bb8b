//! Shared by the tests of whole boots, two of which compare them with the recorded outcomes of Python's cloud-init
//! (`documents/record.py`): a machine in its own directory, one boot up to the local stage, and its results.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]
#![allow(dead_code, reason = "each test has a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use config::Node;
use scratch::TempDir;

pub type Files = BTreeMap<String, Vec<u8>>;

/// Decodes bytes of a record.
pub fn decode(node: &Node) -> Vec<u8> {
    encoding::base64::decode(node.as_str().unwrap().as_bytes()).unwrap()
}

pub fn text<'a>(case: &'a Node, key: &str) -> &'a str {
    case.get(key).and_then(Node::as_str).unwrap()
}

/// Returns the names and values of a map; empty for any other value.
pub fn entries(node: Option<&Node>) -> impl Iterator<Item = (String, &Node)> {
    let map = node.and_then(Node::as_map);
    map.into_iter().flat_map(|map| map.iter()).map(|(key, value)| (key.as_str().unwrap().to_string(), value))
}

/// Returns the recorded files of a case.
pub fn recorded(case: &Node, key: &str) -> Files {
    entries(case.get(key)).map(|(name, content)| (name, decode(content))).collect()
}

pub struct Machine {
    pub root: TempDir,
    /// Whether consuming user-data and vendor-data failed.
    pub failed: bool,
    /// The warnings and errors of the log.
    pub warnings: Vec<String>,
}

impl Machine {
    /// Boots a machine with these settings, this kernel command line, these files, and those that documents include.
    pub fn boot<'a>(
        config: &str,
        line: &str,
        files: impl IntoIterator<Item = (&'a str, Vec<u8>)>,
    ) -> Machine {
        let root = TempDir::new();
        root.put("etc/cloud/cloud.cfg", format!("{config}disable_network_activation: true\n"));
        root.put("proc/cmdline", line);
        let included = "var/lib/cloud/seed/included";
        root.put(&format!("{included}/script"), b"#!/bin/sh\necho included\n");
        root.put(&format!("{included}/config"), b"#cloud-config\nincluded: 1\n");
        root.put(&format!("{included}/gzip"), include_bytes!("../documents/included.gz"));
        for (path, content) in files {
            root.put(path, content);
        }
        let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-local"))
            .args(["--root", root.to_str().unwrap()])
            .env_remove("DEBUG_PROC_CMDLINE")
            .output()
            .unwrap();
        assert!(done.status.code().is_some_and(|c| c < 101), "{done:?}");
        let log = std::fs::read_to_string(root.join("var/log/cloud-init.log")).unwrap();
        let failed = log.contains("[ERROR]: user-data and vendor-data: ");
        let levels = ["[WARNING]", "[ERROR]"];
        let problems = log.lines().filter(|line| levels.iter().any(|l| line.contains(l)));
        Machine { failed, warnings: problems.map(str::to_string).collect(), root }
    }

    /// Returns a file of the instance's directory.
    pub fn instance_file(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.root.join("var/lib/cloud/instances/i-1").join(name)).ok()
    }

    /// Returns the same as YAML.
    pub fn config(&self, name: &str) -> Option<Node> {
        self.instance_file(name).map(|bytes| config::yaml::parse_bytes(name, &bytes).unwrap().root)
    }

    /// Returns the scripts and boothooks that were written for the instance.
    pub fn scripts(&self) -> Files {
        let (mut found, instance) = (Files::new(), self.root.join("var/lib/cloud/instances/i-1"));
        for below in ["scripts", "boothooks"] {
            files(&instance, below, &mut found);
        }
        found
    }
}

/// Adds all files below a directory, by their path relative to `base`.
pub fn files(base: &Path, below: &str, found: &mut Files) {
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
