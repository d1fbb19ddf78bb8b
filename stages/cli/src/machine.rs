//! The machine that a command is about: its files, its configuration, its paths.

use config::Node;
use config::settings::{Settings, Sources};
use state::Layout;
use system::{Level, Result, System};

use crate::arguments::GlobalOptions;

pub struct Machine {
    pub sys: System,
    pub layout: Layout,
    pub settings: Settings,
}

impl Machine {
    /// Reads the configuration. Warnings go to standard error, everything with `--debug`.
    pub fn open(global: &GlobalOptions) -> Machine {
        let sys = System::new(&global.root);
        sys.log().to_stderr(if global.debug { Level::Debug } else { Level::Warning });
        let data = Layout::default().run("instance-data-sensitive.json");
        let render = |path: &str, text: &str| template::render_settings(&sys, &data, path, text);
        let settings = Settings::load(&sys, &Sources { render: Some(&render), ..Sources::default() });
        let path = |key: &str| settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
        let layout = Layout::with_paths(path("cloud_dir"), path("run_dir"), path("templates_dir"));
        Machine { sys, layout, settings }
    }

    pub fn is_root() -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// The door to a file that was typed, and its path there: a relative one is meant from where the operator stands,
    /// an absolute one is the machine's.
    pub fn resolve(&self, path: &str) -> (System, String) {
        match std::env::current_dir() {
            Ok(here) if !path.starts_with('/') => (System::new("/"), here.join(path).display().to_string()),
            _ => (System::new(self.sys.root().as_path()), path.to_string()),
        }
    }

    /// A JSON file of an instance's data, as Python reads it: keys in their order, numbers that are none.
    pub fn read_json(sys: &System, path: &str) -> Result<Node> {
        let bytes = sys.read(path)?;
        let bad = |line, column| system::Error::new(format!("{path}:{line}:{column}: not valid JSON"));
        let text = std::str::from_utf8(&bytes).map_err(|_| bad(1, 1))?;
        config::json::parse(text).map_err(|e| bad(e.line, e.column))
    }

    /// The log and the output file, as configured.
    pub fn log_files(&self) -> Vec<String> {
        let config = &self.settings.merged;
        let log = config.get("def_log_file").and_then(Node::as_str).unwrap_or("/var/log/cloud-init.log");
        let mut files = vec![log.to_string()];
        let output = config.get("output").and_then(Node::as_map);
        for (_, value) in output.into_iter().flat_map(|m| m.iter()) {
            let Some(text) = value.as_str() else { continue };
            // `>> FILE`, `> FILE`, `| tee -a FILE`
            let last = text.split_whitespace().last().map(|w| w.trim_start_matches('>')).unwrap_or_default();
            if last.starts_with('/') {
                files.push(last.to_string());
            }
        }
        files.dedup();
        files
    }
}

/// Where a file is to be written that an operator names: on this machine, from where they stand, whatever the root.
pub fn output_path(path: &str) -> String {
    match std::env::current_dir() {
        Ok(here) if !path.starts_with('/') => here.join(path).display().to_string(),
        _ => path.to_string(),
    }
}
