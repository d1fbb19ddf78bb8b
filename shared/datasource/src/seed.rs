//! A NoCloud seed: four files below a directory, a URL or the root of a file system.

use std::time::Duration;

use config::Node;
use system::{Deadline, Error, Request, Result, System, error, warning};

use crate::standard;

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
    let parsed = config::yaml::parse_bytes(source, bytes).or_else(|e| match repair_surrogates(bytes) {
        Some(bytes) => config::yaml::parse_bytes(source, &bytes),
        None => Err(e),
    });
    let root = parsed.map_err(|e| Error::new(e.to_string()))?.root;
    if root.is_null() {
        return Ok(Node::from(config::Map::new()));
    }
    if root.as_map().is_none() {
        return Err(Error::new(format!("{}: expected a map, found {}", root.at, root.kind())));
    }
    Ok(root)
}

/// The same text with escapes for halves of a character (`\ud83d`, UTF-16's surrogates) put right: two that belong together
/// as that character, a lone one as U+FFFD. Programs that cut text in the middle of a character write such, and
/// the name of a machine must not cost its id. `None`: there are none.
fn repair_surrogates(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut is_repaired = false;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        let Some(high @ 0xd800..0xe000) = code_unit(escape) else {
            // With what is escaped, which may be a backslash itself.
            let end = escape.len().min(2);
            out.extend_from_slice(&escape[..end]);
            rest = &escape[end..];
            continue;
        };
        is_repaired = true;
        let low = code_unit(&escape[ESCAPE_LENGTH..]).filter(|low| (0xdc00..0xe000).contains(low));
        let pair = low.and_then(|low| char::decode_utf16([high, low]).next()?.ok());
        out.extend_from_slice(pair.unwrap_or(char::REPLACEMENT_CHARACTER).to_string().as_bytes());
        rest = &escape[if pair.is_some() { 2 * ESCAPE_LENGTH } else { ESCAPE_LENGTH }..];
    }
    out.extend_from_slice(rest);
    is_repaired.then_some(out)
}

/// The length of `\uXXXX`.
const ESCAPE_LENGTH: usize = 6;

/// The number in an escape of that form, if one begins here.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The metadata of a seed; broken ones are said.
pub fn parse_meta_data(sys: &System, source: &str, bytes: &[u8]) -> Option<Node> {
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

/// Reads a seed directory of the machine; `None` when a required file is missing. Messages call it `label`.
pub fn read_directory(sys: &System, directory: &str, label: &str) -> Result<Option<Seed>> {
    let read = |name: &str| sys.read(format!("{directory}/{name}"));
    let optional = |name: &str| match read(name) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    };
    let user_data = standard::ignore_too_large(sys, "user-data", read("user-data").map(Some));
    let user_data = match user_data {
        Err(e) if e.is_not_found() => None,
        // Too large, which was said.
        user_data => Some(user_data?.unwrap_or_default()),
    };
    let (meta, user) = match (optional("meta-data")?, user_data) {
        (Some(meta), Some(user)) => (meta, user),
        (None, None) => return Ok(None),
        // Half a seed is nobody's intention.
        (meta, _) => {
            let missing = if meta.is_none() { "meta-data" } else { "user-data" };
            warning!(sys, "{label} is not used as a seed: it has no {missing} (which may be empty)");
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

/// What a seed may do without. What is there and cannot be had is an error in the log and in status, and no more: the
/// seed is good without it.
fn optional_or_log(sys: &System, name: &str, read: Result<Option<Vec<u8>>>) -> Option<Vec<u8>> {
    read.unwrap_or_else(|e| {
        error!(sys, "{e}; the seed is used without its {name}");
        None
    })
}

/// How long a seed's server is asked.
#[derive(Debug, Clone, Copy)]
pub struct SeedRetryPolicy {
    /// For one try.
    pub timeout: Duration,
    pub retries: u32,
    pub retry_delay: Duration,
}

impl Default for SeedRetryPolicy {
    /// Upstream waits without a limit for each answer; nobody who has not answered in half a minute will.
    fn default() -> SeedRetryPolicy {
        SeedRetryPolicy { timeout: Duration::from_secs(30), retries: 10, retry_delay: Duration::from_secs(1) }
    }
}

impl SeedRetryPolicy {
    /// With the settings that datasources have for it: `timeout`, `retries`, `sec_between_retries`.
    pub fn from_settings(settings: Option<&Node>) -> SeedRetryPolicy {
        let default = SeedRetryPolicy::default();
        let number = |key: &str| {
            let number = settings?.get(key)?.scalar_text()?.trim().parse::<f64>().ok()?;
            (0.0..=86400.0).contains(&number).then_some(number)
        };
        SeedRetryPolicy {
            timeout: number("timeout").filter(|t| *t > 0.0).map_or(default.timeout, Duration::from_secs_f64),
            retries: number("retries").map_or(default.retries, |n| n as u32),
            retry_delay: number("sec_between_retries").map_or(default.retry_delay, Duration::from_secs_f64),
        }
    }
}

/// Where a file of a seed is. `%s` in the base stands for its name; without one, and without a query, a `/` is put
/// between them.
fn file_url(base: &str, name: &str) -> String {
    if base.contains("%s") {
        base.replace("%s", name)
    } else if base.ends_with('/') || base.contains('?') {
        format!("{base}{name}")
    } else {
        format!("{base}/{name}")
    }
}

/// Reads a seed below a URL or a path. Its server has to begin to answer by `deadline`, if there is one.
pub fn fetch(sys: &System, base: &str, policy: SeedRetryPolicy, deadline: Option<Deadline>) -> Result<Seed> {
    let url = |name: &str| file_url(base, name);
    let request = |name: &str| {
        Request::get(url(name)).timeout(policy.timeout).retries(policy.retries, policy.retry_delay)
    };
    let body = |fetch: Request| sys.fetch(&fetch).map(|answer| answer.body);
    let optional = |name: &str| match body(request(name).optional()) {
        Err(e) if e.is_not_found() => None,
        read => optional_or_log(sys, name, read.map(Some)),
    };
    // The required ones first: their failure decides, and costs the tries of one file only.
    let first = request("meta-data");
    let meta = body(match deadline {
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
    fn file_urls() {
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

    #[test]
    fn lone_surrogates() {
        for (text, expected) in [
            (r#"{"a": "x\ud83dy"}"#, "x\u{fffd}y"),
            (r#"{"a": "\uDE00\ud83d"}"#, "\u{fffd}\u{fffd}"),
            (r#"{"a": "\ud83d\ude00\ud83d"}"#, "\u{1f600}\u{fffd}"),
            (r#"{"a": "\ud83d\u0041\n"}"#, "\u{fffd}A\n"),
            (r#"{"a": "\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
        ] {
            let yaml = parse_map("t", text.as_bytes()).unwrap();
            assert_eq!(yaml.get("a").and_then(Node::as_str), Some(expected), "{text}");
            assert_eq!(config::json::value(text.as_bytes()).unwrap()["a"], expected, "{text}");
        }
        for broken in [r#"{"a": "\ud83d"#, r#"{"a": "\ud8"}"#, r"{ \ud83d", "\\"] {
            assert!(config::json::value(broken.as_bytes()).is_err(), "{broken}");
        }
        for bytes in [&b"\\"[..], b"\\u", b"\\ud83", b"x\\ud83d\\", b"\\ud83d\\u"] {
            let _ = repair_surrogates(bytes);
        }
    }

    #[test]
    fn retry_settings() {
        let of =
            |text: &str| SeedRetryPolicy::from_settings(Some(&config::yaml::parse("t", text).unwrap().root));
        assert_eq!(of("{timeout: 2, retries: '3', sec_between_retries: 0.5}").retry_delay.as_millis(), 500);
        for odd in ["{timeout: 0, retries: -1}", "{timeout: often}", "[]", "{timeout: .nan, retries: .inf}"] {
            let got = of(odd);
            assert_eq!((got.timeout.as_secs(), got.retries), (30, 10), "{odd}");
        }
    }
}
