//! Nothing that a metadata service serves is lost: each value of each answer that was requested is in the instance's metadata,
//! its user-data or vendor-data, its keys or its network configuration, or has a reason why it is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/served.rs"]
mod served;

use std::collections::BTreeSet;

use scratch::TempDir;
use serde_json::Value;
use served::{Case, Server};
use state::Instance;

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clouds");

/// The reason for most entries: the datasource copies only the fields that are used.
const AS_UPSTREAM: &str = "in none of upstream's files either (tests/clouds/NAME/upstream)";

/// Values that are not kept: the fixture, the path (with the pointer; a prefix unless it ends with `$`), and the reason.
const NOT_KEPT: [(&str, &str, &str); 18] = [
    ("digitalocean", "/metadata/v1.json/auth_key", AS_UPSTREAM),
    ("digitalocean", "/metadata/v1.json/features", AS_UPSTREAM),
    ("digitalocean", "/metadata/v1.json/floating_ip", AS_UPSTREAM),
    ("digitalocean", "/metadata/v1.json/tags", AS_UPSTREAM),
    ("hetzner", "/hetzner/v1/metadata/availability-zone", AS_UPSTREAM),
    ("hetzner", "/hetzner/v1/metadata/public-ipv4", AS_UPSTREAM),
    ("hetzner", "/hetzner/v1/metadata/region", AS_UPSTREAM),
    ("openstack", "/openstack$", "the versions of the service"),
    ("openstack", "/openstack/2018-08-27/vendor_data.json/other", "vendor-data is the value of cloud-init"),
    ("openstack", "/openstack/2018-08-27/vendor_data2.json/static", "vendor-data is the value of cloud-init"),
    ("upcloud", "/metadata/v1.json/cloud_name", "the datasource's own name"),
    ("upcloud", "/metadata/v1.json/platform", AS_UPSTREAM),
    ("upcloud", "/metadata/v1.json/storage", AS_UPSTREAM),
    ("upcloud", "/metadata/v1.json/subplatform", "the URL that was requested is in the instance data"),
    ("upcloud", "/metadata/v1.json/tags", AS_UPSTREAM),
    ("vultr", "/v1.json/region/", AS_UPSTREAM),
    ("vultr-named", "/v1.json/region/", AS_UPSTREAM),
    ("gce", "/computeMetadata/v1/instance/zone", "kept without the number of the project"),
];

/// Returns the values of a document by their pointers, as text.
fn scalars(at: &str, value: &Value, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| scalars(&format!("{at}/{key}"), value, all)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| scalars(&format!("{at}/{i}"), value, all));
        }
        Value::Null => {}
        Value::String(text) => all.push((at.into(), text.clone())),
        other => all.push((at.into(), other.to_string())),
    }
}

/// Returns the values that an instance has, and their lines, without surrounding whitespace.
fn kept(instance: &Instance) -> BTreeSet<String> {
    let mut all = Vec::new();
    let network = instance.network.as_ref().map(|network| network.content.clone()).unwrap_or_default();
    for document in [&instance.crawled, &network, &instance.config] {
        scalars("", document, &mut all);
    }
    let mut values: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
    for blobs in [&instance.user_data, &instance.vendor_data, &instance.vendor_data2] {
        values.extend(blobs.0.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    }
    values.extend(instance.public_keys.iter().cloned());
    values.extend(instance.local_hostname.clone());
    values.extend(instance.random_seed.clone());
    values.push(instance.id.clone());
    let lines = values.iter().flat_map(|text| text.lines().map(str::to_string)).collect::<Vec<_>>();
    values.into_iter().chain(lines).map(|text| text.trim().to_string()).collect()
}

/// Returns whether the instance has a value: as a whole, decoded, parsed, or each of its lines.
fn has(kept: &BTreeSet<String>, text: &str) -> bool {
    let decoded = encoding::base64::decode_strict(text.trim().as_bytes());
    let decoded = decoded.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string());
    let mut parsed = Vec::new();
    if let Ok(document @ (Value::Object(_) | Value::Array(_))) = config::json::value(text.as_bytes()) {
        scalars("", &document, &mut parsed);
    }
    kept.contains(text.trim())
        || !parsed.is_empty() && parsed.iter().all(|(_, text)| has(kept, text))
        || decoded.is_some_and(|text| kept.contains(&text))
        || text.lines().all(|line| line.trim().is_empty() || kept.contains(line.trim()))
}

#[test]
fn all_served_values_are_kept() {
    let mut lost = Vec::new();
    let mut unused: BTreeSet<_> = NOT_KEPT.iter().map(|(case, path, _)| (*case, *path)).collect();
    let mut count = 0;
    for case in served::cases(CLOUDS) {
        let (requested, answers, instance) = read(&case);
        let kept = kept(&instance);
        for path in requested {
            let mut values = Vec::new();
            // The listing of a directory has the names of the others.
            if !(path.ends_with('/') && answers[&path].is_string()) {
                scalars(&path, &answers[&path], &mut values);
            }
            count += values.len();
            for (at, text) in values.into_iter().filter(|(_, text)| !has(&kept, text)) {
                let is_of =
                    |path: &str| path.strip_suffix('$').map_or(at.starts_with(path), |path| at == path);
                let reason = NOT_KEPT.iter().find(|(name, path, _)| *name == case.name && is_of(path));
                match reason {
                    Some((name, path, _)) => drop(unused.remove(&(*name, *path))),
                    None => lost.push(format!("{}: {at}: {text:.80}", case.name)),
                }
            }
        }
    }
    assert!(lost.is_empty(), "{} of {count} values are lost:\n{}", lost.len(), lost.join("\n"));
    assert!(unused.is_empty(), "kept, but listed as not kept: {unused:?}");
    assert!(count > 300, "only {count} values");
}

fn read(case: &Case) -> (BTreeSet<String>, served::Answers, Instance) {
    let (top, server, answers) = (TempDir::in_memory(), Server::start(), served::answers(case));
    server.set(served::bodies(&answers));
    let (_, found) = served::find(top.as_ref(), case, &server);
    let instance = found.unwrap().unwrap_or_else(|| panic!("{}: no instance", case.name));
    (server.requested(), answers, instance)
}
