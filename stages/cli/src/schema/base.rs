//! The configuration of an image: /etc/cloud/cloud.cfg and the files of cloud.cfg.d. They need no header and have keys that
//! user-data must not have.

use config::provenance::MergeInput;
use config::{Finding, FindingKind, Findings, Map, Node, Reader, Value};
use modules::schema;

use super::validation::Validation;
use super::{NotValidated, check_network, not_yaml, render_template, undefined_variables};
use crate::arguments::Schema;
use crate::machine::Machine;

/// Returns whether a file is such a configuration: by its path, or by its suffix if it has no header of user-data.
pub fn is_base(path: &str, bytes: &[u8]) -> bool {
    let mut parts = path.rsplit('/');
    let is_cfg = parts.next().is_some_and(|name| name == "cloud.cfg" || name.ends_with(".cfg"));
    let is_of_image = path.ends_with("/cloud.cfg") || parts.next() == Some("cloud.cfg.d");
    is_cfg && (is_of_image || userdata::detect(bytes).is_none() && !userdata::is_mime(bytes))
}

/// Validates a file. Fails if it is a template that cannot be rendered.
pub fn check(machine: &Machine, args: &Schema, path: &str, bytes: &[u8]) -> Result<Validation, NotValidated> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut undefined = Vec::new();
    let parsed = match template::kind(&text) {
        Some(template::Kind::Jinja) => {
            let mut steps = template::MAX_STEPS;
            let rendered = render_template(machine, path, &text, args.instance_data.as_deref(), &mut steps);
            let rendered = rendered.map_err(NotValidated::Failed)?;
            undefined = undefined_variables(path, &rendered);
            config::yaml::parse_rendered(path, &rendered.text, &rendered.lines)
        }
        _ => config::yaml::parse_bytes(path, bytes),
    };
    let mut result = Validation::default();
    result.warnings = undefined;
    result.add_source(path, &text, Some(0));
    match parsed {
        Ok(parsed) => {
            parsed.findings.into_iter().for_each(|f| result.add(f));
            findings(&parsed.root).into_iter().for_each(|f| result.add(f));
        }
        Err(bad) => result.add(not_yaml(path, &bad)),
    }
    Ok(result)
}

/// Returns what is wrong in the configuration of the machine's image.
pub fn findings_of_machine(machine: &Machine, inputs: &[MergeInput]) -> Vec<Finding> {
    let of_image = inputs.iter().filter(|input| input.name.starts_with("/etc/cloud/"));
    let found = of_image.flat_map(|input| findings(&input.config));
    let is_wrong = |finding: &Finding| finding.kind != FindingKind::Deprecated;
    machine.settings.findings.iter().cloned().chain(found).filter(is_wrong).collect()
}

/// Returns the names of datasources that do not exist, and those that ds-identify does not know in this spelling. It does not look
/// at a name that is alone in the list, and the boot accepts each spelling.
fn datasource_names(root: &Node) -> Findings {
    let list = root.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
    let is_alone = list.len() == 1 || list.len() == 2 && list[1].as_str() == Some("None");
    let keys = root.get("datasource").and_then(Node::as_map).into_iter().flat_map(Map::iter);
    let keys = keys.map(|(name, _)| ("datasource", name));
    let known = || clouds::CLOUDS.iter().map(|cloud| cloud.name);
    let mut found = Findings::default();
    for (key, node) in list.iter().map(|name| ("datasource_list", name)).chain(keys) {
        let is_known = |name: &str| clouds::cloud(name).is_some() || (key, name) == ("datasource", JOYENT);
        let Some(name) = node.as_str().filter(|name| !is_known(name)) else { continue };
        let message = match known().find(|known| key == "datasource_list" && clouds::is_name(name, known)) {
            Some(_) if is_alone => continue,
            Some(known) => format!("ds-identify does not know this spelling of {known}"),
            None => {
                let near = config::suggestion(name, known());
                format!("there is no datasource {}{near}", config::shown_name(name))
            }
        };
        found.unknown(&node.at, key, message);
    }
    found
}

/// A line for each datasource: its name and those of its settings (`make generated`).
const SETTINGS: &str = include_str!("datasource-settings");
/// Another name of SmartOS' settings.
const JOYENT: &str = "Joyent";

/// Returns the names of a datasource's settings.
fn setting_names(datasource: &str) -> impl Iterator<Item = &'static str> {
    let mut lines = SETTINGS.lines().map(|line| line.split(' '));
    lines.find(|names| names.clone().next() == Some(datasource)).into_iter().flatten().skip(1)
}

/// Returns whether a datasource has this setting.
pub fn is_setting(datasource: &str, setting: &str) -> bool {
    setting_names(datasource).any(|name| name == setting)
}

/// Returns the settings of datasources that do not exist.
fn datasource_settings(root: &Node) -> Findings {
    let mut reader = Reader::new();
    for (name, settings) in root.get("datasource").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        let name = name.as_str().unwrap_or_default();
        let row = if name == JOYENT { "SmartOS" } else { name };
        // A datasource that does not exist is reported as such.
        let Some(cloud) = clouds::cloud(row) else { continue };
        for (key, _) in settings.as_map().into_iter().flat_map(Map::iter) {
            let setting = key.scalar_text().unwrap_or_default();
            // It holds YAML's anchors.
            if !setting.starts_with('_') && !is_setting(cloud.name, &setting) {
                let message = config::unknown_key(&setting, setting_names(cloud.name));
                reader.nested("datasource", |r| {
                    r.nested(name, |r| {
                        r.nested(&setting, |r| r.add_finding(FindingKind::Unknown, key, message));
                    });
                });
            }
        }
    }
    reader.into_findings()
}

fn findings(root: &Node) -> Vec<Finding> {
    let is_of_image = |finding: &Finding| match finding.kind {
        // It holds YAML's anchors.
        FindingKind::Unknown if finding.key.starts_with('_') => true,
        FindingKind::Unknown => {
            modules::where_key_belongs(&finding.key).is_some_and(|place| place.contains("/etc/cloud"))
        }
        // Only user-data should not have it.
        kind => kind == FindingKind::Deprecated && finding.key == "system_info",
    };
    let found = schema::check_cloud_config(root, &modules::where_key_belongs);
    let mut all: Vec<Finding> = found.iter().filter(|finding| !is_of_image(finding)).cloned().collect();
    for finding in all.iter_mut().filter(|finding| finding.message == "unknown key") {
        finding.message += &config::suggestion(&finding.key, modules::IMAGE_ONLY_KEYS.iter().copied());
    }
    all.extend(schema::check_image(root).iter().cloned());
    all.extend(datasource_names(root).iter().cloned());
    all.extend(datasource_settings(root).iter().cloned());
    // `config: disabled` is not a network configuration.
    if let Some(network) =
        root.get("network").filter(|network| network.get("config").and_then(Node::as_str) != Some("disabled"))
    {
        let mut map = Map::new();
        map.insert("network", network.clone());
        all.extend(check_network(&Node { value: Value::Map(map), at: root.at.clone() }).0.iter().cloned());
    }
    all
}
