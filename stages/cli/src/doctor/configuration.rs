//! The configuration files and instance data that exist, and configured users that do not.

use config::{Node, Position, Value};
use serde_json::json;
use state::layout::RAW_DATA;

use super::page::Page;
use super::results::{add_config_finding, split_position};
use crate::machine::Machine;

pub fn section(machine: &Machine, page: &mut Page) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let (settings, inputs) = crate::explain::replay_merge(machine);
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
    for (place, problem) in unknown_datasources(&settings.merged) {
        let remedy = "remove the name, or correct it: cloud-init-datasources(7) lists the names";
        page.findings.warning(place, problem, remedy);
    }
    users(machine, &settings.merged, page);
    page.section("read", "Read", lines.clone(), json!({ "files": lines, "configuration": names }));
}

/// Returns the place and the problem of each entry of `datasource_list` for which there is no datasource: a misspelled name, or a
/// datasource in Python.
pub fn unknown_datasources(merged: &Node) -> Vec<(String, String)> {
    let entries = merged.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
    let is_known = |name: &str| clouds::CLOUDS.iter().any(|cloud| clouds::is_name(name, cloud.name));
    let unknown = entries.iter().filter_map(|entry| Some((entry, entry.scalar_text()?)));
    let unknown = unknown.filter(|(_, name)| !is_known(name));
    let finding = |(entry, name): (&Node, String)| {
        let problem = format!("datasource_list: there is no datasource {}", config::shown_name(&name));
        (entry.at.to_string(), problem)
    };
    unknown.map(finding).collect()
}

/// Finds configured users that do not exist. Users of libnss-extrausers and snap are not looked for.
fn users(machine: &Machine, merged: &Node, page: &mut Page) {
    if !machine.sys.exists(machine.layout.instance("")) {
        return;
    }
    let Some(passwd) = page.findings.read(machine.sys.read_text("/etc/passwd")) else { return };
    for (name, at) in configured_users(merged) {
        if passwd.lines().any(|line| line.split(':').next() == Some(&name)) {
            continue;
        }
        let place =
            split_position(&format!("{at}: ")).map_or_else(|| "users".to_string(), |(place, _)| place);
        let name = config::shown_name(&name);
        let problem = format!("user {name} is configured and not in /etc/passwd");
        page.findings.error(place, problem, "see the errors of users_groups; repeat it with: cloud-init single --name users_groups --frequency always");
    }
}

/// Returns the names of configured users, except for the default user, and where they are set. `users` is a list of names, of
/// lists of names and of maps; a string; or a map by name.
fn configured_users(merged: &Node) -> Vec<(String, Position)> {
    let names = |node: &Node| -> Vec<(String, Position)> {
        let text = node.scalar_text().unwrap_or_default();
        text.split(',').map(|name| (name.trim().to_string(), node.at.clone())).collect()
    };
    let mut found = Vec::new();
    match merged.get("users").map(|users| &users.value) {
        Some(Value::Seq(items)) => {
            for item in items {
                match &item.value {
                    Value::Map(map) => found.extend(map.get("name").into_iter().flat_map(names)),
                    Value::Seq(inner) => found.extend(inner.iter().flat_map(names)),
                    _ => found.extend(names(item)),
                }
            }
        }
        Some(Value::Map(map)) => {
            let is_wanted = |value: &Node| match &value.value {
                Value::Map(_) => true,
                Value::Seq(_) | Value::Null => false,
                _ => matches!(
                    value.scalar_text().unwrap_or_default().trim().to_ascii_lowercase().as_str(),
                    "true" | "1" | "on" | "yes"
                ),
            };
            found.extend(map.iter().filter(|(_, value)| is_wanted(value)).flat_map(|(key, _)| names(key)));
        }
        Some(Value::Str(_)) => found.extend(merged.get("users").into_iter().flat_map(names)),
        _ => {}
    }
    found.retain(|(name, _)| !name.is_empty() && name != "default");
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn entries_without_a_datasource_are_named() {
        let text = "datasource_list: [NoCloud, nocloud-net, DataSourceEc2, MyCloud, '', 7, None]";
        let root = config::yaml::parse("t", text).unwrap().root;
        let found: Vec<_> =
            super::unknown_datasources(&root).into_iter().map(|(at, name)| at + " " + &name).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], "t:1:57 datasource_list: there is no datasource MyCloud");
    }

    #[test]
    fn default_users_are_not_counted() {
        for (users, wanted) in [
            (
                "[default, a, 'b, c', [d, default], {name: e}, {shell: /bin/sh}]",
                &["a", "b", "c", "d", "e"][..],
            ),
            ("{default: true, a: {shell: /bin/sh}, b: 'yes', c: false, d: null}", &["a", "b"]),
            ("a,default,b", &["a", "b"]),
            ("[]", &[]),
        ] {
            let root = config::yaml::parse("t", &format!("users: {users}")).unwrap().root;
            let found: Vec<String> =
                super::configured_users(&root).into_iter().map(|(name, _)| name).collect();
            assert_eq!(found, wanted, "{users}");
        }
    }
}
