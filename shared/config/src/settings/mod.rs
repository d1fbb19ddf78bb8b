//! The settings of this boot: the configuration of image, cloud, vendor, user and operator, in layers of ascending
//! precedence. Every stage and command reads them through [`Settings::load`]; nothing here writes.
//!
//! In ascending order of precedence: built in, /etc/cloud/cloud.cfg, its directory of parts in the order of their names,
//! the generator's cloud.cfg, the kernel command line; then the datasource's configuration, vendor-data, vendor-data2,
//! user-data, the file named by `CLOUD_CFG`, and the files given to a command, of which the first takes precedence.

pub mod builtin;
mod cmdline;

pub use cmdline::{inline_config, without_secrets};

use system::System;

use crate::merge::merge_stack;
use crate::yaml::{self, Parsed};
use crate::{FindingKind, Findings, Node, Position};

const CLOUD_CFG: &str = "/etc/cloud/cloud.cfg";

/// Renders a template in the system configuration, given its path and text. Returns the result and for each of its lines that of
/// the template. `None`: the file is read as it is. The function itself reports errors.
pub type Render<'a> = &'a dyn Fn(&str, &str) -> Option<(String, Vec<u32>)>;

/// Sources of layers outside /etc/cloud.
#[derive(Clone)]
pub struct Sources<'a> {
    /// The directory of runtime state, usually /run/cloud-init.
    pub run_dir: String,
    /// Replaces the kernel's command line, for images and tests.
    pub command_line: Option<String>,
    /// The configuration that the datasource brings.
    pub datasource: Option<Node>,
    /// The directory with the instance's cloud-config.txt and vendor-cloud-config.txt; `None`: these layers are omitted.
    pub instance_dir: Option<String>,
    /// The value of `CLOUD_CFG`.
    pub environment_file: Option<String>,
    /// The files of `--file`, in the order of the command line.
    pub files: Vec<String>,
    /// Renders files of the system configuration that begin with `## template: jinja`. Before the instance is known they
    /// are read unrendered, as in upstream, which works if they are valid YAML.
    pub render: Option<Render<'a>>,
}

impl Default for Sources<'_> {
    fn default() -> Self {
        Sources {
            run_dir: "/run/cloud-init".into(),
            command_line: None,
            datasource: None,
            instance_dir: None,
            environment_file: None,
            files: Vec::new(),
            render: None,
        }
    }
}

/// A file that the caller has already parsed, so that a large one is not parsed twice. Used only while the file still
/// has this text, or if it could not be written: the users of a machine whose disk is full can log in nevertheless.
#[derive(Debug, Clone)]
pub struct ParsedFile {
    /// The path of the file.
    pub path: String,
    /// The text of the file when it was parsed.
    pub text: String,
    /// The result of parsing the text.
    pub parsed: Parsed,
}

/// The kind of a layer, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// The defaults that are part of the program.
    BuiltIn,
    /// /etc/cloud/cloud.cfg and its parts.
    System,
    /// The generator's result.
    Runtime,
    /// The kernel command line.
    CommandLine,
    /// Configuration from the datasource.
    Datasource,
    /// Vendor-data.
    Vendor,
    /// The second vendor-data.
    Vendor2,
    /// User-data.
    User,
    /// `CLOUD_CFG`.
    Environment,
    /// `--file`.
    File,
}

/// A source of settings.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The kind of layer.
    pub kind: LayerKind,
    /// The path of the file, or a description of the source.
    pub name: String,
    /// The configuration of the layer.
    pub config: Node,
}

/// All layers and the merged settings.
#[derive(Debug, Default)]
pub struct Settings {
    /// The merged local layers, up to the kernel command line.
    pub system: Node,
    /// All layers, merged.
    pub merged: Node,
    /// The layers, in ascending order of precedence.
    pub layers: Vec<Layer>,
    /// Problems in the layers.
    pub findings: Findings,
    /// Files that only root may read, skipped for another user.
    pub root_only: Vec<String>,
    /// Whether a file of the system configuration is a template, whose content may change once the instance is known.
    pub has_templates: bool,
}

impl Settings {
    /// Loads and merges all layers. Never fails: unreadable or invalid parts are reported in `findings`, files that only
    /// root may read in `root_only`, and the rest is used.
    pub fn load(sys: &System, sources: &Sources) -> Settings {
        Settings::load_with_parsed(sys, sources, Vec::new())
    }

    /// Loads the settings as [`Settings::load`] does, from files that are already parsed.
    pub fn load_with_parsed(sys: &System, sources: &Sources, parsed_files: Vec<ParsedFile>) -> Settings {
        let mut loader = Loader { sys, render: sources.render, parsed_files, settings: Settings::default() };
        loader.add(LayerKind::BuiltIn, "built in", builtin::config());
        loader.cloud_cfg();
        loader.file(LayerKind::Runtime, &format!("{}/cloud.cfg", sources.run_dir));
        let line = sources.command_line.clone().unwrap_or_else(|| sys.kernel_command_line());
        if let Some(text) = inline_config(&line) {
            loader.text(LayerKind::CommandLine, "kernel command line", text.as_bytes());
        }
        if let Some(config) = sources.datasource.clone().filter(|config| config.as_map().is_some()) {
            loader.add(LayerKind::Datasource, "datasource", config);
        }
        if let Some(dir) = &sources.instance_dir {
            loader.file(LayerKind::Vendor, &format!("{dir}/vendor-cloud-config.txt"));
            loader.file(LayerKind::Vendor2, &format!("{dir}/vendor2-cloud-config.txt"));
            loader.file(LayerKind::User, &format!("{dir}/cloud-config.txt"));
        }
        if let Some(file) = &sources.environment_file {
            loader.file(LayerKind::Environment, file);
        }
        for file in sources.files.iter().rev() {
            loader.file(LayerKind::File, file);
        }
        let mut settings = loader.settings;
        let layers = std::mem::take(&mut settings.layers);
        settings.with_layers(layers)
    }

    /// Merges other layers, in ascending order of precedence; existing findings are kept.
    pub fn with_layers(mut self, layers: Vec<Layer>) -> Settings {
        self.system = merge_system(&layers, &mut self.findings);
        let upper = layers.iter().rev().filter(|layer| layer.kind > LayerKind::CommandLine);
        self.merged = merge_stack(upper.map(|layer| &layer.config).chain([&self.system]), &mut self.findings);
        self.layers = layers;
        self
    }

    /// Returns a top-level key of the merged settings.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.merged.get(key)
    }
}

/// Upstream merges the files of cloud.cfg.d first, then the result with cloud.cfg, then that with the rest. The grouping
/// matters: where a map meets a scalar, merging all at once could give another result.
fn merge_system(layers: &[Layer], findings: &mut Findings) -> Node {
    let of = |wanted: LayerKind| layers.iter().filter(move |l| l.kind == wanted).map(|l| &l.config);
    let (main, parts): (Vec<&Layer>, Vec<&Layer>) =
        layers.iter().filter(|l| l.kind == LayerKind::System).partition(|l| l.name == CLOUD_CFG);
    let parts = merge_stack(parts.iter().rev().map(|l| &l.config), findings);
    let etc = merge_stack(std::iter::once(&parts).chain(main.iter().map(|l| &l.config)), findings);
    let strong = of(LayerKind::CommandLine).chain(of(LayerKind::Runtime));
    merge_stack(strong.chain([&etc]).chain(of(LayerKind::BuiltIn)), findings)
}

/// The state of a load in progress.
struct Loader<'a> {
    sys: &'a System,
    render: Option<Render<'a>>,
    parsed_files: Vec<ParsedFile>,
    settings: Settings,
}

impl Loader<'_> {
    fn add(&mut self, kind: LayerKind, name: &str, config: Node) {
        self.settings.layers.push(Layer { kind, name: name.to_string(), config });
    }

    fn report_invalid(&mut self, name: &str, message: String) {
        let at = Position { source: Some(name.into()), line: 0, column: 0 };
        self.settings.findings.add(FindingKind::Invalid, &at, "", message);
    }

    fn cloud_cfg(&mut self) {
        self.file(LayerKind::System, CLOUD_CFG);
        let default_dir = format!("{CLOUD_CFG}.d");
        let main = self.settings.layers.last().filter(|layer| layer.kind == LayerKind::System);
        let named = main.and_then(|layer| layer.config.get("conf_d")).cloned();
        let dir = match named {
            Some(node) => match node.as_str() {
                Some(dir) => dir.trim().to_string(),
                None if node.is_falsy() => String::new(),
                None => {
                    let message = format!("expected a directory, found {}; using the default", node.kind());
                    self.settings.findings.add(FindingKind::Invalid, &node.at, "conf_d", message);
                    default_dir
                }
            },
            None => default_dir,
        };
        if dir.is_empty() || !self.sys.is_dir(&dir) {
            return;
        }
        match self.sys.list(&dir) {
            Ok(names) => {
                for name in names.iter().filter(|name| name.ends_with(".cfg")) {
                    let path = format!("{}/{name}", dir.trim_end_matches('/'));
                    if !self.sys.is_dir(&path) {
                        self.file(LayerKind::System, &path);
                    }
                }
            }
            Err(error) => self.report_unreadable(&dir, &error),
        }
    }

    /// Loads a file. Only files that the user names must exist.
    fn file(&mut self, kind: LayerKind, path: &str) {
        let error = match self.sys.read(path) {
            Ok(bytes) => return self.text(kind, path, &bytes),
            Err(error) => error,
        };
        let parsed = self.parsed_files.iter().find(|known| known.path == path);
        if let Some(text) = parsed.map(|known| known.text.clone()) {
            self.text(kind, path, text.as_bytes());
        } else if !error.is_not_found() || kind >= LayerKind::Environment {
            self.report_unreadable(path, &error);
        }
    }

    fn report_unreadable(&mut self, path: &str, error: &system::Error) {
        if error.kind() == Some(std::io::ErrorKind::PermissionDenied) {
            self.settings.root_only.push(path.to_string());
        } else {
            self.report_invalid(path, format!("ignored: {error}"));
        }
    }

    /// Adds the configuration in a string. Invalid parts are reported and skipped.
    fn text(&mut self, kind: LayerKind, name: &str, bytes: &[u8]) {
        let template =
            std::str::from_utf8(bytes).ok().filter(|text| kind == LayerKind::System && is_template(text));
        self.settings.has_templates |= template.is_some();
        let rendered = template.zip(self.render).and_then(|(text, render)| render(name, text));
        // A template need not be valid YAML before it is rendered.
        let may_be_invalid = template.is_some() && self.render.is_some() && rendered.is_none();
        let bytes = rendered.as_ref().map_or(bytes, |(text, _)| text.as_bytes());
        let is_this = |known: &ParsedFile| known.path == name && known.text.as_bytes() == bytes;
        let parsed = match self.parsed_files.iter().position(is_this) {
            Some(i) => Ok(self.parsed_files.swap_remove(i).parsed),
            None => match &rendered {
                Some((text, lines)) => yaml::parse_rendered(name, text, lines),
                None => yaml::parse_bytes(name, bytes),
            },
        };
        match parsed {
            Ok(parsed) => {
                parsed.findings.into_iter().for_each(|f| self.settings.findings.push(f));
                if parsed.root.as_map().is_some_and(|map| !map.is_empty()) {
                    self.add(kind, name, parsed.root);
                } else if !parsed.root.is_null() && parsed.root.as_map().is_none() {
                    let message = format!("ignored: expected a map of keys, found {}", parsed.root.kind());
                    self.settings.findings.add(FindingKind::Invalid, &parsed.root.at, "", message);
                }
            }
            Err(_) if may_be_invalid => {}
            Err(bad) => self.settings.findings.add(
                FindingKind::Invalid,
                &bad.at,
                "",
                format!("file ignored: {}", bad.message),
            ),
        }
    }
}

fn is_template(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("##").map(str::trim).is_some_and(|rest| {
        let (word, kind) = rest.split_once(':').unwrap_or((rest, ""));
        word.eq_ignore_ascii_case("template") && kind.trim().eq_ignore_ascii_case("jinja")
    })
}

#[cfg(test)]
mod tests;
