//! A machine in a temporary directory, and the result of a datasource on it.

#![allow(dead_code, clippy::unwrap_used)]

use datasource::{IdentityCheck, Nic, Nics, Outcome, Search, Stage, datasource, search};
use scratch::TempDir;
use serde_json::Value;
use state::{Instance, Layout};
use system::{Result, System, WriteOptions};

/// The NICs, and whether the datasource has waited for devices.
#[derive(Default)]
struct FixedNics(Nics, std::cell::Cell<bool>);

impl datasource::Machine for FixedNics {
    fn nics(&self) -> Nics {
        self.0.clone()
    }

    fn wait_for_devices(&self) {
        self.1.set(true);
    }
}

/// Created for each test and removed with it.
pub struct Machine {
    top: TempDir,
    pub sys: System,
    pub config: config::Node,
    pub command_line: String,
    pub stage: Stage,
    pub has_cached_instance: bool,
    nics: FixedNics,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::in_dir(TempDir::new())
    }

    /// Like [`Machine::new`], for tests that make thousands of machines.
    pub fn in_memory() -> Machine {
        Machine::in_dir(TempDir::in_memory())
    }

    fn in_dir(top: TempDir) -> Machine {
        Machine {
            sys: System::new(&top),
            top,
            config: config::Node::null(),
            command_line: String::new(),
            stage: Stage::Local,
            has_cached_instance: false,
            nics: FixedNics::default(),
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
        self.nics.0 = Nics { candidates: all.clone(), configurable: all, ..Nics::default() };
        self
    }

    pub fn has_waited_for_devices(&self) -> bool {
        self.nics.1.get()
    }

    /// DMI values, by their names below /sys/class/dmi/id.
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

    pub fn with_context<T>(&self, query: impl FnOnce(&Search<'_>) -> T) -> T {
        query(&Search {
            sys: &self.sys,
            layout: &Layout::default(),
            config: &self.config,
            command_line: &self.command_line,
            stage: self.stage,
            machine: &self.nics,
            has_cached_instance: self.has_cached_instance,
        })
    }

    pub fn find(&self, name: &str) -> Result<Option<Instance>> {
        self.with_context(|ctx| datasource(name).unwrap().find_instance(ctx))
    }

    /// Returns the instance, which must exist.
    pub fn found(&self, name: &str) -> Instance {
        self.find(name).unwrap().unwrap()
    }

    pub fn search(&self, list: &[&str]) -> Outcome {
        let list: Vec<String> = list.iter().map(|n| (*n).to_string()).collect();
        self.with_context(|ctx| search(ctx, &list))
    }

    pub fn check(&self, cached: &Instance) -> IdentityCheck {
        self.with_context(|ctx| (datasource(&cached.datasource).unwrap().check)(ctx, cached))
    }

    /// Returns the log so far, of all levels.
    pub fn log(&self) -> String {
        let path = self.host("/all.log");
        self.sys.log().to_file(system::Level::Debug, std::fs::File::create(&path).unwrap());
        std::fs::read_to_string(path).unwrap()
    }

    /// Returns the messages of level WARNING and above.
    pub fn warnings(&self) -> String {
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
