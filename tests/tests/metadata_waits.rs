//! How long a boot waits for metadata with default settings, on the network of `clouds.rs`. The limits leave room for a
//! slow machine; they distinguish seconds from minutes.

use std::time::{Duration, Instant};

use tests::Cloud;

/// The options of Azure's DHCP server.
const AZURES: [&str; 2] = [
    "--dhcp-option-force=245,10.9.8.7",
    "--dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1",
];

/// Returns the cloud's id after these stages of a boot, and their time in seconds.
fn boot(cloud: &Cloud, stages: &[&str]) -> (String, f64) {
    cloud.forget_run();
    let began = Instant::now();
    let boot = cloud.boot(stages);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    (cloud.id(), began.elapsed().as_secs_f64())
}

/// Gives the machine the network of its own configuration.
fn join_network(cloud: &Cloud) {
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    cloud.net.in_machine(&["ip", "address", "add", "10.0.0.70/24", "dev", "c0"]);
    cloud.net.in_machine(&["ip", "route", "add", "default", "via", "10.0.0.1", "dev", "c0"]);
    // Until IPv6 has its addresses, which the kernel assigns.
    std::thread::sleep(Duration::from_secs(3));
}

/// The time of these stages if there is nothing to wait for: about a second.
fn assert_fast_boot(cloud: &Cloud, id: &str, most: f64) {
    let (got, took) = boot(cloud, &["local"]);
    assert_eq!(got, id, "{}", cloud.log());
    eprintln!("{id}: {took:.1} s");
    assert!(took < most, "{took} s\n{}", cloud.log());
}

/// A probe of a network that does not exist yet costs nothing.
#[test]
fn vultr_first_boot_does_not_wait() {
    assert_fast_boot(&Cloud::new("vultr").dhcp(&[]), "vultr", 4.5);
}

/// Google's service has a name and an address; resolving the name does not delay the boot.
#[test]
fn gce_without_a_resolver_does_not_wait() {
    let mut cloud = Cloud::new("gce").dhcp(&[]);
    cloud.config("datasource: {GCE: {retries: 5}}\n");
    // It accepts every query and answers none.
    let mute = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.0.0.1', 53)); time.sleep(600)";
    cloud.net.serve(&["python3", "-c", mute]);
    cloud.put("/etc/resolv.conf", "nameserver 10.0.0.1\n");
    assert_fast_boot(&cloud, "gce", 5.0);
}

/// The first DISCOVER is lost.
#[test]
fn lost_dhcp_reply_costs_one_retry() {
    let cloud = Cloud::new("vultr").dhcp(&[]);
    for rule in [
        "add table inet lossy",
        "add chain inet lossy in { type filter hook input priority 0; }",
        "add rule inet lossy in udp dport 67 numgen inc mod 1000 == 0 drop",
    ] {
        // DHCP servers read packets before the filter: only the answer can be lost.
        cloud.net.in_cloud(&["nft", &rule.replace("hook input", "hook output").replace("dport", "sport")]);
    }
    assert_fast_boot(&cloud, "vultr", 6.5);
}

/// Nova's proxy restarts: one more attempt suffices, and a service that stays down is abandoned soon.
#[test]
fn restarting_openstack_service_is_retried_once() {
    for status in ["503", "502", "429"] {
        let cloud = Cloud::new("openstack").dhcp(&[]);
        cloud.fault(&format!("GET ^/openstack$ once:{status}"));
        let (id, took) = boot(&cloud, &["local"]);
        assert_eq!(id, "openstack", "{}", cloud.log());
        assert!(took < 8.0, "{status} {took}");
    }
    let cloud = Cloud::new("openstack").dhcp(&[]);
    cloud.fault("GET . 503");
    let (id, took) = boot(&cloud, &["local", "network"]);
    assert!(id == "none" && (8.0..40.0).contains(&took), "{id} {took}\n{}", cloud.log());
}

/// The instance at a later boot, when its service is silent or sends garbage: unchanged, after ten seconds, with the
/// default settings, which wait for minutes at a first boot.
#[test]
fn unreachable_metadata_costs_later_boots_ten_seconds() {
    let cases: [(&str, &[&str], &str, &str, &str); 6] = [
        ("ec2", &[], "aws", "* . silent", "i-0abc1234567890def"),
        ("ec2", &[], "aws", "* . 503", "i-0abc1234567890def"),
        ("gce", &[], "gce", "* . silent", ""),
        ("nocloud", &[], "nocloud", "* . silent", "i-seed"),
        ("nocloud", &[], "nocloud", "* . 503", "i-seed"),
        ("azure", &AZURES, "azure", "* /metadata silent", ""),
    ];
    let run = |case: &str, dhcp: &[&str], name: &str, fault: &str, id: &str| {
        let cloud = Cloud::new(case).dhcp(dhcp);
        if case == "nocloud" {
            // It is requested over the machine's own network.
            join_network(&cloud);
        }
        let now = || cloud.file("/var/lib/cloud/data/instance-id").trim().to_string();
        let (first, _) = boot(&cloud, &["local", "network"]);
        let first_id = now();
        assert!(
            first == name && (id.is_empty() || first_id == id),
            "{case}: {first} {first_id}\n{}",
            cloud.log()
        );
        // A boot of the same instance while the service responds, on the same busy host.
        let (_, good) = boot(&cloud, &["local", "network"]);
        cloud.fault(fault);
        let (second, took) = boot(&cloud, &["local", "network"]);
        let waited = took - good;
        eprintln!("{case} {fault}: {took:.1} s, {good:.1} s while the service responds");
        assert_eq!((&*second, now()), (name, first_id), "{case} {fault}\n{}", cloud.log());
        // Ten seconds once, not in each stage.
        assert!((6.0..16.0).contains(&waited), "{case} {fault}: {waited} s\n{}", cloud.log());
        let status = cloud.file("/run/cloud-init/status.json");
        assert!(status.contains("instance_check"), "{case}: {status}");
        assert!(status.contains("WARNING"), "{case}: {status}");
        // A setting.
        let setting = match case {
            "ec2" => "Ec2: {max_wait_cached: 2}",
            "gce" => "GCE: {max_wait_cached: 2, metadata_url: 'http://169.254.169.254/computeMetadata/v1/'}",
            "azure" => "Azure: {max_wait_cached: 2}",
            _ => "NoCloud: {max_wait_cached: 2, seedfrom: 'http://169.254.169.254/seed/'}",
        };
        cloud.config(&format!("datasource: {{{setting}}}\n"));
        let (third, took) = boot(&cloud, &["local", "network"]);
        assert!(third == name && took - good < 6.0, "{case} {fault} {third} {took} s\n{}", cloud.log());
    };
    std::thread::scope(|scope| {
        for (case, dhcp, name, fault, id) in cases {
            scope.spawn(move || run(case, dhcp, name, fault, id));
        }
    });
}

/// A silent service at a first boot, with the default settings of a cloud that waits shortly.
#[test]
fn silent_metadata_does_not_stop_the_first_boot() {
    let cloud = Cloud::new("cloudcix");
    join_network(&cloud);
    cloud.fault("* . silent");
    let (id, took) = boot(&cloud, &["local", "network"]);
    eprintln!("{took:.1} s");
    assert!(id == "none" && (8.0..40.0).contains(&took), "{id} {took} s\n{}", cloud.log());
    assert!(cloud.logged(&["[ERROR]", "(datasource None): CloudCIX: ", "http://"]), "{}", cloud.log());
}

/// A large seed over a slow line takes its time, which is not a silence; a trickle of bytes has a limit.
#[test]
fn slow_downloads_complete_and_trickles_end() {
    for (rate, id, least, most) in [(350_000, "nocloud", 8.0, 30.0), (20, "none", 3.0, 30.0)] {
        let cloud = Cloud::new("nocloud");
        join_network(&cloud);
        let seed = "http://169.254.169.254/big/";
        cloud.config(&format!("datasource: {{NoCloud: {{seedfrom: '{seed}', timeout: 1, retries: 1}}}}\n"));
        cloud.fault(&format!("GET user-data rate:{rate}"));
        let (got, took) = boot(&cloud, &["local", "network"]);
        eprintln!("{rate} bytes a second: {took:.1} s");
        assert!(got == id && (least..most).contains(&took), "{got} {took}\n{}", cloud.log());
        if id == "none" {
            assert!(cloud.logged(&["user-data: too slow"]), "{}", cloud.log());
        } else {
            let stored = std::fs::metadata(cloud.path("/var/lib/cloud/instances/i-big/user-data.txt"));
            assert_eq!(stored.map(|m| m.len()).unwrap_or_default(), 2_800_000);
        }
    }
}

/// A redirect to itself is not followed twice, whatever the limits.
#[test]
fn redirect_loop_is_not_followed_twice() {
    let cloud = Cloud::new("azure").dhcp(&AZURES);
    cloud.fault("GET /metadata loop");
    let (_, took) = boot(&cloud, &["local"]);
    let followed = cloud.requests().lines().filter(|line| line.contains(" loop ")).count();
    assert!(followed <= 2 && took < 20.0, "{followed} {took}\n{}", cloud.log());
    assert!(cloud.logged(&["a redirect loop"]), "{}", cloud.log());
}

/// Oversized user-data is reported; the machine keeps its id and keys.
#[test]
fn oversized_user_data_keeps_id_and_keys() {
    for (case, path, id) in [
        ("ec2", "/user-data$", "aws"),
        ("openstack", "/user_data$", "openstack"),
        ("hetzner", "/userdata$", "hetzner"),
        ("scaleway", "^/user_data/", "scaleway"),
    ] {
        let cloud = Cloud::new(case).dhcp(&[]);
        cloud.fault(&format!("GET {path} huge"));
        let (got, took) = boot(&cloud, &["local", "network"]);
        assert_eq!(got, id, "{case}\n{}", cloud.log());
        assert!(took < 20.0, "{case} {took}");
        assert!(cloud.logged(&["[ERROR]", "larger than", "(70000000 bytes)"]), "{case}\n{}", cloud.log());
        assert!(cloud.file("/run/cloud-init/status.json").contains("70000000"), "{case}");
        assert!(cloud.log().matches(" huge ").count() <= 2, "{case}: asked again\n{}", cloud.log());
        let keys = cloud.file("/home/debian/.ssh/authorized_keys");
        assert!(keys.contains("ssh-ed25519 "), "{case}: {keys}\n{}", cloud.log());
        let data = cloud.file("/run/cloud-init/instance-data.json");
        assert!(data.contains("\"instance_id\"") && !data.contains("\"iid-"), "{case}: {data}");
    }
}
