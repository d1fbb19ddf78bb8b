//! Machines whose hardware appears late. A NIC that a configuration names by its MAC address is waited for.
//!
//! Machines whose generator finds no datasource while drives may still appear: it is undecided, and the local stage
//! identifies again. A disc that is plugged in after the generator ran is found; without one the boot continues at once.
//! The deadline is the default one: without KVM udev needs ten times as long, but it makes progress.

use tests::{Facts, Machine, explained, first_boot, install_explain, not_tried, testing_upstream, tests_dir};

const LOG: &str = "/run/cloud-init/ds-identify.log";
const FOUND: &str = "datasource_list: [ NoCloud, None ]";

fn log(facts: &Facts) -> String {
    facts.file(LOG).unwrap_or_default()
}

/// Returns for how many seconds a unit ran; `None` if it was not started.
fn unit_duration(facts: &Facts, unit: &str) -> Option<f64> {
    let units = facts.text("units");
    let block = units.split("\n\n").find(|block| block.lines().any(|l| l == format!("Id={unit}")))?;
    let at = |key: &str| {
        let line = block.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
        line.parse::<f64>().ok().filter(|time| *time > 0.0)
    };
    let (begun, ended) = (at("InactiveExitTimestampMonotonic")?, at("ActiveEnterTimestampMonotonic")?);
    Some((ended - begun) / 1e6)
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn late_seed_disc_is_found() {
    if testing_upstream() {
        return not_tried(
            "late_seed_disc_is_found",
            "upstream's ds-identify does not identify a second time",
        );
    }
    let machine = Machine::new("vm-late");
    machine.attach_late(&tests_dir().join("seeds/typical"));
    machine.make_disk();
    let facts = machine.boot_vm();
    let log = log(&facts);
    assert!(log.contains("undecided: the controller "), "{log}\n{}", facts.diagnostics());
    assert!(log.contains("returning undecided"), "{log}");
    assert!(log.contains("check for 'NoCloud' returned found"), "{log}\n{}", facts.diagnostics());
    assert_eq!(facts.file("/run/cloud-init/cloud.cfg").as_deref(), Some(FOUND));
    assert!(
        facts.file("/run/cloud-init/enabled").is_some() && facts.file("/run/cloud-init/undecided").is_none()
    );
    let detail = facts.text("status");
    assert!(detail.contains("DataSourceNoCloud [seed=/dev/sr0]"), "{detail}");
    first_boot(&facts, "i-first-0001", "nocloud");
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn no_datasource_disables_cloud_init() {
    if testing_upstream() {
        return not_tried("no_datasource_disables_cloud_init", "upstream's ds-identify is never undecided");
    }
    let machine = Machine::new("vm-nothing");
    machine.attach_controller();
    install_explain(&machine);
    machine.make_disk();
    // An empty drive is probed once and not waited for.
    let facts = machine.boot_vm_with(&["-device", "scsi-cd,bus=scsi.0"]);
    let log = log(&facts);
    assert!(log.contains("\nidentifying again after "), "{log}");
    assert!(
        log.contains("returning undecided") && log.contains("returning 1"),
        "{log}\n{}",
        facts.diagnostics()
    );
    let reason = facts.file("/run/cloud-init/disabled").unwrap_or_default();
    assert!(reason.starts_with("No ds found "), "{reason}\n{}", facts.diagnostics());
    let status = facts.text("status");
    assert!(status.contains("status: disabled") && status.contains("No ds found "), "{status}");
    explained(&facts);
    // Other units may fail: sshd has no host keys and no link has an address.
    assert!(!facts.text("failed").contains("cloud-"), "{}", facts.diagnostics());
    for unit in ["cloud-init-network.service", "cloud-config.service", "cloud-final.service"] {
        assert_eq!(unit_duration(&facts, unit), None, "{unit} was started\n{}", facts.diagnostics());
    }
    assert!(unit_duration(&facts, "cloud-init-local.service").is_some(), "{}", facts.diagnostics());
    assert!(facts.file("/var/log/cloud-init.log").is_none_or(|log| !log.contains("[ERROR]")));
}

/// The driver is loaded by then, for the first NIC; udev is still processing the devices of the boot.
#[test]
#[ignore = "a virtual machine: make slow"]
fn late_nic_is_configured() {
    if testing_upstream() {
        return not_tried("late_nic_is_configured", "upstream does not wait for NICs of network_data.json");
    }
    let (links, networks): (Vec<String>, Vec<String>) = (6..=7)
        .map(|id| {
            (
                format!(r#"{{"id": "l{id}", "type": "phy", "ethernet_mac_address": "52:54:00:12:34:5{id}"}}"#),
                format!(
                    r#"{{"id": "n{id}", "link": "l{id}", "type": "ipv4", "ip_address": "10.8.{id}.2", "netmask": "255.255.255.0"}}"#
                ),
            )
        })
        .unzip();
    let network = format!(
        r#"{{"links": [{}], "networks": [{}], "services": []}}"#,
        links.join(", "),
        networks.join(", ")
    );
    let drive = "/var/lib/cloud/seed/config_drive/openstack/latest";
    let machine = Machine::new("vm-late-nic");
    machine.write(&format!("{drive}/meta_data.json"), r#"{"uuid": "i-late-nic", "hostname": "late"}"#);
    machine.write(&format!("{drive}/network_data.json"), &network);
    machine.write(&format!("{drive}/user_data"), "#cloud-config\nssh_genkeytypes: [ed25519]\n");
    machine.attach_late_nic("52:54:00:12:34:57", "init-local");
    machine.make_disk();
    let facts = machine.boot_vm();
    let log = facts.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(!log.contains("[WARNING]"), "{log}\n{}", facts.diagnostics());
    let addresses = facts.text("addresses");
    for address in ["10.8.6.2/24", "10.8.7.2/24"] {
        assert!(addresses.contains(address), "{address}: {addresses}\n{log}");
    }
}

/// A NIC that udev adds after the network was written, and before its rule and the queue of hotplug are there.
#[test]
#[ignore = "a virtual machine: make slow"]
fn nic_before_the_queue_opens_is_configured() {
    if testing_upstream() {
        return not_tried("nic_before_the_queue_opens_is_configured", "upstream misses such a NIC");
    }
    let seed = "/var/lib/cloud/seed/nocloud";
    let nic = |name: &str, mac: &str, address: &str| {
        format!("  {name}: {{match: {{macaddress: '{mac}'}}, set-name: {name}, addresses: [{address}]}}\n")
    };
    let machine = Machine::new("vm-missed-nic");
    let config = nic("eth0", "52:54:00:12:34:56", "10.8.6.2/24");
    machine.write(&format!("{seed}/network-config"), &format!("version: 2\nethernets:\n{config}"));
    machine.write(&format!("{seed}/meta-data"), "instance-id: i-missed-nic\n");
    // The service describes the NIC, which appears while bootcmd runs.
    machine.write("/srv/nic", &nic("lan1", "52:54:00:12:34:57", "10.8.7.2/24"));
    machine.write(
        &format!("{seed}/user-data"),
        &format!(
            "#cloud-config\nssh_genkeytypes: [ed25519]\nupdates: {{network: {{when: [boot-new-instance, hotplug]}}}}\nbootcmd:\n\
             - cat /srv/nic >>{seed}/network-config\n- until [ -e /sys/class/net/eth1 ]; do sleep 0.1; done\n- udevadm settle\n"
        ),
    );
    machine.attach_late_nic("52:54:00:12:34:57", "init");
    let wait = "#!/bin/sh\ntries=0\nwhile [ $tries -lt 240 ] && ! ip -br addr | grep -q 10.8.7.2; do sleep 0.5; tries=$((tries + 1)); done\n\
                ip -br addr\n";
    machine.write("/usr/local/sbin/facts-more", wait);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.make_disk();
    let facts = machine.boot_vm();
    let addresses = facts.text("more");
    let has = |name: &str, address: &str| {
        addresses.lines().any(|line| line.starts_with(name) && line.contains(address))
    };
    let log = facts.file("/var/log/cloud-init.log").unwrap_or_default();
    assert!(has("eth0", "10.8.6.2/24") && has("lan1", "10.8.7.2/24"), "{addresses}\n{log}");
    assert!(log.contains("was plugged in during the boot; udev reports it again for hotplug"), "{log}");
}
