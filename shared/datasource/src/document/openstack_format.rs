//! OpenStack's own format: the same files on a config drive and below a metadata service's `openstack/`. This module
//! parses them; the caller fetches them.

use std::collections::BTreeMap;

use config::{Node, Value};
use serde_json::{Value as Json, json};
use state::{Blobs, DeviceSearch, Instance, NetworkFormat};
use system::{Error, Result, System, debug, error, warning};

use crate::document::fields::FieldType::{Data, Keys, Str, StrList, Text};
use crate::document::fields::{self, Field};
use crate::{document, standard};

const FIELDS: [Field; 9] = [
    ("uuid", Text, true),
    ("hostname", Text, false),
    ("public_keys", Keys, false),
    ("availability_zone", Text, false),
    ("random_seed", Data, false),
    ("meta.dsmode", Text, false),
    ("files[].path", Text, true),
    ("files[].content_path", Text, true),
    ("network_config.content_path", Text, false),
];

/// The supported versions of OpenStack, oldest first.
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

/// The names of the files in the directory of a metadata version.
pub const FILES: [&str; 5] =
    ["meta_data.json", "user_data", "vendor_data.json", "vendor_data2.json", "network_data.json"];

/// The parsed files.
#[derive(Debug, Clone, Default)]
pub struct OpenStackData {
    pub version: u8,
    pub metadata: Node,
    pub ec2: Node,
    pub user_data: Blobs,
    pub vendor_data: Blobs,
    pub vendor_data2: Blobs,
    pub network_data: Option<Json>,
    /// The interfaces file of older releases of OpenStack.
    pub eni: Option<String>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub random_seed: Option<String>,
}

/// The fields of `network_data.json` whose wrong types its parser cannot tell from missing ones.
const NETWORK_FIELDS: [Field; 14] = [
    ("links[].id", Str, false),
    ("links[].name", Str, false),
    ("links[].type", Text, false),
    ("links[].ethernet_mac_address", Str, false),
    ("links[].bond_links", StrList, false),
    ("links[].vlan_link", Str, false),
    ("networks[].link", Str, false),
    ("networks[].type", Str, false),
    ("networks[].ip_address", Str, false),
    ("networks[].routes[].network", Str, false),
    ("networks[].routes[].destination", Str, false),
    ("networks[].routes[].netmask", Text, false),
    ("networks[].routes[].gateway", Str, false),
    ("services[].address", Str, false),
];

/// Fields that identify a network or a route: without them it would be another one.
const OF_NETWORK: [&str; 2] = ["ip_address", "type"];
const OF_ROUTE: [&str; 4] = ["network", "destination", "netmask", "gateway"];

/// Returns a network configuration in OpenStack's format without its invalid fields, which are logged, and without networks and
/// routes that would be others without them: those are null.
pub fn checked_network(sys: &System, source: &str, data: &Json) -> Json {
    let given = Node::from_json(data);
    for (i, link) in document::items(&given, "links").iter().enumerate() {
        let needed = match document::text(link, "type").as_deref() {
            Some("bond") => continue,
            Some("vlan") => "vlan_link",
            // A NIC is found by its MAC.
            _ if document::text(link, "name").is_none() => "ethernet_mac_address",
            _ => continue,
        };
        if document::is_null(link, needed) {
            warning!(sys, "{source}: links[{i}].{needed}: expected a string, found null; ignored");
        }
    }
    let mut data = given.clone();
    fields::drop_invalid(sys, source, &mut data, &NETWORK_FIELDS);
    let networks = data.as_map_mut().and_then(|data| items_mut(data, "networks"));
    for (network, given) in networks.into_iter().flatten().zip(document::items(&given, "networks")) {
        let routes = network.as_map_mut().and_then(|network| items_mut(network, "routes"));
        for (route, given) in routes.into_iter().flatten().zip(document::items(given, "routes")) {
            drop_if_changed(route, given, &OF_ROUTE);
        }
        drop_if_changed(network, given, &OF_NETWORK);
    }
    data.to_json()
}

fn items_mut<'n>(map: &'n mut config::Map, key: &str) -> Option<&'n mut Vec<Node>> {
    match &mut map.get_mut(key)?.value {
        Value::Seq(items) => Some(items),
        _ => None,
    }
}

/// Replaces an item by null if one of these fields was invalid.
fn drop_if_changed(item: &mut Node, given: &Node, keys: &[&str]) {
    let was_invalid =
        |key: &&str| document::is_null(item, key) && given.get(key).is_some_and(|value| !value.is_null());
    if keys.iter().any(was_invalid) {
        *item = Node::null();
    }
}

/// Reads one file by its path from the top (`openstack/latest/meta_data.json`); returns `None` if it does not exist.
pub type Get<'f> = &'f mut dyn FnMut(&str) -> Result<Option<Vec<u8>>>;

/// Returns the newest available version that is supported.
pub fn newest_version(mut has: impl FnMut(&str) -> bool) -> &'static str {
    VERSIONS.iter().rev().copied().find(|version| has(version)).unwrap_or("latest")
}

/// Returns a JSON file, if it exists; an error has the position. `top` is for messages.
pub fn json_file(top: &str, path: &str, get: Get<'_>) -> Result<Option<Json>> {
    let Some(bytes) = get(path)? else { return Ok(None) };
    config::json::value(&bytes)
        .map(Some)
        .map_err(|e| Error::new(format!("{top}/{path}:{}:{}: not valid JSON", e.line, e.column)))
}

/// Like [`json_file`], with maps in the order of the file, which matters for SSH keys.
pub fn node_file(top: &str, path: &str, get: Get<'_>) -> Result<Option<Node>> {
    let Some(bytes) = get(path)? else { return Ok(None) };
    if let Some(node) = std::str::from_utf8(&bytes).ok().and_then(|text| config::json::parse(text).ok()) {
        return Ok(Some(node));
    }
    // The error of this parser has a position.
    json_file(top, path, &mut |_| Ok(Some(bytes.clone()))).map(|json| json.map(|json| Node::from_json(&json)))
}

/// Reads the files of one version. Fails if a required file is missing or invalid.
pub fn read(sys: &System, top: &str, version: &str, get: Get<'_>) -> Result<OpenStackData> {
    debug!(sys, "{top}: OpenStack's format, version {version}");
    let path = |name: &str| format!("openstack/{version}/{name}");
    let at = |name: &str| format!("{top}/{}", path(name));
    let Some(mut metadata) = node_file(top, &path("meta_data.json"), get)? else {
        return Err(Error::new(format!("{} is missing", at("meta_data.json"))));
    };
    if metadata.as_map().is_none() {
        return Err(Error::new(format!("{}: expected a map", at("meta_data.json"))));
    }
    fields::drop_invalid(sys, &at("meta_data.json"), &mut metadata, &FIELDS);
    let id = metadata.get("uuid").filter(|n| !n.is_falsy()).cloned();
    let Some(id) = id else { return Err(Error::new(format!("{} has no uuid", at("meta_data.json")))) };
    let mut read = OpenStackData { version: 2, ..OpenStackData::default() };
    if let Some(map) = metadata.as_map_mut() {
        map.insert("instance-id", id);
        map.insert_some("local-hostname", map.get("hostname").cloned());
        read.random_seed = random_seed(sys, &at("meta_data.json"), map.remove("random_seed"));
    }
    // A missing file is skipped. A read error is returned, because the next attempt may succeed.
    let mut content = |path: &str| -> Result<Option<Vec<u8>>> {
        let path = format!("openstack/{}", path.trim_start_matches('/'));
        if path.split('/').any(|part| part == "..") {
            warning!(sys, "{top}: a content path contains '..'; ignored");
            return Ok(None);
        }
        let content = get(&path)?;
        if content.is_none() {
            warning!(sys, "{top}/{path} is missing; ignored");
        }
        Ok(content)
    };
    for file in metadata.get("files").and_then(Node::as_seq).into_iter().flatten() {
        let text = |key: &str| file.get(key).and_then(Node::as_str);
        let (Some(path), Some(from)) = (text("path"), text("content_path")) else { continue };
        read.files.extend(content(from)?.map(|content| (path.to_string(), content)));
    }
    if let Some(from) = metadata.at_path(&["network_config", "content_path"]).and_then(Node::as_str) {
        read.eni = content(from)?.map(|content| String::from_utf8_lossy(&content).into_owned());
    }
    // Without one of these the rest is still useful: a name, an id, keys to log in with.
    let network_data = optional_or_log(sys, json_file(top, &path("network_data.json"), get));
    read.network_data = network_data.filter(|data| {
        if !data.is_object() && !data.is_null() {
            warning!(sys, "{}: expected a map; ignored", at("network_data.json"));
        }
        data.is_object() || data.is_null()
    });
    read.network_data = read.network_data.map(|data| checked_network(sys, &at("network_data.json"), &data));
    let user_data = get(&path("user_data"));
    let user_data = standard::ignore_too_large(sys, &format!("{top}: user_data"), user_data)?;
    read.user_data = standard::blob(user_data);
    let mut vendor_data = |name: &str| {
        let file = optional_or_log(sys, json_file(top, &path(name), get));
        parse_vendor_data(sys, &at(name), file)
    };
    read.vendor_data = vendor_data("vendor_data.json");
    read.vendor_data2 = vendor_data("vendor_data2.json");
    read.metadata = metadata;
    Ok(read)
}

/// Returns an optional part; if it is invalid, an error is logged and recorded in the status.
pub fn optional_or_log(sys: &System, read: Result<Option<Json>>) -> Option<Json> {
    read.unwrap_or_else(|e| {
        error!(sys, "{e}; ignored");
        None
    })
}

/// Returns the cloud's random seed, if it is valid base64.
pub fn random_seed(sys: &System, source: &str, node: Option<Node>) -> Option<String> {
    let text = node?.as_str()?.to_string();
    if encoding::base64::decode(text.as_bytes()).is_none() {
        warning!(sys, "{source}: random_seed: not base64; ignored");
        return None;
    }
    Some(text)
}

/// Parses OpenStack's vendor-data: text, a list of parts, or an object whose `cloud-init` is one of these. `source`
/// is for messages.
pub fn parse_vendor_data(sys: &System, source: &str, json: Option<Json>) -> Blobs {
    let (place, inner) = match json {
        Some(Json::Object(mut map)) => (format!("{source}: cloud-init"), map.remove("cloud-init")),
        other => (source.to_string(), other),
    };
    let items = match inner {
        Some(Json::Array(items)) => items,
        Some(Json::String(text)) if text.is_empty() => Vec::new(),
        Some(Json::Null) | None => Vec::new(),
        Some(one) => vec![one],
    };
    let texts: Vec<Vec<u8>> = items.iter().filter_map(|i| Some(i.as_str()?.as_bytes().to_vec())).collect();
    if texts.len() < items.len() {
        let (ignored, total) = (items.len() - texts.len(), items.len());
        warning!(sys, "{place}: expected a string, or a list of strings: {ignored} of {total} ignored");
    }
    Blobs(texts)
}

impl OpenStackData {
    /// Fills an instance; `source` is for messages.
    pub fn apply_to(self, instance: &mut Instance, source: &str) {
        instance.random_seed.clone_from(&self.random_seed);
        standard::fill(instance, &self.metadata);
        if self.version == 2 {
            instance.public_keys = standard::public_keys(self.metadata.get("public_keys"));
            let zone = document::text(&self.metadata, "availability_zone");
            instance.availability_zone = zone.or(instance.availability_zone.take());
        }
        let network = |format, content: Json, file: &str| {
            standard::network_in(format, content, &format!("{file} of {source}"))
        };
        instance.network = match (&self.network_data, &self.eni) {
            (Some(data), _) if !data.is_null() => {
                Some(network(NetworkFormat::NetworkData, data.clone(), "network_data.json"))
            }
            (_, Some(eni)) => Some(network(NetworkFormat::Eni, eni.clone().into(), "network interfaces")),
            _ => None,
        };
        instance.devices = standard::block_devices(&self.ec2);
        instance.device_search = DeviceSearch::RemappedOrLabelled;
        let mut metadata = self.metadata.to_json();
        // Binary values are marked in the instance data, as by upstream's serializer.
        if let Some(seed) = self.random_seed.and_then(|seed| encoding::base64::decode(seed.as_bytes())) {
            metadata["random_seed"] = format!("ci-b64:{}", encoding::base64::encode(&seed)).into();
        }
        instance.crawled = json!({
            "meta_data": metadata,
            "ec2_metadata": if self.ec2.is_null() { json!({}) } else { self.ec2.to_json() },
            "network_json": self.network_data,
        });
        instance.user_data = self.user_data;
        instance.vendor_data = self.vendor_data;
        instance.vendor_data2 = self.vendor_data2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_with_invalid_fields_are_dropped_alone() {
        let good = json!({"network": "10.9.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.9"});
        for (field, value, is_kept) in [
            ("gateway", json!(7), false),
            ("gateway", json!(["10.0.0.9"]), false),
            ("gateway", json!("10.0\u{7}.0.9"), false),
            ("netmask", json!({}), false),
            ("network", json!(1.5), false),
            ("destination", json!(true), false),
            // A route on the link.
            ("gateway", Json::Null, true),
            ("metric", json!([]), true),
        ] {
            let sys = System::new("/nonexistent");
            let mut route = good.clone();
            route[field] = value.clone();
            let network = json!({"type": "ipv4", "ip_address": "10.0.0.2", "routes": [route, good]});
            let checked = checked_network(&sys, "data", &json!({"networks": [network]}));
            let routes = &checked["networks"][0]["routes"];
            assert_eq!((routes[0].is_null(), &routes[1]), (!is_kept, &good), "{field} {value}");
            let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
            let start = format!("data: networks[0].routes[0].{field}: ");
            assert_eq!(logged.len(), usize::from(!is_kept), "{field} {value}: {logged:?}");
            assert!(logged.iter().all(|text| text.starts_with(&start)), "{logged:?}");
        }
    }

    /// Only a NIC without a name is found by its MAC.
    #[test]
    fn null_is_reported_where_a_value_is_needed() {
        for (link, key, warnings) in [
            (json!({"type": "phy", "ethernet_mac_address": null}), "ethernet_mac_address", 1),
            (json!({"type": "phy", "ethernet_mac_address": 7}), "ethernet_mac_address", 1),
            (json!({"type": "phy", "ethernet_mac_address": null, "name": "eth0"}), "ethernet_mac_address", 0),
            (json!({"type": "bond", "ethernet_mac_address": null}), "ethernet_mac_address", 0),
            (json!({"type": "vlan", "vlan_link": null}), "vlan_link", 1),
        ] {
            let sys = System::new("/nonexistent");
            let checked = checked_network(&sys, "data", &json!({"links": [link]}));
            assert_eq!(checked["links"][0][key], Json::Null);
            let logged = sys.log().logged_warnings();
            let start = format!("data: links[0].{key}: ");
            let named = logged.iter().filter(|(_, text)| text.starts_with(&start));
            assert_eq!((named.count(), logged.len()), (warnings, warnings), "{link}: {logged:?}");
        }
    }
}
