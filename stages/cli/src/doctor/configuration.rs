//! The configuration files and instance data that exist, and configured users that do not.

use config::Node;
use serde_json::json;

use super::Page;
use super::results::{add_config_finding, place_of};
use crate::finding::Finding;
use crate::machine::Machine;

const DATA: [&str; 3] = ["user-data.txt", "vendor-data.txt", "vendor-data2.txt"];

pub fn section(machine: &Machine, page: &mut Page) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (settings, inputs) = crate::explain::replay_merge(machine);
    let mut lines = Vec::new();
    for name in DATA {
        let path = layout.instance(name);
        match sys.metadata(&path) {
            Ok(meta) => lines.push(format!("{path}: {} bytes", meta.len())),
            Err(e) if e.is_not_found() => lines.push(format!("{path}: does not exist")),
            Err(e) => page.unread.push(e.to_string()),
        }
    }
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    lines.extend(names.iter().map(|name| format!("configuration: {name}")));
    for path in &settings.root_only {
        page.unread.push(format!("{path}: readable by root only"));
    }
    for finding in settings.findings.iter() {
        add_config_finding(page, finding.kind == config::FindingKind::Deprecated, &finding.to_string());
    }
    users(machine, &settings.merged, page);
    page.section("read", "Read", lines.clone(), json!({ "files": lines, "configuration": names }));
}

/// Finds configured users that do not exist. Users of libnss-extrausers and snap are not looked for.
fn users(machine: &Machine, merged: &Node, page: &mut Page) {
    if !machine.sys.exists(machine.layout.instance("")) {
        return;
    }
    let passwd = match machine.sys.read_text("/etc/passwd") {
        Ok(text) => text,
        Err(e) => return page.unread.push(e.to_string()),
    };
    for item in merged.get("users").and_then(Node::as_seq).unwrap_or_default() {
        let name = item.as_str().or_else(|| item.get("name").and_then(Node::as_str));
        let Some(name) = name.filter(|name| *name != "default" && !name.contains(',')) else { continue };
        if passwd.lines().any(|line| line.split(':').next() == Some(name)) {
            continue;
        }
        let place =
            place_of(&format!("{}: ", item.at)).map_or_else(|| "users".to_string(), |(place, _)| place);
        page.find(
            Finding::error(place, format!("user {name} is configured and not in /etc/passwd"))
                .remedy("see the errors of users_groups; repeat it with: cloud-init single --name users_groups --frequency always"),
        );
    }
}
