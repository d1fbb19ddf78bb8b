//! Metadata fields that most clouds share.

use std::net::Ipv4Addr;

use config::source_map::positions;
use config::{Node, Value};
use serde_json::json;
use state::{Blobs, DsMode, Instance, NetworkConfig, NetworkFormat};
use system::{Result, System, error, warning};

use crate::document::fields::{self, Field, FieldType};
use crate::firmware;
use crate::{IdentityCheck, Search, document};

/// The fields of a tree of EC2's kind that are used; [`FIELDS`] come first.
pub const TREE_FIELDS: [Field; 13] = [
    ("instance-id", FieldType::Text, false),
    ("local-hostname", FieldType::Text, false),
    ("placement.availability-zone", FieldType::Text, false),
    ("availability-zone", FieldType::Text, false),
    ("availability_zone", FieldType::Text, false),
    ("region", FieldType::Text, false),
    ("launch-index", FieldType::Integer, false),
    ("cloud-name", FieldType::Text, false),
    ("public-keys", FieldType::Keys, false),
    ("ami-launch-index", FieldType::Integer, false),
    ("block-device-mapping", FieldType::Texts, false),
    ("network.interfaces.macs{}.local-ipv4s", FieldType::TextList, false),
    ("network.interfaces.macs{}.ipv6s", FieldType::TextList, false),
];
/// The fields that [`fill`] reads.
pub const FIELDS: &[Field] = TREE_FIELDS.split_at(10).0;

/// Fills the standard fields of `instance` from a metadata map, with the spellings that clouds use.
pub fn fill(instance: &mut Instance, metadata: &Node) {
    let text = |key: &str| document::trimmed(metadata.get(key));
    if let Some(id) = text("instance-id") {
        instance.id = id;
    }
    instance.local_hostname = text("local-hostname").map(|name| hostname(&name));
    instance.public_keys = public_keys(metadata.get("public-keys"));
    instance.availability_zone = text("availability-zone")
        .or_else(|| text("availability_zone"))
        .or_else(|| document::trimmed(metadata.at_path(&["placement", "availability-zone"])));
    instance.region = text("region");
    instance.launch_index = metadata.get("launch-index").and_then(|n| n.scalar_text()?.trim().parse().ok());
    if let Some(name) = metadata.get("cloud-name").and_then(Node::as_str) {
        instance.cloud_name = name.to_lowercase();
    }
}

/// Returns the configured dsmode if it is valid, else the default.
pub fn dsmode(sys: &System, datasource: &str, configured: Option<String>) -> DsMode {
    let Some(mode) = configured else { return DsMode::Net };
    DsMode::from_word(&mode).unwrap_or_else(|| {
        warning!(sys, "{datasource}: invalid dsmode; expected net, local or disabled; using net");
        DsMode::Net
    })
}

/// Returns a valid hostname: an IPv4 address becomes `ip-a-b-c-d`.
fn hostname(name: &str) -> String {
    match name.parse::<Ipv4Addr>() {
        Ok(_) => format!("ip-{}", name.replace('.', "-")),
        Err(_) => name.to_string(),
    }
}

/// Returns the block devices of metadata in EC2's format, by EC2's names for them.
pub fn block_devices(metadata: &Node) -> serde_json::Map<String, serde_json::Value> {
    let map = metadata.get("block-device-mapping").and_then(Node::as_map);
    let entry = |(name, device): (&Node, &Node)| {
        let device = device.scalar_text().filter(|_| !device.is_null())?;
        Some((name.as_str()?.into(), device.into()))
    };
    sort::collect(map.into_iter().flat_map(|map| map.iter()).filter_map(entry))
}

/// Returns SSH keys from a string of lines, a list, or a map whose values are keys or lists of keys.
pub fn public_keys(node: Option<&Node>) -> Vec<String> {
    let texts = |node: &Node| -> Vec<String> {
        match &node.value {
            Value::Str(text) => vec![text.clone()],
            Value::Seq(items) => items.iter().filter_map(|i| i.as_str().map(Into::into)).collect(),
            _ => Vec::new(),
        }
    };
    let keys: Vec<String> = match node.map(|n| &n.value) {
        Some(Value::Str(text)) => text.lines().map(Into::into).collect(),
        Some(Value::Seq(_)) => node.map(texts).unwrap_or_default(),
        Some(Value::Map(map)) => map.iter().flat_map(|(_, v)| texts(v)).collect(),
        _ => Vec::new(),
    };
    keys.into_iter().filter(|k| !k.trim().is_empty()).collect()
}

/// The instance-id of an instance whose metadata has none.
pub const DEFAULT_ID: &str = "iid-datasource";

/// Returns an instance of a cloud with a metadata service, without its metadata.
pub fn instance(name: &str, class: &str, subplatform: String) -> Instance {
    let lower = name.to_lowercase();
    Instance {
        id: DEFAULT_ID.into(),
        datasource: name.into(),
        description: class.into(),
        cloud_name: lower.clone(),
        platform: lower,
        subplatform,
        ..Instance::default()
    }
}

/// Returns an instance with the standard fields of `metadata`, which is kept as its instance data.
pub fn from_metadata(name: &str, class: &str, subplatform: String, metadata: &Node) -> Instance {
    let mut instance = instance(name, class, subplatform);
    fill(&mut instance, metadata);
    instance.crawled = json!({ "meta_data": metadata.to_json() });
    instance
}

/// Removes the invalid fields of a datasource's metadata, which are reported ([`fields::drop_invalid`]).
pub fn drop_invalid(sys: &System, name: &str, metadata: &mut Node, expected: &[&[Field]]) {
    fields::drop_invalid(sys, &metadata_of(name), metadata, &expected.concat());
}

/// Returns the name of a datasource's metadata in messages.
pub fn metadata_of(name: &str) -> String {
    format!("{name}'s metadata")
}

/// Returns a network configuration of version 1 or 2.
pub fn network(config: Node, source: &str) -> NetworkConfig {
    network_in(NetworkFormat::Yaml, config.to_json(), source)
}

/// Returns a network configuration of version 1 or 2 whose values have positions in a file.
pub fn network_with_positions(config: &Node) -> NetworkConfig {
    let source = config.at.source.as_deref().unwrap_or_default();
    NetworkConfig { positions: positions(config), ..network(config.clone(), source) }
}

/// Returns a network configuration in a format of netconfig's table.
pub fn network_in(format: NetworkFormat, content: serde_json::Value, source: &str) -> NetworkConfig {
    NetworkConfig { format, content, source: source.into(), positions: String::new() }
}

/// Returns bytes as user-data or vendor-data; none if they are missing or empty.
pub fn blob(bytes: impl Into<Option<Vec<u8>>>) -> Blobs {
    Blobs(bytes.into().filter(|bytes| !bytes.is_empty()).into_iter().collect())
}

/// Returns the text of a metadata field as user-data or vendor-data; none if the field is missing or empty.
pub fn text_blob(map: &Node, key: &str) -> Blobs {
    blob(document::text(map, key).map(String::into_bytes))
}

/// Returns user-data, decoded if it is valid base64.
pub fn maybe_base64(user_data: Blobs) -> Blobs {
    let decode = |bytes: Vec<u8>| encoding::base64::decode_strict(&bytes).unwrap_or(bytes);
    Blobs(user_data.0.into_iter().map(decode).collect())
}

/// Returns user-data that should be base64, decoded; other data is reported and returned as it is.
pub fn expect_base64(sys: &System, datasource: &str, user_data: Blobs) -> Blobs {
    let decoded = maybe_base64(user_data.clone());
    if !user_data.is_empty() && decoded == user_data {
        warning!(sys, "{datasource}: user-data is not valid base64; using it as it is");
    }
    decoded
}

/// Adds the zone to a link-local IPv6 address in a URL (RFC 6874).
pub fn with_zone(url: &str, nic: &str) -> String {
    match url.split_once("[fe80:") {
        Some((before, rest)) if !nic.is_empty() && !rest.contains('%') => {
            format!("{before}[fe80:{}", rest.replacen(']', &format!("%25{nic}]"), 1))
        }
        _ => url.to_string(),
    }
}

/// Checks an instance-id that is also the UUID in DMI.
pub fn check_uuid(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match firmware::dmi(ctx.sys, "system-uuid") {
        Some(uuid) if uuid.eq_ignore_ascii_case(&cached.id) => IdentityCheck::Same,
        // Other users of the format choose ids of their own, which DMI does not have.
        Some(_) => IdentityCheck::Unknown("the instance-id is not the UUID in DMI".into()),
        None => IdentityCheck::Unknown("DMI has no UUID".into()),
    }
}

/// Returns the default value for user-data or vendor-data that exceeds the size limit, and logs an error: the machine's
/// name, keys and network must not depend on their size. Other results are returned unchanged.
///
/// # Errors
///
/// Fails as `read` did for any other reason.
pub fn ignore_too_large<T: Default>(sys: &System, what: &str, read: Result<T>) -> Result<T> {
    match read {
        Err(e) if e.is_too_large() => {
            error!(sys, "{what} ignored: {e}");
            Ok(T::default())
        }
        read => read,
    }
}

/// Returns whether DMI has the UUID, or without a UUID the serial number, that was recorded when the instance was found;
/// `false` if neither was recorded.
pub fn is_same_machine(ctx: &Search<'_>, cached: &Instance) -> bool {
    let recorded = FIRMWARE_KEYS.iter().find_map(|key| Some((*key, cached.check.get(*key)?.as_str()?)));
    let Some((key, before)) = recorded else { return false };
    firmware::dmi(ctx.sys, key).is_some_and(|now| now.eq_ignore_ascii_case(before))
}

/// The recorded DMI values that identify a machine, the most reliable first.
const FIRMWARE_KEYS: [&str; 2] = ["system-uuid", "system-serial-number"];

/// Records the DMI value that identifies the machine, for [`check_machine`] and [`is_same_machine`].
pub fn record_machine(sys: &System, instance: &mut Instance) {
    let value = FIRMWARE_KEYS.iter().find_map(|key| Some((*key, firmware::dmi(sys, key)?)));
    if let Some((key, text)) = value {
        instance.check.insert(key.into(), text.to_lowercase().into());
    }
}

/// Checks an instance-id that only the metadata service knows: another machine is another instance; for the same machine
/// the result is unknown.
pub fn check_machine(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    let before = cached.check.get(FIRMWARE_KEYS[0]).and_then(|uuid| uuid.as_str());
    match (before, firmware::dmi(ctx.sys, "system-uuid")) {
        (Some(before), Some(now)) if !now.eq_ignore_ascii_case(before) => {
            IdentityCheck::Different(format!("the UUID in DMI changed from {before} to {now}"))
        }
        _ => IdentityCheck::Unknown("only the metadata service knows the instance-id".into()),
    }
}

/// Checks an instance-id that is also the serial number in DMI.
pub fn check_serial(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match firmware::dmi(ctx.sys, "system-serial-number") {
        Some(serial) if serial == cached.id => IdentityCheck::Same,
        Some(serial) => IdentityCheck::Different(format!("the serial number in DMI is {serial}")),
        None => IdentityCheck::Unknown("DMI has no serial number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_are_read_from_text_lists_and_maps() {
        let keys = |text: &str| public_keys(Some(&config::yaml::parse("t", text).unwrap().root));
        assert_eq!(keys("'ssh-rsa A\n\nssh-rsa B'"), ["ssh-rsa A", "ssh-rsa B"]);
        assert_eq!(keys("[a, '', b, 3]"), ["a", "b"]);
        assert_eq!(keys("{x: a, y: [b, c], z: 4}"), ["a", "b", "c"]);
        assert!(keys("7").is_empty());
    }

    #[test]
    fn standard_fields_are_normalised() {
        let node = config::yaml::parse(
            "t",
            "{instance-id: 007, local-hostname: 10.0.0.1, placement: {availability-zone: z}, launch-index: '2', cloud-name: AWS}",
        );
        let mut instance = Instance::default();
        fill(&mut instance, &node.unwrap().root);
        assert_eq!(instance.id, "7");
        assert_eq!(instance.local_hostname.as_deref(), Some("ip-10-0-0-1"));
        assert_eq!(instance.availability_zone.as_deref(), Some("z"));
        assert_eq!((instance.launch_index, &*instance.cloud_name), (Some(2), "aws"));
    }
}
