//! The machine that a command is about: its files, its configuration, its paths.

use config::Node;
use config::settings::{Settings, Sources};
use serde_json::Value;
use state::Layout;
use system::{Level, Result, System};

use crate::arguments::Top;

pub struct Machine {
    pub sys: System,
    pub layout: Layout,
    pub settings: Settings,
}

impl Machine {
    /// Reads the configuration. Warnings go to standard error, everything with `--debug`.
    pub fn open(top: &Top) -> Machine {
        let sys = System::new(&top.root);
        sys.log().to_stderr(if top.debug { Level::Debug } else { Level::Warning });
        let settings = Settings::load(&sys, &Sources::default());
        let path = |key: &str| settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
        let layout = Layout::with(path("cloud_dir"), path("run_dir"), path("templates_dir"));
        Machine { sys, layout, settings }
    }

    pub fn is_root() -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// The door to a file that was typed, and its path there: a relative one is meant from where the operator stands,
    /// an absolute one is the machine's.
    pub fn typed(&self, path: &str) -> (System, String) {
        match std::env::current_dir() {
            Ok(here) if !path.starts_with('/') => (System::new("/"), here.join(path).display().to_string()),
            _ => (System::new(self.sys.root().as_path()), path.to_string()),
        }
    }

    /// A JSON file of the state.
    pub fn json(&self, path: &str) -> Result<Value> {
        Machine::json_of(&self.sys, path)
    }

    /// A JSON file.
    pub fn json_of(sys: &System, path: &str) -> Result<Value> {
        let bytes = sys.read(path)?;
        serde_json::from_slice(&bytes)
            .map_err(|e| system::Error::new(format!("{path}:{}:{}: not valid JSON", e.line(), e.column())))
    }
}
