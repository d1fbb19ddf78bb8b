//! A cloud-config with keys of modules for other distributions: cloud-init 26.2 skipped these modules in a root whose
//! os-release names it, and logged these lines.

use tests::{Sandbox, check_boot};

const USER_DATA: &str = "#cloud-config
apt: {conf: 'x \"1\";'}
apt_pipelining: none
grub_dpkg: {enabled: false}
byobu_by_default: enable
snap: {commands: [[ls]]}
ubuntu_pro: {token: x}
drivers: {nvidia: {license-accepted: true}}
autoinstall: {version: 1}
fan: {config: x}
landscape: {client: {computer_title: x}}
yum_repos: {x: {baseurl: http://x/}}
zypper: {repos: [{id: x, baseurl: http://x/}]}
apk_repos: {preserve_repositories: true}
rh_subscription: {username: x, password: y}
spacewalk: {server: x, activation_key: y}
ca_certs: {trusted: [x]}
manage_resolv_conf: true
resolv_conf: {nameservers: [192.0.2.1]}
ssh_import_id: [x]
wireguard: {interfaces: [{name: wg0, config_path: /etc/wireguard/wg0.conf, content: x}]}
";

/// Distributions, and the modules that cloud-init skips there.
const SKIPPED: [(&str, &str); 4] = [
    (
        "fedora",
        "ssh_import_id,apt_configure,apt_pipelining,grub_dpkg,byobu,snap,ubuntu_pro,ubuntu_drivers,ubuntu_autoinstall,fan,\
         landscape,zypper_add_repo,apk_configure,wireguard",
    ),
    (
        "alpine",
        "apt_configure,apt_pipelining,grub_dpkg,byobu,snap,ubuntu_pro,ubuntu_drivers,ubuntu_autoinstall,fan,landscape,\
         yum_add_repo,zypper_add_repo,rh_subscription,spacewalk,wireguard",
    ),
    (
        "suse",
        "ssh_import_id,apt_configure,apt_pipelining,grub_dpkg,byobu,snap,ubuntu_pro,ubuntu_drivers,ubuntu_autoinstall,fan,\
         landscape,yum_add_repo,apk_configure,rh_subscription,spacewalk,wireguard",
    ),
    (
        "debian",
        "snap,ubuntu_pro,ubuntu_drivers,ubuntu_autoinstall,fan,landscape,yum_add_repo,zypper_add_repo,apk_configure,\
         rh_subscription,spacewalk,resolv_conf,wireguard",
    ),
];

#[test]
fn log_lines_match_upstream() {
    for (distro, modules) in SKIPPED {
        let machine = Sandbox::with_user_data(&format!("foreign-{distro}"), USER_DATA);
        let config = format!(
            "system_info: {{distro: {distro}}}\nnetwork: {{config: disabled}}\ncloud_init_modules: []\n\
             cloud_config_modules: [{modules},ntp,timezone]\ncloud_final_modules: [{modules}]\n"
        );
        machine.put("/etc/cloud/cloud.cfg.d/95_foreign.cfg", config);
        let boot = machine.boot();
        check_boot!(machine, boot, boot.succeeded());
        let log = machine.log();
        let messages: Vec<&str> =
            log.lines().filter_map(|line| Some(&line[line.find("Skipping modules")?..])).collect();
        let foreign = format!(
            "Skipping modules '{modules}' because they are not verified on distro '{distro}'.  To run anyway, add them to \
             'unverified_modules' in config."
        );
        let unconfigured = "Skipping modules 'ntp,timezone' because no applicable config is provided.";
        assert_eq!(messages, [unconfigured, &foreign, &foreign], "{distro}");
    }
}
