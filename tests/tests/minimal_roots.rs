//! The smallest roots of distributions: the essential packages, with and without systemd, `locales`, `sudo`,
//! `dbus` and `/etc/default`. A boot with ordinary user-data logs no warning there.
//!
//! `FIRSTLIGHT_ROOTS=all` (`make roots`) tests every suite without each of them; the default is two roots of one suite.

use tests::{Machine, suite};

/// From the oldest to the newest; Ubuntu's last.
const SUITES: [&str; 5] = ["bookworm", "trixie", "forky", "sid", "noble"];

/// The packages of a root, and the files that are removed before its boot.
const SMALLEST: (&str, &str) = ("systemd-sysv", "true");
const WITHOUT: [(&str, &str); 6] = [
    ("systemd-sysv locales sudo dbus", "true"),
    ("systemd-sysv locales sudo dbus", "dpkg --purge --force-depends locales"),
    ("systemd-sysv locales sudo dbus", "SUDO_FORCE_REMOVE=yes dpkg --purge --force-depends sudo"),
    ("systemd-sysv locales sudo dbus", "dpkg --purge --force-depends dbus"),
    ("systemd-sysv locales sudo dbus", "rm -r /etc/default"),
    ("systemd-sysv", "rm -r /etc/default"),
];

const USER_DATA: &str = "#cloud-config
hostname: tiny
ssh_authorized_keys:
  - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxxxxx tiny@example
write_files:
  - path: /srv/test/file
    content: written
runcmd:
  - echo ran >/srv/test/runcmd
";

/// No DHCP server answers there.
const NETWORK: &str = "version: 2
ethernets: {eth0: {match: {name: 'e*'}, addresses: [192.0.2.10/24]}}
";

fn suites() -> Vec<String> {
    if std::env::var_os("FIRSTLIGHT_ROOTS").is_some() {
        SUITES.map(Into::into).to_vec()
    } else {
        vec![suite()]
    }
}

fn prepared(name: &str, suite: &str, packages: &str, take_away: &str) -> Machine {
    let machine = Machine::minimal(name, suite, packages);
    machine.run(&["sh", "-c", take_away]);
    machine.write("/var/lib/cloud/seed/nocloud/user-data", USER_DATA);
    machine.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-tiny\n");
    if packages.contains("systemd") {
        machine.write("/var/lib/cloud/seed/nocloud/network-config", NETWORK);
    }
    machine
}

/// Returns the problems after a boot, from `status --long` and the files.
fn judge(root: &str, status: &str, user: &str, log: &str) -> Option<String> {
    let done = status.lines().any(|l| l == "status: done") && status.contains("extended_status: done");
    let clean = status.contains("errors: []") && status.contains("recoverable_errors: {}");
    let lines = log.lines().filter(|l| ["[WARNING]", "[ERROR]"].iter().any(|w| l.contains(w)));
    let said: Vec<&str> = lines.collect();
    let ok = done && clean && user.contains("tiny@example") && said.is_empty();
    (!ok).then(|| format!("{root}:\n{status}\n{}\nkeys: {user}", said.join("\n")))
}

#[test]
fn boots_in_minimal_containers() {
    let mut bad = Vec::new();
    for suite in suites() {
        let mut roots = vec![SMALLEST];
        if std::env::var_os("FIRSTLIGHT_ROOTS").is_some() {
            roots.extend(WITHOUT);
        }
        for (packages, take_away) in roots {
            let machine = prepared("minimal", &suite, packages, take_away);
            let facts = machine.boot();
            let name = format!("{suite} with {packages}, {take_away}");
            let ours: Vec<String> =
                facts.text("failed").lines().filter(|l| l.contains("cloud-")).map(Into::into).collect();

            let keys = facts.file("/home/debian/.ssh/authorized_keys").unwrap_or_default();
            let log = facts.file("/var/log/cloud-init.log").unwrap_or_default();
            bad.extend(judge(&name, &facts.text("status"), &keys, &log));
            let ran = facts.file("/srv/test/runcmd").as_deref() == Some("ran");
            let named = facts.text("hostname") == "tiny" && facts.text("etc-hostname") == "tiny";
            if !ours.is_empty() || !ran || !named {
                bad.push(format!("{name}: failed units {ours:?}, ran {ran}, named {named}"));
            }
        }
    }
    assert!(bad.is_empty(), "{} roots:\n{}", bad.len(), bad.join("\n"));
}

/// Without systemd: the programs run in sequence, as another init would start them.
#[test]
fn stages_without_systemd() {
    let script = "
        mkdir -p /run/systemd/generator /run/systemd/generator.early /run/systemd/generator.late
        SYSTEMD_VIRTUALIZATION=vm:kvm /usr/lib/systemd/system-generators/cloud-init-generator \\
          /run/systemd/generator /run/systemd/generator.early /run/systemd/generator.late
        for stage in local network config final; do
          /usr/lib/cloud-init/cloud-init-$stage >>/root/output 2>&1 || echo \"$stage failed: $?\"
        done
        cloud-init status --long
        cat /srv/test/runcmd";
    let mut bad = Vec::new();
    for suite in suites() {
        let machine = prepared("no-systemd", &suite, "", "true");
        let status = machine.run(&["sh", "-c", script]);

        let keys = machine.run(&["sh", "-c", "cat /home/debian/.ssh/authorized_keys || :"]);
        let log = machine.run(&["cat", "/var/log/cloud-init.log"]);
        bad.extend(judge(&format!("{suite} without systemd"), &status, &keys, &log));
        if status.contains(" failed: ") || !status.ends_with("ran\n") {
            bad.push(format!("{suite} without systemd: {status}"));
        }
    }
    assert!(bad.is_empty(), "{} roots:\n{}", bad.len(), bad.join("\n"));
}
