//! The tables against examples, against the modules' own declarations, and against what packaging publishes.

use std::collections::BTreeSet;

use config::{Key, Kind};

use super::docs::{DECLARED, keys_below};
use super::table::{Field, Of, Table, Type};

fn said(text: &str) -> Vec<String> {
    let root = config::yaml::parse("t", text).unwrap().root;
    let belongs = |name: &str| (name == "datasource").then_some("it belongs into /etc/cloud");
    super::cloud_config(&root, &belongs).iter().map(|f| format!("{f}")).collect()
}

#[test]
fn findings() {
    for (text, wanted) in [
        ("hostname: h\nruncmd: [ls, [ls, -l], null]\nusers: [default, {name: a, sudo: [x]}]", &[][..]),
        (
            "run_cmd: [x]\nuser: {name: a, shel: b}",
            &[
                "t:1:1: run_cmd: unknown key; did you mean 'runcmd'?",
                "t:2:17: user.shel: unknown key; did you mean 'shell'?",
            ],
        ),
        (
            "users: [{name: b, lock_passwd: 'yes'}]",
            &["t:1:32: users[0].lock_passwd: expected true or false, found text"],
        ),
        (
            "ca-certs: {remove-defaults: true}",
            &[
                "t:1:1: ca-certs: deprecated since 22.3, use 'ca_certs' instead",
                "t:1:12: ca-certs.remove-defaults: deprecated since 22.3, use 'remove_defaults' instead",
            ],
        ),
        (
            "growpart: {mode: of}",
            &["t:1:18: growpart.mode: expected 'auto', 'growpart', 'gpart' or 'off'; did you mean 'off'?"],
        ),
        (
            "growpart: {mode: false}",
            &["t:1:18: growpart.mode: this form is deprecated since 22.3, use off instead"],
        ),
        ("phone_home: {tries: 3}", &["t:1:13: phone_home.url: required, but missing"]),
        ("datasource: {}", &["t:1:1: datasource: not a key of cloud-config; it belongs into /etc/cloud"]),
        (
            "reporting: {a: {type: webhook, endpoint: u, retries: -1}}",
            &["t:1:54: reporting.a.retries: expected at least 0"],
        ),
        ("mounts: []", &["t:1:9: mounts: expected at least 1 item"]),
        ("packages: [[a]]", &["t:1:12: packages[0]: expected 2 items"]),
        (
            "ssh_keys: {dsa_private: x}",
            &[
                "t:1:12: ssh_keys.dsa_private: unknown key; expected a kind of host key such as ed25519_private",
            ],
        ),
        ("chpasswd: {users: [{name: a, type: RANDOM}, {name: b, password: c}]}", &[]),
        ("- a", &["t:1:1: expected a map of keys, found a list"]),
    ] {
        assert_eq!(said(text), wanted, "{text}");
    }
}

#[test]
fn no_value_is_told() {
    let secret = "s3cr3t-Value";
    let table = Table::cloud_config();
    for field in table.top() {
        for form in
            ["X", "[X]", "{X: X}", "[{X: X, name: X}]", "{name: X, users: [{name: [X]}]}", "[[X, X, [X]]]"]
        {
            let form = form.replace("X:", "k:").replace('X', secret);
            for told in said(&format!("{}: {form}", field.name)) {
                assert!(!told.contains(secret), "{told}");
            }
        }
    }
}

/// All keys of the table at and below some types.
fn names_below<'t>(table: &'t Table, types: &'t [Type], found: &mut Vec<&'t Field>) {
    for kind in types {
        match &kind.of {
            Of::Map(fields) => found.extend(&fields.keys),
            Of::List(Some(items)) => names_below(table, items, found),
            Of::Named(name) => names_below(table, table.named(name), found),
            _ => {}
        }
    }
}

/// Spellings that a module of ours reads although upstream's schema refuses them.
const MORE: &[&str] = &["remove-users"];

fn compare(
    table: &Table,
    path: &str,
    key: &Key,
    field: &Field,
    wrong: &mut Vec<String>,
    siblings: &[&Field],
) {
    for (name, since) in key.also {
        match siblings.iter().find(|f| f.name == *name) {
            Some(old) if old.old.map(|o| o.since).unwrap_or_default() == *since => {}
            Some(old) => wrong.push(format!("{path}.{name}: deprecated since {since} or {:?}", old.old)),
            None if since.is_empty() || MORE.contains(name) => {}
            None => wrong.push(format!("{path}.{name}: not in the table")),
        }
    }
    let declared = keys_below(&key.shape);
    let mut known = Vec::new();
    names_below(table, &field.types, &mut known);
    if declared.is_empty() || known.is_empty() {
        return;
    }
    level(table, path, &declared, &known, wrong);
}

fn level(table: &Table, path: &str, declared: &[&Key], known: &[&Field], wrong: &mut Vec<String>) {
    for key in declared {
        let path = format!("{path}.{}", key.name);
        match known.iter().find(|f| f.name == key.name) {
            Some(field) => compare(table, &path, key, field, wrong, known),
            None => wrong.push(format!("{path}: not in the table")),
        }
    }
    let spelled: BTreeSet<&str> =
        declared.iter().flat_map(|k| std::iter::once(k.name).chain(k.also.iter().map(|a| a.0))).collect();
    for field in known.iter().filter(|f| !spelled.contains(f.name)) {
        wrong.push(format!("{path}.{}: not declared by its module", field.name));
    }
}

#[test]
fn modules_and_table_agree() {
    let table = Table::cloud_config();
    let mut wrong = Vec::new();
    let top: Vec<&Field> = table.top().collect();
    for (module, tables) in DECLARED {
        for key in tables.iter().copied().flatten() {
            match top.iter().find(|f| f.name == key.name) {
                Some(field) => compare(&table, module, key, field, &mut wrong, &top),
                None => wrong.push(format!("{module}.{}: not in the table", key.name)),
            }
        }
        // Every key of the module's section is read by some module.
        let section = table.sections.iter().find(|s| s.name == *module);
        for field in section.into_iter().flat_map(|s| &s.keys) {
            let all = DECLARED.iter().flat_map(|(_, tables)| tables.iter().copied().flatten());
            let mut spelled = all.flat_map(|k| std::iter::once(k.name).chain(k.also.iter().map(|a| a.0)));
            if !spelled.any(|name| name == field.name) {
                wrong.push(format!("{module}: {} is not declared", field.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_both() {
    let listed: BTreeSet<&str> = crate::MODULES.iter().map(|m| m.name).collect();
    assert_eq!(listed, DECLARED.iter().map(|(name, _)| *name).collect());
    for name in listed {
        assert!(super::is_known(name), "{name}");
    }
}

#[test]
fn published() {
    for (name, schema) in
        [("cloud-config", super::cloud_config_schema()), ("network-config", super::network_schema())]
    {
        let path = format!("{}/../../packaging/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = state::json_text(&schema, 1);
        if std::env::var_os("WRITE_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{path} is old: run this test with WRITE_SCHEMA=1");
    }
}

#[test]
fn documentation() {
    let all = super::docs("all").unwrap();
    for name in super::names() {
        assert!(
            all.contains(&format!("\n{name}\n---")) || all.starts_with(&format!("{name}\n---")),
            "{name}"
        );
    }
    let one = super::docs("cc_phone-home").unwrap();
    assert!(one.contains("  phone_home: map\n") && one.contains("url: a URL, required"), "{one}");
    assert_eq!(super::docs("nonsense"), None);
}

#[test]
fn networks() {
    for (text, wanted) in [
        ("version: 2\nethernets: {e: {dhcp4: true}}", &[][..]),
        ("network: {version: 1, config: [{type: physical, name: e0, subnets: [{type: dhcp}]}]}", &[]),
        (
            "network: {version: 1, config: [{type: bond, nam: e0}]}",
            &["network.config[0].nam", "network.config[0].name"],
        ),
        ("version: 3", &["version"]),
        ("ethernets: {}", &["version"]),
        (
            "version: 2\nethernets: {e: {gateway4: a, dhcp4: maybe}}",
            &["ethernets.e.gateway4", "ethernets.e.dhcp4"],
        ),
    ] {
        let root = config::yaml::parse("t", text).unwrap().root;
        let findings = super::network(&root);
        let keys: Vec<&str> = findings.iter().map(|f| f.key.as_str()).collect();
        assert_eq!(keys, wanted, "{text}");
        assert_eq!(findings.of(Kind::Deprecated).count(), usize::from(text.contains("gateway4")));
    }
}
