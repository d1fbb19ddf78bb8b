//! A machine in a directory of its own, and what a datasource finds on it.

#![allow(dead_code, clippy::unwrap_used)]

use datasource::{Nic, Nics, Outcome, Same, Search, Stage, datasource, search};
use scratch::TempDir;
use serde_json::Value;
use state::{Instance, Layout};
use system::{Result, System, WriteOptions};

struct Given(Nics);

impl datasource::Machine for Given {
    fn nics(&self) -> Nics {
        self.0.clone()
    }

    fn await_devices(&self) {}
}

/// Made anew for each test, removed with it.
pub struct Machine {
    top: TempDir,
    pub sys: System,
    pub config: config::Node,
    pub command_line: String,
    pub stage: Stage,
    pub has_cached: bool,
    nics: Given,
}

impl Machine {
    pub fn new() -> Machine {
        let top = TempDir::new();
        Machine {
            sys: System::new(&top),
            top,
            config: config::Node::null(),
            command_line: String::new(),
            stage: Stage::Local,
            has_cached: false,
            nics: Given(Nics::default()),
        }
    }

    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Machine {
        self.sys.write(path, content, WriteOptions::default()).unwrap();
        self
    }

    /// Files below a directory.
    pub fn files(self, directory: &str, files: &[(&str, &str)]) -> Machine {
        files.iter().fold(self, |m, (name, text)| m.file(&format!("{directory}/{name}"), text))
    }

    /// A NoCloud seed's metadata and user-data below a directory.
    pub fn seed(self, directory: &str, meta: &str, user: &str) -> Machine {
        self.files(directory, &[("meta-data", meta), ("user-data", user)])
    }

    pub fn config(mut self, yaml: &str) -> Machine {
        self.config = config::yaml::parse("test.cfg", yaml).unwrap().root;
        self
    }

    pub fn line(mut self, text: &str) -> Machine {
        self.command_line = text.into();
        self
    }

    /// NICs by their names, with the MACs 02:00:00:00:00:01 and on.
    pub fn nics(mut self, names: &[&str]) -> Machine {
        let nic = |(i, name): (usize, &&str)| Nic {
            name: (*name).into(),
            mac: format!("02:00:00:00:00:0{}", i + 1),
            driver: None,
        };
        let all: Vec<Nic> = names.iter().enumerate().map(nic).collect();
        self.nics = Given(Nics { likely: all.clone(), configurable: all, netplan: false });
        self
    }

    /// What firmware says, by its names below /sys/class/dmi/id.
    pub fn firmware(self, files: &[(&str, &str)]) -> Machine {
        self.files("/sys/class/dmi/id", files)
    }

    pub fn network_stage(mut self) -> Machine {
        self.stage = Stage::Network;
        self
    }

    pub fn host(&self, path: &str) -> std::path::PathBuf {
        self.sys.root().host(path)
    }

    fn with<T>(&self, ask: impl FnOnce(&Search<'_>) -> T) -> T {
        ask(&Search {
            sys: &self.sys,
            layout: &Layout::default(),
            config: &self.config,
            command_line: &self.command_line,
            stage: self.stage,
            machine: &self.nics,
            has_cached: self.has_cached,
        })
    }

    pub fn find(&self, name: &str) -> Result<Option<Instance>> {
        self.with(|with| (datasource(name).unwrap().find)(with))
    }

    /// The instance, which must be there.
    pub fn found(&self, name: &str) -> Instance {
        self.find(name).unwrap().unwrap()
    }

    pub fn search(&self, list: &[&str]) -> Outcome {
        let list: Vec<String> = list.iter().map(|n| (*n).to_string()).collect();
        self.with(|with| search(with, &list))
    }

    pub fn check(&self, cached: &Instance) -> Same {
        self.with(|with| (datasource(&cached.datasource).unwrap().check)(with, cached))
    }

    /// What was logged at WARNING and above.
    pub fn complaints(&self) -> String {
        let lines: Vec<String> = self.sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        lines.join("\n")
    }
}

pub fn text(raw: &state::Blobs) -> String {
    raw.0.iter().map(|b| String::from_utf8_lossy(b).into_owned()).collect::<Vec<_>>().join("|")
}

pub fn meta(instance: &Instance) -> &Value {
    &instance.crawled["meta_data"]
}
