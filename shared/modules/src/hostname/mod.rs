//! The machine's names: from the configuration, else from the cloud, else the current ones.

use config::Node;
use state::Instance;
use system::System;

use crate::Context;

config::keys! {
    /// The keys that several modules read.
    pub struct Keys {
        /// Do not change the hostname.
        preserve_hostname: bool = false;
        /// The hostname.
        hostname: Option<String>;
        /// The fully qualified domain name.
        fqdn: Option<String>;
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
    let name = match sys.kernel_hostname() {
        name if name.is_empty() => "localhost".to_string(),
        name => name,
    };
    let known = sys.read_text("/etc/hosts").ok().and_then(|t| fqdn_in_hosts(&t, &name));
    let (_, fqdn) = host_and_fqdn(&known.filter(|n| n.contains('.')).unwrap_or_else(|| name.clone()));
    let (hostname, _) = split_domain(&name);
    HostnameInfo { is_default: hostname == "localhost", hostname, fqdn }
}

/// Returns the names from the cloud, else the current ones. The configuration is not used.
pub fn from_metadata_or_system(context: &Context<'_>) -> HostnameInfo {
    from_config_and_metadata(None, None, context.instance.local_hostname.as_deref())
        .map_or_else(|| from_system(context.sys), |names| with_whole_name(context.instance, names))
}

/// Replaces the names by that of a cloud whose names are not split at the first dot, when only the cloud names the
/// machine.
fn with_whole_name(instance: &Instance, names: HostnameInfo) -> HostnameInfo {
    match instance.local_hostname.as_deref().map(str::trim) {
        Some(name) if instance.is_hostname_whole => {
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
    let cloud = context.instance.local_hostname.as_deref();
    let decided = from_config_and_metadata(keys.hostname.as_deref(), keys.fqdn.as_deref(), cloud);
    let Some(mut names) = decided else {
        return (!metadata_only).then(|| from_system(context.sys));
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
    /// Returns the name to write.
    pub fn preferred(&self, prefer_fqdn: bool) -> &str {
        if prefer_fqdn && !self.fqdn.is_empty() { &self.fqdn } else { &self.hostname }
    }

    /// Returns whether the kernel and hosts(5) accept a name; any other character could begin a line of its own.
    pub fn is_valid(&self) -> bool {
        [&self.hostname, &self.fqdn].iter().all(|n| {
            !n.is_empty()
                && n.len() <= 253
                && !n.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/' || c == '#')
        })
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

    #[test]
    fn invalid_names_are_rejected() {
        for (name, ok) in
            [("a", true), ("a.b-c_1", true), ("a b", false), ("a\n127.0.0.1 b", false), ("", false)]
        {
            let names = HostnameInfo { hostname: name.into(), fqdn: name.into(), is_default: false };
            assert_eq!(names.is_valid(), ok, "{name}");
        }
    }
}
