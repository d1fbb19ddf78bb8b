//! Which layers of configuration a stage reads.

use config::Node;
use config::settings::{ParsedFile, Settings, Sources};
use state::Layout;
use system::System;

use crate::{Args, StageName};

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

pub(crate) fn sources<'a>(
    layout: &Layout,
    command_line: &str,
    args: &Args,
    instance: InstanceLayers,
) -> Sources<'a> {
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
