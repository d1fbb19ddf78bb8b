//! Modules that upstream has and this version does not, with the keys that would make each do something. A list may
//! name them: without their keys nothing is lost, with them the user is told what is not done.

/// Name and keys. A key with a dot is below another.
const PENDING: &[(&str, &[&str])] = &[
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
    ("disk_setup", &["disk_setup", "fs_setup"]),
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

/// Top-level keys of pending modules that alone make none of them do anything.
const PENDING_DETAILS: &[&str] = &[
    "add_apt_repo_match",
    "apt",
    "apt_custom_sources_list",
    "apt_ftp_proxy",
    "apt_http_proxy",
    "apt_https_proxy",
    "apt_mirror_search",
    "apt_mirror_search_dns",
    "apt_preserve_sources_list",
    "apt_update",
    "device_aliases",
    "resolv_conf",
    "yum_repo_dir",
];

/// Keys that are read elsewhere than in modules: by the stages, by datasources, by merging.
const OTHERS: &[&str] = &[
    "allow_userdata",
    "cloud_config_modules",
    "cloud_final_modules",
    "cloud_init_modules",
    "datasource",
    "datasource_list",
    "datasource_pkg_list",
    "def_log_file",
    "disable_fallback_netcfg",
    "disable_network_activation",
    "disable_vmware_customization",
    "launch-index",
    "log_basic",
    "log_cfgs",
    "logcfg",
    "manual_cache_clean",
    "merge_how",
    "merge_type",
    "migrate",
    "network",
    "output",
    "reporting",
    "syslog_fix_perms",
    "system_info",
    "timeouts",
    "unverified_modules",
    "vendor_data",
    "vendor_data2",
    "version",
    "warnings",
];

/// Every top-level key that means something in a cloud-config.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    let of_modules = crate::MODULES.iter().flat_map(|m| m.keys.iter().copied().flatten());
    let names = of_modules.flat_map(|k| std::iter::once(k.name).chain(k.also.iter().map(|(name, _)| *name)));
    let pending = PENDING.iter().flat_map(|(_, keys)| keys.iter()).map(|k| k.split('.').next().unwrap_or(k));
    names.chain(pending).chain(PENDING_DETAILS.iter().copied()).chain(OTHERS.iter().copied())
}

/// The top-level keys of a cloud-config that nothing reads.
pub fn unknown_keys(config: &config::Node) -> config::Findings {
    let mut findings = config::Findings::default();
    let known: std::collections::BTreeSet<&str> = known_keys().collect();
    for (key, _) in config.as_map().into_iter().flat_map(config::Map::iter) {
        let name = key.scalar_text().unwrap_or_default();
        if known.contains(name.as_str()) {
            continue;
        }
        let hint = match config::nearest(&name, known.iter().copied()) {
            Some(near) => format!("unknown key, it has no effect; did you mean '{near}'?"),
            None => "unknown key, it has no effect".to_string(),
        };
        findings.add(config::Kind::Unknown, &key.at, name, hint);
    }
    findings
}

/// For a module of upstream's that is not here: those of its keys that the configuration has. `None` for a name
/// that nobody knows.
pub fn pending_keys(name: &str, config: &config::Node) -> Option<Vec<&'static str>> {
    let (_, keys) = PENDING.iter().find(|(n, _)| *n == name)?;
    let is_set = |key: &&&str| {
        let path: Vec<&str> = key.split('.').collect();
        config.at_path(&path).is_some_and(|node| !node.is_falsy())
    };
    Some(keys.iter().filter(is_set).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_missed() {
        let config = config::yaml::parse("t", "{apt: {preserve_sources_list: true}, snap: {commands: [x]}}")
            .unwrap()
            .root;
        assert_eq!(pending_keys("apt_configure", &config), Some(vec![]));
        assert_eq!(pending_keys("snap", &config), Some(vec!["snap"]));
        assert_eq!(pending_keys("nonsense", &config), None);
    }

    #[test]
    fn keys_that_nothing_reads() {
        let text = "hostname: h\nrun_cmd: [x]\npackages: [a]\nsnap: {}\nxyzzy: 1\n";
        let findings = unknown_keys(&config::yaml::parse("t", text).unwrap().root);
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "t:2:1: run_cmd: unknown key, it has no effect; did you mean 'runcmd'?",
                "t:5:1: xyzzy: unknown key, it has no effect",
            ]
        );
    }

    #[test]
    fn what_is_here_is_not_pending() {
        for (name, _) in PENDING {
            assert!(crate::module(name).is_none(), "{name}");
        }
    }
}
