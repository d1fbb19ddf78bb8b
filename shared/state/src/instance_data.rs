//! instance-data.json: the metadata and the facts of this machine, redacted for all users and complete for root; and the
//! cloud-id.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use system::{Result, System, WriteOptions};

use crate::obstacle::move_special_file_aside;
use crate::secret::is_secret;
use crate::{Instance, Layout, json};

/// Upstream's names of values that only root may read, at any depth and in any case; a name with a slash is a whole path.
/// [`secret::is_secret`] finds further secrets.
const SENSITIVE_KEYS: &str = "combined_cloud_config merged_cfg merged_system_cfg security-credentials userdata user-data \
    user_data vendordata vendor-data ds/vendor_data";

const REDACTED: &str = "redacted for non-root user";

/// The operating system.
#[derive(Debug, Clone, Default)]
pub struct SysInfo {
    /// The distribution's name in os-release(5): `debian`, `ubuntu`, …
    pub distro: String,
    /// The version in os-release(5).
    pub version: String,
    /// The release's code name in os-release(5).
    pub release: String,
    /// The distribution, or `linux`.
    pub variant: String,
    /// The fields system, node, release, version and machine of uname(2).
    pub uname: [String; 5],
}

impl SysInfo {
    /// Reads os-release(5) and uname(2).
    pub fn read(sys: &System) -> SysInfo {
        let release = sys.os_release();
        let value = |key: &str| release.get(key).unwrap_or_default().to_string();
        let distro = value("ID");
        SysInfo {
            variant: if distro.is_empty() { "linux".into() } else { distro.clone() },
            distro,
            version: value("VERSION_ID"),
            release: value("VERSION_CODENAME"),
            uname: sys.uname(),
        }
    }
}

/// Returns the cloud-id: the cloud's name, with a suffix by region for clouds that have separate partitions.
pub fn cloud_id(cloud_name: &str, region: Option<&str>, platform: &str) -> String {
    let name = match cloud_name {
        "" | "unknown" => platform,
        name => name,
    };
    let Some(region) = region.filter(|r| !r.is_empty() && *r != "unknown") else { return name.to_string() };
    match name {
        "aws" if region.starts_with("cn-") => "aws-china".into(),
        "aws" if region.starts_with("us-gov-") => "aws-gov".into(),
        "azure" if region.starts_with("china") => "azure-china".into(),
        _ => name.to_string(),
    }
}

/// Returns the instance-data of a machine without an instance, as with the datasource None.
pub fn fallback_instance_data(sys_info: &SysInfo, system_config: &Value) -> Value {
    let none = || "none".to_string();
    let instance = Instance {
        id: "iid-datasource-none".into(),
        cloud_name: none(),
        platform: none(),
        subplatform: "config".into(),
        crawled: json!({ "meta_data": {} }),
        ..Instance::default()
    };
    tree(&instance, sys_info, "none", system_config)
}

/// Returns the instance-data of an instance, with its secrets and the names of these.
pub fn instance_data(instance: &Instance, sys_info: &SysInfo, system_config: &Value) -> Value {
    let id = cloud_id(&instance.cloud_name, instance.region.as_deref(), &instance.platform);
    let mut all = tree(instance, sys_info, &id, system_config);
    let mut encoded = Vec::new();
    strip_base64_markers(&mut all["ds"], "ds", &mut encoded);
    sort::sort(&mut encoded);
    all["base64_encoded_keys"] = json!(encoded);
    let paths = sensitive_paths(&all, &instance.sensitive);
    all["sensitive_keys"] = json!(paths.iter().map(|path| path.join("/")).collect::<Vec<_>>());
    all
}

/// Writes both files, the cloud-id and its link. `system_config` is the merged configuration of the machine.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write_instance_data(
    sys: &System,
    layout: &Layout,
    instance: &Instance,
    sys_info: &SysInfo,
    system_config: &Value,
) -> Result<()> {
    let id = cloud_id(&instance.cloud_name, instance.region.as_deref(), &instance.platform);
    let mut all = instance_data(instance, sys_info, system_config);
    let paths = sensitive_paths(&all, &instance.sensitive);
    json::write(sys, &layout.sensitive_instance_data(), &all, WriteOptions::secret())?;
    for path in &paths {
        redact(&mut all, path);
    }
    json::write(sys, &layout.instance_data(), &all, WriteOptions::default())?;

    let name = format!("cloud-id-{id}");
    for old in sys.list(layout.run(""))? {
        let path = layout.run(&old);
        if old.starts_with("cloud-id-") && old != name && !sys.is_dir(&path) {
            sys.remove(path)?;
        }
    }
    move_special_file_aside(sys, &layout.run(&name))?;
    sys.write(layout.run(&name), format!("{id}\n"), WriteOptions::default())?;
    sys.link(&layout.run(&name), layout.run("cloud-id")).map(drop)
}

fn tree(instance: &Instance, sys_info: &SysInfo, id: &str, system_config: &Value) -> Value {
    let [system, node, release, version, machine] = &sys_info.uname;
    let mut crawled = match &instance.crawled {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    for name in ["user-data", "vendor-data"] {
        crawled.remove(name);
    }
    crawled.insert("_doc".into(), "What the datasource crawled, in its own format, which may change.".into());
    // Without a hostname in the metadata: the machine's own.
    let hostname = match instance.local_hostname.as_deref().filter(|h| !h.is_empty()) {
        Some(name) if instance.is_hostname_whole => name,
        name => name.unwrap_or(node).split('.').next().unwrap_or_default(),
    };
    json!({
        "base64_encoded_keys": [],
        "ds": crawled,
        "merged_cfg": with_doc(system_config, "The old name of merged_system_cfg."),
        "merged_system_cfg": with_doc(system_config, "The merged configuration of this machine, from /etc/cloud/cloud.cfg and what overrides it."),
        "sensitive_keys": [],
        "sys_info": {
            "dist": [sys_info.distro, sys_info.version, sys_info.release],
            "platform": format!("{system}-{release}-{machine}"),
            "python": Value::Null,
            "release": release,
            "system": system,
            "uname": [system, node, release, version, machine, ""],
            "variant": sys_info.variant,
        },
        "v1": {
            "_beta_keys": ["subplatform"],
            "availability-zone": instance.availability_zone,
            "availability_zone": instance.availability_zone,
            "cloud-name": instance.cloud_name,
            "cloud_id": id,
            "cloud_name": instance.cloud_name,
            "distro": sys_info.distro,
            "distro_release": sys_info.release,
            "distro_version": sys_info.version,
            "instance-id": instance.id,
            "instance_id": instance.id,
            "kernel_release": release,
            "local-hostname": hostname,
            "local_hostname": hostname,
            "machine": machine,
            "platform": instance.platform,
            "public_ssh_keys": instance.public_keys,
            "python_version": Value::Null,
            "region": instance.region,
            "subplatform": instance.subplatform,
            "system_platform": format!("{system}-{release}-{machine}"),
            "variant": sys_info.variant,
        },
    })
}

/// Returns upstream's feature flags, which tools check before they rely on a behaviour, with this program's values.
pub fn features() -> Value {
    json!({
        "ALLOW_EC2_MIRRORS_ON_NON_AWS_INSTANCE_TYPES": false,
        "APT_DEB822_SOURCE_LIST_FILE": true,
        "DEPRECATION_INFO_BOUNDARY": "devel",
        "ERROR_ON_USER_DATA_FAILURE": true,
        "EXPIRE_APPLIES_TO_HASHED_USERS": true,
        "MANUAL_NETWORK_WAIT": true,
        "NETPLAN_CONFIG_ROOT_READ_ONLY": true,
        "NOCLOUD_SEED_URL_APPEND_FORWARD_SLASH": true,
        "STRIP_INVALID_MTU": false,
    })
}

/// Adds the effective `system_info`, which is known once user-data is consumed, to root's file.
///
/// # Errors
/// Fails if the file cannot be read or written.
pub fn update_instance_data(sys: &System, layout: &Layout, system_info: &Value) -> Result<()> {
    let path = layout.sensitive_instance_data();
    let mut all = json::read(sys, &path)?;
    if let Value::Object(map) = &mut all {
        map.insert("features".into(), features());
        map.insert("system_info".into(), system_info.clone());
    }
    json::write(sys, &path, &all, WriteOptions::secret()).map(drop)
}

fn with_doc(config: &Value, doc: &str) -> Value {
    let mut map = match config {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    // It has a field of its own.
    map.remove("system_info");
    map.insert("_doc".into(), doc.into());
    Value::Object(map)
}

/// Removes the prefix of binary values, and collects their paths.
fn strip_base64_markers(value: &mut Value, path: &str, found: &mut Vec<String>) {
    let Value::Object(map) = value else { return };
    for (key, child) in map.iter_mut() {
        let child_path = format!("{path}/{key}");
        match child.as_str().and_then(|text| text.strip_prefix("ci-b64:")) {
            Some(encoded) => {
                *child = encoded.to_string().into();
                found.push(child_path);
            }
            None => strip_base64_markers(child, &child_path, found),
        }
    }
}

/// Returns the paths of everything that only root may read, each as a list of keys.
fn sensitive_paths(all: &Value, more: &[String]) -> Vec<Vec<String>> {
    let more = more.iter().map(|n| n.to_lowercase());
    let names: BTreeSet<String> = sort::collect(SENSITIVE_KEYS.split(' ').map(Into::into).chain(more));
    let mut found = Vec::new();
    let mut todo = vec![(Vec::new(), all)];
    while let Some((path, value)) = todo.pop() {
        let mut look = |key: &str, step: String, child| {
            let child_path: Vec<String> = path.iter().cloned().chain([step]).collect();
            let is_listed =
                names.contains(&key.to_lowercase()) || names.contains(&child_path.join("/").to_lowercase());
            if is_listed || is_secret(key, child) {
                found.push(child_path);
            } else {
                todo.push((child_path, child));
            }
        };
        match value {
            Value::Object(map) => {
                // A list of tags has `{"name": "password", "value": …}`.
                let is = |key: &str, names: &[&str]| names.iter().any(|name| key.eq_ignore_ascii_case(name));
                let tag = map.iter().find(|(key, _)| is(key, &["name", "key"])).and_then(|(_, v)| v.as_str());
                for (key, child) in map {
                    let name = tag.filter(|_| is(key, &["value"])).unwrap_or(key);
                    look(name, key.clone(), child);
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, child)| look("", i.to_string(), child));
            }
            _ => {}
        }
    }
    sort::sort(&mut found);
    found
}

fn redact(all: &mut Value, path: &[String]) {
    let mut at = all;
    for key in path {
        let next = match at {
            Value::Array(items) => key.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
            _ => at.get_mut(key),
        };
        let Some(next) = next else { return };
        at = next;
    }
    *at = REDACTED.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_id_depends_on_the_region() {
        for (name, region, platform, id) in [
            ("aws", Some("cn-north-1"), "ec2", "aws-china"),
            ("aws", Some("us-gov-west-1"), "ec2", "aws-gov"),
            ("azure", Some("chinaeast"), "azure", "azure-china"),
            ("unknown", None, "nocloud", "nocloud"),
            ("unknown", Some("x"), "lxd", "lxd"),
            ("gce", Some("europe"), "gce", "gce"),
        ] {
            assert_eq!(cloud_id(name, region, platform), id);
        }
    }

    #[test]
    fn doc_strings_are_plain_yaml() {
        let sys_info = SysInfo::default();
        let all = tree(&Instance::default(), &sys_info, "nocloud", &json!({"a": 1}));
        for part in ["ds", "merged_cfg", "merged_system_cfg"] {
            // Templates print it as a value.
            let doc = all[part]["_doc"].as_str().unwrap();
            assert!(!doc.contains(": ") && !doc.contains(" #"), "{part}: {doc}");
        }
    }

    #[test]
    fn neither_python_nor_the_c_library_is_named() {
        let all = tree(&Instance::default(), &SysInfo::default(), "nocloud", &json!({}));
        assert!(all["v1"]["python_version"].is_null() && all["sys_info"]["python"].is_null());
        assert!(!all["v1"]["system_platform"].to_string().contains("libc"), "{all}");
    }

    #[test]
    fn binary_values_are_listed() {
        let mut all = json!({"a": "ci-b64:AQ==", "b": {"c": "ci-b64:Ag==", "d": "x"}, "e": ["ci-b64:no"]});
        let mut found = Vec::new();
        strip_base64_markers(&mut all, "ds", &mut found);
        assert_eq!(found, ["ds/a", "ds/b/c"]);
        assert_eq!(all, json!({"a": "AQ==", "b": {"c": "Ag==", "d": "x"}, "e": ["ci-b64:no"]}));
    }

    #[test]
    fn secrets_at_any_depth_are_redacted() {
        let mut all = json!({
            "ds": {
                "vendor_data": 1,
                "a": {"User-Data": "s", "vendor_data": {"region": "s"}, "region": "kept"},
                "users": [{"name": "kept", "password": "s"}, ["kept", "-----BEGIN RSA PRIVATE KEY-----s"]],
                "tags": [{"Key": "db-password", "Value": "s"}, {"Key": "role", "Value": "kept"}],
                "10": {"a/b": {"secret": "s"}},
            },
            "v1": {"x": 3, "public_ssh_keys": ["kept"]},
        });
        let paths = sensitive_paths(&all, &["X".into()]);
        assert_eq!(
            paths.iter().map(|path| path.join("/")).collect::<Vec<_>>(),
            [
                "ds/10/a/b/secret",
                "ds/a/User-Data",
                "ds/a/vendor_data",
                "ds/tags/0/Value",
                "ds/users/0/password",
                "ds/users/1/1",
                "ds/vendor_data",
                "v1/x",
            ]
        );
        for path in &paths {
            redact(&mut all, path);
        }
        let text = all.to_string();
        assert!(!text.contains("\"s\"") && !text.contains("PRIVATE"), "{text}");
        assert_eq!(text.matches("kept").count(), 5, "{text}");
    }
}
