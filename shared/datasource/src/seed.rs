//! A NoCloud seed: four files below a directory, a URL or the root of a file system.

use std::time::Duration;

use config::Node;
use system::{Error, Fetch, Result, System, warning};

/// What a seed holds. Only metadata and user-data are required.
#[derive(Debug, Clone)]
pub struct Seed {
    /// A map; `None` when the file is there and is none, which was said.
    pub meta_data: Option<Node>,
    pub user_data: Vec<u8>,
    pub vendor_data: Option<Vec<u8>>,
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

/// The metadata of a seed; broken ones are said.
pub fn parse_meta(sys: &System, source: &str, bytes: &[u8]) -> Option<Node> {
    parse_map(source, bytes).map_err(|e| warning!(sys, "metadata ignored: {e}")).ok()
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

/// Reads a seed directory of the machine; `None` when a required file is missing. Messages call it `shown`.
pub fn read_directory(sys: &System, directory: &str, shown: &str) -> Result<Option<Seed>> {
    let read = |name: &str| sys.read(format!("{directory}/{name}"));
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
            warning!(sys, "{shown} is not used as a seed: it has no {missing} (which may be empty)");
            return Ok(None);
        }
    };
    let at = |name: &str| format!("{shown}/{name}");
    let vendor_data = optional("vendor-data")?;
    let network = optional("network-config")?.and_then(|b| parse_network(sys, &at("network-config"), &b));
    let meta_data = parse_meta(sys, &at("meta-data"), &meta);
    Ok(Some(Seed { meta_data, user_data: user, vendor_data, network }))
}

/// How long a seed's server is asked.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For one try.
    pub timeout: Duration,
    pub retries: u32,
    pub pause: Duration,
}

impl Default for Patience {
    /// Upstream waits without a limit for each answer; nobody who has not answered in half a minute will.
    fn default() -> Patience {
        Patience { timeout: Duration::from_secs(30), retries: 10, pause: Duration::from_secs(1) }
    }
}

impl Patience {
    /// With the settings that datasources have for it: `timeout`, `retries`, `sec_between_retries`.
    pub fn configured(settings: Option<&Node>) -> Patience {
        let usual = Patience::default();
        let number = |key: &str| {
            let number = settings?.get(key)?.scalar_text()?.trim().parse::<f64>().ok()?;
            (0.0..=86400.0).contains(&number).then_some(number)
        };
        Patience {
            timeout: number("timeout").filter(|t| *t > 0.0).map_or(usual.timeout, Duration::from_secs_f64),
            retries: number("retries").map_or(usual.retries, |n| n as u32),
            pause: number("sec_between_retries").map_or(usual.pause, Duration::from_secs_f64),
        }
    }
}

/// Where a file of a seed is. `%s` in the base stands for its name; without one, and without a query, a `/` is put
/// between them.
fn address(base: &str, name: &str) -> String {
    if base.contains("%s") {
        base.replace("%s", name)
    } else if base.ends_with('/') || base.contains('?') {
        format!("{base}{name}")
    } else {
        format!("{base}/{name}")
    }
}

/// Reads a seed below a URL or a path.
pub fn fetch(sys: &System, base: &str, patience: Patience) -> Result<Seed> {
    let url = |name: &str| address(base, name);
    let ask = |name: &str| {
        Fetch::get(url(name)).timeout(patience.timeout).retries(patience.retries, patience.pause)
    };
    let required = |name: &str| sys.fetch(&ask(name)).map(|answer| answer.body);
    // What is there but cannot be had is worth tries and a word, and no more: the seed is good without it.
    let optional = |name: &str| match sys.fetch(&ask(name).optional()) {
        Ok(answer) => Some(answer.body),
        Err(e) if e.is_absent() => None,
        Err(e) => {
            warning!(sys, "{e}; the seed is used without its {name}");
            None
        }
    };
    // The required ones first: their failure decides, and costs the tries of one file only.
    let meta = required("meta-data")?;
    let user_data = required("user-data")?;
    let network = optional("network-config");
    Ok(Seed {
        meta_data: parse_meta(sys, &url("meta-data"), &meta),
        user_data,
        vendor_data: optional("vendor-data"),
        network: network.and_then(|b| parse_network(sys, &url("network-config"), &b)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (base, wanted) in [
            ("http://h/x", "http://h/x/meta-data"),
            ("http://h/x/", "http://h/x/meta-data"),
            ("http://h/x?f=", "http://h/x?f=meta-data"),
            ("http://h/%s?v=1", "http://h/meta-data?v=1"),
            ("/srv/seed-%s.txt", "/srv/seed-meta-data.txt"),
        ] {
            assert_eq!(address(base, "meta-data"), wanted);
        }
    }

    #[test]
    fn patience() {
        let of = |text: &str| Patience::configured(Some(&config::yaml::parse("t", text).unwrap().root));
        assert_eq!(of("{timeout: 2, retries: '3', sec_between_retries: 0.5}").pause.as_millis(), 500);
        for odd in ["{timeout: 0, retries: -1}", "{timeout: often}", "[]", "{timeout: .nan, retries: .inf}"] {
            let got = of(odd);
            assert_eq!((got.timeout.as_secs(), got.retries), (30, 10), "{odd}");
        }
    }
}
