use super::*;
use crate::source::{Decision, Source};
use scratch::TempDir;
use state::NetworkFormat;
use std::time::Duration;
use system::Change;

fn sandbox() -> (System, TempDir) {
    let top = TempDir::new();
    (System::new(&top), top)
}

fn decision(text: &str) -> Decision {
    let config = config::yaml::parse("t", text).unwrap().root;
    Decision {
        source: Some(Source::Datasource),
        outcome: Outcome::Use(config),
        reason: "test".into(),
        warnings: vec![],
    }
}

fn request(decision: &Decision) -> ApplyRequest<'_> {
    ApplyRequest {
        decision,
        parsed: None,
        mode: ApplyMode::Full("test"),
        distro: "debian",
        renderers: None,
        instance_dir: Some("/var/lib/cloud/instances/i"),
        run_dir: "/run/cloud-init",
        data_dir: "/var/lib/cloud/data",
        is_new_instance: false,
        missing_nics: &[],
        wait: Duration::ZERO,
        bring_up: false,
    }
}

fn with_networkd(sys: &System) {
    for path in ["/usr/sbin/ip", "/bin/systemctl"] {
        sys.write(path, "", WriteOptions::mode(0o755)).unwrap();
    }
}

/// netplan gets version 2 unchanged; unsupported parts are reported nevertheless.
#[test]
fn cycle_is_reported_by_every_renderer() {
    let (sys, _top) = sandbox();
    sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
    let circle =
        decision("version: 2\nbridges:\n  a: {interfaces: [b], dhcp4: true}\n  b: {interfaces: [a], x: 1}\n");
    let applied = apply(&sys, &request(&circle)).unwrap();
    let messages: Vec<&str> = applied.findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        (applied.renderer, &messages[..]),
        (Some("netplan"), &["unknown key", "dependency cycle through a"][..])
    );
}

#[test]
fn unchanged_files_are_not_rewritten() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    let first = decision("version: 2\nethernets: {eth0: {dhcp4: true, x: \"\\xfc\"}}\n");
    let applied = apply(&sys, &request(&first)).unwrap();
    assert_eq!(applied.renderer, Some("networkd"));
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    assert_eq!(applied.files, [(unit.to_string(), Change::Created)]);
    assert_eq!((applied.links.as_slice(), applied.findings.iter().count()), (&["eth0".to_string()][..], 1));
    let kept = sys.read_text("/run/cloud-init/network-config.json").unwrap();
    assert!(
        kept.starts_with("{\n \"ethernets\": {\n  \"eth0\": {\n   \"dhcp4\": true,\n   \"x\": \"\\u00fc\"\n")
    );
    assert!(sys.is_file("/run/cloud-init/sem/apply_network_config.once"));
    let again = apply(&sys, &request(&first)).unwrap();
    assert_eq!(again.files, [(unit.to_string(), Change::Unchanged)]);
}

/// A clone must not have the addresses of the original.
#[test]
fn new_instance_removes_the_files_of_the_previous_one() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    let new = |text: &str| {
        apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&decision(text)) }).unwrap();
    };
    let unit = |nic: &str| format!("/etc/systemd/network/10-cloud-init-{nic}.network");
    new("version: 2\nethernets: {eth0: {dhcp4: true}, eth1: {dhcp4: true}, eth2: {dhcp4: true}}\n");
    sys.write(unit("eth2"), "edited", WriteOptions::default()).unwrap();
    // An event of the same instance removes nothing.
    let fewer = "version: 2\nethernets: {eth0: {dhcp6: true}}\n";
    apply(&sys, &ApplyRequest { mode: ApplyMode::Event("test"), ..request(&decision(fewer)) }).unwrap();
    assert!(sys.exists(unit("eth1")));
    new(fewer);
    let there = ["eth0", "eth1", "eth2"].map(|nic| sys.exists(unit(nic)));
    assert_eq!(there, [true, false, true]);
}

#[test]
fn render_error_keeps_existing_files() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    let before = sys.read_text(unit).unwrap();
    let error =
        apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {addresses: [x]}}\n"))).unwrap_err();
    assert!(error.to_string().contains("network.ethernets.eth0.addresses[0]"), "{error}");
    assert_eq!(sys.read_text(unit).unwrap(), before);
}

#[test]
fn without_a_renderer_nothing_changes() {
    let (sys, _top) = sandbox();
    let config = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
    let applied = apply(&sys, &request(&config)).unwrap();
    assert_eq!((applied.renderer, applied.errors.len()), (None, 0));
    let message = applied.no_renderer.unwrap_or_default();
    assert!(message.contains("no network renderer is available, tried: eni sysconfig"), "{message}");
    let names = vec!["netwrkd".to_string()];
    let error = apply(&sys, &ApplyRequest { renderers: Some(&names), ..request(&config) }).unwrap_err();
    assert!(error.to_string().contains("unknown network renderer 'netwrkd'"), "{error}");
    assert!(!sys.exists("/etc") && !sys.exists("/run/cloud-init/sem"));
}

#[test]
fn stricter_mode_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (sys, _top) = sandbox();
    sys.write("/usr/sbin/netplan", "", WriteOptions::mode(0o755)).unwrap();
    let path = "/etc/netplan/50-cloud-init.yaml";
    let mode = || sys.metadata(path).unwrap().permissions().mode() & 0o777;
    for (before, after) in [(0o644, 0o600), (0o400, 0o400)] {
        sys.write(path, "old", WriteOptions::mode(before)).unwrap();
        apply(&sys, &request(&decision("{version: 2}\n"))).unwrap();
        assert_eq!(mode(), after);
    }
}

#[test]
fn write_error_restores_the_other_files() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
    let dir = "/etc/systemd/network";
    let before = sys.read_text(format!("{dir}/10-cloud-init-eth0.network")).unwrap();
    sys.create_dir_all(format!("{dir}/10-cloud-init-eth2.network"), 0o755).unwrap();
    let three = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}, eth2: {}}\n");
    assert!(apply(&sys, &request(&three)).is_err());
    assert_eq!(sys.read_text(format!("{dir}/10-cloud-init-eth0.network")).unwrap(), before);
    assert_eq!(sys.list(dir).unwrap(), ["10-cloud-init-eth0.network", "10-cloud-init-eth2.network"]);
}

/// An error of a backup, a link, a mark or an optional file does not affect the required files.
#[test]
fn errors_in_state_files_are_warnings() {
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    let config = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
    for blocked in [
        "/var/lib/cloud/instances/i/network-config.json",
        "/run/cloud-init/network-config.json",
        "/var/lib/cloud/data/network-files.json",
        "/run/cloud-init/sem/apply_network_config.once",
    ] {
        let (sys, _top) = sandbox();
        with_networkd(&sys);
        sys.create_dir_all(format!("{blocked}/x"), 0o755).unwrap();
        let applied = apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&config) }).unwrap();
        assert!(sys.is_file(unit), "{blocked}");
        assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
        assert!(applied.errors.is_empty() && !sys.log().logged_warnings().is_empty(), "{blocked}");
    }
}

#[test]
fn errors_in_optional_files_are_warnings() {
    let rhel = |sys: &System| {
        for path in ["/usr/sbin/ifup", "/usr/sbin/ifdown", "/etc/sysconfig/network-scripts/network-functions"]
        {
            sys.write(path, "", WriteOptions::mode(0o755)).unwrap();
        }
        sys.write("/etc/os-release", "ID=rhel\n", WriteOptions::default()).unwrap();
    };
    let config = decision(
        "version: 2\nethernets: {eth0: {addresses: [10.0.0.2/24], nameservers: {addresses: [10.0.0.1]}}}\n",
    );
    for blocked in [
        "/etc/udev/rules.d/70-persistent-net.rules",
        "/etc/resolv.conf",
        "/etc/NetworkManager/conf.d/99-cloud-init.conf",
    ] {
        let (sys, _top) = sandbox();
        rhel(&sys);
        sys.create_dir_all(blocked, 0o755).unwrap();
        let applied = apply(&sys, &ApplyRequest { distro: "rhel", ..request(&config) }).unwrap();
        assert!(sys.is_file("/etc/sysconfig/network-scripts/ifcfg-eth0"), "{blocked}");
        assert!(applied.problems.iter().any(|p| p.contains(blocked)), "{:?}", applied.problems);
    }
    // An error of a required file still restores the others.
    let (sys, _top) = sandbox();
    rhel(&sys);
    sys.create_dir_all("/etc/sysconfig/network", 0o755).unwrap();
    assert!(apply(&sys, &ApplyRequest { distro: "rhel", ..request(&config) }).is_err());
    assert!(!sys.exists("/etc/sysconfig/network-scripts/ifcfg-eth0"));
}

/// A record that could not be written must not make unedited files look edited.
#[test]
fn stale_manifest_is_removed() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    let manifest = "/var/lib/cloud/data/network-files.json";
    let of = |text: &str| decision(&format!("version: 2\nethernets: {{eth0: {{{text}: true}}}}\n"));
    apply(&sys, &request(&of("dhcp4"))).unwrap();
    sys.remove(manifest).unwrap();
    sys.create_dir_all(manifest, 0o755).unwrap();
    apply(&sys, &request(&of("dhcp6"))).unwrap();
    sys.remove_dir_all(manifest).unwrap();
    let applied = apply(&sys, &request(&of("dhcp4"))).unwrap();
    assert!(applied.edited.is_empty() && sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
}

#[test]
fn edited_files_are_kept_or_backed_up() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    let first = decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n");
    let second = decision("version: 2\nethernets: {eth0: {dhcp6: true}, eth1: {dhcp4: true}}\n");
    apply(&sys, &request(&first)).unwrap();
    // Unedited: replaced without a warning.
    apply(&sys, &request(&second)).unwrap();
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
    let edited = "[Match]\nName=eth0\n[Network]\nDHCP=no\n";
    sys.write(unit, edited, WriteOptions::default()).unwrap();
    // Unchanged content: kept without a warning.
    let applied = apply(&sys, &request(&second)).unwrap();
    assert_eq!((applied.edited.as_slice(), sys.log().logged_warnings().len()), (&[unit.to_string()][..], 0));
    // Changed content: kept with a warning; the other file is written.
    let third = decision("version: 2\nethernets: {eth0: {dhcp4: true}, eth1: {dhcp6: true}}\n");
    let applied = apply(&sys, &request(&third)).unwrap();
    assert_eq!((applied.edited.len(), applied.files.len()), (1, 1));
    assert_eq!(sys.read_text(unit).unwrap(), edited);
    assert!(
        sys.log().logged_warnings().iter().any(|(_, t)| t.contains(unit) && t.contains("Remove the file"))
    );
    // A new instance: written, with a backup of the edited file.
    let applied = apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&third) }).unwrap();
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
    assert_eq!(sys.read_text(&applied.edited[0]).unwrap(), edited);
    assert!(applied.edited[0].starts_with("/etc/systemd/network/.10-cloud-init-eth0.network.edited-"));
    // From then on it counts as unedited.
    assert!(apply(&sys, &request(&second)).unwrap().edited.is_empty());
    // An event requests the file of the configuration, new or not.
    sys.write(unit, edited, WriteOptions::default()).unwrap();
    let applied = apply(&sys, &ApplyRequest { mode: ApplyMode::Event("test"), ..request(&second) }).unwrap();
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
    assert_eq!(sys.read_text(&applied.edited[0]).unwrap(), edited);
    // A removed file does not count as edited.
    sys.remove(unit).unwrap();
    apply(&sys, &request(&second)).unwrap();
    assert!(sys.is_file(unit));
}

#[test]
fn incomplete_config_does_not_replace_a_complete_one() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    let unit = "/etc/systemd/network/10-cloud-init-eth0.network";
    let part = decision("version: 2\nethernets: {eth0: {dhcp6: true, addresses: [x]}}\n");
    // A fallback for a machine without any configuration.
    assert_eq!(apply(&sys, &request(&part)).unwrap().findings.iter().count(), 1);
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
    apply(&sys, &request(&decision("version: 2\nethernets: {eth0: {dhcp4: true}}\n"))).unwrap();
    let error = apply(&sys, &request(&part)).unwrap_err().to_string();
    assert!(error.contains("addresses[0]") && error.contains("keeping the files"), "{error}");
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv4"));
    apply(&sys, &ApplyRequest { is_new_instance: true, ..request(&part) }).unwrap();
    assert!(sys.read_text(unit).unwrap().contains("DHCP=ipv6"));
}

#[test]
fn datasource_formats_are_converted() {
    let (sys, _top) = sandbox();
    sys.write("/sys/class/net/ens3/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
    let data = config::yaml::parse(
        "t",
        "{links: [{id: a, type: phy, ethernet_mac_address: '52:54:00:00:00:01'}], networks: [{link: a, type: ipv4_dhcp}]}",
    );
    let data = data.unwrap().root;
    let config = from_format(&sys, &NetworkFormat::NetworkData, &data, None).unwrap();
    assert_eq!(
        config.at_path(&["config"]).unwrap().as_seq().unwrap()[0].get("name").unwrap().as_str(),
        Some("ens3")
    );
    sys.remove_dir_all("/sys").unwrap();
    assert!(
        from_format(&sys, &NetworkFormat::NetworkData, &data, None)
            .unwrap_err()
            .to_string()
            .contains("no NIC")
    );
    assert!(from_format(&sys, &NetworkFormat::Unknown("morse".into()), &data, None).is_err());
    assert_eq!(fallback_config(&sys), None);
}

#[test]
fn names_only_or_disabled_writes_no_files() {
    let (sys, _top) = sandbox();
    with_networkd(&sys);
    sys.write("/sys/class/net/eth7/address", "52:54:00:00:00:01\n", WriteOptions::default()).unwrap();
    let config =
        decision("version: 2\nethernets: {a: {match: {macaddress: '52:54:00:00:00:01'}, set-name: wan}}\n");
    let names = ApplyRequest { mode: ApplyMode::NamesOnly("test"), ..request(&config) };
    let applied = apply(&sys, &names).unwrap();
    assert_eq!(applied.renamed, [("eth7".to_string(), "wan".to_string())]);
    assert!(!sys.exists("/etc/systemd"));
    let off = Decision { outcome: Outcome::Disabled, ..config.clone() };
    assert!(apply(&sys, &request(&off)).unwrap().renamed.is_empty());
    let nobody =
        decision("version: 1\nconfig: [{type: physical, name: x, mac_address: '52:54:00:00:00:09'}]\n");
    let applied = apply(&sys, &request(&nobody)).unwrap();
    assert!(applied.errors[0].contains("52:54:00:00:00:09 (x)"), "{:?}", applied.errors);
    assert_eq!(applied.files.len(), 1);
}

/// Drop-ins in /run repeat the lock at every boot, also at one that applies nothing or fails to.
#[test]
fn imds_lock_is_kept_in_every_boot() {
    let early = "/run/systemd/network/85-imds-early.network";
    let locked = "[Match]\nType=ether\n\n[Route]\nDestination=192.0.2.254\nType=prohibit\n";
    let put = |sys: &System, path: &str, text: &str| {
        sys.write(path, text, WriteOptions::mode(0o755)).unwrap();
    };
    let config = decision(
        "version: 2\nethernets: {eth0: {dhcp4: true}}\nbridges: {br0: {interfaces: [eth0], dhcp4: true}}\n",
    );
    let off = Decision { outcome: Outcome::Disabled, ..config.clone() };
    let invalid = decision("version: 2\nethernets: {eth0: {addresses: [x]}}\n");
    let names = ApplyRequest { mode: ApplyMode::NamesOnly("test"), ..request(&config) };
    let drop_ins = |sys: &System| -> Vec<String> {
        let folders =
            sys.list("/run/systemd/network").unwrap().into_iter().filter(|name| name.ends_with(".d"));
        folders
            .flat_map(|folder| {
                let files = sys.list(format!("/run/systemd/network/{folder}")).unwrap();
                files.into_iter().map(move |file| format!("{folder}/{file}"))
            })
            .collect()
    };
    for (renderer, expected) in [
        ("networkd", "10-cloud-init-eth0.network.d/85-imds-lock.conf"),
        ("netplan", "10-netplan-eth0.network.d/85-imds-lock.conf"),
    ] {
        let (sys, _top) = sandbox();
        if renderer == "netplan" {
            put(&sys, "/usr/sbin/netplan", "")
        } else {
            with_networkd(&sys)
        }
        // Unlocked.
        put(&sys, early, "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n");
        assert_eq!(apply(&sys, &request(&config)).unwrap().renderer, Some(renderer));
        assert_eq!(drop_ins(&sys), Vec::<String>::new());
        for later in [names, request(&config), request(&off), request(&invalid)] {
            sys.remove_dir_all("/run/systemd").unwrap();
            put(&sys, early, locked);
            let _ = apply(&sys, &later);
            assert_eq!(drop_ins(&sys), [expected], "{later:?}");
            let text = sys.read_text(format!("/run/systemd/network/{expected}")).unwrap();
            assert!(text.ends_with("\n[Route]\nDestination=192.0.2.254\nType=prohibit\n"), "{text}");
        }
        let unit = sys.read_text("/etc/systemd/network/10-cloud-init-eth0.network").unwrap_or_default();
        assert!(!unit.contains("prohibit"), "{unit}");
        let imds = |text: &str| text.contains("systemd-imds");
        assert!(!sys.log().logged_warnings().iter().any(|(_, text)| imds(text)));
        // The next boot is unlocked.
        sys.remove_dir_all("/run/systemd").unwrap();
        apply(&sys, &names).unwrap();
        assert!(!sys.exists("/run/systemd"));
    }
    let (sys, _top) = sandbox();
    put(&sys, early, locked);
    for path in ["/usr/sbin/ifquery", "/usr/sbin/ifup", "/usr/sbin/ifdown", "/etc/network/interfaces"] {
        put(&sys, path, "");
    }
    for (request, warnings) in [(request(&config), 1), (names, 2), (request(&off), 2)] {
        apply(&sys, &request).unwrap();
        let logged = sys.log().logged_warnings();
        let found = logged.iter().filter(|(_, text)| text.contains("systemd-imds") && text.contains("'eni'"));
        assert_eq!((found.count(), drop_ins(&sys).len()), (warnings, 0), "{logged:?}");
    }
}
