//! What single clouds can do besides their metadata: publishing host keys (GCE), warnings and addresses (Ec2), link-local
//! services and modes (OpenStack).

use tests::{Boot, Cloud};

/// Boots with the network that the network service would set up after the local stage.
fn boot(cloud: &Cloud) -> Vec<Boot> {
    cloud.net.in_machine(&["ip", "address", "flush", "dev", "c0"]);
    cloud.net.in_machine(&["ip", "link", "set", "c0", "down"]);
    let local = cloud.boot(&["local"]);
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    cloud.net.in_machine(&["ip", "address", "replace", "10.0.0.60/24", "dev", "c0"]);
    cloud.net.in_machine(&["ip", "route", "replace", "default", "via", "10.0.0.1"]);
    vec![local, cloud.boot(&["network"])]
}

/// The service takes one type of key and refuses the other; a blacklisted one is not sent.
#[test]
fn gce_publishes_host_keys() {
    let with_keys = || {
        let cloud = Cloud::new("gce").dhcp(&[]);
        for (kind, name) in [("ssh-ed25519", "ed25519"), ("ecdsa-sha2-nistp256", "ecdsa"), ("ssh-rsa", "rsa")]
        {
            let text = format!("{kind} AAAAC3of{name} root@engine\n");
            cloud.put(&format!("/etc/ssh/ssh_host_{name}_key.pub"), &text);
        }
        cloud.config("ssh_publish_hostkeys: {blacklist: [rsa]}\n");
        cloud
    };
    let cloud = with_keys();
    assert!(boot(&cloud).iter().all(Boot::succeeded), "{}", cloud.log());
    let path = "/computeMetadata/v1/instance/guest-attributes/hostkeys";
    assert_eq!(cloud.posted(), format!("PUT {path}/ssh-ed25519\nAAAAC3ofed25519\n"));
    let requests = cloud.requests();
    assert!(requests.contains(&format!("PUT {path}/ecdsa-sha2-nistp256 405")), "{requests}");
    assert!(!requests.contains("hostkeys/ssh-rsa"), "{requests}");
    // The same instance publishes nothing again.
    cloud.forget_run();
    boot(&cloud);
    assert_eq!(cloud.requests().matches("PUT ").count(), 2, "{}", cloud.requests());
    // Without an answer the other keys are not tried.
    let cloud = with_keys();
    cloud.fault("PUT . reset");
    boot(&cloud);
    assert_eq!(cloud.log().matches("publishing host keys: ").count(), 1, "{}", cloud.log());
}

/// A machine whose network is up already, for example from an initramfs, keeps it: there is no DHCP server.
#[test]
fn a_service_that_responds_needs_no_temporary_network() {
    for (name, address) in [
        ("digitalocean", "169.254.9.9/16"),
        ("hetzner", "10.0.0.60/24"),
        ("nwcs", "10.0.0.60/24"),
        ("vultr", "10.0.0.60/24"),
    ] {
        let cloud = Cloud::new(name);
        cloud.net.bring_up(address, (name != "digitalocean").then_some("10.0.0.1"));
        assert!(cloud.boot(&["local"]).succeeded(), "{name}: {}", cloud.log());
        assert_eq!(cloud.id(), name, "{}", cloud.log());
        assert!(cloud.logged(&["responds over the existing network"]), "{name}: {}", cloud.log());
        assert!(cloud.net.in_machine(&["ip", "address", "show", "dev", "c0"]).contains(address), "{name}");
    }
}

/// The network stage prints the machine's links and routes, each line with the prefix that console logs are searched for.
#[test]
fn network_tables_are_printed_on_the_console() {
    let cloud = Cloud::new("gce").dhcp(&[]);
    let boots = boot(&cloud);
    let lines: Vec<&str> =
        boots[1].output.lines().filter_map(|line| line.trim().strip_prefix("ci-info: ")).collect();
    let row = |words: &[&str]| {
        let cells = |line: &&str| line.split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
        lines.iter().map(cells).any(|cells| words.iter().all(|word| cells.iter().any(|cell| cell == word)))
    };
    assert!(row(&["c0", "True", "10.0.0.60", "255.255.255.0", "global", "02:00:00:00:0a:01"]), "{lines:#?}");
    assert!(row(&["lo", "127.0.0.1", "255.0.0.0", "host", "."]), "{lines:#?}");
    assert!(row(&["0.0.0.0", "10.0.0.1", "c0", "UG"]), "{lines:#?}");
    assert!(row(&["10.0.0.0", "0.0.0.0", "255.255.255.0", "c0", "U"]), "{lines:#?}");
    assert!(!boots[0].output.contains("ci-info"), "{}", boots[0].output);
}

/// The service has only its IPv6 address, which a router leads to.
#[test]
fn ec2_is_reached_over_routed_ipv6() {
    let cloud = Cloud::new("ec2").router();
    cloud.net.in_cloud(&["ip", "address", "add", "fd00:ec2::254/128", "dev", "s0"]);
    let local = cloud.boot(&["local"]);
    assert!(local.succeeded(), "{:?}\n{}", local.codes, cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains("metadata (http://[fd00:ec2::254])"), "{data}\n{}", cloud.log());
    assert!(data.contains("\"with blank\": \"two words\""), "{data}");
    let requests = cloud.requests();
    assert!(
        requests.contains("PUT /latest/api/token 200 fd00:1:") && !requests.contains(" 10.0.0."),
        "{requests}"
    );
}

/// The administrator's own address of the service is the only one that is tried.
#[test]
fn ec2_tries_only_the_configured_url() {
    let cloud = Cloud::new("ec2").dhcp(&[]);
    cloud.config("datasource: {Ec2: {metadata_urls: ['http://10.0.0.1/']}}\n");
    assert!(cloud.boot(&["local"]).succeeded(), "{}", cloud.log());
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains("metadata (http://10.0.0.1)"), "{data}");
    assert!(!cloud.log().contains("169.254.169.254"), "{}", cloud.log());
}

/// Without the full configuration there is DHCP on the primary NIC, and no address of the metadata.
#[test]
fn ec2_uses_dhcp_without_its_full_network() {
    for (setting, is_full) in [("true", true), ("false", false)] {
        let cloud = Cloud::new("ec2").dhcp(&[]);
        cloud.config(&format!("datasource: {{Ec2: {{apply_full_imds_network_config: {setting}}}}}\n"));
        assert!(cloud.boot(&["local"]).succeeded(), "{}", cloud.log());
        let config = cloud.file("/var/lib/cloud/instance/network-config.json");
        assert_eq!(config.contains("10.0.0.61/24"), is_full, "{config}");
        assert!(config.contains("\"dhcp4\": true") && config.contains("02:00:00:00:0a:01"), "{config}");
    }
}

/// A service on a platform that nothing identifies is used, with a warning at login, once for an instance.
#[test]
fn ec2_on_an_unknown_platform_warns_at_login() {
    let file = "/var/lib/cloud/instance/warnings/non_ec2_md";
    let problem = "the metadata source is not authenticated";
    for (setting, warns, is_found) in [
        ("", true, true),
        ("datasource: {Ec2: {strict_id: false}}\n", false, true),
        ("warnings: {non_ec2_md: off}\n", false, true),
        ("datasource: {Ec2: {strict_id: true}}\n", false, false),
    ] {
        let cloud = Cloud::new("outscale").dhcp(&[]);
        cloud.firmware("sys_vendor", "Nimbus\n");
        cloud.config(setting);
        boot(&cloud);
        assert_eq!(cloud.id(), if is_found { "ec2" } else { "none" }, "{setting}\n{}", cloud.log());
        assert_eq!(cloud.file(file).contains("strict_id: false"), warns, "{setting}\n{}", cloud.log());
        let count = || cloud.log().lines().filter(|line| line.contains(problem)).count();
        assert_eq!(count(), usize::from(warns), "{setting}\n{}", cloud.log());
        cloud.forget_run();
        boot(&cloud);
        assert_eq!(count(), usize::from(warns), "{setting}\n{}", cloud.log());
    }
}

/// A cloud without private networks: its network configuration is applied at every boot.
#[test]
fn ec2_without_a_vpc_applies_the_network_at_every_boot() {
    let cloud = Cloud::new("outscale").dhcp(&[]);
    let served = cloud.net.dir.join("served/server.json");
    let text = std::fs::read_to_string(&served).expect("what is served");
    let has_vpc = text.contains("vpc-id");
    boot(&cloud);
    cloud.forget_run();
    boot(&cloud);
    let stored = cloud.file("/var/lib/cloud/instance/obj.pkl");
    assert_eq!(stored.contains("\"boot-legacy\""), !has_vpc, "{stored}");
}

/// Bare metal, whose firmware does not name the cloud: the administrator does, by a list of this name alone or on the kernel
/// command line.
#[test]
fn openstack_on_bare_metal_is_named_by_the_administrator() {
    for (list, line, is_found) in [
        // Without DMI at all, as on other architectures, OpenStack is always tried.
        ("OpenStack, None", "ro", !cfg!(target_arch = "x86_64")),
        ("OpenStack", "ro", true),
        ("OpenStack, None", "ro ds=openstack", true),
    ] {
        let cloud = Cloud::new("openstack").dhcp(&[]).kernel_line(line);
        for name in ["product_name", "product_uuid", "sys_vendor"] {
            cloud.firmware(name, "");
        }
        cloud.put("/etc/cloud/cloud.cfg.d/96-list.cfg", format!("datasource_list: [{list}]\n"));
        boot(&cloud);
        let expected = if is_found { "openstack" } else { "none" };
        assert_eq!(cloud.id(), expected, "[{list}] {line}\n{}", cloud.log());
        assert_eq!(!cloud.requests().is_empty(), is_found, "[{list}] {line}\n{}", cloud.requests());
        // The same instance at the next boot.
        let id = cloud.file("/var/lib/cloud/data/instance-id");
        cloud.forget_run();
        boot(&cloud);
        assert_eq!((cloud.id().as_str(), cloud.file("/var/lib/cloud/data/instance-id")), (expected, id));
    }
}

/// Where the modules of a machine run is the service's decision, and its network configuration the administrator's.
#[test]
fn openstack_dsmode_selects_the_stage() {
    for (mode, line) in [
        ("local", "is in local mode, will apply init modules now."),
        ("net", "not in local mode."),
        ("disabled", "No local datasource found"),
        ("elsewhere", "OpenStack: invalid dsmode"),
    ] {
        let cloud = Cloud::new("openstack").dhcp(&[]);
        cloud.serve(|all| {
            let documents = all["paths"].as_object_mut().expect("paths").iter_mut();
            let metadata: Vec<_> = documents.filter(|(path, _)| path.ends_with("/meta_data.json")).collect();
            assert!(!metadata.is_empty());
            metadata.into_iter().for_each(|(_, document)| document["meta"]["dsmode"] = mode.into());
        });
        cloud.config("datasource: {OpenStack: {apply_network_config: false}}\n");
        cloud.boot(&["local"]);
        assert!(cloud.logged(&[line]), "{mode}\n{}", cloud.log());
        if mode == "local" {
            assert!(cloud.logged(&["finish: init-local/activate-datasource: SUCCESS"]), "{}", cloud.log());
        }
        let config = cloud.file("/run/cloud-init/network-config.json");
        assert!(!config.contains("services"), "{config}");
    }
}

/// The machine's own network is static, by the seed at a URL of the kernel command line. At the next boot the local stage, which
/// cannot read the seed, does not replace it by DHCP, over which the network stage might not reach the seed. Another machine
/// with this disk gets DHCP.
#[test]
fn nocloud_seed_over_http_keeps_the_static_network() {
    const UNIT: &str = "/etc/systemd/network/10-cloud-init-c0.network";
    let cloud = Cloud::new("nocloud-line");
    let is_static = |unit: &str| unit.contains("Address=10.0.0.70/24") && unit.contains("DHCP=no");
    let stages = |local: bool| {
        let name = if local { "local" } else { "network" };
        let done = cloud.boot(&[name]);
        assert!(done.succeeded(), "{name}: {:?}\n{}", done.codes, cloud.log());
        cloud.file(UNIT)
    };
    cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
    assert!(stages(true).contains("DHCP=yes"), "first boot: no network is known yet\n{}", cloud.log());
    let first = stages(false);
    assert!(is_static(&first), "{first}\n{}", cloud.log());
    for boot in ["second", "third"] {
        cloud.forget_run();
        assert_eq!(stages(true), first, "{boot} boot, local stage\n{}", cloud.log());
        assert_eq!(stages(false), first, "{boot} boot, network stage\n{}", cloud.log());
        assert_eq!(cloud.file("/var/lib/cloud/data/instance-id").trim(), "i-static");
    }
    assert_eq!(cloud.requests().matches("/latest/meta-data 200").count(), 3, "{}", cloud.requests());
    cloud.forget_run();
    cloud.firmware("product_uuid", "99999999-3456-7890-abcd-ef0123456789\n");
    assert!(stages(true).contains("DHCP=yes"), "another machine\n{}", cloud.log());
}

/// With `ip=` on the kernel command line too, whose network no file of the initramfs describes.
#[test]
fn nocloud_seed_over_http_keeps_the_network_of_the_kernel() {
    const UNIT: &str = "/etc/systemd/network/10-cloud-init-c0.network";
    let cloud = Cloud::new("nocloud-ip");
    cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
    for boot in 1..=2 {
        cloud.forget_run();
        for stage in ["local", "network"] {
            assert!(cloud.boot(&[stage]).succeeded(), "{}", cloud.log());
            let unit = cloud.file(UNIT);
            assert!(
                unit.contains("Address=10.0.0.70/24") && unit.contains("DHCP=no"),
                "{boot} {stage}: {unit}\n{}",
                cloud.log()
            );
        }
    }
    assert_eq!(cloud.file("/var/lib/cloud/data/instance-id").trim(), "i-static");
}
