//! The configuration files and instance data that exist, and problems of the configuration.

use config::settings::Settings;
use serde_json::json;
use state::layout::RAW_DATA;

use super::page::Page;
use super::results::add_config_finding;
use crate::finding::Layer;
use crate::machine::Machine;
use config::provenance::MergeInput;

pub fn section(machine: &Machine, settings: &Settings, inputs: &[MergeInput], page: &mut Page) {
    page.findings.layer = Layer::Configuration;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let mut lines = Vec::new();
    for name in RAW_DATA {
        let path = layout.instance(name);
        match sys.metadata(&path) {
            Ok(meta) => lines.push(format!("{path}: {} bytes", meta.len())),
            Err(e) if e.is_not_found() => lines.push(format!("{path}: does not exist")),
            Err(e) => page.findings.unread.push(e.to_string()),
        }
    }
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    lines.extend(names.iter().map(|name| format!("configuration: {name}")));
    for path in &settings.root_only {
        page.findings.unread.push(format!("{path}: readable by root only"));
    }
    for finding in settings.findings.iter() {
        add_config_finding(page, finding.kind == config::FindingKind::Deprecated, &finding.to_string());
    }
    page.section("read", "Read", lines.clone(), json!({ "files": lines, "configuration": names }));
}
