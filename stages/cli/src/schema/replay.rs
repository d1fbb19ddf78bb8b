//! Repeats the merge of a boot with the stored data, so that a boot records nothing for it.

use config::merge::Strategy;
use config::provenance::MergeInput;
use config::settings::{self, Settings, Sources};
use config::{Map, Node};
use state::{Cached, Instance};

use super::user_data::configs;
use crate::machine::{Machine, load_settings};

/// The layers that consist of parts: the layer, the stored parts, and their name in messages.
pub const PART_LAYERS: [(settings::LayerKind, &str, &str); 3] = [
    (settings::LayerKind::Vendor, "vendor-data.txt.i", "vendor-data"),
    (settings::LayerKind::Vendor2, "vendor-data2.txt.i", "vendor-data2"),
    (settings::LayerKind::User, "user-data.txt.i", "user-data"),
];

/// Repeats the merge. Returns its result and its inputs, weakest first.
pub fn replay_merge(machine: &Machine) -> (Settings, Vec<MergeInput>) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let datasource = match Instance::load(sys, layout) {
        Cached::Instance(instance) => Some(Node::from_json(&instance.config)),
        _ => None,
    };
    let instance_dir = Some(layout.instance("").trim_end_matches('/').to_string());
    let mut settings = load_settings(sys, layout, Sources { datasource, instance_dir, ..Sources::default() });
    let mut layers = std::mem::take(&mut settings.layers);
    let mut inputs = Vec::new();
    for layer in &mut layers {
        let part_layer = PART_LAYERS.iter().find(|(kind, ..)| *kind == layer.kind);
        let parts = part_layer.and_then(|(_, file, name)| {
            configs(machine, name, &machine.sys.read(machine.layout.instance(file)).ok()?).ok()
        });
        // The merged parts must equal what the boot stored; otherwise only the stored result is explained.
        match parts.map(|parts| (merge_parts(&parts), parts)) {
            Some((merged, parts)) if merged == layer.config => {
                layer.config = merged;
                inputs.extend(parts.into_iter().map(|(input, _)| input));
            }
            _ => inputs.push(MergeInput { name: layer.name.clone(), config: layer.config.clone() }),
        }
    }
    (settings.with_layers(layers), inputs)
}

/// Merges cloud-configs in order.
pub fn merge_parts(parts: &[(MergeInput, Strategy)]) -> Node {
    let mut merged = Node::from(Map::new());
    for (input, strategy) in parts {
        strategy.merge_into(&mut merged, input.config.clone());
    }
    merged
}
