//! Instance data, for all users and for root, compared with what Debian's cloud-init 26.2 wrote for the same seed
//! (`instance-data/record`): the same keys and values, except those that describe the program and its machine.

use std::path::Path;

use serde_json::{Map, Value};
use tests::{Sandbox, instance_data, without_program_specific};

/// The configuration is that of the image: the test checks that it exists, and what it must not contain.
fn take_configuration(data: &mut Map<String, Value>, whole: bool) {
    for name in ["merged_cfg", "merged_system_cfg"] {
        let config = data.get_mut(name).map(Value::take).unwrap_or_default();
        assert_eq!(config.is_object(), whole, "{name}");
        assert!(config.get("system_info").is_none(), "{name}");
    }
    if let Some(info) = data.get_mut("system_info") {
        assert!(info.take().get("distro").is_some());
    }
}

/// The path of the sensitive key that is in a list.
fn secret_in_list(data: &Value) -> Option<String> {
    let keys = data["sensitive_keys"].as_array()?;
    let is_index = |part: &str| part.parse::<u32>().is_ok();
    let paths = keys.iter().filter_map(Value::as_str);
    paths.filter(|path| path.split('/').any(is_index)).map(Into::into).next()
}

fn compare(case: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("instance-data").join(case);
    let sandbox = Sandbox::new(&format!("instance-data-{case}"));
    let seeds = sandbox.path("/var/lib/cloud/seed");
    let _ = std::fs::remove_dir_all(&seeds);
    let copied = std::process::Command::new("cp").arg("-r").arg(dir.join("seed")).arg(&seeds).status();
    assert!(copied.is_ok_and(|s| s.success()));
    let list = std::fs::read_to_string(dir.join("datasource")).unwrap_or_default();
    let config = sandbox.path("/etc/cloud/cloud.cfg.d/99-datasource.cfg");
    assert!(std::fs::write(config, format!("datasource_list: [{}]\n", list.trim())).is_ok());
    let boot = sandbox.run(&["local", "network"]);
    assert!(boot.ended_normally(), "{}", boot.output);
    for (name, whole) in [("instance-data", false), ("instance-data-sensitive", true)] {
        let file = format!("/run/cloud-init/{name}.json");
        let mut ours = instance_data(&sandbox.file(&file).unwrap_or_default());
        let mut theirs =
            instance_data(&std::fs::read_to_string(dir.join(format!("{name}.json"))).unwrap_or_default());
        assert!(theirs.len() > 5, "run instance-data/record");
        let keys = |data: &Map<String, Value>| data.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&ours), keys(&theirs), "{case} {name}");
        for data in [&mut ours, &mut theirs] {
            take_configuration(data, whole);
        }
        let (mut ours, mut theirs) = (Value::Object(ours), Value::Object(theirs));
        tests::hide_secrets(&mut theirs, whole);
        // Without a name in the seed, the machine's.
        for value in [&mut ours, &mut theirs].into_iter().filter(|_| case == "none") {
            for key in ["local-hostname", "local_hostname"] {
                assert!(value["v1"][key].take().is_string());
            }
        }
        // Upstream searches for secrets in maps only, not in lists.
        if let Some(path) = secret_in_list(&ours) {
            assert_eq!((case, path.as_str()), ("nocloud", "ds/meta_data/nested/list/1/vendor-data"));
            let pointer = format!("/{path}");
            let shown = ours.pointer(&pointer).cloned();
            if let (Some(there), Some(shown)) = (theirs.pointer_mut(&pointer), shown) {
                assert_eq!(shown == "redacted for non-root user", !whole);
                *there = shown;
            }
            if let Some(keys) = theirs["sensitive_keys"].as_array_mut() {
                keys.insert(0, path.into());
            }
        }
        without_program_specific(&mut ours, &[]);
        without_program_specific(&mut theirs, &[]);
        assert!(ours == theirs, "{case} {name}: {ours:#}\nupstream: {theirs:#}");
    }
}

#[test]
fn nocloud_matches_upstream() {
    compare("nocloud");
}

#[test]
fn configdrive_matches_upstream() {
    compare("configdrive");
}

#[test]
fn none_matches_upstream() {
    compare("none");
}
