//! The values of variables: encodings, and the network configuration in the metadata.

use config::{Map, Node};
use state::Blobs;
use system::{Error, Result, System, debug, warning};

use crate::document;

/// The limit of a decompressed value. Hypervisors limit all variables together to less.
const MAX_SIZE: usize = 16 << 20;
/// Stands for no value where the hypervisor cannot remove one.
const EMPTY: &str = "---";

/// Returns a value without trailing whitespace, if there is one.
pub fn non_empty(value: &str) -> Option<&str> {
    Some(value.trim_end()).filter(|value| !value.is_empty() && *value != EMPTY)
}

/// Decodes a value by the name of its encoding. Values of unknown encodings are plain text.
///
/// # Errors
/// Fails if the value is not of that encoding, or too large.
pub fn decode(encoding: Option<&str>, value: &str) -> Result<Vec<u8>> {
    let is_gzip = matches!(encoding, Some("gzip+base64" | "gz+b64"));
    if !is_gzip && !matches!(encoding, Some("base64" | "b64")) {
        return Ok(value.into());
    }
    let bytes = encoding::base64::decode(value.as_bytes()).ok_or_else(|| Error::new("expected base64"))?;
    if !is_gzip {
        return Ok(bytes);
    }
    encoding::gzip::inflate(&bytes, MAX_SIZE).map_err(|e| Error::new(e.to_string()))
}

/// Decodes user-data or vendor-data. Invalid data is logged and ignored.
pub fn blobs(sys: &System, key: &str, value: Option<(Option<String>, String)>) -> Blobs {
    let Some((encoding, value)) = value else { return Blobs::default() };
    match decode(encoding.as_deref(), &value) {
        Ok(bytes) => Blobs(vec![bytes]),
        Err(e) => {
            warning!(sys, "{key}: {e}; ignored");
            Blobs::default()
        }
    }
}

/// Parses metadata; none is an empty map. Invalid metadata is logged, and the result is `None`.
pub fn parse(sys: &System, key: &str, value: Option<(Option<String>, String)>) -> Option<Node> {
    let Some((encoding, value)) = value else { return Some(Map::new().into()) };
    let parsed = decode(encoding.as_deref(), &value)
        .map_err(|e| e.context(key))
        .and_then(|bytes| document::parse_map(key, &bytes));
    parsed.map_err(|e| warning!(sys, "metadata ignored: {e}")).ok()
}

/// Returns metadata as the instance data has it, and the network configuration. That is a map, or a string with an encoding
/// of its own; one that cannot be used is logged and ignored.
pub fn split_network(sys: &System, key: &str, mut metadata: Map) -> (Map, Option<Node>) {
    let network = metadata.remove("network").filter(|network| !network.is_falsy());
    let encoding = metadata.remove("network.encoding").and_then(|encoding| encoding.scalar_text());
    let Some(network) = network else { return (metadata, None) };
    let source = format!("{key}: network");
    let read = match (network.as_map(), network.as_str()) {
        (Some(_), _) => Ok(network),
        (None, Some(text)) => decode(encoding.as_deref().and_then(non_empty), text)
            .map_err(|e| e.context(&source))
            .and_then(|bytes| document::parse_map(&source, &bytes)),
        (None, None) => {
            Err(Error::new(format!("{source}: expected a map or a string, found {}", network.kind())))
        }
    };
    match read {
        Ok(network) => {
            debug!(sys, "using the network configuration in the metadata");
            metadata.insert("network", Map::from([("config", network.clone())]));
            (metadata, Some(network).filter(|network| !network.is_falsy()))
        }
        Err(e) => {
            warning!(sys, "network configuration ignored: {e}");
            (metadata, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_and_gzip_are_decoded_within_the_limit() {
        let pack = |bytes: &[u8]| encoding::base64::encode(&encoding::gzip::deflate(bytes).unwrap());
        let gzip = pack(b"a\n");
        for (encoding, value, expected) in [
            (None, "YQo=", Some("YQo=")),
            (Some("rot13"), "YQo=", Some("YQo=")),
            (Some("base64"), "YQo=", Some("a\n")),
            (Some("b64"), "YQ\no=\n", Some("a\n")),
            (Some("b64"), "YQo", None),
            (Some("gzip+base64"), &*gzip, Some("a\n")),
            (Some("gz+b64"), &*gzip, Some("a\n")),
            (Some("gz+b64"), "YQo=", None),
            (Some("gz+b64"), &gzip[..16], None),
        ] {
            let decoded = decode(encoding, value).ok();
            assert_eq!(decoded.as_deref(), expected.map(str::as_bytes), "{encoding:?} {value}");
        }
        assert_eq!(decode(Some("b64"), "/wA=").unwrap(), [0xff, 0]);
        let zeros = pack(&vec![0; MAX_SIZE + 1]);
        assert!(decode(Some("gz+b64"), &zeros).unwrap_err().to_string().contains("exceeds"));
    }

    #[test]
    fn network_is_split_from_the_metadata() {
        let sys = System::new("/nonexistent");
        let split = |text: &str| {
            let map = config::yaml::parse("t", text).unwrap().root.as_map().cloned().unwrap_or_default();
            let (metadata, network) = split_network(&sys, "k", map);
            let network = network.map(|network| network.to_json().to_string());
            (Node::from(metadata).to_json().to_string(), network)
        };
        let config = Some("{\"version\":2}".to_string());
        let metadata = "{\"network\":{\"config\":{\"version\":2}}}".to_string();
        for text in [
            "network: {version: 2}",
            "{network: '{\"version\": 2}', network.encoding: }",
            "{network: dmVyc2lvbjogMg==, network.encoding: b64}",
        ] {
            assert_eq!(split(text), (metadata.clone(), config.clone()), "{text}");
        }
        for text in [
            "network: [1]",
            "network: 7",
            "network: '[1]'",
            "network: '{'",
            "{network: x, network.encoding: gz+b64}",
            "{network: , network.encoding: b64}",
        ] {
            assert_eq!(split(text), ("{}".into(), None), "{text}");
        }
        let warnings = sys.log().logged_warnings();
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert!(warnings.iter().all(|(_, text)| text.contains("k: network")), "{warnings:?}");
    }
}
