//! What a boot waits for with default settings, on the network of `clouds.rs`: counted in requests, or named in the log. A
//! stage that waits for minutes is stopped by [`Cloud::limit`]. Unit tests have the time limits of each datasource
//! (`shared/datasource/src/tests/wait_limits.rs`).

use tests::Cloud;

/// The options of Azure's DHCP server.
const AZURES: [&str; 2] = [
    "--dhcp-option-force=245,10.9.8.7",
    "--dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1",
];

/// Returns the cloud's id after these stages of a boot.
fn boot(cloud: &Cloud, stages: &[&str]) -> String {
    cloud.forget_run();
    let boot = cloud.boot(stages);
    assert!(boot.ended_normally(), "{:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
    cloud.id()
}

/// Asserts that the local stage finds the cloud without a failed request, after which it would pause. A try without a route sends
/// nothing, and the route wakes it up.
fn assert_no_retries(cloud: &Cloud, id: &str) {
    assert_eq!(boot(cloud, &["local"]), id, "{}", cloud.log());
    let is_retry = |line: &&str| {
        [" follows", " retries left"].iter().any(|end| line.ends_with(end))
            && !line.contains("Network unreachable")
    };
    assert_eq!(cloud.log().lines().find(is_retry), None);
}

/// A probe of a network that does not exist yet costs nothing.
#[test]
fn vultr_first_boot_does_not_wait() {
    assert_no_retries(&Cloud::new("vultr").dhcp(&[]), "vultr");
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
    assert_no_retries(&cloud, "gce");
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
    assert_no_retries(&cloud, "vultr");
}

/// Nova's proxy restarts: one more attempt suffices, and a service that stays down is abandoned soon.
#[test]
fn restarting_openstack_service_is_retried_once() {
    for status in ["503", "502", "429"] {
        let cloud = Cloud::new("openstack").dhcp(&[]);
        cloud.fault(&format!("GET ^/openstack$ once:{status}"));
        assert_eq!(boot(&cloud, &["local"]), "openstack", "{}", cloud.log());
        let tried = cloud.requests().lines().filter(|line| line.contains("GET /openstack ")).count();
        assert!((2..4).contains(&tried), "{status}\n{}", cloud.requests());
    }
    let cloud = Cloud::new("openstack").dhcp(&[]);
    cloud.fault("GET . 503");
    assert_eq!(boot(&cloud, &["local", "network"]), "none", "{}", cloud.log());
}

/// The instance at a later boot, when its service is silent or sends garbage: unchanged, with the default settings, which wait
/// for minutes at a first boot. Only one of the stages waits.
// The reports: https://github.com/canonical/cloud-init/issues/6270, https://github.com/canonical/cloud-init/issues/2626
#[test]
fn unreachable_metadata_keeps_the_instance_at_later_boots() {
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
            cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
        }
        let now = || cloud.file("/var/lib/cloud/data/instance-id").trim().to_string();
        let first = boot(&cloud, &["local", "network"]);
        let first_id = now();
        assert!(
            first == name && (id.is_empty() || first_id == id),
            "{case}: {first} {first_id}\n{}",
            cloud.log()
        );
        cloud.fault(fault);
        cloud.forget_run();
        // Failed tries, each with its line in the log.
        let tried = || {
            let log = cloud.log();
            ["no response in time after", "status 503 after"]
                .map(|why| log.matches(why).count())
                .iter()
                .sum::<usize>()
        };
        // The service is waited for once, not in each stage.
        let waiting = ["local", "network"].into_iter().filter(|stage| {
            let before = tried();
            assert!(cloud.boot(&[stage]).ended_normally(), "{case} {fault}\n{}", cloud.log());
            tried() > before
        });
        assert_eq!(waiting.count(), 1, "{case} {fault}\n{}", cloud.log());
        assert_eq!((cloud.id().as_str(), now()), (name, first_id), "{case} {fault}\n{}", cloud.log());
        let status = cloud.file("/run/cloud-init/status.json");
        assert!(status.contains("instance_check"), "{case}: {status}");
        assert!(status.contains("WARNING"), "{case}: {status}");
        // A service that says that it is busy is asked at once, after a second or more, and at the end of two seconds; in the
        // default ten seconds it is asked at least four times.
        let setting = match (case, fault) {
            ("ec2", "* . 503") => "Ec2: {max_wait_cached: 2}",
            ("nocloud", "* . 503") => {
                "NoCloud: {max_wait_cached: 2, seedfrom: 'http://169.254.169.254/seed/'}"
            }
            _ => return,
        };
        cloud.config(&format!("datasource: {{{setting}}}\n"));
        let before = tried();
        assert_eq!(boot(&cloud, &["local", "network"]), name, "{case} {fault}\n{}", cloud.log());
        assert!((1..=3).contains(&(tried() - before)), "{case} {fault}\n{}", cloud.log());
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
    cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
    cloud.fault("* . silent");
    assert_eq!(boot(&cloud, &["local", "network"]), "none", "{}", cloud.log());
    assert!(cloud.logged(&["[ERROR]", "(datasource None): CloudCIX: ", "http://"]), "{}", cloud.log());
}

/// A large seed over a slow line takes its time, which is not a silence; a trickle of bytes has a limit.
#[test]
fn slow_downloads_complete_and_trickles_end() {
    for (rate, id) in [(350_000, "nocloud"), (20, "none")] {
        let cloud = Cloud::new("nocloud");
        cloud.net.bring_up("10.0.0.70/24", Some("10.0.0.1"));
        let seed = "http://169.254.169.254/big/";
        cloud.config(&format!("datasource: {{NoCloud: {{seedfrom: '{seed}', timeout: 1, retries: 1}}}}\n"));
        cloud.fault(&format!("GET user-data rate:{rate}"));
        assert_eq!(boot(&cloud, &["local", "network"]), id, "{}", cloud.log());
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
    boot(&cloud, &["local"]);
    let followed = cloud.requests().lines().filter(|line| line.contains(" loop ")).count();
    assert!(followed <= 2, "{followed}\n{}", cloud.log());
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
        assert_eq!(boot(&cloud, &["local", "network"]), id, "{case}\n{}", cloud.log());
        assert!(cloud.logged(&["[ERROR]", "larger than", "(70000000 bytes)"]), "{case}\n{}", cloud.log());
        assert!(cloud.file("/run/cloud-init/status.json").contains("70000000"), "{case}");
        assert!(cloud.log().matches(" huge ").count() <= 2, "{case}: asked again\n{}", cloud.log());
        let keys = cloud.file("/home/debian/.ssh/authorized_keys");
        assert!(keys.contains("ssh-ed25519 "), "{case}: {keys}\n{}", cloud.log());
        let data = cloud.file("/run/cloud-init/instance-data.json");
        assert!(data.contains("\"instance_id\"") && !data.contains("\"iid-"), "{case}: {data}");
    }
}
