//! Modules that upstream has and this version does not, with the keys that would make each do something. A module list
//! may name them: without these keys they are skipped silently; with them, a warning names what is not supported.

/// Name and keys. A key with a dot is below another.
const UNSUPPORTED: &[(&str, &[&str])] = &[
    ("ansible", &["ansible"]),
    (
        "apt_configure",
        &[
            "apt.sources",
            "apt.sources_list",
            "apt.primary",
            "apt.security",
            "apt.conf",
            "apt.debconf_selections",
            "apt.disable_suites",
            "apt.generate_mirrorlists",
            "apt.proxy",
            "apt.http_proxy",
            "apt.https_proxy",
            "apt.ftp_proxy",
            "apt_sources",
            "apt_mirror",
            "apt_proxy",
        ],
    ),
    ("apt_pipelining", &["apt_pipelining"]),
    ("chef", &["chef"]),
    ("lxd", &["lxd"]),
    ("raspberry_pi", &["rpi"]),
];

/// Keys of an image's own configuration, which a cloud-config may not have by upstream's schema, and where they are
/// read.
const IMAGE_ONLY_KEYS: &[&str] = &[
    "allow_userdata",
    "conf_d",
    "datasource",
    "datasource_list",
    "datasource_pkg_list",
    "def_log_file",
    "disable_fallback_netcfg",
    "disable_network_activation",
    "disable_vmware_customization",
    "log_basic",
    "log_cfgs",
    "logcfg",
    "manual_cache_clean",
    "syslog_fix_perms",
    "unverified_modules",
    "vendor_data2",
    "warnings",
];

/// Returns where a key belongs that is not a cloud-config key; `None` for a key that has no other place.
pub fn where_key_belongs(key: &str) -> Option<&'static str> {
    match key {
        "network" => Some("it belongs in network-config or /etc/cloud"),
        "ethernets" | "bonds" | "bridges" | "vlans" | "wifis" => Some("it belongs in network-config"),
        "instance-id" | "local-hostname" | "public-keys" => Some("it belongs in meta-data"),
        _ if IMAGE_ONLY_KEYS.contains(&key) => Some("it belongs in /etc/cloud"),
        _ => None,
    }
}

/// Returns the keys of an unsupported upstream module that the configuration sets, including false and empty ones, which
/// may request something (`apt_pipelining: false`). `None` for the name of an unknown module.
pub fn unsupported_keys(name: &str, config: &config::Node) -> Option<Vec<&'static str>> {
    let (_, keys) = UNSUPPORTED.iter().find(|(n, _)| *n == name)?;
    let is_set = |key: &&&str| {
        let path: Vec<&str> = key.split('.').collect();
        config.at_path(&path).is_some_and(|node| !node.is_null())
    };
    Some(keys.iter().filter(is_set).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_configured_unsupported_keys_are_reported() {
        let config =
            config::yaml::parse("t", "{apt: {preserve_sources_list: true}, lxd: {preseed: x}}").unwrap().root;
        assert_eq!(unsupported_keys("apt_configure", &config), Some(vec![]));
        assert_eq!(unsupported_keys("lxd", &config), Some(vec!["lxd"]));
        assert_eq!(unsupported_keys("nonsense", &config), None);
        for (text, module, keys) in [
            ("apt_pipelining: false", "apt_pipelining", &["apt_pipelining"][..]),
            ("apt_pipelining: 0", "apt_pipelining", &["apt_pipelining"]),
            ("apt_pipelining:", "apt_pipelining", &[]),
            ("lxd: {}", "lxd", &["lxd"]),
            ("apt: {conf: ''}", "apt_configure", &["apt.conf"]),
        ] {
            let config = config::yaml::parse("t", text).unwrap().root;
            assert_eq!(unsupported_keys(module, &config).unwrap(), keys, "{text}");
        }
    }

    #[test]
    fn no_supported_module_is_listed() {
        for (name, _) in UNSUPPORTED {
            assert!(crate::find_module(name).is_none(), "{name}");
        }
    }
}
