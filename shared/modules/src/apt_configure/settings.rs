//! The keys below `apt`, and the top-level keys that `apt` has replaced.

use config::schema::{Format, STR, Type, key, list, map, map_of};
use config::{FromNode, KeyStruct, Node, Reader, Value};

use crate::values::text_values::in_key_order;

config::keys! {
    pub struct Mirror as "mirror" {
        /// Architectures that use this mirror; `default` for all others.
        arches: Arches;
        /// The URL of the mirror.
        uri: Option<String>, types [STR.format(Format::Uri)];
        /// URLs to try instead of `uri`. The first whose hostname resolves is used.
        search: Vec<String>, types [list(&[STR.format(Format::Uri)]).min(1)];
        /// If `search` finds none, try `DISTRO-mirror` in the local domain (`DISTRO-security-mirror` for updates).
        search_dns: Option<bool>;
        /// The ID or fingerprint of the signing key.
        keyid: Option<String>;
        /// The signing key itself, ASCII-armored.
        key: Option<String>;
        /// The key server. The default is keyserver.ubuntu.com.
        keyserver: Option<String>;
    }
    pub struct Source {
        /// A sources.list line, a deb822 stanza, or a PPA (`ppa:USER/NAME`).
        source: Option<String>;
        /// The ID or fingerprint of the signing key.
        keyid: Option<String>;
        /// The signing key itself, ASCII-armored.
        key: Option<String>;
        /// The key server. The default is keyserver.ubuntu.com.
        keyserver: Option<String>;
        /// The file in sources.list.d. The default is the source's name.
        filename: Option<String>;
        /// Append to the file instead of replacing it.
        append: bool = true;
    }
    pub struct Apt {
        /// Keep the existing sources list.
        preserve_sources_list: bool = false;
        /// Write the mirrors to files in /etc/apt/mirrors (Debian).
        generate_mirrorlists: bool = false;
        /// Suites to disable, such as `updates` or `security`.
        disable_suites: Vec<String>, types [list(&[STR]).min(1).unique()];
        /// Primary mirrors, by architecture.
        primary: Vec<Mirror>, within min(1);
        /// Mirrors for security updates, by architecture. The default is `primary`.
        security: Vec<Mirror>, within min(1);
        /// Sources that match this regular expression are passed to add-apt-repository.
        add_apt_repo_match: Option<String> = "^[\\w-]+:\\w";
        /// Input of debconf-set-selections, under any names.
        debconf_selections: Option<Selections>;
        /// A template for the sources list.
        sources_list: Option<String>;
        /// Contents of a file in apt.conf.d.
        conf: Option<String>;
        /// The URL of the HTTPS proxy.
        https_proxy: Option<String>;
        /// The URL of the HTTP proxy.
        http_proxy: Option<String>;
        /// Alias of `http_proxy`.
        proxy: Option<String>;
        /// The URL of the FTP proxy.
        ftp_proxy: Option<String>;
        /// Additional sources, by name.
        sources: Sources;
    }
    pub struct Keys {
        /// Configuration of apt.
        apt: Option<Apt>, within min(1);
    }
    /// Keys before 22.1, which count if `apt` is not set.
    pub struct OldKeys {
        /// Additional sources.
        apt_sources: Option<OldSources>, until "22.1" use "apt: {sources: …}";
        /// The URL of the mirror.
        apt_mirror: Option<String>, until "22.1" use "apt: {primary: …}";
        /// URLs to try instead of `uri`. The first whose hostname resolves is used.
        apt_mirror_search: Vec<String>, until "22.1" use "apt: {primary: …}";
        /// If `search` finds none, try `DISTRO-mirror` in the local domain (`DISTRO-security-mirror` for updates).
        apt_mirror_search_dns: Option<bool>, until "22.1" use "apt: {primary: …}";
        /// The URL of the HTTP proxy.
        apt_proxy: Option<String>, until "22.1" use "apt: {proxy: …}";
        /// The URL of the HTTP proxy.
        apt_http_proxy: Option<String>, until "22.1" use "apt: {http_proxy: …}";
        /// The URL of the FTP proxy.
        apt_ftp_proxy: Option<String>, until "22.1" use "apt: {ftp_proxy: …}";
        /// The URL of the HTTPS proxy.
        apt_https_proxy: Option<String>, until "22.1" use "apt: {https_proxy: …}";
        /// Keep the existing sources list.
        apt_preserve_sources_list: Option<bool>, until "22.1" use "apt: {preserve_sources_list: …}";
        /// A template for the sources list.
        apt_custom_sources_list: Option<String>, until "22.1" use "apt: {sources_list: …}";
        /// Sources that match this regular expression are passed to add-apt-repository.
        add_apt_repo_match: Option<String>, until "22.1" use "apt: {add_apt_repo_match: …}";
    }
}

/// Returns the name that a former key has below `apt`.
pub fn name_below_apt(old: &'static str) -> &'static str {
    match old.strip_prefix("apt_").unwrap_or(old) {
        "custom_sources_list" => "sources_list",
        "mirror" | "mirror_search" | "mirror_search_dns" => "primary",
        name => name,
    }
}

impl OldKeys {
    /// Returns the same settings as `apt` has them.
    pub fn into_apt(self, mut apt: Apt) -> Apt {
        let has_mirror = self.apt_mirror.is_some()
            || !self.apt_mirror_search.is_empty()
            || self.apt_mirror_search_dns.is_some();
        if has_mirror {
            apt.primary = vec![Mirror {
                arches: Arches(vec!["default".into()]),
                uri: self.apt_mirror,
                search: self.apt_mirror_search,
                search_dns: self.apt_mirror_search_dns,
                keyid: None,
                key: None,
                keyserver: None,
            }];
        }
        apt.sources = self.apt_sources.map(|old| old.0).unwrap_or_default();
        apt.proxy = self.apt_proxy;
        apt.http_proxy = self.apt_http_proxy;
        apt.ftp_proxy = self.apt_ftp_proxy;
        apt.https_proxy = self.apt_https_proxy;
        apt.preserve_sources_list = self.apt_preserve_sources_list.unwrap_or(false);
        apt.sources_list = self.apt_custom_sources_list;
        apt.add_apt_repo_match = self.add_apt_repo_match.or(apt.add_apt_repo_match);
        apt
    }
}

/// Names of architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arches(pub Vec<String>);

impl FromNode for Arches {
    const SCHEMA: &'static [Type] = &[list(&[STR]).min(1)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Arches> {
        Vec::read(node, reader).map(Arches)
    }
}

/// Texts for debconf by their names, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selections(pub Vec<(String, String)>);

impl FromNode for Selections {
    const SCHEMA: &'static [Type] =
        &[map_of(&key("<name>", &[STR]).doc("Lines for debconf-set-selections. The name is ignored."))
            .min(1)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Selections> {
        let map = reader.map(node, "a map of names to strings")?;
        let read = |name: &str, _: &Node, value: &Node, reader: &mut Reader| {
            Some((name.into(), String::read(value, reader)?))
        };
        Some(Selections(reader.entries(in_key_order(map), read).into_iter().flatten().collect()))
    }
}

/// Sources by their names, in the order of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources(pub Vec<(String, Source)>);

impl FromNode for Sources {
    const SCHEMA: &'static [Type] = &[map_of(
        &key("<name>", &[map(Source::TABLE).min(1)])
            .doc("A source. The name is that of its file, unless `filename` is set."),
    )];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<Sources> {
        if node.is_null() {
            return Some(Self::default());
        }
        reader.named(node, "a map of names to sources").map(Sources)
    }
}

/// Sources of `apt_sources`: a map, or a list whose items without a file share one.
#[derive(Debug, Clone)]
pub struct OldSources(pub Sources);

impl FromNode for OldSources {
    const SCHEMA: &'static [Type] = Sources::SCHEMA;
    fn read(node: &Node, reader: &mut Reader) -> Option<OldSources> {
        if !matches!(node.value, Value::Seq(_)) {
            return Sources::read(node, reader).map(OldSources);
        }
        let sources: Vec<Source> = Vec::read(node, reader)?;
        let named = sources.into_iter().map(|source| ("cloud_config_sources.list".to_string(), source));
        Some(OldSources(Sources(named.collect())))
    }
}
