//! A NoCloud seed: four files below a directory, a URL or the root of a file system.

use config::Node;
use system::{Request, Result, System, error, warning};

use crate::document::fields::{self, Field, FieldType};
use crate::service::retry::RetryPolicy;
use crate::{document, media, standard};

/// The files of a seed. Only metadata and user-data are required.
#[derive(Debug, Clone)]
pub struct Seed {
    /// A map; `None` if the file exists but is invalid, which is logged.
    pub meta_data: Option<Node>,
    pub user_data: Vec<u8>,
    pub vendor_data: Option<Vec<u8>>,
    pub network: Option<Node>,
}

/// Fields of a seed's metadata, in addition to those of every cloud.
const FIELDS: [Field; 3] = [
    ("dsmode", FieldType::Text, false),
    ("seedfrom", FieldType::Text, false),
    ("network-interfaces", FieldType::Lines, false),
];

/// Parses the metadata of a seed. Invalid metadata is logged and ignored, as are its invalid fields.
pub fn parse_meta_data(sys: &System, source: &str, bytes: &[u8]) -> Option<Node> {
    let map = document::parse_map(source, bytes).map_err(|e| warning!(sys, "metadata ignored: {e}")).ok()?;
    Some(checked_meta_data(sys, source, map))
}

/// Returns the metadata of a seed without its invalid fields, which are logged.
pub fn checked_meta_data(sys: &System, source: &str, mut map: Node) -> Node {
    for fields in [standard::FIELDS, &FIELDS] {
        fields::drop_invalid(sys, source, &mut map, fields);
    }
    map
}

/// Parses the network configuration of a seed. Invalid YAML is logged and ignored.
pub fn parse_network(sys: &System, source: &str, bytes: &[u8]) -> Option<Node> {
    document::parse_map(source, bytes)
        .inspect_err(|e| warning!(sys, "network configuration ignored: {e}"))
        .ok()
        .filter(|map| !map.is_falsy())
}

/// Reads a seed directory of the machine; returns `None` if a required file is missing. Messages call it `label`.
///
/// # Errors
///
/// Fails if a required file cannot be read.
pub fn read_directory(sys: &System, directory: &str, label: &str) -> Result<Option<Seed>> {
    let read = |name: &str| sys.read(format!("{directory}/{name}"));
    let optional = |name: &str| media::read_optional(sys, &format!("{directory}/{name}"));
    // Empty if it is too large, which is logged.
    let user_data = media::if_found(standard::ignore_too_large(sys, "user-data", read("user-data")))?;
    let (meta, user) = match (optional("meta-data")?, user_data) {
        (Some(meta), Some(user)) => (meta, user),
        (None, None) => return Ok(None),
        // An incomplete seed is a mistake.
        (meta, _) => {
            let missing = if meta.is_none() { "meta-data" } else { "user-data" };
            warning!(sys, "{label} is not a seed: {missing} is missing (an empty file is accepted)");
            return Ok(None);
        }
    };
    let at = |name: &str| format!("{label}/{name}");
    let network = optional_or_log(sys, "network-config", optional("network-config"));
    let network = network.and_then(|b| parse_network(sys, &at("network-config"), &b));
    let vendor_data = optional_or_log(sys, "vendor-data", optional("vendor-data"));
    let meta_data = parse_meta_data(sys, &at("meta-data"), &meta);
    Ok(Some(Seed { meta_data, user_data: user, vendor_data, network }))
}

/// Returns an optional file of a seed. A file that cannot be read is logged as an error and ignored.
fn optional_or_log(sys: &System, name: &str, read: Result<Option<Vec<u8>>>) -> Option<Vec<u8>> {
    read.unwrap_or_else(|e| {
        error!(sys, "{e}; using the seed without {name}");
        None
    })
}

/// Returns the URL of a seed's file. The name replaces `%s` in the base; otherwise it is appended, after a `/` unless
/// the base has a query.
fn file_url(base: &str, name: &str) -> String {
    if base.contains("%s") {
        base.replace("%s", name)
    } else if base.ends_with('/') || base.contains('?') {
        format!("{base}{name}")
    } else {
        format!("{base}/{name}")
    }
}

/// Fetches a seed below a URL or a path.
///
/// # Errors
///
/// Fails if the metadata or the user-data cannot be fetched, or if the server does not begin to respond within
/// `policy.first_response_deadline`.
pub fn fetch(sys: &System, base: &str, policy: &RetryPolicy) -> Result<Seed> {
    let url = |name: &str| file_url(base, name);
    let request = |name: &str| policy.with_retries(Request::get(url(name)));
    let body = |request: Request| sys.fetch(&request).map(|response| response.body);
    let optional = |name: &str| optional_or_log(sys, name, media::if_found(body(request(name).optional())));
    // The required files first: if they are missing, only one file is retried.
    let first = request("meta-data");
    let meta = body(match policy.first_response_deadline {
        Some(until) => first.deadline(until),
        None => first,
    })?;
    let user_data = standard::ignore_too_large(sys, "user-data", body(request("user-data")))?;
    let network = optional("network-config");
    Ok(Seed {
        meta_data: parse_meta_data(sys, &url("meta-data"), &meta),
        user_data,
        vendor_data: optional("vendor-data"),
        network: network.and_then(|b| parse_network(sys, &url("network-config"), &b)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_is_appended_or_replaces_the_placeholder() {
        for (base, wanted) in [
            ("http://h/x", "http://h/x/meta-data"),
            ("http://h/x/", "http://h/x/meta-data"),
            ("http://h/x?f=", "http://h/x?f=meta-data"),
            ("http://h/%s?v=1", "http://h/meta-data?v=1"),
            ("/srv/seed-%s.txt", "/srv/seed-meta-data.txt"),
        ] {
            assert_eq!(file_url(base, "meta-data"), wanted);
        }
    }
}
