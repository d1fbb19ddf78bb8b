//! ConfigDrive: OpenStack's (and many others') disk with metadata, labelled `config-2`.

use std::collections::BTreeMap;

use config::{Node, Value};
use serde_json::{Value as Json, json};
use state::{Instance, Network, Raw};
use system::{Error, Result, System, debug, warning};

use crate::{Datasource, Same, Search, Stage, USUAL_EVENTS, USUAL_ORDER, dmi, media, standard};

pub const CONFIGDRIVE: Datasource = Datasource {
    name: "ConfigDrive",
    stages: &[Stage::Local],
    find,
    check,
    network_order: USUAL_ORDER,
    events: USUAL_EVENTS,
};

/// OpenStack's versions that are understood, oldest first.
const VERSIONS: [&str; 8] = [
    "2012-08-10",
    "2013-04-04",
    "2013-10-17",
    "2015-10-15",
    "2016-06-30",
    "2016-10-06",
    "2017-02-22",
    "2018-08-27",
];

/// What is on a drive, read while it was mounted.
#[derive(Debug, Clone, Default)]
pub struct Drive {
    pub version: u8,
    pub metadata: Node,
    pub ec2: Node,
    pub user_data: Raw,
    pub vendor_data: Raw,
    pub vendor_data2: Raw,
    pub network_data: Option<Json>,
    /// Interfaces file, by older OpenStack.
    pub eni: Option<String>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub random_seed: Option<String>,
}

fn find(with: &Search<'_>) -> Result<Option<Instance>> {
    let sys = with.sys;
    // What is broken is skipped; that it was there is the answer only when nothing else is.
    let mut failures = Vec::new();
    let mut found = None;
    for directory in [with.layout.cloud("seed/config_drive"), "/config-drive".into()] {
        if !sys.is_dir(&directory) {
            continue;
        }
        match read(sys, &directory) {
            Ok(Some(drive)) => {
                found = Some((directory, drive, false));
                break;
            }
            Ok(None) => debug!(sys, "{directory} is no config drive"),
            Err(e) => failures.push(e),
        }
    }
    if found.is_none() {
        match media::find_config_drive(with) {
            Ok(drive) => found = drive.map(|(device, drive)| (device, drive, true)),
            Err(e) => failures.push(e),
        }
    }
    let Some((place, drive, is_disk)) = found else {
        return failures.into_iter().next().map_or(Ok(None), Err);
    };
    for e in failures {
        warning!(sys, "a config drive was skipped: {e}");
    }
    Ok(make(with, drive, &place, is_disk))
}

/// Reads a drive's tree; `None` when it is no config drive.
pub fn read(sys: &System, top: &str) -> Result<Option<Drive>> {
    if sys.is_dir(format!("{top}/openstack")) {
        return read_v2(sys, top).map(Some);
    }
    read_v1(sys, top)
}

fn optional(sys: &System, path: &str) -> Result<Option<Vec<u8>>> {
    match sys.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    }
}

/// A JSON file, if it is there; an error says where it stops being one.
fn json_file(sys: &System, path: &str) -> Result<Option<Json>> {
    let Some(bytes) = optional(sys, path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| Error::new(format!("{path}:{}:{}: not valid JSON", e.line(), e.column())))
}

fn read_v2(sys: &System, top: &str) -> Result<Drive> {
    let has = |version: &&str| sys.is_dir(format!("{top}/openstack/{version}"));
    let version = VERSIONS.iter().rev().copied().find(has).unwrap_or("latest");
    debug!(sys, "config drive in {top}, OpenStack version {version}");
    let at = |name: &str| format!("{top}/openstack/{version}/{name}");
    let Some(json) = json_file(sys, &at("meta_data.json"))? else {
        return Err(Error::new(format!("{} is missing", at("meta_data.json"))));
    };
    if !json.is_object() {
        return Err(Error::new(format!("{}: expected a map", at("meta_data.json"))));
    }
    let mut metadata = Node::from_json(&json);
    let id = metadata.get("uuid").filter(|n| !n.is_falsy()).cloned();
    let Some(id) = id else { return Err(Error::new(format!("{} has no uuid", at("meta_data.json")))) };
    let mut drive = Drive { version: 2, ..Drive::default() };
    if let Some(map) = metadata.as_map_mut() {
        map.insert("instance-id", id);
        if let Some(name) = map.get("hostname").cloned() {
            map.insert("local-hostname", name);
        }
        drive.random_seed = random_seed(sys, &at("meta_data.json"), map.remove("random_seed"));
    }
    let content = |path: &str| -> Result<Vec<u8>> {
        let path = format!("{top}/openstack/{}", path.trim_start_matches('/'));
        if path.split('/').any(|part| part == "..") {
            return Err(Error::new("a content path leads out of the drive"));
        }
        sys.read(path)
    };
    for file in metadata.get("files").and_then(Node::as_seq).into_iter().flatten() {
        let text = |key: &str| file.get(key).and_then(Node::as_str);
        let (Some(path), Some(from)) = (text("path"), text("content_path")) else {
            let what = "files: expected a path and a content_path";
            return Err(Error::new(format!("{}: {what}", at("meta_data.json"))));
        };
        drive.files.insert(path.to_string(), content(from)?);
    }
    if let Some(from) = metadata.at_path(&["network_config", "content_path"]).and_then(Node::as_str) {
        drive.eni = Some(String::from_utf8_lossy(&content(from)?).into_owned());
    }
    drive.network_data = json_file(sys, &at("network_data.json"))?;
    drive.user_data = Raw(optional(sys, &at("user_data"))?.filter(|b| !b.is_empty()).into_iter().collect());
    drive.vendor_data = vendor(sys, json_file(sys, &at("vendor_data.json"))?);
    drive.vendor_data2 = vendor(sys, json_file(sys, &at("vendor_data2.json"))?);
    match json_file(sys, &format!("{top}/ec2/latest/meta-data.json")) {
        Ok(ec2) => drive.ec2 = ec2.map(|j| Node::from_json(&j)).unwrap_or_default(),
        Err(e) => warning!(sys, "{e}; the EC2 part of the drive is ignored"),
    }
    drive.metadata = metadata;
    Ok(drive)
}

/// The seed as the cloud wrote it, if it is the base64 that it has to be.
fn random_seed(sys: &System, source: &str, node: Option<Node>) -> Option<String> {
    let text = node?.as_str()?.to_string();
    if encoding::base64::decode(text.as_bytes()).is_none() {
        warning!(sys, "{source}: random_seed: not base64; ignored");
        return None;
    }
    Some(text)
}

/// The first layout: an interfaces file, keys and meta.js at the drive's root.
fn read_v1(sys: &System, top: &str) -> Result<Option<Drive>> {
    let eni = optional(sys, &format!("{top}/etc/network/interfaces"))?;
    let meta = json_file(sys, &format!("{top}/meta.js"))?;
    let keys = optional(sys, &format!("{top}/root/.ssh/authorized_keys"))?;
    if eni.is_none() && meta.is_none() && keys.is_none() {
        return Ok(None);
    }
    let mut metadata = match meta.map(|m| Node::from_json(&m)) {
        Some(node) if node.as_map().is_some() => node,
        Some(_) => return Err(Error::new(format!("{top}/meta.js: expected a map"))),
        None => Node::from(config::Map::new()),
    };
    let mut drive = Drive { version: 1, ..Drive::default() };
    if let Some(map) = metadata.as_map_mut() {
        if let (Some(keys), None) = (keys, map.get("public-keys")) {
            let keys = String::from_utf8_lossy(&keys).into_owned();
            let keys: Vec<&str> = keys.lines().filter(|l| !l.trim_start().starts_with('#')).collect();
            map.insert("public-keys", keys.join("\n"));
        }
        if let Some(text) = map.get("user-data").and_then(Node::scalar_text) {
            drive.user_data = Raw(vec![text.into_bytes()]);
        }
    }
    drive.eni = eni.map(|b| String::from_utf8_lossy(&b).into_owned());
    drive.metadata = metadata;
    Ok(Some(drive))
}

/// OpenStack's vendor data: text, a list of parts, or an object whose `cloud-init` is one of these.
fn vendor(sys: &System, json: Option<Json>) -> Raw {
    let inner = match json {
        Some(Json::Object(mut map)) => map.remove("cloud-init"),
        other => other,
    };
    let items = match inner {
        Some(Json::Array(items)) => items,
        Some(Json::String(text)) if text.is_empty() => Vec::new(),
        Some(Json::Null) | None => Vec::new(),
        Some(one) => vec![one],
    };
    let texts: Vec<Vec<u8>> = items.iter().filter_map(|i| Some(i.as_str()?.as_bytes().to_vec())).collect();
    if texts.len() < items.len() {
        let (lost, all) = (items.len() - texts.len(), items.len());
        warning!(sys, "vendor data: expected text, or a list of texts: {lost} of {all} ignored");
    }
    Raw(texts)
}

fn make(with: &Search<'_>, drive: Drive, place: &str, is_disk: bool) -> Option<Instance> {
    let sys = with.sys;
    let text = |node: Option<&Node>| node.and_then(Node::scalar_text);
    let mode = match drive.version {
        1 => text(drive.metadata.get("dsmode")),
        _ => text(drive.metadata.at_path(&["meta", "dsmode"])),
    };
    // `pass`, which once meant "for somebody else's tool", has long been read as any other word.
    let mode = mode.or_else(|| text(with.settings("ConfigDrive").and_then(|s| s.get("dsmode"))));
    let mode = standard::dsmode(sys, "ConfigDrive", mode, "net");
    if mode == "disabled" {
        return None;
    }
    let mut instance = Instance {
        id: "iid-dsconfigdrive".into(),
        datasource: "ConfigDrive".into(),
        description: format!("DataSourceConfigDrive [{mode},ver={}][source={place}]", drive.version),
        dsmode: mode.clone(),
        cloud_name: "configdrive".into(),
        platform: "configdrive".into(),
        subplatform: format!("{} ({place})", if is_disk { "config-disk" } else { "seed-dir" }),
        random_seed: drive.random_seed.clone(),
        ..Instance::default()
    };
    standard::fill(&mut instance, &drive.metadata);
    if drive.version == 2 {
        instance.public_keys = standard::public_keys(drive.metadata.get("public_keys"));
        instance.availability_zone =
            text(drive.metadata.get("availability_zone")).or(instance.availability_zone);
    }
    let known = sys.read_text(with.layout.data("instance-id")).unwrap_or_default();
    if known.trim() != instance.id {
        write_files(sys, &drive.files);
    }
    let network = |format: &str, content: Json, file: &str| Network {
        format: format.into(),
        content,
        source: format!("{file} of {place}"),
        positions: String::new(),
    };
    instance.network = match (&drive.network_data, &drive.eni) {
        (Some(data), _) if !data.is_null() => {
            Some(network("network_data.json", data.clone(), "network_data.json"))
        }
        (_, Some(eni)) => Some(network("eni", eni.clone().into(), "network interfaces")),
        _ => None,
    };
    instance.devices = devices(&drive.ec2);
    let mut metadata = drive.metadata.to_json();
    // In the instance's data binary values are marked, as upstream's serialiser marks them.
    if let Some(seed) = drive.random_seed.and_then(|seed| encoding::base64::decode(seed.as_bytes())) {
        metadata["random_seed"] = format!("ci-b64:{}", encoding::base64::encode(&seed)).into();
    }
    instance.crawled = json!({
        "meta_data": metadata,
        "ec2_metadata": if drive.ec2.is_null() { json!({}) } else { drive.ec2.to_json() },
        "network_json": drive.network_data,
    });
    instance.user_data = drive.user_data;
    instance.vendor_data = drive.vendor_data;
    instance.vendor_data2 = drive.vendor_data2;
    Some(instance)
}

/// Files that the cloud injects, for a new instance.
fn write_files(sys: &System, files: &BTreeMap<String, Vec<u8>>) {
    for (path, content) in files {
        let path = format!("/{}", path.trim_start_matches('/'));
        if let Err(e) = sys.write(&path, content, system::Write::mode(0o660)) {
            warning!(sys, "config drive: {e}");
        }
    }
}

/// The names that EC2's part gives to block devices.
fn devices(ec2: &Node) -> serde_json::Map<String, Json> {
    let Some(Value::Map(map)) = ec2.get("block-device-mapping").map(|n| &n.value) else {
        return serde_json::Map::new();
    };
    map.iter()
        .filter_map(|(k, v)| {
            Some((k.as_str()?.to_string(), Json::from(v.as_str()?.trim_start_matches("/dev/"))))
        })
        .collect()
}

/// OpenStack gives the server's id to its firmware too.
fn check(with: &Search<'_>, cached: &Instance) -> Same {
    match dmi::read(with.sys, "system-uuid") {
        Some(uuid) if uuid.eq_ignore_ascii_case(&cached.id) => Same::Yes,
        // Others than OpenStack use the format with ids of their own: firmware then says nothing of it.
        Some(_) => Same::CannotTell("the instance-id is not the firmware's UUID".into()),
        None => Same::CannotTell("firmware has no UUID".into()),
    }
}
