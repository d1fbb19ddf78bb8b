//! Selects mirrors: the configured ones, else those of the image for this cloud and zone, else the distribution's.

use std::net::IpAddr;
use std::time::Duration;

use config::{Map, Node};
use system::{Deadline, System, debug};

use super::settings::Mirror;

/// How long a hostname of a mirror may take to resolve.
// Wait: apt_configure | the name of a mirror to resolve | -
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Names that do not exist. Some resolvers answer with their own address for unknown names; these names reveal it.
const UNKNOWN_HOSTS: [&str; 2] = ["http://does-not-exist.example.com./", "http://example.invalid./"];

/// The mirrors of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrors {
    /// The URL of the archive.
    pub primary: String,
    /// The URL of the archive of security updates.
    pub security: String,
    /// Further names that `package_mirrors` defines, with their URLs.
    pub others: Vec<(String, String)>,
}

impl Mirrors {
    fn new(primary: &str, security: &str) -> Mirrors {
        Mirrors { primary: primary.into(), security: security.into(), others: Vec::new() }
    }

    /// Returns the mirrors that a distribution has for an architecture.
    pub fn of_distro(distro: &str, arch: &str) -> Mirrors {
        match (distro, arch) {
            ("ubuntu", "amd64" | "i386") => {
                Mirrors::new("http://archive.ubuntu.com/ubuntu/", "http://security.ubuntu.com/ubuntu/")
            }
            ("ubuntu", _) => {
                let ports = "http://ports.ubuntu.com/ubuntu-ports";
                Mirrors::new(ports, ports)
            }
            _ => Mirrors::new("https://deb.debian.org/debian", "https://deb.debian.org/debian-security"),
        }
    }

    /// Returns the variables of templates for these mirrors, in both spellings.
    pub fn variables(&self, codename: &str) -> Map {
        let named = [("primary", &self.primary), ("security", &self.security), ("mirror", &self.primary)];
        let others = self.others.iter().map(|(name, value)| (name.as_str(), value));
        let mut variables = Map::new();
        for (name, value) in others.chain(named) {
            variables.insert(name, value.as_str());
            variables.insert(name.to_ascii_lowercase(), value.as_str());
            variables.insert(name.to_ascii_uppercase(), value.as_str());
        }
        variables.insert("codename", codename);
        variables.insert("RELEASE", codename);
        variables
    }
}

/// Returns whether a string is usable as the address of a mirror. Anything else could be a line of its own.
pub fn is_mirror_address(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Returns the element for an architecture: the first that names it, else the last for `default`.
pub fn for_arch<'m>(mirrors: &'m [Mirror], arch: &str) -> Option<&'m Mirror> {
    let has = |mirror: &&Mirror, name: &str| mirror.arches.0.iter().any(|a| a == name);
    mirrors.iter().find(|m| has(m, arch)).or_else(|| mirrors.iter().rfind(|m| has(m, "default")))
}

/// Returns the address of a configured mirror: the `uri`, else the first of `search` that `exists`, else the first of
/// those below `domains`.
pub fn location(
    mirror: &Mirror,
    by_dns: impl FnOnce() -> Vec<String>,
    exists: &mut dyn FnMut(&str) -> bool,
) -> Option<String> {
    if let Some(uri) = &mirror.uri {
        return Some(uri.trim().to_string()).filter(|uri| is_mirror_address(uri));
    }
    let mut first = |urls: Vec<String>| urls.into_iter().find(|url| is_mirror_address(url) && exists(url));
    let found = first(mirror.search.clone());
    found.or_else(|| if mirror.search_dns == Some(true) { first(by_dns()) } else { None })
}

/// Returns the URLs at which a domain may have a mirror.
pub fn urls_by_dns(distro: &str, host: &str, fqdn: &str) -> Vec<String> {
    let own = fqdn.split_once('.').map(|(_, domain)| domain).filter(|domain| !domain.is_empty());
    let domains = own.map(|domain| format!(".{domain}")).into_iter();
    let domains = domains.chain([".localdomain".to_string(), String::new()]);
    domains.map(|domain| format!("http://{distro}-{host}{domain}/{distro}")).collect()
}

/// The machine's location as its cloud names it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Location<'a> {
    pub zone: Option<&'a str>,
    pub region: Option<&'a str>,
    pub is_ec2: bool,
}

/// Returns the mirrors that `package_mirrors` of the image's configuration has for an architecture and a location; `None`
/// without an archive.
pub fn of_image(
    package_mirrors: &Node,
    arch: &str,
    location: Location<'_>,
    exists: &mut dyn FnMut(&str) -> bool,
) -> Option<Mirrors> {
    let elements = package_mirrors.as_seq().unwrap_or_default();
    let has = |element: &&Node, name: &str| {
        let arches = element.get("arches").and_then(Node::as_seq).unwrap_or_default();
        arches.iter().any(|a| a.as_str() == Some(name))
    };
    let element =
        elements.iter().find(|e| has(e, arch)).or_else(|| elements.iter().rfind(|e| has(e, "default")))?;
    let mut found: Vec<(String, String)> = Vec::new();
    let mut put = |name: &Node, url: String| {
        let Some(name) = name.scalar_text() else { return };
        found.retain(|(known, _)| *known != name);
        found.push((name, url));
    };
    for (name, url) in element.get("failsafe").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        if let Some(url) = url.as_str().filter(|url| is_mirror_address(url)) {
            put(name, url.to_string());
        }
    }
    for (name, urls) in element.get("search").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        let patterns = urls.as_seq().unwrap_or_default().iter().filter_map(Node::as_str);
        let mut urls = patterns.filter_map(|pattern| valid_host(&substituted(pattern, location)?));
        if let Some(url) = urls.find(|url| exists(url)) {
            put(name, url);
        }
    }
    let primary = take(&mut found, "primary")?;
    let security = take(&mut found, "security").unwrap_or_else(|| primary.clone());
    Some(Mirrors { primary, security, others: found })
}

fn take(named: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let at = named.iter().position(|(known, _)| known == name)?;
    Some(named.swap_remove(at).1)
}

/// Replaces `%(region)s` and the like; `None` if a value is not known.
fn substituted(pattern: &str, location: Location<'_>) -> Option<String> {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("%(") {
        let (name, next) = after.split_once(")s")?;
        out.push_str(before);
        out.push_str(match name {
            "availability_zone" => location.zone?,
            "region" => location.region?,
            "ec2_region" => location.zone.filter(|_| location.is_ec2).and_then(ec2_region)?,
            _ => return None,
        });
        rest = next;
    }
    Some(out + rest)
}

/// Returns the region of a zone such as `us-east-1b` or `us-gov-west-1a`.
fn ec2_region(zone: &str) -> Option<&str> {
    let (region, letter) = zone.split_at_checked(zone.len().checked_sub(1)?)?;
    let mut parts = region.split('-').rev();
    let is_number = parts.next().is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()));
    let words: Vec<&str> = parts.collect();
    let is_lower = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let is_zone = is_number
        && letter.bytes().all(|b| b.is_ascii_lowercase())
        && words.len() >= 2
        && words.iter().all(is_lower)
        && words.last().is_some_and(|country| country.len() == 2);
    is_zone.then_some(region)
}

/// Returns the URL with a hostname that can exist: a zone may have characters that a label cannot.
fn valid_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if place.starts_with('[') {
        return Some(url.to_string()).filter(|url| is_mirror_address(url));
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, format!(":{port}")),
        None => (place, String::new()),
    };
    // Python's cloud-init converts such a name; resolvers do not.
    if host.is_empty() || !host.is_ascii() {
        return None;
    }
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let host: String = host.chars().map(allowed).collect();
    let labels: Vec<&str> = host.split('.').map(|label| label.trim_matches('-')).collect();
    Some(format!("{scheme}://{}{port}{path}", labels.join("."))).filter(|url| is_mirror_address(url))
}

/// Returns a test whether the host of a URL can be resolved. An address that the resolver also returns for unknown names counts
/// as unresolved.
pub fn resolver(sys: &System) -> impl FnMut(&str) -> bool {
    let mut redirects: Option<Vec<IpAddr>> = None;
    move |url| {
        let lookup = |url: &str| sys.addresses_of(url, Deadline::after(LOOKUP_TIMEOUT)).unwrap_or_default();
        let Some(first) = lookup(url).first().copied() else {
            debug!(sys, "mirror {}: hostname not found", system::redacted_url(url));
            return false;
        };
        let is_address = url.contains(&first.to_string());
        is_address
            || !redirects
                .get_or_insert_with(|| UNKNOWN_HOSTS.iter().flat_map(|unknown| lookup(unknown)).collect())
                .contains(&first)
    }
}
