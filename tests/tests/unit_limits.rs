//! The limits that units set. Users' scripts in the stages may do everything that PID 1 may: mount, change kernel
//! settings, change users, start daemons. The hotplug service may configure the network, and little else.

use tests::Machine;

/// A script that the stages run: its limits, and operations that limits would prevent.
const SCRIPT: &str = r#"#!/bin/sh
name=$1
limits() {
  grep -E '^(CapBnd|NoNewPrivs|Seccomp_filters):' "/proc/$1/status"
  for kind in mnt uts ipc pid net user cgroup; do readlink "/proc/$1/ns/$kind"; done
}
limits self >/run/test/$name.limits
limits 1 >/run/test/$name.expected
attempt() { what=$1; shift; "$@" >/dev/null 2>&1 && echo "$what" >>/run/test/$name.did; }
attempt mount sh -c "mkdir -p /run/test/mount-$name && mount -t tmpfs none /run/test/mount-$name"
attempt sysctl sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
attempt personality sh -c '[ "$(setarch i686 uname -m)" = i686 ]'
attempt setuid-file sh -c 'cp /bin/true /run/test/suid && chmod 4755 /run/test/suid'
attempt namespace unshare --mount --uts true
attempt unit systemd-run --quiet --no-block --unit="left-by-$name" sleep 1000
! id alice >/dev/null 2>&1 || attempt setuid-program su alice -c '[ "$(sudo -n id -u)" = 0 ]'
sleep 1000 </dev/null >/dev/null 2>&1 &
echo $! >/run/test/$name.daemon
"#;

/// Replaces the hotplug service's own program, under its limits.
const HOTPLUG: &str = r#"#!/bin/sh
attempt() { what=$1; shift; "$@" >/dev/null 2>/run/test/hotplug.errors && echo "$what" >>/run/test/hotplug.did; }
attempt link ip link add plugged type veth peer name plugged-peer
attempt address ip address add 192.0.2.77/24 dev plugged
attempt route ip link set plugged up
attempt sysctl sh -c 'echo 1 >/proc/sys/net/ipv4/conf/plugged/accept_local'
attempt file sh -c 'echo x >/etc/systemd/network/99-test.network && chown systemd-network /etc/systemd/network/99-test.network'
attempt mount sh -c 'mkdir -p /run/test/mount-hotplug && mount -t tmpfs none /run/test/mount-hotplug'
attempt service systemctl try-restart systemd-networkd.service
attempt other-user su alice -c true
attempt network-namespace unshare --net true
attempt user-namespace unshare --user true
attempt setuid-file sh -c 'cp /bin/true /run/test/suid2 && chmod 4755 /run/test/suid2'
attempt personality setarch i686 true
attempt realtime chrt --fifo 1 true
attempt clock sh -c 'date -s "$(date)"'
sleep 1000 </dev/null >/dev/null 2>&1 &
echo $! >/run/test/hotplug.daemon
"#;

/// Runs after the boot: running daemons and mounts of the machine.
const MORE: &str = r#"#!/bin/sh
systemctl start cloud-init-hotplugd.service
for name in network final hotplug; do
  kill -0 "$(cat /run/test/$name.daemon)" && echo "daemon of $name lives"
  grep -q " /run/test/mount-$name " /proc/mounts && echo "mount of $name is there"
done
exit 0
"#;

const USER_DATA: &str = "#cloud-config
users:
  - name: alice
    sudo: ALL=(ALL) NOPASSWD:ALL
bootcmd:
  - mkdir -p /run/test && sh /opt/attempt network
runcmd:
  - sh /opt/attempt final
";

#[test]
fn scripts_are_unrestricted_and_hotplug_is_not() {
    let machine = Machine::new("limits");
    machine.write("/var/lib/cloud/seed/nocloud/user-data", USER_DATA);
    machine.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-limits\n");
    // No DHCP server answers.
    machine.write(
        "/var/lib/cloud/seed/nocloud/network-config",
        "version: 2\nethernets: {eth0: {match: {name: 'e*'}, addresses: [192.0.2.10/24]}}\n",
    );
    machine.write("/opt/attempt", SCRIPT);
    machine.write("/opt/hotplug", HOTPLUG);
    machine.write("/usr/local/sbin/facts-more", MORE);
    machine.run(&["chmod", "755", "/opt/hotplug", "/usr/local/sbin/facts-more"]);
    machine.write(
        "/etc/systemd/system/cloud-init-hotplugd.service.d/test.conf",
        "[Service]\nExecStart=\nExecStart=/opt/hotplug\n",
    );
    let facts = machine.boot();
    let lines = |path: &str| {
        let text =
            facts.file(path).unwrap_or_else(|| tests::fail(&format!("no {path}\n{}", facts.diagnostics())));
        text.lines().map(String::from).collect::<Vec<_>>()
    };
    let all = ["mount", "sysctl", "personality", "setuid-file", "namespace", "unit"];
    for stage in ["network", "final"] {
        let limits = lines(&format!("/run/test/{stage}.limits"));
        assert_eq!(limits, lines(&format!("/run/test/{stage}.expected")), "{stage}");
        assert!(limits.iter().any(|l| l.starts_with("CapBnd:")), "{limits:?}");
    }
    assert_eq!(lines("/run/test/network.did"), all);
    assert_eq!(lines("/run/test/final.did"), [&all[..], &["setuid-program"]].concat());
    let allowed =
        ["link", "address", "route", "sysctl", "file", "mount", "service", "other-user", "network-namespace"];
    assert_eq!(lines("/run/test/hotplug.did"), allowed);
    let more = facts.text("more");
    for name in ["network", "final", "hotplug"] {
        for line in [format!("daemon of {name} lives"), format!("mount of {name} is there")] {
            assert!(more.lines().any(|l| l == line), "{line}: {more}");
        }
    }
}
