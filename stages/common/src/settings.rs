//! The settings of a stage: which layers of configuration it reads, and when it reads them again.

use config::Node;
use config::settings::{ParsedFile, Settings, Sources};
use state::layout::CLOUD_CONFIGS;
use state::{Instance, Layout};
use system::System;

use crate::{Args, Stage, StageName};

/// The layers that an instance adds to the machine's own configuration.
#[derive(Default)]
pub(crate) struct InstanceLayers {
    /// The instance's directory, with the merged configurations of user and vendor. `None`: nothing is read from there.
    pub dir: Option<String>,
    /// The configuration that came with the metadata.
    pub datasource: Option<Node>,
}

impl InstanceLayers {
    /// Returns the layers that a stage begins with. The local stage does not know yet whether the instance that the link
    /// points at is this one, so it does not read that instance's layer.
    pub(crate) fn at_begin(name: StageName, layout: &Layout) -> InstanceLayers {
        InstanceLayers { dir: (name != StageName::Local).then(|| layout.instance("")), datasource: None }
    }
}

/// Reads the settings with the layers given. Files in `known` are not parsed again.
pub(crate) fn load(
    sys: &System,
    layout: &Layout,
    command_line: &str,
    args: &Args,
    instance: InstanceLayers,
    known: Vec<ParsedFile>,
) -> Settings {
    let data = layout.sensitive_instance_data();
    let render = |path: &str, text: &str| template::render_settings(sys, &data, path, text);
    let sources = sources(layout, command_line, args, instance);
    Settings::load_with_parsed(sys, &Sources { render: Some(&render), ..sources }, known)
}

fn sources<'a>(layout: &Layout, command_line: &str, args: &Args, instance: InstanceLayers) -> Sources<'a> {
    Sources {
        run_dir: layout.run(""),
        command_line: Some(command_line.to_string()),
        datasource: instance.datasource,
        instance_dir: instance.dir,
        environment_file: std::env::var("CLOUD_CFG").ok().filter(|f| !f.is_empty()),
        files: args.files.clone(),
        render: None,
    }
}

/// Returns the directories of the state, as `system_info: paths` configures them.
pub(crate) fn layout_of(settings: &Settings) -> Layout {
    let path = |key: &str| settings.merged.at_path(&["system_info", "paths", key]).and_then(Node::as_str);
    Layout::with_paths(path("cloud_dir"), path("run_dir"), path("templates_dir"))
}

impl Stage {
    /// Reads the settings again with those of an instance. `known` are its configuration files as they were just written.
    pub fn reload_settings(&mut self, instance: &Instance, known: Vec<ParsedFile>) {
        // By now the link points at this instance, in the local stage as well.
        let layers = InstanceLayers {
            dir: Some(self.layout.instance("")),
            datasource: Some(Node::from_json(&instance.config)),
        };
        self.settings = load(&self.sys, &self.layout, &self.command_line, &self.args, layers, known);
        self.report_settings();
        self.configure_reporting();
    }

    /// Returns the settings of the local stage with what an earlier boot stored for this instance. They are only read if a
    /// stored configuration contains one of the words; `None` otherwise, and in other stages.
    pub(crate) fn stored_settings(&self, instance: &Instance, words: &[&str]) -> Option<Settings> {
        if self.name != StageName::Local {
            return None;
        }
        let has_word = |text: &[u8]| {
            words.iter().any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
        };
        let dir = self.layout.instance_dir(&instance.id);
        let is_stored = |name: &str| self.sys.read(format!("{dir}/{name}")).is_ok_and(|text| has_word(&text));
        let mut keys = instance.config.as_object().into_iter().flat_map(|config| config.keys());
        if !CLOUD_CONFIGS.into_iter().any(is_stored) && !keys.any(|key| has_word(key.as_bytes())) {
            return None;
        }
        let layers = InstanceLayers { dir: Some(dir), datasource: Some(Node::from_json(&instance.config)) };
        let sources = sources(&self.layout, &self.command_line, &self.args, layers);
        Some(Settings::load(&self.sys, &sources))
    }

    /// Reads the settings again if some of their files are templates, now that instance-data exists.
    pub(crate) fn render_settings(&mut self) {
        if self.settings.has_templates {
            let layers = InstanceLayers::at_begin(self.name, &self.layout);
            self.settings = load(&self.sys, &self.layout, &self.command_line, &self.args, layers, Vec::new());
        }
    }
}
