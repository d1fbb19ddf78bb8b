//! Clouds that ds-identify recognises but whose datasource cannot read them: the failure is always reported.

#![allow(clippy::unwrap_used)]

mod common;

use common::Machine;

/// Returns the failures that a search of this list reports.
fn errors(machine: &Machine, list: &[&str]) -> String {
    let outcome = machine.search(list);
    assert!(outcome.found.is_none(), "{:?}", outcome.found);
    outcome.errors.join("\n")
}

#[test]
fn lxd_without_its_socket_is_an_error() {
    let port = |name: &str| Machine::new().file("/sys/class/virtio-ports/vport1p1/name", name);
    for name in ["com.canonical.lxd", "org.linuxcontainers.lxd"] {
        let machine = port(&format!("{name}\n"));
        let error = errors(&machine, &["LXD"]);
        assert!(error.starts_with("LXD: /dev/lxd/sock does not exist") && error.contains(name), "{error}");
        // The stage reports it, together with what the machine is set up with.
        assert_eq!(machine.warnings(), "");
    }
    // No evidence: another port, the host's ports, none.
    let contained = port("com.canonical.lxd\n").file("/run/systemd/container", "docker\n");
    for machine in [port("org.qemu.guest_agent.0\n"), contained, Machine::new()] {
        assert_eq!(errors(&machine, &["LXD"]), "");
        assert_eq!(machine.warnings(), "");
    }
    // The administrator selects it; something else is at the path of the socket.
    let forced = Machine::new().config("datasource_list: [LXD]");
    assert!(errors(&forced, &["LXD"]).contains("/dev/lxd/sock does not exist"));
    let file = Machine::new().file("/dev/lxd/sock", "");
    assert!(errors(&file, &["LXD"]).contains("/dev/lxd/sock is not a socket"));
}

#[test]
fn maas_without_a_url_is_an_error() {
    let machine = |config: &str, line: &str| Machine::new().network_stage().config(config).line(line);
    for (config, line) in [
        ("datasource_list: [MAAS]", ""),
        ("datasource_list: [ MAAS, None ]", ""),
        ("datasource_list: [NoCloud, MAAS, None]", "ro ci.ds=MAAS"),
        ("{datasource_list: [NoCloud, MAAS, None], datasource: {MAAS: {consumer_key: k}}}", ""),
        ("{datasource_list: [MAAS, None], datasource: {MAAS: {metadata_url: ''}}}", ""),
    ] {
        let machine = machine(config, line);
        let error = errors(&machine, &["MAAS"]);
        assert_eq!(error, "MAAS: datasource.MAAS.metadata_url is not set", "{config}");
    }
    // One of many in a list that ds-identify has not reduced.
    let machine = machine("datasource_list: [NoCloud, MAAS, None]", "");
    assert_eq!(errors(&machine, &["MAAS"]), "");
    assert_eq!(machine.warnings(), "");
}

#[test]
fn files_that_only_ds_identify_accepts_are_reported() {
    let aliyun = || Machine::new().seed("/var/lib/cloud/seed/AliYun", "instance-id: i-1", "u");
    let vultr = || Machine::new().file("/etc/vultr", "");
    for (name, path, machine) in
        [("AliYun", "/var/lib/cloud/seed/AliYun", aliyun()), ("Vultr", "/etc/vultr", vultr())]
    {
        assert_eq!(errors(&machine, &[name]), "");
        let warnings = machine.warnings();
        assert!(
            warnings.starts_with(&format!("{name}: ds-identify recognises this cloud by {path}, but ")),
            "{warnings}"
        );
        assert_eq!(warnings.lines().count(), 1, "{warnings}");
    }
    let config = "{datasource_list: [AliYun], datasource: {AliYun: {metadata_urls: ['http://127.0.0.1:1'], max_wait: 1, retries: 0}}}";
    let error = errors(&aliyun().config(config), &["AliYun"]);
    assert!(
        error.contains("127.0.0.1"),
        "the only datasource is used without the firmware's evidence: {error}"
    );
    // The local stage has reported it; an incomplete seed does not identify the cloud.
    let later = aliyun().network_stage();
    let half = Machine::new().file("/var/lib/cloud/seed/AliYun/meta-data", "");
    for machine in [later, half, Machine::new()] {
        assert_eq!(errors(&machine, &["AliYun", "Vultr"]), "");
        assert_eq!(machine.warnings(), "");
    }
}
