//! The machine or image that a command operates on: its files, its configuration, its paths.

use std::process::ExitCode;

use config::json::JsonError;
use config::settings::{Settings, Sources};
use config::{Finding, FindingKind, Node, Value};
use distro::Distro;
use state::Layout;
use system::{Level, Result, System, error, warning};

use crate::arguments::GlobalOptions;

pub struct Machine {
    pub sys: System,
    pub layout: Layout,
    pub settings: Settings,
}

impl Machine {
    /// Reads the configuration. Warnings are written to standard error, with `--debug` all messages.
    pub fn open(global: &GlobalOptions) -> Machine {
        let sys = System::new(&global.root);
        sys.log().to_stderr(if global.debug { Level::Debug } else { Level::Warning });
        let mut settings = load_settings(&sys, &Layout::default(), Sources::default());
        let path = |key: &str| settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
        let layout = Layout::with_paths(path("cloud_dir"), path("run_dir"), path("templates_dir"));
        // The configuration may name other directories, which hold the generator's configuration and the instance data.
        if layout != Layout::default() {
            settings = load_settings(&sys, &layout, Sources::default());
        }
        Machine { sys, layout, settings }
    }

    /// Warns of files of the system configuration that are ignored as a whole: the command does not have their settings, such
    /// as directories and logs.
    pub fn report_ignored_files(&self) {
        let of_file = |finding: &&Finding| finding.kind == FindingKind::Invalid && finding.key.is_empty();
        for finding in self.settings.findings.iter().filter(of_file) {
            warning!(self.sys, "{finding}");
        }
    }

    /// Returns the path of the instance data that this user reads: all of it for root, the redacted data for other users.
    pub fn instance_data(&self) -> String {
        let whole = self.layout.sensitive_instance_data();
        if Machine::is_root() && self.sys.exists(&whole) { whole } else { self.layout.instance_data() }
    }

    /// Does the same as [`Machine::instance_data`], and warns root if only the redacted data exists.
    pub fn instance_data_or_warning(&self) -> String {
        let (path, redacted) = (self.instance_data(), self.layout.instance_data());
        if Machine::is_root() && path == redacted && self.sys.exists(&path) {
            let whole = self.layout.sensitive_instance_data();
            warning!(self.sys, "Missing root-readable {whole}. Using redacted {redacted} instead.");
        }
        path
    }

    /// Returns the machine's distribution: the configured one, else that of its files.
    pub fn distro(&self) -> &'static Distro {
        let configured = self.settings.merged.at_path(&["system_info", "distro"]).and_then(Node::as_str);
        let detected = || Distro::detect(&self.sys).unwrap_or(Distro::fallback());
        configured.and_then(Distro::named).unwrap_or_else(detected)
    }

    pub fn is_root() -> bool {
        nix::unistd::geteuid().is_root()
    }

    /// Returns the exit code of a command, after logging its error.
    pub fn exit_code(&self, done: std::result::Result<ExitCode, String>) -> ExitCode {
        done.unwrap_or_else(|message| {
            error!(self.sys, "{message}");
            ExitCode::FAILURE
        })
    }

    /// Returns the system and the path for a file name from the command line: a relative one is relative to the working
    /// directory of this process, an absolute one is a path of the machine.
    pub fn resolve(&self, path: &str) -> (System, String) {
        match std::env::current_dir() {
            Ok(here) if !path.starts_with('/') => (System::new("/"), here.join(path).display().to_string()),
            _ => (System::new(self.sys.root().as_path()), path.to_string()),
        }
    }

    /// Reads a JSON file of instance data as Python does: in the order of its keys, with `NaN` and `Infinity`. Fails if the
    /// file cannot be read or is not valid JSON.
    pub fn read_json(sys: &System, path: &str) -> Result<Node> {
        let bytes = sys.read(path)?;
        let bad = |e: JsonError| system::Error::new(e.in_file(path));
        let text = std::str::from_utf8(&bytes).map_err(|_| bad(JsonError { line: 1, column: 1 }))?;
        config::json::parse(text).map_err(bad)
    }

    /// Returns the paths of the log and of the output file from the configuration.
    pub fn log_files(&self) -> Vec<String> {
        let config = &self.settings.merged;
        let log = config.get("def_log_file").and_then(Node::as_str).unwrap_or("/var/log/cloud-init.log");
        let mut files = vec![log.to_string()];
        let output = config.get("output").and_then(Node::as_map);
        for (_, target) in output.into_iter().flat_map(|modes| modes.iter()) {
            // Standard output and standard error together, or each by its own.
            let texts: Vec<&str> = match &target.value {
                Value::Seq(both) => both.iter().filter_map(Node::as_str).collect(),
                Value::Map(both) => both.iter().filter_map(|(_, text)| text.as_str()).collect(),
                _ => target.as_str().into_iter().collect(),
            };
            for file in texts.into_iter().filter_map(output_file) {
                if !files.iter().any(|known| known == file) {
                    files.push(file.to_string());
                }
            }
        }
        files
    }
}

/// Returns the file that a value of `output:` writes: `>> FILE`, `> FILE`, `FILE` or `| tee -a FILE`. A pipe to another
/// program has none: its words may be any files, such as the program.
fn output_file(text: &str) -> Option<&str> {
    let text = text.trim();
    let file = match text.strip_prefix('|') {
        Some(command) => match command.split_whitespace().collect::<Vec<_>>()[..] {
            ["tee", "-a", file, ..] | ["tee", file, ..] => file,
            _ => return None,
        },
        None => text.trim_start_matches('>').trim(),
    };
    (file.starts_with('/') && !file.contains(char::is_whitespace)).then_some(file)
}

/// Reads the configuration, with the layers of an instance if `sources` has them.
pub fn load_settings(sys: &System, layout: &Layout, sources: Sources<'_>) -> Settings {
    let data = layout.sensitive_instance_data();
    let render = |path: &str, text: &str| template::render_settings(sys, &data, path, text);
    let run_dir = layout.run("").trim_end_matches('/').to_string();
    Settings::load(sys, &Sources { render: Some(&render), run_dir, ..sources })
}

/// Returns the absolute path of an output file: on this machine and relative to the working directory, whatever the root.
pub fn output_path(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_string(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_output_is_found_in_each_form() {
        for (text, file) in [
            (">> /var/log/a.log", Some("/var/log/a.log")),
            (">/var/log/a.log", Some("/var/log/a.log")),
            (" /var/log/a.log ", Some("/var/log/a.log")),
            ("| tee -a /var/log/a.log", Some("/var/log/a.log")),
            ("|tee /var/log/a.log", Some("/var/log/a.log")),
            ("&1", None),
            ("> relative", None),
            ("", None),
            // `clean --logs` removes the file.
            ("| /usr/local/bin/filter", None),
            ("| logger -f /etc/passwd", None),
            ("| tee -a /var/log/a.log | filter /etc/rules", Some("/var/log/a.log")),
        ] {
            assert_eq!(output_file(text), file, "{text}");
        }
    }
}
