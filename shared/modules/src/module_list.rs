//! Module lists in their three forms: `name`, `[name, frequency, args…]` or `{name, frequency, args}`.

use config::{Node, Value};
use state::Frequency;

/// One entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleEntry {
    /// The name as written, for the semaphore's name and the log.
    pub name: String,
    /// The frequency; `None` for the module's own.
    pub frequency: Option<Frequency>,
    /// Arguments for the module.
    pub args: Vec<Node>,
    /// An invalid frequency.
    pub bad_frequency: Option<String>,
}

/// Returns the entries of a list in order, and the invalid ones. Empty entries are dropped.
pub fn parse_module_list(list: Option<&Node>) -> (Vec<ModuleEntry>, Vec<String>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let items = match list.map(|l| &l.value) {
        None | Some(Value::Null) => return (good, bad),
        Some(Value::Seq(items)) => &items[..],
        Some(_) => {
            bad.extend(list.map(|l| format!("{}: expected a list of modules, found {}", l.at, l.kind())));
            return (good, bad);
        }
    };
    for item in items.iter().filter(|i| !i.is_falsy()) {
        match parse_entry(item) {
            Some(entry) => good.push(entry),
            None => bad.push(format!("{}: expected a module, found {}", item.at, item.kind())),
        }
    }
    (good, bad)
}

fn parse_entry(item: &Node) -> Option<ModuleEntry> {
    let (name, frequency, args) = match &item.value {
        Value::Str(name) => (name.clone(), None, Vec::new()),
        Value::Seq(parts) => {
            (parts.first()?.as_str()?.to_string(), parts.get(1), parts.iter().skip(2).cloned().collect())
        }
        Value::Map(map) => {
            let args = match map.get("args").map(|a| &a.value) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Seq(items)) => items.clone(),
                Some(_) => map.get("args").cloned().into_iter().collect(),
            };
            (map.get("name")?.as_str()?.to_string(), map.get("frequency"), args)
        }
        _ => return None,
    };
    let word = frequency.filter(|f| !f.is_falsy()).and_then(Node::scalar_text);
    let known = word.as_deref().and_then(Frequency::parse);
    let bad_frequency = if known.is_none() { word } else { None };
    Some(ModuleEntry { name: name.trim().to_string(), frequency: known, args, bad_frequency })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{MODULES, find_module};

    const DEFAULT: &str = include_str!("../../../packaging/etc-cloud/cloud.cfg");

    /// Upstream's order; lines for single distributions included.
    const ORDER: &str = "seed_random bootcmd write_files growpart resizefs disk_setup mounts set_hostname update_hostname \
         update_etc_hosts resolv_conf ca_certs rsyslog users_groups ssh set_passwords \
         wireguard snap ubuntu_autoinstall ssh_import_id keyboard locale grub_dpkg apt_pipelining apt_configure \
         zypper_add_repo apk_configure ubuntu_pro rh_subscription spacewalk yum_add_repo ntp timezone raspberry_pi \
         disable_ec2_metadata runcmd byobu \
         package_update_upgrade_install fan landscape lxd ubuntu_drivers write_files_deferred puppet chef ansible \
         mcollective salt_minion reset_rmc scripts_vendor scripts_per_once scripts_per_boot scripts_per_instance \
         scripts_user ssh_authkey_fingerprints keys_to_console install_hotplug phone_home final_message \
         power_state_change";

    #[test]
    fn default_lists_name_every_module_in_order() {
        let lists =
            &DEFAULT[DEFAULT.find("\ncloud_init_modules:").unwrap()..DEFAULT.find("\nsystem_info:").unwrap()];
        let lines = lists.lines().map(|line| match line.strip_prefix('?') {
            Some(rest) => rest.split_once(':').unwrap().1.trim(),
            None => line.trim(),
        });
        let names: Vec<&str> = lines.filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(names, ORDER.split_whitespace().collect::<Vec<_>>());
        assert!(names.iter().all(|name| find_module(name).is_some()));
        let listed: BTreeSet<&str> = names.into_iter().collect();
        assert!(MODULES.iter().all(|module| listed.contains(module.name)));
    }
}
