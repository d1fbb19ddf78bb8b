//! The settings of a stage: which layers of configuration it reads, and when it reads them again.

use config::Node;
use config::settings::{ParsedFile, Settings, Sources};
use state::Instance;
use state::layout::CLOUD_CONFIGS;

use crate::status::Record;
use crate::{Boot, FoundInstance, StageName};

/// The layers that an instance adds to the machine's own configuration.
struct InstanceLayers {
    /// The instance's directory, with the merged configurations of user and vendor; `None` if they are not read.
    dir: Option<String>,
    /// The configuration that came with the metadata.
    datasource: Option<Node>,
}

impl InstanceLayers {
    fn of(dir: String, instance: &Instance) -> InstanceLayers {
        InstanceLayers { dir: Some(dir), datasource: Some(Node::from_json(&instance.config)) }
    }
}

impl Boot {
    /// Reads the settings that a stage begins with. The local stage does not know yet whether the instance that the link
    /// points at is this one, so it does not read that instance's layers.
    pub(crate) fn load_initial_settings(&mut self) {
        let dir = (self.stage != StageName::Local).then(|| self.layout.instance(""));
        self.settings = self.load_settings(InstanceLayers { dir, datasource: None }, Vec::new());
    }

    fn load_settings(&self, layers: InstanceLayers, known: Vec<ParsedFile>) -> Settings {
        let data = self.layout.sensitive_instance_data();
        let render = |path: &str, text: &str| template::render_settings(&self.sys, &data, path, text);
        let sources = Sources { render: Some(&render), ..self.sources(layers) };
        Settings::load_with_parsed(&self.sys, &sources, known)
    }

    fn sources<'a>(&self, instance: InstanceLayers) -> Sources<'a> {
        Sources {
            run_dir: self.layout.run(""),
            command_line: Some(self.command_line.clone()),
            datasource: instance.datasource,
            instance_dir: instance.dir,
            environment_file: std::env::var("CLOUD_CFG").ok().filter(|f| !f.is_empty()),
            files: self.args.files.clone(),
            render: None,
        }
    }

    /// Returns the settings of the local stage with what an earlier boot stored for this instance. They are only read if a
    /// stored configuration contains one of the words; `None` otherwise, and in other stages.
    pub(crate) fn stored_settings(&self, instance: &Instance, words: &[&str]) -> Option<Settings> {
        if self.stage != StageName::Local {
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
        Some(Settings::load(&self.sys, &self.sources(InstanceLayers::of(dir, instance))))
    }
}

/// Reads the settings again, with the layers of an instance. `known` are its configuration files, which were just written.
pub(crate) fn reload(boot: &mut Boot, record: &mut Record, found: &FoundInstance, known: Vec<ParsedFile>) {
    let layers = InstanceLayers::of(found.directory(boot), &found.instance);
    boot.settings = boot.load_settings(layers, known);
    record.report_settings(boot);
    record.configure_reporting(boot);
}
