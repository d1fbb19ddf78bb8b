//! The tables compared with examples, with the modules' own declarations, and with the published schema.

use std::collections::BTreeSet;

use config::schema::{ANY_MAP, BaseType, Definition, Format, INT, STR, Type, list};
use config::{FindingKind, Map, Node, Reader};

use super::samples;
use super::tables::{self, sections, top_level};

fn check(text: &str) -> Vec<String> {
    let root = config::yaml::parse("t", text).unwrap().root;
    let belongs = |name: &str| (name == "datasource").then_some("it belongs in /etc/cloud");
    super::check_cloud_config(&root, &belongs).iter().map(|f| format!("{f}")).collect()
}

#[test]
fn unknown_keys_are_reported_with_a_suggestion() {
    for (text, wanted) in [
        ("hostname: h\nruncmd: [ls, [ls, -l], null]\nusers: [default, {name: a, sudo: [x]}]", &[][..]),
        (
            "run_cmd: [x]\nuser: {name: a, shel: b}",
            &[
                "t:1:1: run_cmd: unknown key; did you mean 'runcmd'?",
                "t:2:17: user.shel: unknown key; did you mean 'shell'?",
            ],
        ),
        // The message lists the words for every kind of map, not only for the first.
        (
            "reporting: {a: {type: bogus, endpoint: x}}",
            &[
                "t:1:23: reporting.a.type: expected 'log', 'print', 'webhook', 'otlp' or 'hyperv', found another string",
            ],
        ),
        (
            "reporting: {a: {type: webhok, endpoint: x}}",
            &[
                "t:1:23: reporting.a.type: expected 'log', 'print', 'webhook', 'otlp' or 'hyperv'; did you mean 'webhook'?",
            ],
        ),
        ("user: {nmae: b, name: c}", &["t:1:8: user.nmae: unknown key; did you mean 'name'?"]),
        (
            "users: {default: true, b: {shel: c}}",
            &["t:1:28: users.b.shel: unknown key; did you mean 'shell'?"],
        ),
        (
            "users: [{name: b, lock_passwd: 'yes'}]",
            &["t:1:32: users[0].lock_passwd: expected true or false, found a string"],
        ),
        (
            "ca-certs: {remove-defaults: true}",
            &[
                "t:1:1: ca-certs: Deprecated in version 22.3. Use **ca_certs** instead.",
                "t:1:12: ca-certs.remove-defaults: Deprecated in version 22.3. Use **remove_defaults** instead.",
            ],
        ),
        (
            "growpart: {mode: of}",
            &["t:1:18: growpart.mode: expected 'auto', 'growpart', 'gpart' or 'off'; did you mean 'off'?"],
        ),
        (
            "growpart: {mode: false}",
            &[
                "t:1:18: growpart.mode: Changed in version 22.3. Specifying a boolean ``false`` value for **mode** is deprecated. Use the string ``'off'`` instead.",
            ],
        ),
        ("phone_home: {tries: 3}", &["t:1:13: phone_home.url: required, but missing"]),
        ("datasource: {}", &["t:1:1: datasource: not a key of cloud-config; it belongs in /etc/cloud"]),
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
        (
            "rh_subscription: {auto_attach: true, auto-attach: true}",
            &[
                "t:1:18: rh_subscription: expected only one of the keys auto_attach or auto-attach",
                "t:1:38: rh_subscription.auto-attach: Deprecated in version 25.3. Use **auto_attach** instead.",
            ],
        ),
        ("groups: {'': x}", &["t:1:10: groups.: unknown key; expected a name that is not empty"]),
        ("groups: [a, {'': [x]}]", &["t:1:14: groups[1].: unknown key; expected a name that is not empty"]),
        ("- a", &["t:1:1: expected a map of keys, found a list"]),
        // A word or a string of a form: all of them are expected.
        (
            "fs_setup: [{partition: auot}]\npower_state: {mode: halt, delay: soon}",
            &[
                "t:1:24: fs_setup[0].partition: expected 'auto', 'any', 'none' or an integer; did you mean 'auto'?",
                "t:2:34: power_state.delay: expected an integer or 'now', found another string",
            ],
        ),
    ] {
        assert_eq!(check(text), wanted, "{text}");
    }
}

#[test]
fn an_unknown_type_in_version_1_is_one_finding() {
    let text = "version: 1\nconfig:\n- {type: physcal, name: eth0, subnets: [{type: dhcp}]}";
    let root = config::yaml::parse("t", text).unwrap().root;
    let found: Vec<String> = super::check_network(&root).iter().map(|f| f.to_string()).collect();
    assert!(
        matches!(&found[..], [one] if one.starts_with("t:3:10: config[0].type: expected 'physical'") && one.ends_with("did you mean 'physical'?")),
        "{found:?}"
    );
}

#[test]
fn messages_never_contain_values() {
    let secret = "s3cr3t-Value";
    for field in top_level() {
        for form in
            ["X", "[X]", "{X: X}", "[{X: X, name: X}]", "{name: X, users: [{name: [X]}]}", "[[X, X, [X]]]"]
        {
            let form = form.replace("X:", "k:").replace('X', secret);
            for message in check(&format!("{}: {form}", field.name)) {
                assert!(!message.contains(secret), "{message}");
            }
        }
    }
}

/// Values that the table accepts and the modules reject: upstream's table is less strict than its modules.
const STRICTER_MODULES: &[(&str, &str)] = &[
    (
        "disk_setup.x.layout[0]",
        "a size is a number; upstream's table has one type for a size and a partition type",
    ),
    ("chpasswd.list", "lines of user:password"),
    ("ssh_pwauth", "a word that says yes or no"),
    ("users.x", "true or false, instead of a user's keys"),
    ("write_files[0].permissions", "a mode"),
    ("uid", "a number"),
    ("homedir", "an absolute path"),
    ("shell", "an absolute path"),
    ("sudo", "true is not a rule"),
];

/// The module's reader accepts everything that the table accepts, and both report the same deprecations.
#[test]
fn tables_and_readers_agree() {
    let mut wrong = Vec::new();
    let mut stricter = std::collections::BTreeSet::new();
    let mut count = 0;
    for section in crate::DOCS {
        let Some(read) = section.read else { continue };
        let module = section.name;
        for field in section.keys {
            let name = field.name;
            for sample in samples::field_samples(field) {
                count += 1;
                let document: Node = [(Node::from(name), sample.clone())].into_iter().collect::<Map>().into();
                let checked = super::check_cloud_config(&document, &|_| None);
                let mut reader = Reader::new();
                read(&document, &mut reader);
                let read = reader.into_findings();
                let bad = |kind| kind != FindingKind::Deprecated;
                wrong.extend(
                    checked.iter().filter(|f| bad(f.kind)).map(|f| format!("no sample: {module} {f}")),
                );
                for finding in read.iter().filter(|f| bad(f.kind)) {
                    match STRICTER_MODULES.iter().find(|(end, _)| finding.key.ends_with(end)) {
                        Some((end, _)) => drop(stricter.insert(*end)),
                        None => wrong.push(format!("{module} cannot read {finding}: {}", sample.to_json())),
                    }
                }
                let old = |findings: &config::Findings| {
                    let mut all: Vec<String> = findings
                        .of_kind(FindingKind::Deprecated)
                        .map(|f| format!("{} {}", f.key, f.message))
                        .collect();
                    all.sort();
                    all
                };
                // The type of `vendor_data.enabled` is reported when vendor-data is consumed.
                if old(&checked) != old(&read) && module != "scripts_vendor" {
                    wrong.push(format!(
                        "{module}: the table {:?}, the reader {:?}",
                        old(&checked),
                        old(&read)
                    ));
                }
            }
        }
    }
    assert!(count > 300, "{count}");
    assert_eq!(stricter.len(), STRICTER_MODULES.len(), "not stricter any more: {stricter:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn generated_json_schemas_are_current() {
    let mut cloud_config = super::cloud_config_schema();
    super::examples::Examples::read().add_to_schema(&mut cloud_config);
    let network = super::network_schema();
    // The entries of the catalogue of schemastore.org.
    let entry = |name: &str, description: &str, files: &[&str], schema: &serde_json::Value| {
        let url = &schema["$id"];
        serde_json::json!({ "name": name, "description": description, "fileMatch": files, "url": url })
    };
    let catalog = serde_json::json!({
        "$schema": "https://json.schemastore.org/schema-catalog.json",
        "version": 1,
        "schemas": [
            entry(
                "Firstlight cloud-config",
                "User-data and vendor-data of cloud-init and its configuration, as Firstlight reads them",
                &["user-data", "vendor-data", "*.cloud-config.yaml", "cloud.cfg", "**/cloud.cfg.d/*.cfg"],
                &cloud_config,
            ),
            entry(
                "Firstlight network-config",
                "Network configuration of cloud-init, version 1 and 2, as Firstlight reads it",
                &["network-config"],
                &network,
            ),
        ],
    });
    scratch::check_generated(&[
        ("packaging/schema/catalog.json", state::json_text(&catalog, 1)),
        ("packaging/schema/cloud-config.json", state::json_text(&cloud_config, 1)),
        ("packaging/schema/network-config.json", state::json_text(&network, 1)),
    ]);
}

#[test]
fn documentation_covers_every_module() {
    let all = super::module_docs("all").unwrap();
    for name in super::module_names() {
        assert!(
            all.contains(&format!("\n{name}\n---")) || all.starts_with(&format!("{name}\n---")),
            "{name}"
        );
    }
    let one = super::module_docs("cc_phone-home").unwrap();
    assert!(one.contains("  phone_home: map\n") && one.contains("url: a URL, required"), "{one}");
    assert_eq!(super::module_docs("nonsense"), None);
}

/// Returns the paths of the keys in a section's documentation, by their indentation. A sentence is indented by two levels.
fn documented_paths(text: &str) -> BTreeSet<String> {
    let (mut found, mut path) = (BTreeSet::new(), Vec::new());
    for line in text.lines().skip(2) {
        let key = line.trim_start();
        let depth = (line.len() - key.len()) / 2;
        if depth == 0 || depth > path.len() + 1 {
            continue;
        }
        path.truncate(depth - 1);
        path.push(key.split_once(": ").map_or(key, |(name, _)| name));
        found.insert(path.join("."));
    }
    found
}

/// Adds the paths of the keys below a value, each with whether it is of a deprecated form or spelling.
fn add_paths(types: &[Type], path: &str, is_old: bool, found: &mut BTreeSet<(bool, String)>) {
    for kind in types {
        let is_old = is_old || kind.deprecated.is_some();
        match kind.base {
            BaseType::Map(keys) => {
                for field in keys.iter().chain(kind.additional) {
                    let path =
                        if path.is_empty() { field.name.into() } else { format!("{path}.{}", field.name) };
                    add_paths(field.types, &path, is_old || field.deprecated.is_some(), found);
                    found.insert((is_old, path));
                }
            }
            BaseType::List(Some(items)) => add_paths(items, path, is_old, found),
            BaseType::Ref(definition) => add_paths(definition.types, path, is_old, found),
            _ => {}
        }
    }
}

/// The keys of a deprecated form are documented with the current one.
#[test]
fn documentation_has_every_key() {
    let (mut count, mut missing) = (0, Vec::new());
    let last = |path: &String| path.rsplit('.').next().unwrap().to_string();
    for section in sections() {
        let documented = documented_paths(&super::module_docs(section.name).unwrap());
        let names: BTreeSet<String> = documented.iter().map(last).collect();
        let mut all = BTreeSet::new();
        add_paths(&[config::schema::map(section.keys)], "", false, &mut all);
        count += all.len();
        for (is_old, path) in all {
            let is_documented = documented.contains(&path) || is_old && names.contains(&last(&path));
            if !is_documented {
                missing.push(format!("{}: {path}", section.name));
            }
        }
    }
    assert!(missing.is_empty(), "keys that `schema --docs` does not have:\n{}", missing.join("\n"));
    assert!(count > 500, "{count}");
}

/// Users read the words of YAML and JSON schema.
#[test]
fn types_are_named_as_in_yaml() {
    const LIST: Type = list(&[STR]);
    const URL: Type = STR.format(Format::Uri);
    const PAIR: Type = STR.format(Format::Pair);
    for (types, documented, in_messages) in [
        (&[STR, LIST][..], "string | list of strings", "a string or a list"),
        (&[list(&[LIST]), INT], "list of lists of strings | integer", "a list or an integer"),
        (&[list(&[STR, ANY_MAP]), list(&[URL])], "list of (string | map) | list of URLs", "a list"),
        (&[list(&[PAIR])], "list of strings such as user:password", "a list"),
    ] {
        assert_eq!(super::docs::types_text(types), documented);
        let names: Vec<&Type> = types.iter().collect();
        let message = super::check::expected_message(&names, &Node::null());
        assert_eq!(message, format!("expected {in_messages}, found null"));
    }
    assert_eq!(check("runcmd: ls"), ["t:1:9: runcmd: expected a list, found a string"]);
}

#[test]
fn module_documentation_has_the_default() {
    let docs = super::module_docs("base").unwrap();
    assert!(docs.contains("\n    script: integer, default 3600\n"), "{docs}");
}

/// Adds the keys without a description or a type, at any depth.
fn collect_undocumented(path: &str, types: &[Type], depth: usize, found: &mut Vec<String>) {
    assert!(depth < 20, "{path}: the tables have no recursive definitions");
    for kind in types {
        match kind.base {
            BaseType::Map(keys) => {
                for field in keys.iter().chain(kind.additional) {
                    let path = format!("{path}.{}", field.name);
                    let is_sentence =
                        field.doc.contains(' ') && field.doc.ends_with('.') || field.doc == "Ignored.";
                    if !is_sentence && field.deprecated.is_none() {
                        found.push(format!("{path}: no sentence: '{}'", field.doc));
                    }
                    if super::docs::types_text(field.types).is_empty() {
                        found.push(format!("{path}: no type"));
                    }
                    collect_undocumented(&path, field.types, depth + 1, found);
                }
            }
            BaseType::List(Some(items)) => {
                collect_undocumented(&format!("{path}[]"), items, depth + 1, found);
            }
            BaseType::Ref(definition) => collect_undocumented(path, definition.types, depth + 1, found),
            _ => {}
        }
    }
}

#[test]
fn every_key_has_a_description_and_a_type() {
    let mut found = Vec::new();
    let mut count = 0;
    for section in sections() {
        count += 1;
        // The keys of a section are at the top level of the document.
        collect_undocumented(section.name, &[config::schema::map(section.keys)], 0, &mut found);
    }
    for version in [&tables::network_v1::VERSION_1, &tables::network_v2::VERSION_2] {
        collect_undocumented(version.name, version.types, 0, &mut found);
    }
    assert!(count > 50, "{count}");
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}: {found:#?}", found.len());
}

#[test]
fn network_configurations_are_validated() {
    for (text, wanted) in [
        ("version: 2\nethernets: {e: {dhcp4: true}}", &[][..]),
        ("network: {version: 1, config: [{type: physical, name: e0, subnets: [{type: dhcp}]}]}", &[]),
        (
            "network: {version: 1, config: [{type: bond, nam: e0}]}",
            &["network.config[0].nam", "network.config[0].name"],
        ),
        ("version: 3", &["version"]),
        ("ethernets: {}", &["version"]),
        ("version: 1\nconfig: [{type: loopback, name: lo}, {type: infiniband, name: ib0}]", &[]),
        ("version: 2\nopenvswitch: {}\ndummy-devices: {d: {}}\nnm-devices: {n: {}}", &[]),
        (
            "version: 2\nethernets: {e: {gateway4: a, dhcp4: maybe}}",
            &["ethernets.e.gateway4", "ethernets.e.dhcp4"],
        ),
    ] {
        let root = config::yaml::parse("t", text).unwrap().root;
        let findings = super::check_network(&root);
        let keys: Vec<&str> = findings.iter().map(|f| f.key.as_str()).collect();
        assert_eq!(keys, wanted, "{text}");
        assert_eq!(findings.of_kind(FindingKind::Deprecated).count(), usize::from(text.contains("gateway4")));
    }
}

/// Returns the definitions by their names in the JSON schema.
fn collect_definitions(types: &[Type], found: &mut Vec<&'static Definition>) {
    for kind in types {
        match kind.base {
            BaseType::Ref(definition) => {
                found.push(definition);
                collect_definitions(definition.types, found);
            }
            BaseType::List(Some(items)) => collect_definitions(items, found),
            BaseType::Map(keys) => {
                keys.iter().chain(kind.additional).for_each(|f| collect_definitions(f.types, found));
            }
            _ => {}
        }
    }
}

#[test]
fn names_are_unique() {
    let names: Vec<&str> = top_level().map(|field| field.name).collect();
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), unique.len());
    assert!(names.len() >= 100, "{}", names.len());
    let mut cloud = Vec::new();
    top_level().for_each(|field| collect_definitions(field.types, &mut cloud));
    let mut network = Vec::new();
    collect_definitions(tables::network_v1::VERSION_1.types, &mut network);
    collect_definitions(tables::network_v2::VERSION_2.types, &mut network);
    for definitions in [cloud, network] {
        for a in &definitions {
            let same = |b: &&&Definition| format!("{:?}", b.types) == format!("{:?}", a.types);
            assert!(definitions.iter().filter(|b| b.name == a.name).all(|b| same(&b)), "{}", a.name);
        }
    }
}

/// The tables as Rust are the part of the modules that docs/try.md needs: the modules themselves need a machine. Written to the file
/// that FIRSTLIGHT_TABLES names (tests/browser/build).
#[test]
fn tables_are_written_as_rust() {
    let keys: Vec<_> = top_level().collect();
    let text = format!(
        "pub static KEYS: &[Field] = {};\npub static MODULES: &[&str] = {};\n\
         pub mod network_v1 {{\nuse super::*;\npub static VERSION_1: Definition = {};\n}}\n\
         pub mod network_v2 {{\nuse super::*;\npub static VERSION_2: Definition = {};\n}}\n",
        as_rust(&keys),
        as_rust(&tables::module_names()),
        as_rust(&tables::network_v1::VERSION_1),
        as_rust(&tables::network_v2::VERSION_2),
    );
    assert!(text.contains("name: \"runcmd\""));
    if let Some(path) = std::env::var_os("FIRSTLIGHT_TABLES") {
        std::fs::write(path, text).unwrap();
    }
}

/// Returns a constant as Rust: its debug output, with `&` where it has references.
fn as_rust(value: &dyn std::fmt::Debug) -> String {
    let (text, mut rust, mut is_string) = (format!("{value:?}"), String::new(), false);
    for part in text.split_inclusive('"') {
        if is_string {
            rust += part;
        } else {
            rust += &part
                .replace('[', "&[")
                .replace("Some(Deprecation", "Some(&Deprecation")
                .replace("Some(RequiredKeys", "Some(&RequiredKeys")
                .replace("Some(Field", "Some(&Field")
                .replace("Ref(Definition", "Ref(&Definition")
                .replace("default: Some(", "default: Some(&DefaultValue::")
                .replace("format: Some(", "format: Some(Format::");
        }
        let before = part.trim_end_matches('"');
        let is_escaped = is_string && (before.len() - before.trim_end_matches('\\').len()) % 2 == 1;
        is_string = is_escaped || !is_string;
    }
    rust
}
