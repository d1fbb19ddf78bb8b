//! Keys that belong to another configuration than a cloud-config.

/// Keys of an image's configuration in /etc/cloud. Upstream's schema does not allow them in a cloud-config.
pub const IMAGE_ONLY_KEYS: &[&str] = &[
    "allow_userdata",
    "conf_d",
    "datasource",
    "datasource_list",
    "datasource_pkg_list",
    "def_log_file",
    "def_log_file_mode",
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
