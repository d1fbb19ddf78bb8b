//! Services in a booted container: an NTP client, a logger, sshd, and agents of configuration management that the boot installs.
//! systemd reports each as enabled and active at the first and at the second boot, the services use what the modules wrote, and
//! none is started more often than that takes.

use tests::{Facts, Machine, testing_upstream};

const USER_DATA: &str = r#"#cloud-config
ssh_genkeytypes: [ed25519]
ssh_pwauth: true
apt:
  preserve_sources_list: true
  sources:
    local: {source: "deb [trusted=yes] file:/srv/packages ./"}
ntp:
  servers: [192.0.2.123]
rsyslog:
  configs:
  - filename: 10-all.conf
    content: "*.* /var/log/all-messages"
puppet:
  package_name: puppet-agent
  conf:
    agent: {server: puppet.example.test}
salt_minion:
  conf: {master: salt.example.test}
"#;

/// Puppet and Salt need an interpreter of 100 MB each: their packages here have the paths, the unit and the start of the real
/// ones, and a program that reads its configuration. As Puppet's of Debian, they are neither enabled nor started by their
/// installation.
const MAKE_PACKAGES: &str = r#"
mkdir -p /srv/packages
cd /srv/packages
make() {
    mkdir -p "$1/DEBIAN" "$1/usr/lib/systemd/system" "$1/usr/bin"
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: Test <test@example.test>\nDescription: agent\n' \
        "$1" >"$1/DEBIAN/control"
    printf '[Unit]\nDescription=%s\n[Service]\nExecStart=/usr/bin/%s --server\n[Install]\nWantedBy=multi-user.target\n' \
        "$1" "$2" >"$1/usr/lib/systemd/system/$2.service"
    cat >"$1/usr/bin/$2"
    chmod 755 "$1/usr/bin/$2"
    dpkg-deb --root-owner-group -b "$1" "$1.deb" >/dev/null
    dpkg-deb -f "$1.deb" >>Packages
    printf 'Filename: ./%s.deb\nSize: %s\nSHA256: %s\n\n' "$1" "$(stat -c %s "$1.deb")" \
        "$(sha256sum "$1.deb" | cut -d' ' -f1)" >>Packages
    rm -r "$1"
}
mkdir -p puppet-agent/etc/puppet
printf '[main]\nssldir = /var/lib/puppet/ssl\n' >puppet-agent/etc/puppet/puppet.conf
make puppet-agent puppet <<'END'
#!/bin/sh
case "$1 $2 $3" in
"config print config") echo /etc/puppet/puppet.conf; exit ;;
"config print ssldir") echo /var/lib/puppet/ssl; exit ;;
"config print csr_attributes") echo /etc/puppet/csr_attributes.yaml; exit ;;
esac
sed -n 's/^server *= */asks /p' /etc/puppet/puppet.conf
exec sleep infinity
END
make salt-minion salt-minion <<'END'
#!/bin/sh
sed -n 's/^master: */asks /p' /etc/salt/minion
exec sleep infinity
END
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
"#;

const UNITS: [&str; 5] = ["ssh", "rsyslog", "chrony", "puppet", "salt-minion"];

/// One line per unit: state of the unit file, state, and how often this boot has started it. Then what the services do.
const REPORT: &str = r#"#!/bin/sh
for unit in ssh rsyslog chrony puppet salt-minion; do
    starts=$(journalctl -b -o cat -u $unit.service | grep -c '^Started ')
    echo "$unit $(systemctl is-enabled $unit.service) $(systemctl is-active $unit.service) $starts"
done
/usr/sbin/sshd -T | tr A-Z a-z | grep '^passwordauthentication '
chronyc -n -c sources
count() { cat /var/log/all-messages 2>/dev/null | grep -c a-message-for-rsyslog; }
before=$(count)
logger a-message-for-rsyslog
tries=0
while [ "$(count)" = "$before" ] && [ $tries -lt 100 ]; do sleep 0.2; tries=$((tries + 1)); done
count
journalctl -b -o cat -u puppet.service -u salt-minion.service | grep '^asks ' | sort
"#;

fn assert_services(facts: &Facts, restarted: &[&str]) {
    let more = facts.text("more");
    let lines: Vec<&str> = more.lines().collect();
    for unit in UNITS {
        let line = lines.iter().find(|l| l.starts_with(&format!("{unit} "))).copied().unwrap_or_default();
        let starts =
            line.strip_prefix(&format!("{unit} enabled active ")).and_then(|n| n.parse::<u32>().ok());
        let most = if restarted.contains(&unit) { 2 } else { 1 };
        assert!(starts.is_some_and(|n| (1..=most).contains(&n)), "{unit}: {more}\n{}", facts.diagnostics());
    }
    assert!(lines.contains(&"passwordauthentication yes"), "{more}");
    assert!(lines.iter().any(|l| l.contains(",192.0.2.123,")), "chronyd has no such source: {more}");
    for asks in ["asks puppet.example.test", "asks salt.example.test"] {
        assert_eq!(lines.iter().filter(|l| **l == asks).count(), 1, "{asks}: {more}");
    }
    assert_eq!(facts.text("failed"), "", "{}", facts.diagnostics());
    assert!(facts.text("status").contains("errors: []"), "{}", facts.diagnostics());
}

#[test]
#[ignore = "many services, in three boots: make slow"]
fn services_are_enabled_and_active() {
    let packages = ["chrony", "rsyslog"];
    let machine = if testing_upstream() {
        Machine::with("services", &[&packages[..], &["cloud-init", "cloud-guest-utils"]].concat())
    } else {
        let machine = Machine::with("services", &packages);
        machine.install();
        machine
    };
    machine.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-services\n");
    machine.write("/var/lib/cloud/seed/nocloud/user-data", USER_DATA);
    machine.write(
        "/var/lib/cloud/seed/nocloud/network-config",
        "version: 2\nethernets: {eth0: {addresses: [192.0.2.10/24]}}\n",
    );
    machine.run(&["sh", "-euc", MAKE_PACKAGES]);
    // A container may not set the clock: chronyd runs without doing so.
    machine.write("/etc/default/chrony", "DAEMON_OPTS=\"-F 0 -x\"\n");
    machine.write("/etc/systemd/system/chrony.service.d/container.conf", "[Unit]\nConditionCapability=\n");
    machine.write("/usr/local/sbin/facts-more", REPORT);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);

    let first = machine.boot();
    // systemd has started chronyd before the config stage writes its file, or not yet. Upstream's network stage does not
    // always precede sshd.
    assert_services(&first, if testing_upstream() { &["chrony", "ssh"] } else { &["chrony"] });
    assert!(
        first.text("more").contains("\n1\n"),
        "rsyslog did not write the message: {}",
        first.text("more")
    );

    let second = machine.boot();
    assert_services(&second, &[]);
    assert!(
        second.text("more").contains("\n2\n"),
        "rsyslog did not write the message: {}",
        second.text("more")
    );
}
