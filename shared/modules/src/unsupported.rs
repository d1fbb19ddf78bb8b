//! Modules that upstream has and this version does not, with the keys that would make each do something. A module list
//! may name them: without these keys they are skipped silently; with them, a warning names what is not supported.

/// Name and keys. A key with a dot is below another.
const UNSUPPORTED: &[(&str, &[&str])] = &[
    ("ansible", &["ansible"]),
    ("apk_configure", &["apk_repos"]),
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
    ("byobu", &["byobu_by_default"]),
    ("chef", &["chef"]),
    ("disable_ec2_metadata", &["disable_ec2_metadata"]),
    ("fan", &["fan"]),
    ("grub_dpkg", &["grub_dpkg", "grub-dpkg"]),
    ("keyboard", &["keyboard"]),
    ("landscape", &["landscape"]),
    ("lxd", &["lxd"]),
    ("mcollective", &["mcollective"]),
    ("puppet", &["puppet"]),
    ("raspberry_pi", &["rpi"]),
    ("reset_rmc", &[]),
    ("resolv_conf", &["manage_resolv_conf"]),
    ("rh_subscription", &["rh_subscription"]),
    ("rsyslog", &["rsyslog"]),
    ("salt_minion", &["salt_minion"]),
    ("snap", &["snap"]),
    ("spacewalk", &["spacewalk"]),
    ("ssh_import_id", &["ssh_import_id"]),
    ("ubuntu_advantage", &["ubuntu_advantage", "ubuntu-advantage"]),
    ("ubuntu_autoinstall", &["autoinstall"]),
    ("ubuntu_drivers", &["drivers"]),
    ("ubuntu_pro", &["ubuntu_pro", "ubuntu_advantage", "ubuntu-advantage"]),
    ("wireguard", &["wireguard"]),
    ("yum_add_repo", &["yum_repos"]),
    ("zypper_add_repo", &["zypper"]),
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

/// Keys whose false is what happens without them, and which images ship so.
const OFF_BY_DEFAULT: [&str; 2] = ["disable_ec2_metadata", "manage_resolv_conf"];

/// Returns the keys of an unsupported upstream module that the configuration sets, including false and empty ones, which
/// may request something (`apt_pipelining: false`). `None` for the name of an unknown module.
pub fn unsupported_keys(name: &str, config: &config::Node) -> Option<Vec<&'static str>> {
    let (_, keys) = UNSUPPORTED.iter().find(|(n, _)| *n == name)?;
    let is_set = |key: &&&str| {
        let path: Vec<&str> = key.split('.').collect();
        config.at_path(&path).is_some_and(|node| match OFF_BY_DEFAULT.contains(*key) {
            true => !node.is_falsy(),
            false => !node.is_null(),
        })
    };
    let mut found: Vec<&str> = keys.iter().filter(is_set).copied().collect();
    if name == "ssh_import_id" && has_ssh_import_ids(config) {
        found.push("users[].ssh_import_id");
    }
    Some(found)
}

/// Whether a user has ids of keys to fetch.
fn has_ssh_import_ids(config: &config::Node) -> bool {
    let listed = config.get("users").and_then(config::Node::as_seq).unwrap_or_default();
    let has = |user: &config::Node| {
        ["ssh_import_id", "ssh-import-id"].iter().any(|key| user.get(key).is_some_and(|n| !n.is_falsy()))
    };
    listed.iter().chain(config.get("user")).any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_configured_unsupported_keys_are_reported() {
        let config = config::yaml::parse("t", "{apt: {preserve_sources_list: true}, snap: {commands: [x]}}")
            .unwrap()
            .root;
        assert_eq!(unsupported_keys("apt_configure", &config), Some(vec![]));
        assert_eq!(unsupported_keys("snap", &config), Some(vec!["snap"]));
        assert_eq!(unsupported_keys("nonsense", &config), None);
        for (text, module, keys) in [
            ("apt_pipelining: false", "apt_pipelining", &["apt_pipelining"][..]),
            ("apt_pipelining: 0", "apt_pipelining", &["apt_pipelining"]),
            ("apt_pipelining:", "apt_pipelining", &[]),
            ("snap: {}", "snap", &["snap"]),
            (
                "users: [default, {name: a, ssh_import_id: [gh:a]}]",
                "ssh_import_id",
                &["users[].ssh_import_id"],
            ),
            ("user: {ssh-import-id: [gh:a]}", "ssh_import_id", &["users[].ssh_import_id"]),
            ("users: [{name: a, ssh_import_id: []}]", "ssh_import_id", &[]),
            ("apt: {conf: ''}", "apt_configure", &["apt.conf"]),
            ("manage_resolv_conf: false", "resolv_conf", &[]),
            ("disable_ec2_metadata: false", "disable_ec2_metadata", &[]),
            ("disable_ec2_metadata: true", "disable_ec2_metadata", &["disable_ec2_metadata"]),
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
