//! The settings of a stage: when it reads the layers of configuration again.

use config::Node;
use config::settings::{ParsedFile, Settings};
use state::Instance;
use state::layout::CLOUD_CONFIGS;

use crate::layers::{InstanceLayers, load, sources};
use crate::{Stage, StageName};

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
