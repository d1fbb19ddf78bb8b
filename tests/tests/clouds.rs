//! Clouds with a metadata service: a machine whose only NIC leads to DHCP and metadata runs the local and the network
//! stage; the results are compared with those of Debian's cloud-init 26.2 on the same server (`FIRSTLIGHT_RECORD`). Also
//! servers that fail: silent, slow, refusing, sending invalid responses. In every case the network is restored
//! afterwards.

use tests::{Case, Cloud, Reach};

/// The limit in seconds for waiting for a service that does not answer; enough for a second DHCP attempt.
const SHORT: &str = "datasource: {Ec2: {max_wait: 9, timeout: 1, retries: 1}}\n";

// A test for each cloud whose file `case` names the test `compare`.
include!(concat!(env!("OUT_DIR"), "/clouds.rs"));

fn matches_upstream(name: &str) {
    let case = Case::read(name);
    Cloud::new(name).reached(case.reach()).compare_except(&case.differences());
}

#[test]
fn digitalocean_matches_upstream() {
    digitalocean("digitalocean");
}

/// DMI's serial number is the id of a droplet, and its name if it has none.
#[test]
fn digitalocean_without_a_name_matches_upstream() {
    digitalocean("digitalocean-nameless");
}

fn digitalocean(case: &str) {
    // Upstream requires a physical NIC for its link-local address; over an existing network it does not.
    let cloud = Cloud::new(case).reached(Reach::Own("169.254.9.9/16"));
    cloud.config("datasource: {DigitalOcean: {use_ip4LL: false}}\n");
    cloud.compare_with_upstream();
    assert_eq!(cloud.requests().lines().count(), 1, "{}", cloud.requests());
    if std::env::var_os("FIRSTLIGHT_RECORD").is_none() {
        // And with a self-assigned address.
        Cloud::new(case).compare_with_upstream();
    }
}

/// Each NIC that both the metadata and the machine have, with a metric by the order of their names.
#[test]
fn aliyun_with_two_nics_matches_upstream() {
    let cloud = Cloud::new("aliyun-two-nics").dhcp(&[]);
    cloud.net.second_nic("02:00:00:00:0a:99", "10.1.0.1/24");
    cloud.compare_with_upstream();
}

/// A seed on a server. Also the tables of links and routes that the network stage prints: of a second link that is up with
/// addresses of both families, one without a carrier, and routes to a network and to a host.
#[test]
fn nocloud_seed_and_network_tables_match_upstream() {
    let cloud = Cloud::new("nocloud").reached(Reach::OWN).with_tables();
    cloud.net.second_nic("02:00:00:00:0a:99", "10.1.0.1/24");
    for words in [
        "link set c1 up",
        "address add 10.1.0.60/20 dev c1",
        "address add 10.1.0.61/32 dev c1",
        "address add fd00:1::60/64 dev c1 nodad",
        "link add c2 address 02:00:00:00:0a:77 type bridge",
        "route add 10.7.0.0/16 via 10.1.0.1",
        "route add 10.8.0.8 via 10.1.0.1",
        "route add 10.9.0.0/24 dev c1",
    ] {
        let words: Vec<&str> = std::iter::once("ip").chain(words.split(' ')).collect();
        cloud.net.in_machine(&words);
    }
    cloud.net.settle();
    cloud.compare_with_upstream();
}

/// `ip=` on the kernel command line, whose network no file of the initramfs describes. Upstream ignores it and uses DHCP.
#[test]
fn nocloud_ip_matches_upstream_but_for_its_network() {
    let cloud = Cloud::new("nocloud-ip").reached(Case::read("nocloud-ip").reach());
    cloud.compare_with_upstream_except(&["network-config.json", "networkd"]);
    if std::env::var_os("FIRSTLIGHT_RECORD").is_none() {
        let [ours, theirs] =
            [cloud.file("/etc/systemd/network/10-cloud-init-c0.network"), cloud.recorded("networkd")];
        assert!(ours.contains("Address=10.0.0.70/24") && theirs.contains("DHCP=yes"), "{ours}\n{theirs}");
    }
}

/// Upstream leaves the file of the local stage's fallback for the NIC that the network stage renames.
#[test]
fn cloudcix_matches_upstream_but_for_the_fallback() {
    let cloud = Cloud::new("cloudcix").reached(Case::read("cloudcix").reach());
    cloud.compare_with_upstream_except(&["networkd"]);
    if std::env::var_os("FIRSTLIGHT_RECORD").is_none() {
        let [fallback, network] =
            ["c0", "eth0"].map(|nic| format!("/etc/systemd/network/10-cloud-init-{nic}.network"));
        assert_eq!(
            (cloud.file(&fallback).as_str(), cloud.recorded("networkd").contains(&cloud.file(&network))),
            ("", true)
        );
    }
}

/// The machine has netplan, which alone gets policy routing.
fn ec2_with_two_nics() -> Cloud {
    let mut cloud = Cloud::new("ec2-two-nics").dhcp(&[]);
    cloud.net.second_nic("02:00:00:00:0a:99", "10.1.0.1/24");
    cloud.net.dnsmasq(&[
        "--interface=s1",
        "--bind-dynamic",
        "--dhcp-range=10.1.0.60,10.1.0.60,255.255.255.0,1h",
        "--dhcp-option=option:router",
    ]);
    cloud.config("system_info: {network: {renderers: [netplan]}}\n");
    cloud.program("netplan", "#!/bin/sh\n");
    cloud
}

#[test]
fn ec2_with_two_nics_matches_upstream() {
    // The NICs of the namespace have no permanent MAC address, the only one that netplan compares.
    let matched = |mac: &str| {
        format!("            dhcp6: false\n            match:\n                macaddress: {mac}\n")
    };
    let rule = "            -   from: 10.0.0.61\n                table: 101\n";
    let names = [format!("{rule}        c1:"), format!("{rule}            set-name: c0\n        c1:")];
    let first = [
        "            dhcp6: false\n            routes:".to_string(),
        matched("02:00:00:00:0a:01") + "            routes:",
    ];
    let second = [
        "            dhcp6: false\n    version: 2".to_string(),
        matched("02:00:00:00:0a:99") + "            set-name: c1\n    version: 2",
    ];
    let differences = [&first, &names, &second].map(|[ours, theirs]| (&**ours, &**theirs));
    ec2_with_two_nics().with_files(&["/etc/netplan"]).compare_except(&differences);
}

/// The NIC with the metadata is the second by its number: its addresses have a table of their own, with the router of its
/// DHCP server.
#[test]
fn ec2_reads_metadata_through_the_second_nic() {
    let cloud = ec2_with_two_nics();
    let boot = cloud.boot(&["local"]);
    assert_eq!(boot.code("local"), 0, "{}", cloud.log());
    let text = cloud.file("/etc/netplan/50-cloud-init.yaml");
    let (second, first) = text.split_once("c1:").unwrap_or_else(|| panic!("{text}\n{}", cloud.log()));
    for line in ["route-metric: 200", "to: 0.0.0.0/0", "via: 10.0.0.1", "from: 10.0.0.60", "table: 101"] {
        assert!(second.contains(line), "{line}\n{text}\n{}", cloud.log());
    }
    assert!(first.contains("route-metric: 100") && !first.contains("table"), "{text}");
}

/// If netplan does not start, or fails for another reason, the file is kept; if it rejects the file, an earlier one is restored,
/// the network stays due, and the next boot tries again.
#[test]
fn rejected_netplan_file_is_tried_again_at_the_next_boot() {
    let path = "/etc/netplan/50-cloud-init.yaml";
    let refuses = format!("#!/bin/sh\necho '{path}:1:1: Error in network definition' >&2\nexit 1\n");
    for (program, earlier, is_refused) in [
        ("not a program", "network: {}\n", false),
        ("#!/bin/sh\nexit 78\n", "network: {}\n", false),
        (&refuses, "network: {}\n", true),
        (&refuses, "", true),
    ] {
        let cloud = Cloud::new("ec2-two-nics").dhcp(&[]);
        cloud.config("system_info: {network: {renderers: [netplan]}}\n");
        cloud.program("netplan", program);
        if !earlier.is_empty() {
            cloud.put(path, earlier);
        }
        let boot = cloud.boot(&["local"]);
        assert_eq!(boot.code("local"), i32::from(is_refused), "{program}: {}", cloud.log());
        let is_restored = is_refused && !earlier.is_empty();
        assert_eq!(cloud.file(path) == earlier, is_restored, "{program}: {}", cloud.log());
        assert_eq!(cloud.file(path).contains("dhcp4: true"), !is_restored, "{program}: {}", cloud.log());
        let note = cloud.path("/var/lib/cloud/instances/i-0abc1234567890def/network-is-due");
        assert_eq!(note.exists(), is_refused, "{program}");
        if is_refused {
            assert!(cloud.logged(&["[ERROR]", "netplan rejects the configuration"]), "{}", cloud.log());
            cloud.program("netplan", "#!/bin/sh\n");
            cloud.forget_run();
            assert_eq!(cloud.boot(&["local"]).code("local"), 0, "{}", cloud.log());
            assert!(!note.exists(), "{}", cloud.log());
        }
    }
}

/// Returns the id of the cloud after the local and the network stage, which end before their limit ([`Cloud::limit`]).
fn outcome(cloud: &Cloud) -> String {
    let boot = cloud.boot(&["local", "network"]);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    cloud.id()
}

#[test]
fn failing_metadata_servers_are_abandoned() {
    let cases = [
        ("silent", "* . silent", &["in time"][..]),
        ("none", "* . 404", &["status 404", "no token received"]),
        ("off", "PUT . 403", &["status 403", "disabled"]),
        ("errors", "* . 500", &["status 500"]),
        ("busy", "* . 503", &["status 503"]),
        ("garbage", "* . garbage", &[]),
        ("denied", "GET . 401", &["status 401"]),
        ("broken", "GET local-ipv4s 500", &["local-ipv4s", "status 500"]),
        ("cut", "GET meta-data/$ cut", &["meta-data/"]),
    ];
    let run = |name: &str, fault: &str, words: &[&str]| {
        let cloud = Cloud::new("ec2").dhcp(&[]);
        cloud.config(SHORT);
        cloud.fault(fault);
        assert_eq!(outcome(&cloud), "none", "{name}: {}", cloud.log());
        let says =
            |words: &[&str]| cloud.logged(&[&["[ERROR]", "(datasource None): Ec2: "][..], words].concat());
        assert!(says(words), "{name}: {}", cloud.log());
    };
    // In parallel, as most of it is waiting.
    std::thread::scope(|scope| {
        for (name, fault, words) in cases {
            scope.spawn(move || run(name, fault, words));
        }
    });
}

#[test]
fn recovering_metadata_servers_are_retried() {
    for (name, fault, words) in [
        ("expired", "GET user-data once:401", &["token expired"][..]),
        ("slow", "* instance slow:0.5", &[]),
        ("hiccup", "GET local-ipv4s once:500", &[]),
        ("starting", "PUT . once:500", &[]),
        ("gone", "GET hostname 404", &["hostname is listed in the metadata but does not exist"]),
    ] {
        let cloud = Cloud::new("ec2").dhcp(&[]);
        cloud.fault(fault);
        assert_eq!(outcome(&cloud), "aws", "{name}: {}", cloud.log());
        assert!(cloud.logged(words), "{name}: {}", cloud.log());
        assert!(cloud.file("/home/debian/.ssh/authorized_keys").contains(" zoe"), "{name}");
    }
}

#[test]
fn missing_dhcp_server_is_reported() {
    let cloud = Cloud::new("ec2");
    cloud.config(SHORT);
    assert!(outcome(&cloud) == "none" && cloud.logged(&["no DHCP server responded"]), "{}", cloud.log());
    assert_eq!(cloud.requests(), "");
}

#[test]
fn ec2_is_found_without_ipv4() {
    let cloud = Cloud::new("ec2").router();
    cloud.net.in_cloud(&["ip", "address", "add", "fd00:ec2::254/128", "dev", "lo"]);
    cloud.config("datasource: {Ec2: {max_wait: 30}}\n");
    assert!(
        outcome(&cloud) == "aws" && cloud.logged(&["metadata service is at http://[fd00:ec2::254]"]),
        "{}",
        cloud.log()
    );
    let data = cloud.file("/run/cloud-init/instance-data.json");
    assert!(data.contains("metadata (http://[fd00:ec2::254])"), "{data}");
}

#[test]
fn service_is_reached_over_link_local_ipv6_alone() {
    for (case, says) in [
        ("openstack", "metadata (http://[fe80::a9fe:a9fe%25c0])"),
        ("hetzner", "\"instance_id\": \"12345678\""),
    ] {
        let cloud = Cloud::new(case);
        cloud.net.in_cloud(&["ip", "address", "add", "fe80::a9fe:a9fe/64", "dev", "s0"]);
        assert_eq!(outcome(&cloud), case, "{}", cloud.log());
        let data = cloud.file("/run/cloud-init/instance-data.json");
        assert!(data.contains(says), "{data}\n{}", cloud.log());
        let strangers = cloud.requests().lines().any(|l| l.contains("10.0.0."));
        assert!(!strangers && cloud.requests().contains("fe80::"), "{}", cloud.requests());
        let has_ec2_part = cloud.requests().contains("GET /latest/meta-data/ 200 ");
        assert_eq!(has_ec2_part, case == "openstack", "{}", cloud.requests());
    }
}

/// networkd or NetworkManager configures the NIC already: a restart, or an initramfs with the network.
#[test]
fn existing_lease_is_reused() {
    for (name, path) in [
        ("systemd-networkd", "/run/systemd/netif/leases/INDEX"),
        ("NetworkManager", "/var/lib/NetworkManager/internal-ab-cd-c0.lease"),
    ] {
        // No DHCP server answers here.
        let cloud = Cloud::new("ec2");
        cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
        let index = cloud.net.in_machine(&["cat", "/sys/class/net/c0/ifindex"]);
        let lease = "ADDRESS=10.0.0.70\nNETMASK=255.255.255.0\nROUTER=10.0.0.1\nSERVER_ADDRESS=10.0.0.1\n";
        cloud.put(&path.replace("INDEX", index.trim()), lease);
        let device = format!("/run/NetworkManager/devices/{}", index.trim());
        cloud.put(&device, if name == "NetworkManager" { "connection-uuid=ab-cd\n" } else { "managed=0\n" });
        assert!(
            outcome(&cloud) == "aws" && cloud.logged(&["using the existing lease of", name, "10.0.0.70"]),
            "{}",
            cloud.log()
        );
    }
}

/// The local stage is killed while it fetches: the network stage reverts its changes and fetches itself. After SIGTERM it
/// reverts them itself.
#[test]
fn killed_stage_leaves_changes_that_the_next_reverts() {
    for (signal, code) in [("KILL", 137), ("TERM", 124)] {
        let cloud = Cloud::new("ec2").dhcp(&[]);
        let cloud = if signal == "KILL" { cloud.killed_after(10) } else { cloud.limit(10) };
        cloud.fault("GET user-data slow:50");
        let boot = cloud.boot_killed(&["local"]);
        assert_eq!(boot.code("local"), code, "{}", cloud.log());
        let state = cloud.net.state();
        assert_eq!(state.contains("10.0.0.60"), signal == "KILL", "{signal}: {state}\n{}", cloud.log());
        assert!(cloud.logged(&["10.0.0.60"]), "it was at work: {}", cloud.log());
        cloud.fault("");
        let cloud = cloud.limit(60);
        let boot = cloud.boot_killed(&["network"]);
        assert!(boot.succeeded() || boot.ended_normally(), "{}", boot.output);
        assert!(!cloud.net.state().contains("10.0.0.60"), "undone: {}", cloud.net.state());
        assert_eq!(cloud.id(), "aws", "{}", cloud.log());
    }
}

/// The local stage is stopped (SIGTERM) while it fetches: its unit reverts its changes before a network service starts.
#[test]
fn stopped_stage_is_rolled_back_by_its_unit() {
    let cloud = Cloud::new("ec2").dhcp(&[]).limit(10).with_units();
    cloud.fault("GET user-data slow:50");
    let boot = cloud.boot(&["local"]);
    assert_eq!(boot.code("local"), 124, "{}", cloud.log());
    assert!(
        cloud.logged(&["rolling back the network changes of process"]),
        "it was at work: {}",
        cloud.log()
    );
}

#[test]
fn firmware_decides_which_cloud_is_probed() {
    let strict = "datasource: {Ec2: {strict_id: true, max_wait: 9}}\n";
    let never = "datasource: {Ec2: {max_wait: 0}}\n";
    for (case, config, words) in [
        ("hetzner", strict, "strict_id is true"),
        ("ec2", never, "max_wait is 0"),
        ("hetzner", "datasource: {Ec2: {max_wait: 2}}\n", "is read in the network stage"),
    ] {
        let cloud = Cloud::new(case).dhcp(&[]);
        cloud.config(&format!("datasource_list: [Ec2, None]\n{config}"));
        assert!(outcome(&cloud) == "none" && cloud.logged(&["Ec2", words]), "{}", cloud.log());
        assert_eq!(cloud.requests(), "");
    }
}

#[test]
fn openstack_without_its_optional_documents() {
    let cloud = Cloud::new("openstack").dhcp(&[]);
    let names = ["vendor_data.json", "vendor_data2.json", "network_data.json"];
    cloud.serve(|server| {
        for name in names {
            server["paths"][format!("/openstack/2018-08-27/{name}")] = "{".into();
        }
    });
    cloud.fault("GET ^/latest/meta-data/ 500");
    assert_eq!(outcome(&cloud), "openstack", "{}", cloud.log());
    for part in names.into_iter().chain(["EC2's part of the metadata is ignored"]) {
        assert!(
            cloud.logged(&["[WARNING]", part]) || cloud.logged(&["[ERROR]", part]),
            "{part}: {}",
            cloud.log()
        );
    }
}

/// Data that cannot be read in the local stage does not count as missing, and the network stage reads it.
#[test]
fn incomplete_metadata_is_read_by_the_network_stage() {
    for (name, datasource, id, fault) in
        [("ec2", "Ec2", "aws", "GET local-ipv4s 500"), ("aliyun", "AliYun", "aliyun", "GET user-data 500")]
    {
        let cloud = Cloud::new(name).dhcp(&[]);
        cloud.config(&SHORT.replace("Ec2", datasource));
        cloud.fault(fault);
        cloud.boot(&["local"]);
        assert_eq!(cloud.file("/var/lib/cloud/data/instance-id"), "", "{name}: {}", cloud.log());
        cloud.fault("");
        // As the network service does with the fallback.
        for words in
            ["link set c0 up", "address replace 10.0.0.60/24 dev c0", "route replace default via 10.0.0.1"]
        {
            cloud.net.in_machine(&["ip"].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
        }
        cloud.boot(&["network"]);
        assert_eq!(cloud.id(), id, "{name}: {}", cloud.log());
    }
}

/// The instance at later boots: the same if the service confirms it or is silent; another one if the service says so,
/// or on another machine.
#[test]
fn only_a_new_id_or_machine_is_another_instance() {
    let cloud = Cloud::new("ec2").dhcp(&[]);
    cloud.config(SHORT);
    let boot = || {
        cloud.forget_run();
        outcome(&cloud)
    };
    let id = || cloud.file("/var/lib/cloud/data/instance-id").trim().to_string();
    assert_eq!(boot(), "aws", "{}", cloud.log());
    let ran = "/var/lib/cloud/instances/i-0abc1234567890def/sem/config_users_groups";
    let first = cloud.file(ran);
    assert!(!first.is_empty());
    assert_eq!((boot(), id()), ("aws".into(), "i-0abc1234567890def".into()));
    cloud.fault("* . 500");
    assert_eq!((boot(), id()), ("aws".into(), "i-0abc1234567890def".into()));
    assert!(cloud.logged(&["[WARNING]", "using the cached instance i-0abc1234567890def"]), "{}", cloud.log());
    assert_eq!(cloud.file(ran), first, "nothing ran again");
    // The machine's disk in another machine, whose service is down.
    cloud.firmware("product_uuid", "ec2fffff-3456-7890-abcd-ef0123456789\n");
    assert_eq!((boot(), id()), ("none".into(), "iid-datasource-none".into()), "{}", cloud.log());
    assert!(cloud.logged(&["cache invalid in datasource", "ec2fffff"]), "{}", cloud.log());
}

/// Clouds that serve everything in one document: if it is too large, a warning names its size and the limit, an existing
/// instance keeps all that it has, and a new machine is set up from the paths of the document's parts.
#[test]
fn oversized_document_does_not_change_an_instance() {
    // DigitalOcean's document is not requested again while DMI has the same serial number.
    for (case, fault, is_asked_again, new_machine) in [
        ("gce", "GET instance/attributes huge", true, "gce"),
        // The recorded servers have the document alone; `services.rs` of the datasources has the others' parts.
        ("digitalocean", "GET v1.json huge", false, "none"),
        ("vultr", "GET v1.json huge", true, "none"),
    ] {
        let of = |case: &str| match case {
            "digitalocean" => Cloud::new(case),
            _ => Cloud::new(case).dhcp(&[]),
        };
        let boot = |cloud: &Cloud| {
            let boot = cloud.boot(&["local", "network"]);
            assert!(boot.ended_normally(), "{case}: {:?}\n{}", boot.codes, cloud.log());
        };
        let says = |cloud: &Cloud| {
            let words = ["[WARNING]", "larger than 33554432 bytes (7", " bytes)"];
            assert!(cloud.logged(&words), "{case}: {}", cloud.log());
        };
        let cloud = of(case);
        boot(&cloud);
        let id = cloud.file("/var/lib/cloud/data/instance-id");
        let keys = cloud.file("/home/debian/.ssh/authorized_keys");
        assert_eq!(cloud.id(), case, "{}", cloud.log());
        cloud.fault(fault);
        cloud.forget_run();
        boot(&cloud);
        if is_asked_again {
            says(&cloud);
        }
        assert_eq!(cloud.file("/var/lib/cloud/data/instance-id"), id, "{case}: {}", cloud.log());
        assert_eq!(cloud.file("/home/debian/.ssh/authorized_keys"), keys, "{case}: {}", cloud.log());
        assert_eq!(cloud.id(), case, "{}", cloud.log());
        drop(cloud);
        let cloud = of(case);
        cloud.fault(fault);
        boot(&cloud);
        says(&cloud);
        assert_eq!(cloud.id(), new_machine, "{}", cloud.log());
    }
}
