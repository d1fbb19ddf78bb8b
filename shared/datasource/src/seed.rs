//! A NoCloud seed: four files below a directory, a URL or the root of a file system.

use std::time::Duration;

use config::Node;
use state::Raw;
use system::{Error, Fetch, Result, System, warning};

/// What a seed holds. Only `meta_data` and `user_data` are required.
#[derive(Debug, Clone, Default)]
pub struct Seed {
    pub meta_data: Node,
    pub user_data: Raw,
    pub vendor_data: Raw,
    pub network: Option<Node>,
}

/// A map out of a seed's YAML file; an empty one is an empty map.
pub fn parse_map(source: &str, bytes: &[u8]) -> Result<Node> {
    let parsed = config::yaml::parse_bytes(source, bytes).map_err(|e| Error::new(e.to_string()))?;
    let root = parsed.root;
    if root.is_null() {
        return Ok(Node::from(config::Map::new()));
    }
    if root.as_map().is_none() {
        return Err(Error::new(format!("{}: expected a map, found {}", root.at, root.kind())));
    }
    Ok(root)
}

/// The network configuration of a seed; broken YAML is said and counts as none.
pub fn parse_network(sys: &System, source: &str, bytes: &[u8]) -> Option<Node> {
    match parse_map(source, bytes) {
        Ok(map) if map.is_falsy() => None,
        Ok(map) => Some(map),
        Err(e) => {
            warning!(sys, "network configuration ignored: {e}");
            None
        }
    }
}

fn raw(bytes: Vec<u8>) -> Raw {
    if bytes.is_empty() { Raw::default() } else { Raw(vec![bytes]) }
}

/// Reads a seed directory of the machine; `None` when a required file is missing.
pub fn read_directory(sys: &System, directory: &str) -> Result<Option<Seed>> {
    read_files(sys, directory, |name| sys.read(format!("{directory}/{name}")))
}

/// Reads a seed's files by `read`, whose "absent" errors decide which are there.
pub fn read_files(sys: &System, place: &str, read: impl Fn(&str) -> Result<Vec<u8>>) -> Result<Option<Seed>> {
    let optional = |name: &str| match read(name) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    };
    let (meta, user) = match (optional("meta-data")?, optional("user-data")?) {
        (Some(meta), Some(user)) => (meta, user),
        (None, None) => return Ok(None),
        // Half a seed is nobody's intention.
        (meta, _) => {
            let missing = if meta.is_none() { "meta-data" } else { "user-data" };
            warning!(sys, "{place} is not used as a seed: it has no {missing} (which may be empty)");
            return Ok(None);
        }
    };
    let at = |name: &str| format!("{place}/{name}");
    let meta_data = parse_map(&at("meta-data"), &meta)?;
    let vendor_data = optional("vendor-data")?.map(raw).unwrap_or_default();
    let network = optional("network-config")?.and_then(|b| parse_network(sys, &at("network-config"), &b));
    Ok(Some(Seed { meta_data, user_data: raw(user), vendor_data, network }))
}

/// Reads a seed below a URL (or a path). `%s` in it stands for the file's name; without one, and without a
/// query, a `/` is put between them.
pub fn fetch(sys: &System, base: &str) -> Result<Seed> {
    let url = |name: &str| {
        if base.contains("%s") {
            base.replace("%s", name)
        } else if base.ends_with('/') || base.contains('?') {
            format!("{base}{name}")
        } else {
            format!("{base}/{name}")
        }
    };
    let get = |name: &str, retries: u32| {
        sys.fetch(
            &Fetch::get(url(name)).timeout(Duration::from_secs(5)).retries(retries, Duration::from_secs(1)),
        )
        .map(|answer| answer.body)
    };
    // The required ones first: their failure decides, and costs the tries of one file only.
    let meta = get("meta-data", 10)?;
    let user = get("user-data", 10)?;
    let vendor = get("vendor-data", 0).unwrap_or_default();
    let network = get("network-config", 0).ok();
    Ok(Seed {
        meta_data: parse_map(&url("meta-data"), &meta)?,
        user_data: raw(user),
        vendor_data: raw(vendor),
        network: network.and_then(|b| parse_network(sys, &url("network-config"), &b)),
    })
}
