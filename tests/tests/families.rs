//! A boot of each family of distributions in a container: a Debian root that claims to be Rocky, SLES or Arch, with the family's files
//! (`packaging/install`), its package manager and a repository, and its network service. No finding of `doctor`, at two boots.

use std::process::Command;

use tests::{Facts, Machine, binaries, tests_dir};

const KEYFILE: &str = "/etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection";

const PACKAGES: [&str; 7] =
    ["dnf", "zypper", "pacman-package-manager", "createrepo-c", "rpm", "network-manager", "chrony"];

/// Debian's unit of chrony has another name than that of the others.
const SETUP: &str = "set -e; cd /srv; . ./repositories
ln -s chrony.service /usr/lib/systemd/system/chronyd.service
printf 'ID=%s\\nNAME=%s\\nPRETTY_NAME=%s\\nVERSION_ID=42\\n' \"$1\" \"$1\" \"$1\" >/etc/os-release.new
mv /etc/os-release.new /etc/os-release; rm -f /etc/apt/sources.list
printf '%s\\n' '[options]' 'Architecture = auto' 'SigLevel = Never' '[test]' 'Server = file:///srv/repo/arch' >/etc/pacman.conf
case $2 in
NetworkManager) systemctl mask systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service ;;
*) systemctl disable NetworkManager.service ;;
esac
systemctl enable \"$2\"";

const USER_DATA: &str = "#cloud-config
package_update: true
packages: [firstlight-probe]
hostname: boxer
timezone: Europe/Oslo
users:
  - default
  - {name: alice, groups: [adm], shell: /bin/bash, ssh_authorized_keys: [\"KEY alice@example\"]}
ssh_genkeytypes: [ed25519]
runcmd: [[touch, /srv/ran]]
";

fn boots(variant: &str, service: &str, network_file: &str, more: &str) {
    let machine = Machine::with(&format!("family-{variant}"), &PACKAGES);
    let tree = machine.scratch("tree");
    let installed = Command::new(tests_dir().join("../packaging/install"))
        .args([
            &format!("VARIANT={variant}"),
            &format!("BIN={}", binaries().display()),
            "VERSION=0",
            "ENABLE=yes",
        ])
        .arg(format!("DESTDIR={}", tree.display()))
        .output();
    assert!(installed.as_ref().is_ok_and(|done| done.status.success()), "{installed:?}");
    machine.put(&tree, "/");
    let repositories = std::fs::read_to_string(tests_dir().join("guest/repositories"));
    machine.write("/srv/repositories", &repositories.unwrap_or_default());
    machine.run(&["bash", "-c", SETUP, "setup", variant, service]);
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx";
    let seed = "/var/lib/cloud/seed/nocloud";
    machine.write(&format!("{seed}/user-data"), &(USER_DATA.replace("KEY", key) + more));
    machine.write(&format!("{seed}/meta-data"), "instance-id: i-family\n");
    let network = "version: 2\nethernets: {eth0: {addresses: [192.0.2.10/24]}}\n";
    machine.write(&format!("{seed}/network-config"), network);
    machine.write(
        "/usr/local/sbin/facts-more",
        &format!("#!/bin/sh\ncloud-init doctor >doctor\ncat /opt/firstlight-probe; ls {network_file}"),
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    for _ in 0..2 {
        let boot: Facts = machine.boot();
        let shown = || format!("{}\n{}", boot.text("doctor"), boot.diagnostics());
        assert!(boot.text("doctor").contains("\nFINDINGS\n  none\n"), "{}", shown());
        assert_eq!(
            (boot.text("status-code").as_str(), boot.text("failed").as_str()),
            ("0", ""),
            "{}",
            shown()
        );
        assert_eq!(boot.text("more"), format!("installed\n{network_file}"), "{}", shown());
        assert_eq!(boot.text("hostname"), "boxer", "{}", shown());
        assert!(boot.text("addresses").contains("192.0.2.10/24"), "{}", shown());
        assert!(boot.text("localtime").ends_with("Europe/Oslo"), "{}", shown());
        for name in ["alice", variant] {
            assert!(!boot.row("passwd", name).is_empty(), "{name}: {}", shown());
        }
    }
}

#[test]
#[ignore = "a root of a family: make slow"]
fn rocky_boots_with_dnf_and_network_manager() {
    let more = "yum_repos: {test: {name: Test, baseurl: 'file:///srv/repo/rpm', gpgcheck: false, enabled: true}}\n\
                ntp: {servers: [192.0.2.1]}\n";
    boots("rocky", "NetworkManager", KEYFILE, more);
}

#[test]
#[ignore = "a root of a family: make slow"]
fn suse_boots_with_zypper_and_network_manager() {
    let more = "zypper: {repos: [{id: test, name: Test, baseurl: 'dir:/srv/repo/rpm', gpgcheck: 0, enabled: 1}]}\n\
                ntp: {servers: [192.0.2.1]}\n";
    boots("suse", "NetworkManager", KEYFILE, more);
}

/// Debian's localed writes only Debian's own files, and refuses.
#[test]
#[ignore = "a root of a family: make slow"]
fn arch_boots_with_pacman_and_networkd() {
    boots("arch", "systemd-networkd", "/etc/systemd/network/10-cloud-init-eth0.network", "locale: false\n");
}
