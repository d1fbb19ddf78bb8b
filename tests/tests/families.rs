//! A boot of each family of distributions in a container: a Debian root that claims to be Rocky, SLES, Arch, Photon or Alpine, with the
//! family's files (`packaging/install`) and its network service; OpenRC with Alpine, systemd with the others. Rocky, SLES and Arch have their
//! package managers and a repository. Debian has neither Photon's tdnf nor Alpine's apk: in place of tdnf there is dnf, whose commands
//! tdnf adopts, so that tdnf itself is not tried; on Alpine no package is installed. No finding of `doctor`, at two boots.

use std::process::Command;

use tests::{Facts, Machine, binaries, script_with, suite, tests_dir};

const KEYFILE: &str = "/etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection";
const NETWORKD: &str = "/etc/systemd/network/10-cloud-init-eth0.network";

const PACKAGES: [&str; 7] =
    ["dnf", "zypper", "pacman-package-manager", "createrepo-c", "rpm", "network-manager", "chrony"];

/// `$1`: what the root claims to be.
const CLAIM: &str = "set -e
printf 'ID=%s\\nNAME=%s\\nPRETTY_NAME=%s\\nVERSION_ID=42\\n' \"$1\" \"$1\" \"$1\" >/etc/os-release.new
mv /etc/os-release.new /etc/os-release; rm -f /etc/apt/sources.list
";

/// `$2`: the network service. Debian's unit of chrony has another name than that of the others.
const SYSTEMD: &str = "cd /srv; . ./repositories
ln -s chrony.service /usr/lib/systemd/system/chronyd.service
ln -s dnf /usr/bin/tdnf
printf '%s\\n' '[options]' 'Architecture = auto' 'SigLevel = Never' '[test]' 'Server = file:///srv/repo/arch' >/etc/pacman.conf
case $2 in
NetworkManager) systemctl mask systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service ;;
*) systemctl disable NetworkManager.service ;;
esac
systemctl enable \"$2\"";

const ALPINE_PACKAGES: &str =
    "openrc busybox ifupdown-ng iproute2 openssh-server systemd-standalone-sysusers sudo tzdata";

/// Alpine's inittab and, shortened, those of its services that Debian's package of OpenRC lacks.
const OPENRC: &str = "for name in ifup ifdown ifquery; do ln -s ifupdown-ng /sbin/$name; done
busybox --install -s
printf '%s\\n' '::sysinit:/sbin/openrc sysinit' '::sysinit:/sbin/openrc boot' '::wait:/sbin/openrc default' \\
  '::wait:/usr/local/sbin/firstlight-collect' '::shutdown:/sbin/openrc shutdown' >/etc/inittab
echo localhost >/etc/hostname
printf '%s\\n' 'auto lo' 'iface lo inet loopback' >/etc/network/interfaces
cd /etc/init.d; rm ssh procps; rm /etc/runlevels/*/ssh /etc/runlevels/*/procps
service() {
  { printf '#!/sbin/openrc-run\\n'; cat; } >\"$2\"; chmod 755 \"$2\"; rc-update add \"$2\" \"$1\"
}
service boot localmount <<'END'
start() { mount -at noproc; }
END
service boot hostname <<'END'
start() { hostname -F /etc/hostname; }
END
service boot networking <<'END'
depend() { need localmount; after bootmisc; provide net; }
start() { ifup -a; }
END
service default sshd <<'END'
command=/usr/sbin/sshd pidfile=/run/sshd.pid
depend() { use logger dns; after entropy; }
start_pre() { mkdir -p /run/sshd; ssh-keygen -A; sshd -t; }
END
for name in cloud-init-ds-identify cloud-init-local; do rc-update add $name boot; done
for name in cloud-init cloud-config cloud-final; do rc-update add $name default; done";

const USER_DATA: &str = "#cloud-config
hostname: boxer
timezone: Europe/Oslo
users:
  - default
  - {name: alice, groups: [adm], shell: /bin/bash, ssh_authorized_keys: [\"KEY alice@example\"]}
ssh_genkeytypes: [ed25519]
runcmd: [[touch, /srv/ran]]
";
/// With systemd.
const INSTALL: &str = "package_update: true
packages: [firstlight-probe]
";

/// Boots a root with systemd, the package managers and this network service; installs a package.
fn boots_with_systemd(variant: &str, service: &str, network_file: &str, more: &str) {
    let machine = Machine::with(&format!("family-{variant}"), &PACKAGES);
    let repositories = std::fs::read_to_string(tests_dir().join("guest/repositories"));
    machine.write("/srv/repositories", &repositories.unwrap_or_default());
    install(&machine, variant);
    machine.run(&["bash", "-c", &format!("{CLAIM}{SYSTEMD}"), "setup", variant, service]);
    boots(&machine, variant, &[network_file, "/opt/firstlight-probe"], &format!("{INSTALL}{more}"));
}

/// Installs the files of a family.
fn install(machine: &Machine, variant: &str) {
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
}

/// Boots twice. `files` exist afterwards; `more` is appended to the user-data.
fn boots(machine: &Machine, variant: &str, files: &[&str], more: &str) {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx";
    let seed = "/var/lib/cloud/seed/nocloud";
    machine.write(&format!("{seed}/user-data"), &(USER_DATA.replace("KEY", key) + more));
    machine.write(&format!("{seed}/meta-data"), "instance-id: i-family\n");
    let network = "version: 2\nethernets: {eth0: {addresses: [192.0.2.10/24]}}\n";
    machine.write(&format!("{seed}/network-config"), network);
    machine.write(
        "/usr/local/sbin/facts-more",
        &format!("#!/bin/sh\ncloud-init doctor >doctor\necho $? >doctor-code\nls {}", files.join(" ")),
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    for _ in 0..2 {
        let boot: Facts = machine.boot();
        let shown = || format!("{}\n{}", boot.text("doctor"), boot.diagnostics());
        assert!(boot.text("doctor").contains("\nFINDINGS\n  none\n"), "{}", shown());
        for (fact, expected) in
            [("doctor-code", "0"), ("status-code", "0"), ("failed", ""), ("hostname", "boxer")]
        {
            assert_eq!(boot.text(fact), expected, "{fact}: {}", shown());
        }
        assert_eq!(boot.text("more"), files.join("\n"), "{}", shown());
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
    boots_with_systemd("rocky", "NetworkManager", KEYFILE, more);
}

#[test]
#[ignore = "a root of a family: make slow"]
fn suse_boots_with_zypper_and_network_manager() {
    let more = "zypper: {repos: [{id: test, name: Test, baseurl: 'dir:/srv/repo/rpm', gpgcheck: 0, enabled: 1}]}\n\
                ntp: {servers: [192.0.2.1]}\n";
    boots_with_systemd("suse", "NetworkManager", KEYFILE, more);
}

/// Debian's localed writes only Debian's own files, and refuses.
#[test]
#[ignore = "a root of a family: make slow"]
fn arch_boots_with_pacman_and_networkd() {
    boots_with_systemd("arch", "systemd-networkd", NETWORKD, "locale: false\n");
}

/// With dnf in place of tdnf.
#[test]
#[ignore = "a root of a family: make slow"]
fn photon_boots_with_networkd() {
    let more =
        "yum_repos: {test: {name: Test, baseurl: 'file:///srv/repo/rpm', gpgcheck: false, enabled: true}}\n";
    boots_with_systemd("photon", "systemd-networkd", NETWORKD, more);
}

/// With busybox' init.
#[test]
#[ignore = "a root of a family: make slow"]
fn alpine_boots_with_openrc_and_ifupdown_ng() {
    let root = script_with(&[("ROOT_BASE", ALPINE_PACKAGES)], "root", &[&suite()]);
    let machine = Machine::from_root("family-alpine", &root);
    install(&machine, "alpine");
    machine.run(&["bash", "-c", &format!("{CLAIM}{OPENRC}"), "setup", "alpine"]);
    boots(&machine, "alpine", &["/etc/network/interfaces", "/etc/ssh/sshd_config.d/50-cloud-init.conf"], "");
    // The server starts after the network stage: OpenRC delays a restart in that stage by 60 s.
    let log = machine.run(&["cat", "/var/log/cloud-init.log"]);
    assert!(!log.contains("rc-service"), "{log}");
}
