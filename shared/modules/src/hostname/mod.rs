//! The machine's names: from the configuration, else from the cloud, else the current ones.

use config::Node;
use state::Instance;
use system::{System, warning};

use crate::Context;
use crate::values::text_values::text_types;

/// The description of a valid name in messages.
pub(crate) const NAME: &str = "a hostname of letters, digits, and '-' and '.' between them, with at most 64 characters before the first '.'";

text_types! {
    /// A name that the kernel, systemd and hostname(1) accept, or nothing.
    pub struct Name: NAME, |text| text.trim().is_empty() || is_name(text.trim());
}

/// Returns whether the part before the first `.` can be the machine's name, and the rest its domain, which may contain `_`.
fn is_name(text: &str) -> bool {
    let is_label = |(i, label): (usize, &str)| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || (b == b'_' && i > 0);
        !label.is_empty()
            && label.len() <= if i == 0 { MAX_HOSTNAME } else { 63 }
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(fits)
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').enumerate().all(is_label)
}

/// The kernel's limit.
const MAX_HOSTNAME: usize = 64;

config::keys! {
    /// The keys that several modules read.
    pub struct Keys {
        /// Do not change the hostname.
        preserve_hostname: bool = false;
        /// The hostname.
        hostname: Option<Name>;
        /// The fully qualified domain name.
        fqdn: Option<Name>;
        /// Use `fqdn` as the hostname. The default depends on the distribution.
        prefer_fqdn_over_hostname: Option<bool>;
        /// Create /etc/hostname if it does not exist.
        create_hostname_file: bool = true;
    }
}

/// The names of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostnameInfo {
    pub hostname: String,
    pub fqdn: String,
    /// Whether the name is `localhost` only because no source sets one.
    pub is_default: bool,
}

/// Returns the name from the cloud, as host and domain.
fn split_domain(name: &str) -> (String, Option<String>) {
    match name.split_once('.') {
        Some((host, domain)) => (host.into(), Some(domain.into()).filter(|d: &String| !d.is_empty())),
        None => (name.into(), None),
    }
}

/// Splits a name into hostname and FQDN; `localdomain` does not count as a domain.
fn host_and_fqdn(name: &str) -> (String, String) {
    match split_domain(name) {
        (host, Some(domain)) if domain != "localdomain" => {
            let fqdn = format!("{host}.{domain}");
            (host, fqdn)
        }
        (host, _) => (host.clone(), host),
    }
}

/// Returns the names of configuration and cloud; `None` if neither has one.
pub fn from_config_and_metadata(
    hostname: Option<&str>,
    fqdn: Option<&str>,
    cloud: Option<&str>,
) -> Option<HostnameInfo> {
    let non_empty = |text: Option<&str>| text.map(str::trim).filter(|t| !t.is_empty()).map(String::from);
    let (hostname, fqdn, cloud) = (non_empty(hostname), non_empty(fqdn), non_empty(cloud));
    let (hostname, fqdn) = match (fqdn, hostname, cloud) {
        (Some(fqdn), hostname, _) => (hostname.unwrap_or_else(|| split_domain(&fqdn).0), fqdn),
        (None, Some(name), _) if name.find('.').is_some_and(|i| i > 0) => (split_domain(&name).0, name),
        (None, Some(name), cloud) => (name.clone(), cloud.map_or(name, |c| host_and_fqdn(&c).1)),
        (None, None, Some(cloud)) => host_and_fqdn(&cloud),
        (None, None, None) => return None,
    };
    Some(HostnameInfo { hostname, fqdn, is_default: false })
}

/// Returns the FQDN of a host in a hosts(5) text.
pub fn fqdn_in_hosts(text: &str, host: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace().skip(1);
        let first = words.next()?;
        words.any(|alias| alias == host).then(|| first.to_string())
    })
}

/// Returns the FQDN that the machine has for a host already: from hosts(5), or its own.
fn known_fqdn(sys: &System, host: &str) -> Option<String> {
    let in_hosts = sys.read_text("/etc/hosts").ok().and_then(|text| fqdn_in_hosts(&text, host));
    let own = || Some(sys.kernel_hostname()).filter(|name| split_domain(name).0 == host);
    in_hosts.or_else(own).map(|name| host_and_fqdn(&name).1).filter(|name| name.contains('.'))
}

/// Returns the names that the running system has, for use when neither the configuration nor the cloud sets one.
fn from_system(sys: &System) -> HostnameInfo {
    // Another character could begin a line of its own in hosts(5).
    let is_word = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | '#');
    let name = match sys.kernel_hostname() {
        name if !name.is_empty() && name.chars().all(is_word) => name,
        _ => "localhost".to_string(),
    };
    let known = sys.read_text("/etc/hosts").ok().and_then(|t| fqdn_in_hosts(&t, &name));
    let (_, fqdn) = host_and_fqdn(&known.filter(|n| n.contains('.')).unwrap_or_else(|| name.clone()));
    let (hostname, _) = split_domain(&name);
    HostnameInfo { is_default: hostname == "localhost", hostname, fqdn }
}

/// Returns the names from the cloud, else the current ones. The configuration is not used.
pub fn from_metadata_or_system(context: &Context<'_>) -> HostnameInfo {
    from_config_and_metadata(None, None, of_cloud(context.instance))
        .map_or_else(|| from_system(context.sys), |names| with_whole_name(context.instance, names))
}

/// Returns the cloud's name, if it is valid.
fn of_cloud(instance: &Instance) -> Option<&str> {
    instance.local_hostname.as_deref().filter(|name| is_name(name.trim()))
}

fn has_cloud_name(context: &Context<'_>) -> bool {
    context.instance.local_hostname.as_deref().is_some_and(|name| !name.trim().is_empty())
}

/// Reports the cloud's name, if it is invalid.
pub fn report_invalid_cloud_name(context: &Context<'_>) {
    if has_cloud_name(context) && of_cloud(context.instance).is_none() {
        let datasource = &context.instance.datasource;
        warning!(context.sys, "metadata of {datasource}: local-hostname: expected {NAME}; ignored");
    }
}

/// Returns whether the machine keeps its name: one is configured, or else the cloud has one, and it is invalid.
pub fn is_kept(context: &Context<'_>, keys: &Keys) -> bool {
    let is_set =
        |key: &str| context.config.get(key).and_then(Node::as_str).is_some_and(|name| !name.is_empty());
    let is_invalid = is_set("hostname") || is_set("fqdn") || of_cloud(context.instance).is_none();
    let is_named = is_set("hostname") || is_set("fqdn") || has_cloud_name(context);
    keys.hostname.is_none() && keys.fqdn.is_none() && is_named && is_invalid
}

/// Replaces the names by that of a cloud whose names are not split at the first dot, when only the cloud names the
/// machine.
fn with_whole_name(instance: &Instance, names: HostnameInfo) -> HostnameInfo {
    match of_cloud(instance).map(str::trim) {
        Some(name) if instance.is_hostname_whole && name.len() <= MAX_HOSTNAME => {
            HostnameInfo { hostname: name.into(), fqdn: name.into(), ..names }
        }
        _ => names,
    }
}

/// Returns whether the hostname is set to the FQDN: the configured value, else the distribution's default.
pub fn prefer_fqdn(context: &Context<'_>, keys: &Keys) -> bool {
    keys.prefer_fqdn_over_hostname.unwrap_or_else(|| {
        let vendor = context.system_info.get("prefer_fqdn_over_hostname").and_then(Node::as_bool);
        vendor.unwrap_or(context.distro.prefers_fqdn)
    })
}

/// Returns the machine's names. With `metadata_only`, `None` if neither the configuration nor the cloud has one.
pub fn resolve(context: &Context<'_>, keys: &Keys, metadata_only: bool) -> Option<HostnameInfo> {
    let cloud = of_cloud(context.instance);
    let text = |name: &'_ Option<Name>| name.as_ref().map(|name| name.0.clone());
    let decided =
        from_config_and_metadata(text(&keys.hostname).as_deref(), text(&keys.fqdn).as_deref(), cloud);
    let Some(mut names) = decided.clone().filter(|_| !is_kept(context, keys)) else {
        let current = from_system(context.sys);
        // The cloud may have the current name with its domain.
        let named = decided.filter(|names| names.hostname == current.hostname);
        return (!metadata_only).then(|| named.unwrap_or(current));
    };
    if keys.hostname.is_none() && keys.fqdn.is_none() {
        names = with_whole_name(context.instance, names);
    }
    // A name without a domain gets the domain that this machine already has for it.
    if keys.hostname.is_some()
        && keys.fqdn.is_none()
        && cloud.is_none()
        && !names.fqdn.contains('.')
        && !metadata_only
    {
        names.fqdn = known_fqdn(context.sys, &names.hostname).unwrap_or(names.fqdn);
    }
    Some(names)
}

impl HostnameInfo {
    /// Returns the name to write. An FQDN that the kernel would refuse is not written.
    pub fn preferred(&self, prefer_fqdn: bool) -> &str {
        let is_usable = !self.fqdn.is_empty()
            && self.fqdn.len() <= MAX_HOSTNAME
            && !self.fqdn.contains('_')
            && !self.fqdn.ends_with('.');
        if prefer_fqdn && is_usable { &self.fqdn } else { &self.hostname }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fqdn_overrides_hostname_and_metadata() {
        for (hostname, fqdn, cloud, wanted) in [
            (None, Some("a.b.c"), Some("x"), Some(("a", "a.b.c"))),
            (Some("z"), Some("a.b.c"), None, Some(("z", "a.b.c"))),
            (Some("a.b"), None, Some("x.y"), Some(("a", "a.b"))),
            (Some("a"), None, Some("x.y"), Some(("a", "x.y"))),
            (Some("a"), None, None, Some(("a", "a"))),
            (None, None, Some("x.y.z"), Some(("x", "x.y.z"))),
            (None, None, Some("x.localdomain"), Some(("x", "x"))),
            (None, Some(""), Some("x"), Some(("x", "x"))),
            (None, None, None, None),
        ] {
            let names = from_config_and_metadata(hostname, fqdn, cloud);
            assert_eq!(names.as_ref().map(|n| (&*n.hostname, &*n.fqdn)), wanted);
        }
    }

    #[test]
    fn fqdn_is_read_from_the_hosts_file() {
        let text = "127.0.0.1 localhost\n# 1 a.b a\n127.0.1.1 a.b a # c\n";
        assert_eq!(fqdn_in_hosts(text, "a").as_deref(), Some("a.b"));
        assert_eq!(fqdn_in_hosts(text, "c"), None);
    }

    /// As hostname(1) of Debian and `hostnamectl` accept and refuse them.
    #[test]
    fn invalid_names_are_rejected() {
        let long = |n| "a".repeat(n);
        for name in ["a", "1", "A-b", "a.b-c_1", "web.", "192.168.0.1", &long(64), &format!("{}.b", long(64))]
        {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "a b",
            "a\n127.0.0.1 b",
            "${hostname}",
            "my_host",
            "a@b",
            "-lead",
            "trail-",
            "host:1",
            "ümlaut",
            ".a",
            "a..b",
            "a.-b",
            "a/b",
            "a#b",
            "a*",
            "<name>",
            &long(65),
            &long(253),
            &format!("a.{}", long(64)),
        ] {
            assert!(!is_name(name), "{name}");
        }
        let long = format!("a.{}.{}", long(60), long(60));
        for (fqdn, preferred) in [("a.b", "a.b"), ("a.b_c", "a"), ("a.b.", "a"), (&long, "a"), ("", "a")] {
            let names = HostnameInfo { hostname: "a".into(), fqdn: fqdn.into(), is_default: false };
            assert_eq!((names.preferred(true), names.preferred(false)), (preferred, "a"));
        }
    }
}
