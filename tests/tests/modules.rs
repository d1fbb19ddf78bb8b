//! Modules beside cloud-init 26.2: each case of `tests/modules` runs in a machine of files and recording stand-ins, and what it
//! did is compared with the record of upstream in the same machine (`tests/src/module_case.rs`).

use tests::{ModuleCase, fail, tests_dir};

fn compare(module: &str) {
    let cases = ModuleCase::all(module);
    assert!(!cases.is_empty(), "no cases of {module}");
    let only = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
    let chosen = cases.into_iter().filter(|case| case.name().contains(&only));
    let differences: Vec<String> = chosen.filter_map(|case| case.difference()).collect();
    if !differences.is_empty() {
        fail(&differences.join("\n"));
    }
}

macro_rules! modules {
    ($($module:ident)*) => {
        $(
            #[test]
            fn $module() {
                compare(stringify!($module));
            }
        )*

        #[test]
        fn every_directory_is_tested() {
            let known = [$(stringify!($module)),*];
            for entry in std::fs::read_dir(tests_dir().join("modules")).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                assert!(name == "distros" || known.contains(&name.as_str()), "{name} is not in the list");
            }
        }
    };
}

modules! {
    ansible
    apk_configure
    apt_pipelining
    bootcmd
    byobu
    ca_certs
    chef
    disable_ec2_metadata
    fan
    final_message
    growpart
    grub_dpkg
    install_hotplug
    keyboard
    keys_to_console
    landscape
    locale
    lxd
    mcollective
    mounts
    ntp
    package_update_upgrade_install
    phone_home
    power_state_change
    puppet
    raspberry_pi
    reset_rmc
    resizefs
    resolv_conf
    rh_subscription
    rsyslog
    runcmd
    salt_minion
    scripts_per_boot
    scripts_per_instance
    scripts_per_once
    scripts_user
    scripts_vendor
    seed_random
    set_hostname
    set_passwords
    snap
    spacewalk
    ssh
    ssh_authkey_fingerprints
    ssh_import_id
    timezone
    ubuntu_autoinstall
    ubuntu_drivers
    ubuntu_pro
    update_etc_hosts
    update_hostname
    users_groups
    wireguard
    write_files
    write_files_deferred
    yum_add_repo
    zypper_add_repo
}
